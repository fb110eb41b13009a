/* Registered memory that the program takes away: unmapped, protected, shortened. The card's accesses to it end in a
 * completion with an error; the process, which runs the cards itself, continues.
 *
 * vanish DEVICE */
#define _GNU_SOURCE
#include <pthread.h>

#include "rig.h"

enum { PAGE = 4096, BYTES = 4 * PAGE };

static struct ibv_context *context;
static struct side base;

/* Both ends of a connection of this process; the far one is `bytes` at `at`. */
struct ends {
    struct side near, far;
    struct ibv_mr *mr;
};

static struct ends connected(void *at, size_t bytes)
{
    struct ends ends = { .near = make_side(context, &base, BYTES), .far = make_side(context, &base, BYTES) };
    CHECK(ends.mr = ibv_reg_mr(base.pd, at, bytes, ACCESS));
    connect_pair(&ends.near, &ends.far);
    return ends;
}

static void disconnect(struct ends *ends)
{
    struct ibv_wc wc;
    CHECK(!ibv_destroy_qp(ends->near.qp) && !ibv_destroy_qp(ends->far.qp));
    while (ibv_poll_cq(base.cq, 1, &wc) > 0)
        ;
    CHECK(!ibv_dereg_mr(ends->near.mr) && !ibv_dereg_mr(ends->far.mr) && !ibv_dereg_mr(ends->mr));
    munmap((void *)ends->near.buffer, BYTES);
    munmap((void *)ends->far.buffer, BYTES);
}

/* One request by the near side, whose status comes back. `local` is where its bytes lie. */
static enum ibv_wc_status request(struct ends *ends, enum ibv_wr_opcode opcode, void *local, uint32_t lkey, void *remote,
                                  uint32_t rkey, uint32_t length)
{
    struct ibv_sge sge = { .addr = (uintptr_t)local, .length = length, .lkey = lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;
    aim(&wr, (uintptr_t)remote, rkey, 1);
    CHECK(!ibv_post_send(ends->near.qp, &wr, &bad));
    return completion(base.cq, 20).status;
}

typedef void change(char *at, int file);

static void unmapped(char *at, int file)
{
    (void)file;
    CHECK(!munmap(at, BYTES));
}

static void protected(char *at, int file)
{
    (void)file;
    CHECK(!mprotect(at, BYTES, PROT_NONE));
}

static void shortened(char *at, int file)
{
    (void)at;
    CHECK(!ftruncate(file, 0));
}

/* `shared`: a mapped file, which stays where it is; else the odd end of private memory, which does too. */
static void takes_away(const char *what, int shared, change *change)
{
    const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };
    for (int local = 0; local < 2; local++) {
        for (int i = 0; i < 3; i++) {
            int file = memfd_create("vanish", 0);
            CHECK(!ftruncate(file, BYTES));
            char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
                            shared ? file : -1, 0);
            CHECK(at != MAP_FAILED);
            memset(at, 1, BYTES);
            char *bytes = at + 64;
            struct ends ends = connected(bytes, 2 * PAGE);
            char *other = (char *)ends.near.buffer;
            for (int taken = 0; taken < 2; taken++) {
                if (taken)
                    change(at, file);
                enum ibv_wc_status status =
                    request(&ends, opcodes[i], local ? bytes : other, local ? ends.mr->lkey : ends.near.mr->lkey,
                            local ? other : bytes, local ? ends.near.mr->rkey : ends.mr->rkey, 8);
                CHECK(taken || !status);
                if (taken && !status)
                    die("%s %s memory, opcode %d: success", what, local ? "local" : "remote", opcodes[i]);
            }
            disconnect(&ends);
            munmap(at, BYTES);
            close(file);
        }
    }
    printf("%s %s\n", what, shared ? "file" : "ends");
}

static volatile int stop;

static void *shortens(void *file)
{
    while (!stop) {
        CHECK(!ftruncate(*(int *)file, 0));
        CHECK(!ftruncate(*(int *)file, BYTES));
    }
    return NULL;
}

/* Another thread shortens the file all the time: no look before an access helps. */
static void races(void)
{
    int file = memfd_create("vanish", 0);
    CHECK(!ftruncate(file, BYTES));
    char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(at != MAP_FAILED);
    int good = 0, bad = 0;
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, shortens, &file));
    double until = now() + 2;
    while (now() < until) {
        struct ibv_mr *mr = ibv_reg_mr(base.pd, at, BYTES, IBV_ACCESS_LOCAL_WRITE);
        ibv_dereg_mr(mr);
        struct ends ends = connected(at, BYTES);
        for (int i = 0; i < 1000; i++) {
            if (request(&ends, IBV_WR_RDMA_WRITE, (char *)ends.near.buffer, ends.near.mr->lkey, at, ends.mr->rkey, BYTES)) {
                bad++;
                break;
            }
            good++;
        }
        disconnect(&ends);
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("raced: %d good, %d bad\n", good, bad);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    context = open_device(argv[1]);
    base = make_side(context, NULL, BYTES);
    takes_away("unmapped", 0, unmapped);
    takes_away("protected", 0, protected);
    takes_away("unmapped", 1, unmapped);
    takes_away("protected", 1, protected);
    takes_away("shortened", 1, shortened);
    races();
    /* All is as before: a connection works. */
    struct ends ends = connected(new_pages(BYTES), BYTES);
    CHECK(!request(&ends, IBV_WR_RDMA_WRITE, (char *)ends.near.buffer, ends.near.mr->lkey, ends.mr->addr, ends.mr->rkey, BYTES));
    disconnect(&ends);
    printf("done\n");
    return 0;
}
