/* What stock programs hand over without a thought, because every card takes it: a flow label of 32 random bits,
 * access flags that mean nothing on a QP, a static rate, the `sl` of a datagram in the address of its answer, and no word about
 * inline data; a variant of a window's key without its index, and a buffer of no bytes. */
#include "datagram.h"

static struct ibv_qp *make(struct side *side, enum ibv_qp_type type, struct ibv_qp_cap cap, uint32_t *room)
{
    struct ibv_qp_init_attr init = { .send_cq = side->cq, .recv_cq = side->cq, .cap = cap, .qp_type = type };
    struct ibv_qp *qp = ibv_create_qp(side->pd, &init);
    CHECK(qp);
    *room = init.cap.max_inline_data;
    return qp;
}

/* The flow label of a connection, and flags of a QP. */
static void connections(struct ibv_context *context)
{
    struct side side = make_side(context, NULL, 4096), peer = make_side(context, &side, 4096);
    unsigned flags[] = { IBV_ACCESS_ON_DEMAND, IBV_ACCESS_HUGETLB, 1 << 8, 1 << 9, IBV_ACCESS_RELAXED_ORDERING };
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct ibv_qp_attr attr = { .qp_access_flags = flags[i] | IBV_ACCESS_REMOTE_WRITE }, found;
        struct ibv_qp_init_attr init;
        CHECK(!ibv_modify_qp(side.qp, &attr, IBV_QP_ACCESS_FLAGS));
        CHECK(!ibv_query_qp(side.qp, &found, IBV_QP_ACCESS_FLAGS, &init));
        CHECK(found.qp_access_flags == IBV_ACCESS_REMOTE_WRITE);
    }
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer.address.qpn,
        .ah_attr = path_to(peer.address.gid),
    };
    attr.ah_attr.sl = 9, attr.ah_attr.static_rate = IBV_RATE_10_GBPS, attr.ah_attr.grh.flow_label = 0xdeadbeef;
    struct ibv_qp_attr found;
    struct ibv_qp_init_attr init;
    CHECK(!advance(side.qp, attr));
    CHECK(!ibv_query_qp(side.qp, &found, IBV_QP_AV, &init));
    CHECK(found.ah_attr.grh.flow_label == 0xdbeef && found.ah_attr.sl == 1);
    CHECK(found.ah_attr.static_rate == IBV_RATE_10_GBPS);
}

/* Inline room: what there is anyway is granted, and works. */
static void inline_room(struct ibv_context *context)
{
    struct side side = make_side(context, NULL, 4096), peer = make_side(context, &side, 4096);
    for (int sges = 1; sges <= 8; sges++) {
        uint32_t rc, ud;
        struct ibv_qp_cap cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = sges, .max_recv_sge = 1 };
        CHECK(!ibv_destroy_qp(make(&side, IBV_QPT_UD, cap, &ud)));
        ibv_destroy_qp(side.qp);
        take_qp(&side, make(&side, IBV_QPT_RC, cap, &rc));
        CHECK(rc >= 16u * sges && ud >= 16u * sges);
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
        CHECK(!ibv_modify_qp(peer.qp, &attr, IBV_QP_STATE));
        take_qp(&peer, peer.qp);
        connect_pair(&side, &peer);
        char text[1024];
        memset(text, 'a' + sges, sizeof text);
        for (int over = 0; over <= 1; over++) {
            struct ibv_sge sge = { .addr = (uintptr_t)text, .length = rc + over };
            struct ibv_send_wr *bad, wr = {
                .wr_id = sges, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
            };
            aim(&wr, peer.address.addr, peer.address.rkey, 0);
            CHECK(!!ibv_post_send(side.qp, &wr, &bad) == over);
        }
        expect(&side, sges);
        CHECK(memcmp((const char *)peer.buffer, text, rc) == 0 && peer.buffer[rc] != text[0]);
    }
}

/* A datagram says by its `sl` in which kind of packet it came, and its sender can be answered with what it says. */
static void datagrams(struct ibv_context *context)
{
    struct side side = make_side(context, NULL, 4096);
    struct ibv_qp *qp = new_qp(side.pd, IBV_QPT_UD, side.cq, side.cq, 4);
    make_ready(qp, QKEY);
    /* GID 0 is an IPv6 address, GID 1 an IPv4 address. */
    for (int index = 0; index <= 1; index++) {
        struct ibv_ah_attr way = {
            .is_global = 1, .port_num = PORT,
            .grh = { .sgid_index = index, .hop_limit = 64, .flow_label = 0xffffffff },
        };
        CHECK(!ibv_query_gid(context, PORT, index, &way.grh.dgid));
        struct ibv_ah *ah = ibv_create_ah(side.pd, &way);
        CHECK(ah);
        post_receive(qp, 1, side.mr, side.buffer, 2048);
        struct ibv_sge from = { .addr = (uintptr_t)side.buffer + 2048, .length = 64, .lkey = side.mr->lkey };
        struct ibv_send_wr *bad, wr = { .wr_id = 2, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND };
        aim_datagram(&wr, ah, qp->qp_num, QKEY);
        CHECK(!ibv_post_send(qp, &wr, &bad));
        struct ibv_wc wc = completion(side.cq, 10);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wc_flags & IBV_WC_GRH);
        CHECK(wc.sl == (8 | (index == 0 ? 1 : 2)));
        struct ibv_ah *answer = ibv_create_ah_from_wc(side.pd, &wc, (struct ibv_grh *)side.buffer, PORT);
        CHECK(answer);
        ibv_destroy_ah(answer);
        ibv_destroy_ah(ah);
    }
}

/* Of the key that a bind of type 2 asks for, only the low 8 bits are the program's. */
static void variants(struct ibv_context *context)
{
    int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
    struct side side = make_side(context, NULL, 4096), peer = make_side(context, &side, 4096);
    struct ibv_qp_init_attr_ex init = {
        .send_cq = side.cq, .recv_cq = side.cq, .qp_type = IBV_QPT_RC, .pd = side.pd,
        .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_BIND_MW,
    };
    CHECK(!ibv_destroy_qp(peer.qp) && (peer.qp = ibv_create_qp_ex(context, &init)));
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
    CHECK(!advance(peer.qp, attr));
    peer.address.qpn = peer.qp->qp_num;
    connect_pair(&side, &peer);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, (void *)peer.buffer, 4096, all);
    struct ibv_mw *mw = ibv_alloc_mw(side.pd, IBV_MW_TYPE_2);
    CHECK(mr && mw);
    uint32_t asked[] = { 0xba, ~(mw->rkey & ~0xffu), ibv_inc_rkey(mw->rkey) };
    for (int i = 0; i < 6; i++) {
        struct ibv_mw_bind_info info = { mr, peer.address.addr, 64, IBV_ACCESS_REMOTE_WRITE };
        if (i < 3) {
            struct ibv_send_wr *bad, wr = { .wr_id = i, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
            wr.bind_mw.mw = mw, wr.bind_mw.rkey = asked[i], wr.bind_mw.bind_info = info;
            CHECK(!ibv_post_send(peer.qp, &wr, &bad));
        } else {
            struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(peer.qp);
            ibv_wr_start(qp);
            qp->wr_id = i, qp->wr_flags = IBV_SEND_SIGNALED;
            ibv_wr_bind_mw(qp, mw, asked[i - 3], &info);
            CHECK(!ibv_wr_complete(qp));
        }
        expect(&peer, i);
        mw->rkey = (mw->rkey & ~0xffu) | (asked[i % 3] & 0xff);
        struct address window = { .addr = peer.address.addr, .rkey = mw->rkey };
        post(&side, &window, IBV_WR_RDMA_WRITE, i, 0, 64);
        expect(&side, i);
        struct ibv_send_wr *bad, wr = {
            .wr_id = 9, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = mw->rkey,
        };
        CHECK(!ibv_post_send(peer.qp, &wr, &bad));
        expect(&peer, 9);
    }
    CHECK(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr));
}

/* Linux registers a buffer of no bytes if it is within a page, and nothing where a page begins. */
static void no_bytes(struct ibv_context *context)
{
    struct side side = make_side(context, NULL, 8192), peer = make_side(context, &side, 8192);
    int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    char *page = (char *)(((uintptr_t)peer.buffer + 4095) & ~4095ull);
    CHECK(!ibv_reg_mr(side.pd, page, 0, all) && errno == EINVAL);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, page + 16, 0, all);
    CHECK(mr && mr->length == 0);
    connect_pair(&side, &peer);
    struct address none = { .addr = (uintptr_t)page + 16, .rkey = mr->rkey };
    /* It becomes one of 64 bytes, and no more. */
    CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, page + 16, 64, 0) && mr->length == 64);
    side.buffer[63] = 7;
    post(&side, &none, IBV_WR_RDMA_WRITE, 1, 0, 64);
    expect(&side, 1);
    CHECK(((volatile char *)page)[16 + 63] == 7);
    CHECK(!ibv_dereg_mr(mr) && (mr = ibv_reg_mr(side.pd, page + 16, 0, all)));
    none.rkey = mr->rkey;
    post(&side, &none, IBV_WR_RDMA_WRITE, 2, 0, 1);
    CHECK(completion(side.cq, 10).status == IBV_WC_REM_ACCESS_ERR && !ibv_dereg_mr(mr));
}

int main(void)
{
    struct ibv_context *context = open_device("verbena0");
    connections(context);
    inline_room(context);
    datagrams(context);
    variants(context);
    no_bytes(context);
    puts("all taken");
    return 0;
}
