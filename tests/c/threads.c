/* Threads that post and poll at once.
 *
 * threads shared|separate CARD [ROUNDS]: on one QP and CQ for all, or on one for each. Every thread has
 * its own slots in the buffers: it writes a value to the peer, reads it back into another slot,
 * compares, and adds one to a counter that all share. */
#include "rig.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, SLOT = 4096, WRITE_FROM = 0, READ_TO = 2048, BYTES = (THREADS + 1) * SLOT };

static struct side sides[THREADS], peers[THREADS];
static int shared;
static uint64_t rounds = 20000;
/* Requests of each thread that are completed: the thread that polls a completion counts it. */
static volatile uint64_t completed[THREADS];

static void poll_once(struct side *side)
{
    struct ibv_wc wc[8];
    int found = ibv_poll_cq(side->cq, 8, wc);
    CHECK(found >= 0);
    for (int i = 0; i < found; i++) {
        uint64_t thread = wc[i].wr_id >> 32;
        if (wc[i].status != IBV_WC_SUCCESS)
            die("request %llx: %s", (unsigned long long)wc[i].wr_id, ibv_wc_status_str(wc[i].status));
        CHECK(thread < THREADS);
        uint64_t before = __atomic_fetch_add(&completed[thread], 1, __ATOMIC_ACQ_REL);
        /* In order, and each once. With several pollers the counts of one thread may be taken
         * by two of them, so only the bound is exact. */
        if (!shared && (uint32_t)wc[i].wr_id != before)
            die("thread %llu: completion %u as number %llu", (unsigned long long)thread, (uint32_t)wc[i].wr_id, (unsigned long long)before);
    }
    if (found == 0)
        sched_yield();
}

static void wait_for(struct side *side, uint64_t thread, uint64_t count)
{
    double until = now() + 20;
    while (__atomic_load_n(&completed[thread], __ATOMIC_ACQUIRE) < count) {
        poll_once(side);
        if (now() > until)
            die("thread %llu: completion %llu is missing", (unsigned long long)thread, (unsigned long long)count);
    }
}

static void request(struct side *side, const struct address *peer, uint64_t thread, uint64_t id, enum ibv_wr_opcode opcode, size_t from, size_t to, uint32_t length)
{
    struct ibv_sge sge = { .addr = (uintptr_t)side->buffer + from, .length = length, .lkey = side->mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = thread << 32 | id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
    };
    aim(&wr, peer->addr + to, peer->rkey, 1);
    struct ibv_send_wr *bad;
    int result = ibv_post_send(side->qp, &wr, &bad);
    if (result)
        die("ibv_post_send: %s", strerror(result));
}

static void *work(void *argument)
{
    uint64_t thread = (uintptr_t)argument, id = 0;
    struct side *side = shared ? &sides[0] : &sides[thread];
    const struct address *peer = shared ? &peers[0].address : &peers[thread].address;
    size_t mine = (thread + 1) * SLOT;
    unsigned seed = thread + 1;
    for (uint64_t round = 1; round <= rounds; round++) {
        uint32_t length = 8 + rand_r(&seed) % (READ_TO - 64);
        memset((void *)(side->buffer + mine + WRITE_FROM), (int)(round + thread), length);
        memset((void *)(side->buffer + mine + READ_TO), 0, length);
        request(side, peer, thread, id++, IBV_WR_RDMA_WRITE, mine + WRITE_FROM, mine, length);
        request(side, peer, thread, id++, IBV_WR_RDMA_READ, mine + READ_TO, mine, length);
        request(side, &peers[0].address, thread, id++, shared ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ, mine + SLOT - 8, 0, 8);
        wait_for(side, thread, id);
        for (uint32_t i = 0; i < length; i++)
            if (side->buffer[mine + READ_TO + i] != (char)(round + thread))
                die("thread %llu round %llu: byte %u of %u is %d", (unsigned long long)thread, (unsigned long long)round, i, length, side->buffer[mine + READ_TO + i]);
        if (!shared) {
            /* Only if all share one CQ does another thread poll it: count here. */
            request(side, peer, thread, id++, IBV_WR_ATOMIC_FETCH_AND_ADD, mine + SLOT - 8, 0, 8);
            wait_for(side, thread, id);
        }
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count < 3)
        die("usage: threads shared|separate CARD [ROUNDS]");
    if (count > 3)
        rounds = strtoul(arguments[3], NULL, 10);
    shared = strcmp(arguments[1], "shared") == 0;
    struct ibv_context *one = open_device("verbena0");
    struct ibv_context *other = open_device(arguments[2]);
    for (int i = 0; i < (shared ? 1 : THREADS); i++) {
        sides[i] = make_side(one, NULL, BYTES);
        /* One PD for all, so that the R_Key of the first is good for every QP. */
        peers[i] = make_side(other, i ? &peers[0] : NULL, BYTES);
        connect_pair(&sides[i], &peers[i]);
    }
    double start = now();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_join(threads[i], NULL));
    uint64_t total = 0;
    for (int i = 0; i < (shared ? 1 : THREADS); i++)
        total += *(volatile uint64_t *)peers[i].buffer;
    if (total != THREADS * rounds)
        die("the counters say %llu, not %llu", (unsigned long long)total, (unsigned long long)(THREADS * rounds));
    printf("OK: %d threads, %llu rounds each, %.2f s\n", THREADS, (unsigned long long)rounds, now() - start);
    return 0;
}
