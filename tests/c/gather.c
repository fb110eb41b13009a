/* What the cards need for messages of several pieces does not grow with the number of messages in a chain. */
#include "rig.h"

enum { CHAIN = 1024, PIECE = 32768, BYTES = 2 * PIECE };

/* KiB of this process in memory. */
static long resident(void)
{
    long all, in_memory;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &all, &in_memory) == 2);
    fclose(file);
    return in_memory * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(void)
{
    struct side to = make_side(open_device("verbena1"), NULL, BYTES), from = make_side(open_device("verbena0"), NULL, BYTES);
    struct ibv_qp_init_attr init = {
        .send_cq = from.cq,
        .recv_cq = from.cq,
        .cap = { .max_send_wr = CHAIN, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp *qp = ibv_create_qp(from.pd, &init);
    CHECK(qp && !ibv_destroy_qp(from.qp));
    take_qp(&from, qp);
    connect_pair(&from, &to);
    memset((void *)from.buffer, 1, BYTES);
    static struct ibv_send_wr wrs[CHAIN];
    struct ibv_sge sges[2] = {
        { .addr = (uintptr_t)from.buffer, .length = PIECE, .lkey = from.mr->lkey },
        { .addr = (uintptr_t)from.buffer + PIECE, .length = PIECE, .lkey = from.mr->lkey },
    };
    long before = 0;
    /* The first round is what is needed in any case. */
    for (int count = 1; count <= CHAIN; count *= CHAIN) {
        for (int i = 0; i < count; i++) {
            wrs[i] = (struct ibv_send_wr){
                .wr_id = i, .next = i + 1 < count ? &wrs[i + 1] : NULL, .sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
                .send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED,
            };
            aim(&wrs[i], to.address.addr, to.address.rkey, 0);
        }
        struct ibv_send_wr *bad;
        CHECK(!ibv_post_send(from.qp, wrs, &bad));
        expect(&from, count - 1);
        if (count == 1)
            before = resident();
    }
    long after = resident();
    if (after - before > 16 * 1024)
        die("a chain of %d messages took %ld KiB", CHAIN, after - before);
    CHECK(!memcmp((void *)from.buffer, (void *)to.buffer, BYTES));
    printf("OK: %ld KiB\n", after - before);
    return 0;
}
