/* Streams of messages, in windows of time that are the same for all processes, so that their rates can be added.
 *
 * scale server|client CARD SOCKET QPS CORE|spread [shared] [ud]: the two meet at the UNIX socket SOCKET, which is there when the
 * client may be started. The client has a thread for each queue pair: all on one core, or thread n on core n (modulo those
 * there are). Each has a CQ of its own, or all share one. With `ud` they have UD queue pairs, the size is at most 4096, and
 * a message counts as completed when the server has taken it, of which it tells the client every 64 messages.
 *
 * The client reads windows, one a line: `START FROM END write|send SIZE THREADS`, times in nanoseconds of the monotonic
 * clock. That many threads send from START to END, and one line says how many messages a second were completed from FROM to
 * END. The server reads nothing that is written to it and sleeps; of a SEND, only the first queue pair is used. */
#define _GNU_SOURCE
#define PATH_MTU IBV_MTU_4096
#define DEPTH 512
#include "datagram.h"
#include "rendezvous.h"
#include <pthread.h>
#include <sched.h>

enum { MOST = 16, BYTES = 1 << 20, OUTSTANDING = 128, BATCH = 16, TOGETHER = 64 };

/* A thread, with lines of its own. */
static struct worker {
    struct side side;
    struct address peer;
    struct ibv_ah *ah;
    pthread_t thread;
    uint64_t posted;
    /* By whichever thread polls it. */
    uint64_t completed __attribute__((aligned(128)));
    double rate;
} workers[MOST] __attribute__((aligned(128)));

static struct window {
    uint64_t start, from, end;
    char kind[8];
    unsigned size, threads;
} window;

static int qps, shared, ud, spread, core;
static pthread_barrier_t begins, ends;

static uint64_t nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void pin(int to)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(to, &set);
    CHECK(!sched_setaffinity(0, sizeof set, &set));
}

static void give(struct side *side, int count, uint64_t id)
{
    struct ibv_sge sge = { .addr = (uintptr_t)side->buffer, .length = BYTES, .lkey = side->mr->lkey };
    struct ibv_recv_wr wrs[BATCH], *bad;
    for (int i = 0; i < count; i++)
        wrs[i] = (struct ibv_recv_wr){ .wr_id = id, .sg_list = &sge, .num_sge = 1, .next = i + 1 < count ? &wrs[i + 1] : NULL };
    CHECK(!count || !ibv_post_recv(side->qp, wrs, &bad));
}

static void reap(struct worker *w)
{
    struct ibv_wc wc[BATCH];
    int found = ibv_poll_cq(w->side.cq, BATCH, wc);
    CHECK(found >= 0);
    for (int i = 0; i < found; i++) {
        if (wc[i].status != IBV_WC_SUCCESS)
            die("%s", ibv_wc_status_str(wc[i].status));
        if (ud && wc[i].opcode == IBV_WC_SEND)
            continue;
        if (ud)
            give(&workers[wc[i].wr_id >> 32].side, 1, wc[i].wr_id);
        /* The worker, and how many messages this stands for. */
        uint64_t *completed = &workers[wc[i].wr_id >> 32].completed;
        if (shared)
            __atomic_fetch_add(completed, (uint32_t)wc[i].wr_id, __ATOMIC_RELAXED);
        else
            *completed += (uint32_t)wc[i].wr_id;
    }
}

static uint64_t completed(const struct worker *w)
{
    return __atomic_load_n(&w->completed, __ATOMIC_RELAXED);
}

static void stream(struct worker *w)
{
    /* The last of each such number is signaled. */
    uint64_t together = window.size <= 4096 ? TOGETHER : 4;
    struct ibv_sge sge = { .addr = (uintptr_t)w->side.buffer, .length = window.size, .lkey = w->side.mr->lkey };
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = window.kind[0] == 's' ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
        .wr_id = (uint64_t)(w - workers) << 32 | together,
        .wr.rdma = { .remote_addr = w->peer.addr, .rkey = w->peer.rkey },
    }, *bad;
    if (ud)
        aim_datagram(&wr, w->ah, w->peer.qpn, QKEY);
    struct timespec start = { .tv_sec = window.start / 1000000000, .tv_nsec = window.start % 1000000000 };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL);
    uint64_t from = 0, before = 0, at;
    while ((at = nanoseconds()) < window.end) {
        if (!from && at >= window.from)
            from = at, before = completed(w);
        while (w->posted + together <= completed(w) + OUTSTANDING) {
            for (uint64_t i = 1; i <= together; i++) {
                wr.send_flags = i == together ? IBV_SEND_SIGNALED : 0;
                CHECK(!ibv_post_send(w->side.qp, &wr, &bad));
            }
            w->posted += together;
        }
        reap(w);
    }
    w->rate = from ? (completed(w) - before) * 1e9 / (at - from) : 0;
    double until = now() + 10;
    while (completed(w) < w->posted) {
        reap(w);
        if (now() > until)
            die("%llu of %llu messages are completed", (unsigned long long)completed(w), (unsigned long long)w->posted);
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    if (spread)
        pin((w - workers) % sysconf(_SC_NPROCESSORS_ONLN));
    for (;;) {
        pthread_barrier_wait(&begins);
        if (w - workers < window.threads)
            stream(w);
        pthread_barrier_wait(&ends);
    }
    return NULL;
}

static void ask(int peer, char what)
{
    tell(peer, &what, 1);
    hear(peer, &what, 1);
}

static void client(int peer)
{
    pthread_barrier_init(&begins, NULL, qps + 1);
    pthread_barrier_init(&ends, NULL, qps + 1);
    for (int i = 0; i < qps; i++)
        CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
    say("ready");
    while (scanf("%lu %lu %lu %7s %u %u", &window.start, &window.from, &window.end, window.kind, &window.size, &window.threads) == 6) {
        CHECK(window.size <= (ud ? 4096 : BYTES) && window.threads <= (unsigned)qps);
        int sends = window.kind[0] == 's';
        if (sends)
            ask(peer, 'b');
        pthread_barrier_wait(&begins);
        pthread_barrier_wait(&ends);
        if (sends)
            ask(peer, 'e');
        double rate = 0;
        for (unsigned i = 0; i < window.threads; i++)
            rate += workers[i].rate;
        say("%.1f", rate);
    }
}

/* Every 64 datagrams one goes back. */
static void tell_taken(struct worker *w, int count)
{
    struct ibv_sge sge = { .addr = (uintptr_t)w->side.buffer, .length = 8, .lkey = w->side.mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
    aim_datagram(&wr, w->ah, w->peer.qpn, QKEY);
    for (w->posted += count; w->posted >= TOGETHER; w->posted -= TOGETHER)
        CHECK(!ibv_post_send(w->side.qp, &wr, &bad));
}

static int taken(struct worker *w)
{
    struct ibv_wc wc[BATCH];
    int found = ibv_poll_cq(w->side.cq, BATCH, wc), received = 0;
    CHECK(found >= 0);
    for (int i = 0; i < found; i++) {
        if (wc[i].status != IBV_WC_SUCCESS)
            die("%s", ibv_wc_status_str(wc[i].status));
        received += wc[i].opcode == IBV_WC_RECV;
    }
    give(&w->side, received, 0);
    if (ud)
        tell_taken(w, received);
    return found;
}

static void server(int peer)
{
    struct worker *w = &workers[0];
    for (int i = 0; i < DEPTH; i += BATCH)
        give(&w->side, BATCH, 0);
    char what;
    /* Asleep, except between a `b` and an `e`. */
    while (read(peer, &what, 1) == 1) {
        CHECK(what == 'b' && write(peer, &what, 1) == 1);
        for (unsigned empty = 0; recv(peer, &what, 1, MSG_DONTWAIT) != 1;)
            do
                empty = taken(w) ? 0 : empty + 1;
            while (empty % 1024 != 1023);
        while (taken(w))
            ;
        CHECK(what == 'e' && write(peer, &what, 1) == 1);
    }
}

int main(int count, char **arguments)
{
    if (count < 6)
        die("usage: scale server|client CARD SOCKET QPS CORE|spread [shared] [ud]");
    int side = strcmp(arguments[1], "server") != 0;
    qps = atoi(arguments[4]), spread = !strcmp(arguments[5], "spread"), core = atoi(arguments[5]);
    for (int i = 6; i < count; i++)
        shared |= !strcmp(arguments[i], "shared"), ud |= !strcmp(arguments[i], "ud");
    CHECK(qps > 0 && qps <= MOST);
    if (!spread)
        pin(core);
    struct ibv_context *context = open_device(arguments[2]);
    struct address mine[MOST], theirs[MOST];
    for (int i = 0; i < qps; i++) {
        workers[i].side = make_side(context, i && shared ? &workers[0].side : NULL, BYTES);
        if (ud)
            use_datagrams(&workers[i].side);
        mine[i] = workers[i].side.address;
    }
    int peer = rendezvous(side, arguments[3]);
    tell(peer, mine, sizeof mine);
    hear(peer, theirs, sizeof theirs);
    for (int i = 0; i < qps; i++) {
        workers[i].peer = theirs[i];
        if (!ud) {
            connect_side(&workers[i].side, &theirs[i], 18, 7);
            continue;
        }
        workers[i].ah = way_to(&workers[i].side, &theirs[i]);
        for (int n = 0; side && n < BATCH; n++)
            give(&workers[i].side, 1, (uint64_t)i << 32 | TOGETHER);
    }
    ask(peer, 'r');
    side ? client(peer) : server(peer);
    return 0;
}
