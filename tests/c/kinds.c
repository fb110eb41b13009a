/* Regions other than of plain memory: of none, of what the process has at an address when the card asks for it, and
 * regions that are changed while their keys stay. */
#define _GNU_SOURCE
#include "rig.h"

enum { BYTES = 65536 };

static struct ibv_context *context;

/* A connection, and how one request on it ends. */
struct pair {
    struct side a, b;
};

static struct pair connect_two(void)
{
    struct pair pair = { .a = make_side(context, NULL, BYTES) };
    pair.b = make_side(context, &pair.a, BYTES);
    connect_pair(&pair.a, &pair.b);
    return pair;
}

static void close_side(struct side *side)
{
    CHECK(!ibv_destroy_qp(side->qp) && !ibv_dereg_mr(side->mr));
    munmap((void *)side->buffer, side->bytes);
}

static void close_pair(struct pair *pair)
{
    close_side(&pair->b);
    close_side(&pair->a);
    CHECK(!ibv_destroy_cq(pair->a.cq) && !ibv_destroy_comp_channel(pair->a.channel) && !ibv_dealloc_pd(pair->a.pd));
}

static enum ibv_wc_status one(struct side *side, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t lkey, uint32_t length, uint64_t at, uint32_t rkey)
{
    struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };
    return outcome(side, opcode, &sge, 1, at, rkey);
}

/* It reads as zeros, it swallows what is written, and nobody else gets to it. */
static void null_regions(void)
{
    struct pair pair = connect_two();
    struct side *a = &pair.a, *b = &pair.b;
    struct ibv_mr *null = ibv_alloc_null_mr(a->pd);
    CHECK(null && null->length == SIZE_MAX);
    memset((void *)b->buffer, 'x', BYTES);
    for (uint32_t length = 8; length <= BYTES; length *= 8) {
        CHECK(one(a, IBV_WR_RDMA_READ, 12345, null->lkey, length, b->address.addr, b->address.rkey) == IBV_WC_SUCCESS);
        CHECK(one(a, IBV_WR_RDMA_WRITE, 12345, null->lkey, length, b->address.addr, b->address.rkey) == IBV_WC_SUCCESS);
        for (uint32_t i = 0; i < BYTES; i++)
            CHECK(b->buffer[i] == (i < length ? 0 : 'x'));
    }
    /* Some of a message. */
    struct ibv_qp_init_attr init = {
        .send_cq = a->cq, .recv_cq = a->cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 3, .max_recv_sge = 1 },
    };
    struct side c = *a, d = make_side(context, a, BYTES);
    struct ibv_qp *qp = ibv_create_qp(a->pd, &init);
    CHECK(qp);
    take_qp(&c, qp);
    connect_pair(&c, &d);
    memset((void *)a->buffer, 'y', BYTES);
    memset((void *)d.buffer, 'z', BYTES);
    struct ibv_sge sges[] = {
        { .addr = a->address.addr, .length = 100, .lkey = a->mr->lkey },
        { .addr = 0, .length = 5000, .lkey = null->lkey },
        { .addr = a->address.addr, .length = 100, .lkey = a->mr->lkey },
    };
    CHECK(outcome(&c, IBV_WR_RDMA_WRITE, sges, 3, d.address.addr, d.address.rkey) == IBV_WC_SUCCESS);
    for (int i = 0; i < 5300; i++)
        CHECK(d.buffer[i] == (i < 100 ? 'y' : i < 5100 ? 0 : i < 5200 ? 'y' : 'z'));
    CHECK(outcome(&c, IBV_WR_RDMA_READ, sges, 3, d.address.addr, d.address.rkey) == IBV_WC_SUCCESS);
    CHECK(a->buffer[0] == 'y' && a->buffer[99] == 'y' && a->buffer[100] == 'y');
    CHECK(!ibv_destroy_qp(c.qp));
    /* A receive. */
    struct ibv_sge sink = { .addr = 99, .length = 4096, .lkey = null->lkey };
    struct ibv_recv_wr *bad, receive = { .wr_id = 8, .sg_list = &sink, .num_sge = 1 };
    CHECK(!ibv_post_recv(a->qp, &receive, &bad));
    struct ibv_sge source = { .addr = b->address.addr, .length = 4096, .lkey = b->mr->lkey };
    struct ibv_send_wr *bad_send, send = { .wr_id = 9, .sg_list = &source, .num_sge = 1, .opcode = IBV_WR_SEND };
    CHECK(!ibv_post_send(b->qp, &send, &bad_send));
    expect(a, 8);
    CHECK(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS) == IBV_REREG_MR_ERR_INPUT);
    /* No peer gets there. */
    CHECK(one(b, IBV_WR_RDMA_READ, b->address.addr, b->mr->lkey, 8, 0, null->lkey) == IBV_WC_REM_ACCESS_ERR);
    close_side(&d);
    CHECK(!ibv_dereg_mr(null));
    close_pair(&pair);
}

/* Memory that comes, goes and changes under a region. */
static void on_demand(void)
{
    struct ibv_device_attr_ex card;
    CHECK(!ibv_query_device_ex(context, NULL, &card));
    CHECK(card.odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
    struct pair pair = connect_two();
    struct side *a = &pair.a, *b = &pair.b;
    char *memory = new_pages(BYTES);
    memset(memory, 'o', BYTES);
    struct ibv_mr *mr = ibv_reg_mr(b->pd, memory, BYTES, ACCESS | IBV_ACCESS_ON_DEMAND);
    CHECK(mr);
    uint64_t at = (uintptr_t)memory;
    CHECK(one(a, IBV_WR_RDMA_READ, a->address.addr, a->mr->lkey, BYTES, at, mr->rkey) == IBV_WC_SUCCESS);
    CHECK(a->buffer[0] == 'o' && a->buffer[BYTES - 1] == 'o');
    /* Other pages at the same address. */
    CHECK(mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
    memset((void *)a->buffer, 'n', BYTES);
    CHECK(one(a, IBV_WR_RDMA_WRITE, a->address.addr, a->mr->lkey, BYTES / 2, at, mr->rkey) == IBV_WC_SUCCESS);
    CHECK(memory[0] == 'n' && memory[BYTES / 2 - 1] == 'n' && memory[BYTES / 2] == 0);
    /* The same bytes twice: by a plain region too, and changed by the program in between. */
    struct ibv_mr *plain = ibv_reg_mr(b->pd, memory, BYTES, ACCESS);
    CHECK(plain);
    *(volatile uint64_t *)memory = 5;
    CHECK(one(a, IBV_WR_ATOMIC_FETCH_AND_ADD, a->address.addr, a->mr->lkey, 8, at, mr->rkey) == IBV_WC_SUCCESS);
    CHECK(one(a, IBV_WR_ATOMIC_FETCH_AND_ADD, a->address.addr, a->mr->lkey, 8, at, plain->rkey) == IBV_WC_SUCCESS);
    CHECK(*(volatile uint64_t *)a->buffer == 8 && *(volatile uint64_t *)memory == 11);
    CHECK(!ibv_dereg_mr(plain));
    /* Advice. */
    struct ibv_sge sge = { .addr = at, .length = BYTES, .lkey = mr->lkey }, other = sge;
    for (unsigned advice = 0; advice < 3; advice++)
        for (unsigned flags = 0; flags < 2; flags++)
            CHECK(!ibv_advise_mr(b->pd, advice, flags, &sge, 1));
    CHECK(ibv_advise_mr(b->pd, 3, 0, &sge, 1) == ENOTSUP && ibv_advise_mr(b->pd, 0, 2, &sge, 1) == EINVAL);
    other.length = BYTES + 1;
    CHECK(ibv_advise_mr(b->pd, 0, 0, &other, 1) == EFAULT);
    other = sge, other.lkey = b->mr->lkey;
    CHECK(ibv_advise_mr(b->pd, 0, 0, &other, 1) == ENOENT);
    struct ibv_pd *elsewhere = ibv_alloc_pd(context);
    CHECK(elsewhere && ibv_advise_mr(elsewhere, 0, 0, &sge, 1) == EPERM && !ibv_dealloc_pd(elsewhere));
    struct ibv_mr *readable = ibv_reg_mr(b->pd, memory, BYTES, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
    CHECK(readable);
    other = sge, other.lkey = readable->lkey;
    CHECK(!ibv_advise_mr(b->pd, 0, 0, &other, 1) && ibv_advise_mr(b->pd, 1, 0, &other, 1) == EPERM);
    CHECK(!ibv_dereg_mr(readable));
    /* What is advised is there. */
    char *fresh = new_pages(BYTES);
    struct ibv_mr *all = ibv_reg_mr(b->pd, NULL, SIZE_MAX, ACCESS | IBV_ACCESS_ON_DEMAND);
    CHECK(all);
    sge.addr = (uintptr_t)fresh, sge.lkey = all->lkey;
    unsigned char resident[BYTES / 4096];
    CHECK(!mincore(fresh, BYTES, resident) && !(resident[0] & 1));
    CHECK(!ibv_advise_mr(b->pd, 1, 1, &sge, 1));
    CHECK(!mincore(fresh, BYTES, resident) && (resident[0] & 1) && (resident[sizeof resident - 1] & 1));
    /* All of memory is one region. */
    CHECK(one(a, IBV_WR_RDMA_WRITE, a->address.addr, a->mr->lkey, BYTES, (uintptr_t)fresh, all->rkey) == IBV_WC_SUCCESS);
    CHECK(fresh[4096] == 'n' && fresh[BYTES - 1] == 'n');
    CHECK(!ibv_dereg_mr(all));
    /* No memory: an error of the side that has none. */
    CHECK(!munmap(memory, BYTES));
    sge.addr = at, sge.lkey = mr->lkey;
    CHECK(ibv_advise_mr(b->pd, 0, 1, &sge, 1) == EFAULT);
    CHECK(one(b, IBV_WR_RDMA_WRITE, at, mr->lkey, 64, a->address.addr, a->address.rkey) == IBV_WC_LOC_PROT_ERR);
    CHECK(!ibv_dereg_mr(mr));
    close_pair(&pair);
}

/* Place, domain and rights change, the keys do not. */
static void changed(void)
{
    struct pair pair = connect_two();
    struct side *a = &pair.a, *b = &pair.b;
    char *memory = new_pages(BYTES);
    struct ibv_pd *other = ibv_alloc_pd(context);
    CHECK(other);
    uint32_t lkey = b->mr->lkey, rkey = b->mr->rkey;
    uint64_t at = (uintptr_t)memory;
    memset((void *)a->buffer, 'r', BYTES);
    /* What libibverbs refuses. */
    CHECK(ibv_rereg_mr(b->mr, 8, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
    CHECK(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 64, 0) == IBV_REREG_MR_ERR_INPUT);
    CHECK(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, ACCESS) == IBV_REREG_MR_ERR_INPUT);
    /* What the card or its provider does. */
    CHECK(ibv_rereg_mr(b->mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD && errno == EINVAL);
    CHECK(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD && errno == EINVAL);
    CHECK(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_CMD && errno == EINVAL);
    /* The place. */
    CHECK(!ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, BYTES / 2, 0));
    CHECK(b->mr->lkey == lkey && b->mr->rkey == rkey && b->mr->addr == memory && b->mr->length == BYTES / 2);
    CHECK(one(a, IBV_WR_RDMA_WRITE, a->address.addr, a->mr->lkey, BYTES / 2, at, rkey) == IBV_WC_SUCCESS);
    CHECK(memory[0] == 'r' && memory[BYTES / 2 - 1] == 'r');
    /* On demand, and back. */
    CHECK(!ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS | IBV_ACCESS_ON_DEMAND));
    CHECK(mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
    CHECK(one(a, IBV_WR_RDMA_WRITE, a->address.addr, a->mr->lkey, 64, at, rkey) == IBV_WC_SUCCESS && memory[63] == 'r');
    CHECK(!ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    CHECK(one(a, IBV_WR_RDMA_READ, a->address.addr, a->mr->lkey, 64, at, rkey) == IBV_WC_SUCCESS);
    /* The rights. */
    CHECK(one(a, IBV_WR_RDMA_WRITE, a->address.addr, a->mr->lkey, 64, at, rkey) == IBV_WC_REM_ACCESS_ERR);
    close_side(a);
    CHECK(!ibv_destroy_qp(b->qp));
    struct ibv_wc wc;
    while (ibv_poll_cq(b->cq, 1, &wc) > 0)
        ;
    /* The domain, all at once, and the old one is free of it. */
    CHECK(!ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS, other, (void *)b->buffer, BYTES, ACCESS));
    CHECK(b->mr->pd == other && ibv_dealloc_pd(other) == EBUSY && !ibv_dealloc_pd(b->pd));
    struct side share = { .pd = other, .channel = b->channel, .cq = b->cq };
    struct side c = make_side(context, &share, BYTES), d = make_side(context, &share, BYTES);
    connect_pair(&c, &d);
    memset((void *)c.buffer, 'd', BYTES);
    CHECK(one(&c, IBV_WR_RDMA_WRITE, c.address.addr, c.mr->lkey, BYTES, b->address.addr, rkey) == IBV_WC_SUCCESS);
    CHECK(b->buffer[BYTES - 1] == 'd');
    /* Not while a window is bound to it. */
    CHECK(!ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS | IBV_ACCESS_MW_BIND));
    struct ibv_mw *mw = ibv_alloc_mw(other, IBV_MW_TYPE_1);
    CHECK(mw);
    struct ibv_mw_bind bind = {
        .wr_id = 5, .send_flags = IBV_SEND_SIGNALED,
        .bind_info = { .mr = b->mr, .addr = b->address.addr, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_READ },
    };
    CHECK(!ibv_bind_mw(d.qp, mw, &bind));
    expect(&d, 5);
    CHECK(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS) == IBV_REREG_MR_ERR_CMD && errno == EBUSY);
    CHECK(one(&c, IBV_WR_RDMA_READ, c.address.addr, c.mr->lkey, 64, b->address.addr, mw->rkey) == IBV_WC_SUCCESS);
    CHECK(!ibv_dealloc_mw(mw));
    CHECK(!ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS));
    close_side(&c), close_side(&d);
    CHECK(!ibv_dereg_mr(b->mr) && !ibv_dealloc_pd(other) && !ibv_destroy_cq(b->cq));
}

/* What nobody here has. */
static void refused(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    errno = 0;
    CHECK(pd && !ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, ACCESS) && errno == EOPNOTSUPP);
    CHECK(!ibv_dealloc_pd(pd));
}

int main(void)
{
    context = open_device("verbena0");
    null_regions();
    on_demand();
    changed();
    refused();
    CHECK(!ibv_close_device(context));
    puts("all kinds");
    return 0;
}
