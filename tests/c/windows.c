/* Memory windows of type 1: every bind gives another R_Key, all queue pairs of the domain may use it, a bind to no bytes
 * takes it back, and the region beneath stays as long as one is bound. */
#include "rig.h"

enum { BYTES = 8192, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND };

static struct ibv_context *context;

static enum ibv_wc_status reach(struct side *side, enum ibv_wr_opcode opcode, uint64_t at, uint32_t rkey)
{
    struct address peer = { .addr = at, .rkey = rkey };
    post(side, &peer, opcode, 1, 0, 64);
    return completion(side->cq, 20).status;
}

static struct ibv_mw_bind bind_of(struct ibv_mr *mr, uint64_t addr, uint64_t length, unsigned access)
{
    return (struct ibv_mw_bind){
        .wr_id = 2, .send_flags = IBV_SEND_SIGNALED,
        .bind_info = { .mr = mr, .addr = addr, .length = length, .mw_access_flags = access },
    };
}

static uint32_t bind(struct side *side, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t addr, uint64_t length, unsigned access)
{
    uint32_t before = mw->rkey;
    struct ibv_mw_bind bind = bind_of(mr, addr, length, access);
    CHECK(!ibv_bind_mw(side->qp, mw, &bind));
    CHECK(mw->rkey != before);
    expect(side, 2);
    return mw->rkey;
}

/* A connected QP of `type`, in error or not before. */
static void reconnect(struct side *a, struct side *b, enum ibv_qp_type type)
{
    struct side *sides[] = { a, b };
    for (int i = 0; i < 2; i++) {
        struct side *side = sides[i];
        CHECK(!ibv_destroy_qp(side->qp));
        take_qp(side, new_qp(side->pd, type, side->cq, side->cq, 8));
    }
    connect_pair(a, b);
}

int main(void)
{
    context = open_device("verbena0");
    struct ibv_device_attr card;
    CHECK(!ibv_query_device(context, &card) && (card.device_cap_flags & IBV_DEVICE_MEM_WINDOW));
    struct side a = make_side(context, NULL, BYTES), b = make_side(context, &a, BYTES);
    /* Two more, between which nothing is bound, with CQs of their own. */
    struct side share = { .pd = a.pd, .channel = a.channel };
    CHECK(share.cq = ibv_create_cq(context, 64, NULL, NULL, 0));
    struct side c = make_side(context, &share, BYTES), d = make_side(context, &share, BYTES);
    connect_pair(&a, &b), connect_pair(&c, &d);
    struct ibv_mr *mr = ibv_reg_mr(a.pd, (void *)b.buffer, BYTES, ALL);
    struct ibv_mr *closed = ibv_reg_mr(a.pd, (void *)b.buffer, BYTES, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mw *mw = ibv_alloc_mw(a.pd, IBV_MW_TYPE_1), *type2 = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2);
    CHECK(mr && closed && mw && type2 && mw->type == IBV_MW_TYPE_1);
    uint64_t at = (uintptr_t)b.buffer;

    /* Bound by b, used by a and, as it belongs to no QP, by c too. */
    uint32_t first = bind(&b, mw, mr, at, 64, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    CHECK(reach(&a, IBV_WR_RDMA_WRITE, at, first) == IBV_WC_SUCCESS);
    CHECK(reach(&c, IBV_WR_RDMA_READ, at, first) == IBV_WC_SUCCESS);
    CHECK(ibv_dereg_mr(mr) == EBUSY);
    /* Bound again without more ado: the last key is gone, the rights are others, the region is held once. */
    uint32_t second = bind(&b, mw, mr, at + 4096, 64, IBV_ACCESS_REMOTE_READ);
    CHECK(reach(&a, IBV_WR_RDMA_READ, at + 4096, second) == IBV_WC_SUCCESS);
    CHECK(reach(&c, IBV_WR_RDMA_READ, at, first) == IBV_WC_REM_ACCESS_ERR);
    CHECK(reach(&a, IBV_WR_RDMA_WRITE, at + 4096, second) == IBV_WC_REM_ACCESS_ERR);
    reconnect(&a, &b, IBV_QPT_RC);
    /* To nothing. */
    uint32_t third = bind(&b, mw, NULL, 0, 0, 0);
    CHECK(reach(&a, IBV_WR_RDMA_READ, at + 4096, third) == IBV_WC_REM_ACCESS_ERR);
    CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL));
    reconnect(&a, &b, IBV_QPT_RC);

    /* What is refused when it is asked for. */
    struct ibv_mw_bind wrong = bind_of(mr, at, 64, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED);
    CHECK(ibv_bind_mw(b.qp, mw, &wrong) == EINVAL && mw->rkey == third);
    struct ibv_mr *from_zero = ibv_reg_mr(a.pd, (void *)b.buffer, BYTES, ALL | IBV_ACCESS_ZERO_BASED), *null = ibv_alloc_null_mr(a.pd);
    CHECK(from_zero && null);
    wrong = bind_of(from_zero, 0, 64, IBV_ACCESS_REMOTE_READ);
    CHECK(ibv_bind_mw(b.qp, mw, &wrong) == EINVAL && mw->rkey == third);
    wrong = bind_of(null, 0, 64, IBV_ACCESS_REMOTE_READ);
    CHECK(ibv_bind_mw(b.qp, mw, &wrong) == EOPNOTSUPP && !ibv_dereg_mr(from_zero) && !ibv_dereg_mr(null));
    wrong = bind_of(mr, at, 64, IBV_ACCESS_REMOTE_READ);
    CHECK(ibv_bind_mw(b.qp, type2, &wrong) == EINVAL);
    struct ibv_send_wr *bad, wr = { .wr_id = 3, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
    wr.bind_mw.mw = mw, wr.bind_mw.rkey = third + 1, wr.bind_mw.bind_info = wrong.bind_info;
    CHECK(ibv_post_send(b.qp, &wr, &bad) == EINVAL);

    /* What ends in an error. */
    struct { struct ibv_mr *mr; uint64_t at, length; unsigned access; } binds[] = {
        { closed, at, 64, IBV_ACCESS_REMOTE_READ },
        { mr, at, BYTES + 1, IBV_ACCESS_REMOTE_READ },
        { mr, at - 1, 64, IBV_ACCESS_REMOTE_READ },
    };
    for (unsigned i = 0; i < sizeof binds / sizeof *binds; i++) {
        uint32_t before = mw->rkey;
        wrong = bind_of(binds[i].mr, binds[i].at, binds[i].length, binds[i].access);
        CHECK(!ibv_bind_mw(b.qp, mw, &wrong) && completion(b.cq, 20).status == IBV_WC_MW_BIND_ERR);
        mw->rkey = before;
        reconnect(&a, &b, IBV_QPT_RC);
    }
    /* Its key is for peers, and no request invalidates it. */
    uint32_t rkey = bind(&b, mw, mr, at, 64, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_sge sge = { .addr = at, .length = 64, .lkey = rkey };
    struct ibv_send_wr local = { .wr_id = 4, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
    aim(&local, a.address.addr, a.address.rkey, 0);
    CHECK(!ibv_post_send(b.qp, &local, &bad) && completion(b.cq, 20).status == IBV_WC_LOC_PROT_ERR);
    reconnect(&a, &b, IBV_QPT_RC);
    struct ibv_send_wr invalidate = { .wr_id = 6, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey };
    CHECK(!ibv_post_send(b.qp, &invalidate, &bad) && completion(b.cq, 20).status != IBV_WC_SUCCESS);
    reconnect(&a, &b, IBV_QPT_RC);
    CHECK(reach(&a, IBV_WR_RDMA_WRITE, at, rkey) == IBV_WC_SUCCESS);

    /* UC, which has no answers. */
    reconnect(&a, &b, IBV_QPT_UC);
    rkey = bind(&b, mw, mr, at, 64, IBV_ACCESS_REMOTE_WRITE);
    memset((void *)a.buffer, 'u', 64), memset((void *)b.buffer, 0, 64);
    CHECK(reach(&a, IBV_WR_RDMA_WRITE, at, rkey) == IBV_WC_SUCCESS);
    for (double until = now() + 10; b.buffer[63] != 'u';)
        CHECK(now() < until);

    /* A window that is freed lets go of its region. */
    CHECK(!ibv_dealloc_mw(mw) && !ibv_dealloc_mw(type2) && !ibv_dereg_mr(mr) && !ibv_dereg_mr(closed));
    puts("all bound");
    return 0;
}
