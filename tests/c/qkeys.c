/* Five datagrams with a wrong Q_Key, and what the port says of them. */
#include "datagram.h"

int main(void)
{
    struct ibv_context *context = open_device("verbena0");
    struct side side = make_side(context, NULL, 4096);
    use_datagrams(&side);
    struct ibv_ah *ah = way_to(&side, &side.address);
    struct ibv_port_attr before, port;
    CHECK(!ibv_query_port(context, PORT, &before));
    for (int i = 0; i < 5; i++) {
        struct ibv_sge sge = { .addr = (uintptr_t)side.buffer, .length = 8, .lkey = side.mr->lkey };
        struct ibv_send_wr *bad, wr = {
            .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
        };
        aim_datagram(&wr, ah, side.address.qpn, QKEY + 1);
        CHECK(!ibv_post_send(side.qp, &wr, &bad));
        expect(&side, i);
    }
    double until = now() + 10;
    do
        CHECK(now() < until && !ibv_query_port(context, PORT, &port));
    while (port.qkey_viol_cntr - before.qkey_viol_cntr < 5);
    printf("%u violations\n", port.qkey_viol_cntr - before.qkey_viol_cntr);
    return 0;
}
