/* Whole frames and an RC queue pair's WRITEs from one port to another: each alone, and then both at once. Prints what each took
 * (us): frames alone, WRITEs alone, frames and WRITEs of both at once. */
#include "rig.h"

enum { FRAME = 1514, COUNT = 60, WRITE = COUNT * FRAME };

/* From the first port of the first card to that of the second. */
static const uint8_t header[14] = { 0x02, 0x56, 0x42, 0, 1, 0, 0x02, 0x56, 0x42, 0, 0, 0, 0x88, 0xb5 };

static struct side near, far;
static struct ibv_cq *came;
static struct ibv_mr *in;
static struct ibv_qp *sender, *receiver;

/* As many bytes each way, posted at the same time; how long (us) until all frames have come and the WRITE is done. */
static void run(int frames, int write, double took[2])
{
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    for (int i = 0; i < frames; i++)
        post_receive(receiver, i, in, (char *)in->addr + i * FRAME, FRAME);
    struct ibv_sge sge = { (uintptr_t)near.buffer, FRAME, near.mr->lkey };
    struct ibv_send_wr send[COUNT];
    for (int i = 0; i < frames; i++)
        send[i] = (struct ibv_send_wr){ .next = i + 1 < frames ? &send[i + 1] : NULL, .sg_list = &sge, .num_sge = 1,
                                        .opcode = IBV_WR_SEND, .send_flags = i + 1 < frames ? 0 : IBV_SEND_SIGNALED };
    double start = now(), until = start + 10;
    if (frames)
        CHECK(!ibv_post_send(sender, send, &bad));
    if (write)
        post(&near, &far.address, IBV_WR_RDMA_WRITE, 1, 0, WRITE);
    int left = frames, writes = write;
    while ((left || writes) && now() < until) {
        if (ibv_poll_cq(came, 1, &wc)) {
            CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == FRAME);
            if (--left == 0)
                took[0] = (now() - start) * 1e6;
        }
        if (ibv_poll_cq(near.cq, 1, &wc)) {
            CHECK(wc.status == IBV_WC_SUCCESS);
            if (wc.wr_id == 1) {
                writes = 0;
                took[1] = (now() - start) * 1e6;
            }
        }
    }
    if (left || writes)
        die("%d frames and %d WRITEs have not come", left, writes);
    /* That of the last frame may come later. */
    until = now() + 0.001;
    while (now() < until)
        ibv_poll_cq(near.cq, 1, &wc);
}

int main(void)
{
    struct ibv_context *from = open_device("verbena0"), *to = open_device("verbena1");
    near = make_side(from, NULL, WRITE);
    far = make_side(to, NULL, WRITE);
    connect_pair(&near, &far);
    memcpy((char *)near.buffer, header, sizeof header);
    CHECK(came = ibv_create_cq(to, COUNT, NULL, NULL, 0));
    CHECK(in = ibv_reg_mr(far.pd, malloc(WRITE), WRITE, IBV_ACCESS_LOCAL_WRITE));
    sender = plain_raw(near.pd, near.cq, COUNT);
    receiver = plain_raw(far.pd, came, COUNT);
    struct ibv_flow_attr all = { .type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof all, .port = PORT };
    CHECK(ibv_create_flow(receiver, &all));

    double warm[2], alone[2], both[2];
    run(COUNT, 1, warm);
    run(COUNT, 0, alone);
    run(0, 1, alone);
    run(COUNT, 1, both);
    printf("us: %.3f %.3f %.3f %.3f\n", alone[0], alone[1], both[0], both[1]);
    return 0;
}
