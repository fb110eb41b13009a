/* Thread domains and parent domains: what holds what, whose memory the rings are in, and that everything works there.
 * And what a card of this make agrees on with another: nothing. */
#include "rig.h"

enum { MOST = 64, BYTES = 65536 };

/* Memory that the program has given, and not got back. */
static struct { void *ptr; size_t size; } given[MOST];
static int count, alloc_calls, free_calls, refuse, by_default;
static struct ibv_pd *expected;

static void *give(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
    (void)type;
    CHECK(pd == expected && context == &count && count < MOST);
    alloc_calls++;
    if (refuse)
        return NULL;
    if (by_default)
        return IBV_ALLOCATOR_USE_DEFAULT;
    void *ptr;
    CHECK(!posix_memalign(&ptr, alignment, size));
    memset(ptr, 0, size);
    given[count].ptr = ptr, given[count++].size = size;
    return ptr;
}

static void take(struct ibv_pd *pd, void *context, void *ptr, uint64_t type)
{
    (void)type;
    CHECK(pd == expected && context == &count);
    free_calls++;
    for (int i = 0; i < count; i++)
        if (given[i].ptr == ptr) {
            given[i] = given[--count];
            free(ptr);
            return;
        }
    die("memory that was not given comes back");
}

int main(void)
{
    struct ibv_context *context = open_device("verbena0");
    struct ibv_td_init_attr td_attr = { 0 }, td_unknown = { .comp_mask = 1 };
    struct ibv_td *td = ibv_alloc_td(context, &td_attr);
    CHECK(td && !ibv_alloc_td(context, &td_unknown) && errno == EINVAL);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_parent_domain_init_attr plain = { .pd = pd, .td = td }, unknown = { .pd = pd, .comp_mask = 8 }, without = { .td = td };
    struct ibv_parent_domain_init_attr own = {
        .pd = pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
        .alloc = give, .free = take, .pd_context = &count,
    };
    /* Not EINVAL: that is for mistakes, and programs go on without what a card does not have. */
    CHECK(!ibv_alloc_parent_domain(context, &unknown) && errno == EOPNOTSUPP);
    /* Release 65's permission to take unprotected memory, which changes nothing on a card that needs none. */
    struct ibv_parent_domain_init_attr shared = { .pd = pd, .comp_mask = 4 };
    struct ibv_pd *unprotected = ibv_alloc_parent_domain(context, &shared);
    CHECK(unprotected);
    static char plain_memory[4096];
    struct ibv_mr *plain_mr = ibv_reg_mr(unprotected, plain_memory, sizeof plain_memory, IBV_ACCESS_LOCAL_WRITE);
    CHECK(plain_mr && ibv_dealloc_pd(unprotected) == EBUSY);
    CHECK(!ibv_dereg_mr(plain_mr));
    struct ibv_ah_attr way = { .is_global = 1, .port_num = PORT };
    CHECK(!ibv_query_gid(context, PORT, 0, &way.grh.dgid));
    struct ibv_ah *ah = ibv_create_ah(unprotected, &way);
    CHECK(ah && ibv_dealloc_pd(unprotected) == EBUSY && !ibv_destroy_ah(ah) && !ibv_dealloc_pd(unprotected));
    CHECK(!ibv_alloc_parent_domain(context, &without) && errno == EINVAL);
    struct ibv_pd *threaded = ibv_alloc_parent_domain(context, &plain);
    CHECK(threaded && threaded->context == context);
    expected = ibv_alloc_parent_domain(context, &own);
    CHECK(expected);
    /* What is in use stays. */
    CHECK(ibv_dealloc_td(td) == EBUSY && ibv_dealloc_pd(pd) == EBUSY);

    /* Each kind of domain, connected with the other. */
    struct ibv_cq_init_attr_ex cq_attr = {
        .cqe = 4 * DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = pd,
    };
    CHECK(!ibv_create_cq_ex(context, &cq_attr) && errno == EINVAL);
    cq_attr.parent_domain = expected;
    struct ibv_cq_ex *alone = ibv_create_cq_ex(context, &cq_attr);
    CHECK(alone && count == 1 && ibv_dealloc_pd(expected) == EBUSY);
    CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(alone)) && count == 0);
    alloc_calls = free_calls = 0;
    struct side own_side = { .pd = expected }, td_side = { .pd = threaded };
    CHECK(own_side.cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &cq_attr)));
    CHECK(count == 1);
    CHECK(!ibv_resize_cq(own_side.cq, 8 * DEPTH) && count == 1 && alloc_calls == 2 && free_calls == 1);
    cq_attr.parent_domain = threaded;
    CHECK(td_side.cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &cq_attr)));
    struct side a = make_side(context, &own_side, BYTES), b = make_side(context, &td_side, BYTES);
    CHECK(count == 2);
    connect_pair(&a, &b);
    for (int i = 0; i < 1000; i++) {
        a.buffer[i] = i, b.buffer[i] = -i;
        post(&a, &b.address, i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, i, i, 1);
        post(&b, &a.address, IBV_WR_RDMA_READ, i, 4096, 2048);
        expect(&a, i);
        expect(&b, i);
        CHECK(a.buffer[i] == (char)(i % 2 ? i : -i) && b.buffer[i] == a.buffer[i]);
    }
    /* Keys are those of the domain itself. */
    struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(expected, &srq_attr);
    CHECK(srq && count == 3);
    CHECK(ibv_dealloc_pd(expected) == EBUSY && ibv_dealloc_pd(threaded) == EBUSY);

    /* No memory, and the card's own. */
    struct ibv_qp_init_attr init = {
        .send_cq = a.cq, .recv_cq = a.cq, .qp_type = IBV_QPT_UD,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    refuse = 1;
    CHECK(!ibv_create_qp(expected, &init) && errno == ENOMEM);
    refuse = 0, by_default = 1;
    struct ibv_qp *qp = ibv_create_qp(expected, &init);
    CHECK(qp && count == 3 && !ibv_destroy_qp(qp));

    struct ibv_ece ece = { .comp_mask = 77 }, other = { .vendor_id = 0x15b3, .options = 1 };
    CHECK(!ibv_query_ece(a.qp, &ece) && ece.vendor_id && ece.options == 0 && ece.comp_mask == 0);
    ece.options = ~0u;
    CHECK(!ibv_set_ece(a.qp, &ece) && ece.options == 0 && ibv_set_ece(a.qp, &other) == EINVAL);
    /* Copies are not made from the first byte to the last. */
    CHECK(ibv_query_qp_data_in_order(a.qp, IBV_WR_RDMA_WRITE, 0) == 0);

    CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_qp(a.qp) && !ibv_destroy_qp(b.qp) && !ibv_dereg_mr(a.mr) && !ibv_dereg_mr(b.mr));
    CHECK(!ibv_destroy_cq(a.cq) && !ibv_destroy_cq(b.cq) && count == 0);
    CHECK(ibv_dealloc_pd(pd) == EBUSY && !ibv_dealloc_pd(expected) && !ibv_dealloc_pd(threaded) && !ibv_dealloc_td(td));
    CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
    puts("all domains");
    return 0;
}
