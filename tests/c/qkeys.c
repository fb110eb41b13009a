/* Five datagrams with a wrong Q_Key, and what the port says of them. */
#include "datagram.h"

int main(void)
{
    struct ibv_context *context = open_device("verbena0");
    struct side side = make_side(context, NULL, 4096);
    struct ibv_qp_init_attr init = {
        .send_cq = side.cq, .recv_cq = side.cq, .qp_type = IBV_QPT_UD,
        .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct ibv_qp *qp = ibv_create_qp(side.pd, &init);
    CHECK(qp);
    make_ready(qp, 1);
    struct ibv_ah_attr way = { .is_global = 1, .port_num = PORT, .grh = { .dgid = side.address.gid, .sgid_index = GID_INDEX } };
    struct ibv_ah *ah = ibv_create_ah(side.pd, &way);
    CHECK(ah);
    struct ibv_port_attr before, port;
    CHECK(!ibv_query_port(context, PORT, &before));
    for (int i = 0; i < 5; i++) {
        struct ibv_sge sge = { .addr = (uintptr_t)side.buffer, .length = 8, .lkey = side.mr->lkey };
        struct ibv_send_wr *bad, wr = {
            .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
        };
        wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = qp->qp_num, wr.wr.ud.remote_qkey = 2;
        CHECK(!ibv_post_send(qp, &wr, &bad));
        expect(&side, i);
    }
    double until = now() + 10;
    do
        CHECK(now() < until && !ibv_query_port(context, PORT, &port));
    while (port.qkey_viol_cntr - before.qkey_viol_cntr < 5);
    printf("%u violations\n", port.qkey_viol_cntr - before.qkey_viol_cntr);
    return 0;
}
