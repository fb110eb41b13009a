/*
 * How fast messages go from one process to another that reads them: prints GB/s of `count` SENDs of `bytes`.
 * usage: reader DEVICE PEER_DEVICE BYTES COUNT
 *
 * The sender runs on core 0, the receiver on core 1. The receiver sums all of each message before it posts
 * its buffer again, so each line of it goes from core to core; a word of shared memory says how many it has read,
 * so that no message finds the receiver not ready.
 */
#define _GNU_SOURCE
#include "rig.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>

enum { SLOTS = 16 };

struct shared {
    _Atomic int ready[2];
    struct address addresses[2];
    _Alignas(64) _Atomic uint64_t read;
    uint64_t sum;
};

/* To a core, where there is one. */
static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

static struct side meet(struct shared *shared, int me, const char *device, size_t bytes)
{
    struct side side = make_side(open_device(device), NULL, bytes);
    shared->addresses[me] = side.address;
    atomic_store(&shared->ready[me], 1);
    while (!atomic_load(&shared->ready[!me]))
        usleep(100);
    connect_side(&side, &shared->addresses[!me], 14, 7);
    return side;
}

static void receive(struct side *side, uint64_t slot, uint32_t bytes)
{
    post_receive(side->qp, slot, side->mr, side->buffer + slot * bytes, bytes);
}

static void reader(struct shared *shared, const char *device, uint32_t bytes, uint64_t count)
{
    struct side side = meet(shared, 1, device, (size_t)SLOTS * bytes);
    for (uint64_t slot = 0; slot < SLOTS; slot++)
        receive(&side, slot, bytes);
    atomic_store(&shared->ready[1], 2);
    uint64_t sum = 0;
    for (uint64_t n = 0; n < count; n++) {
        expect(&side, n % SLOTS);
        const uint64_t *words = (const uint64_t *)(side.buffer + n % SLOTS * bytes);
        for (size_t i = 0; i < bytes / 8; i++)
            sum += words[i];
        receive(&side, n % SLOTS, bytes);
        atomic_store_explicit(&shared->read, n + 1, memory_order_release);
    }
    shared->sum = sum;
    atomic_store(&shared->ready[1], 3);
    while (atomic_load(&shared->ready[0]) != 3)
        usleep(100);
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    uint32_t bytes = strtoul(argv[3], NULL, 10);
    uint64_t count = strtoull(argv[4], NULL, 10), sent = 0, done = 0;
    CHECK(bytes % 4096 == 0 && count > 0);
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(1);
        reader(shared, argv[2], bytes, count);
        _exit(0);
    }
    pin(0);
    struct side side = meet(shared, 0, argv[1], bytes);
    while (atomic_load(&shared->ready[1]) < 2)
        usleep(100);
    memset((void *)side.buffer, 1, bytes);
    double start = now();
    while (done < count) {
        if (sent < count && sent - atomic_load_explicit(&shared->read, memory_order_acquire) < SLOTS &&
            sent - done < DEPTH)
            post(&side, &side.address, IBV_WR_SEND, sent++, 0, bytes);
        struct ibv_wc wc;
        if (ibv_poll_cq(side.cq, 1, &wc) == 1) {
            CHECK(wc.status == IBV_WC_SUCCESS);
            done++;
        }
    }
    while (atomic_load(&shared->ready[1]) < 3)
        ;
    double took = now() - start;
    CHECK(shared->sum == count * (bytes / 8) * 0x0101010101010101u);
    atomic_store(&shared->ready[0], 3);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("%.3f GB/s\n", count * (double)bytes / took / 1e9);
    return 0;
}
