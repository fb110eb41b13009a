/* Says what comes of requests: of good ones and of all mistakes that another machine can notice.
 *
 * statuses DEVICE_A DEVICE_B: for each case makes a pair of connected queue pairs, posts the case's requests on A's, and
 * prints the completions of both ends, the asynchronous events, the states of both queue pairs and how much of B's
 * memory was written. What it prints does not depend on addresses, keys, numbers or times: two devices that print the
 * same behave the same. */
#include "statuses/pair.h"

/* What is wrong with a request. */
enum wrong { NOTHING, BAD_RKEY, BAD_LKEY, BEYOND, CROOKED };

struct request {
    int posted;
    enum ibv_wr_opcode opcode;
    uint32_t length;
    enum wrong wrong;
    int flags;
};

struct test {
    const char *name;
    struct setting setting;
    struct request requests[8];
};

#define RC .type = IBV_QPT_RC
#define UC .type = IBV_QPT_UC
#define QP_RIGHTS(r) .qp_takes = 1, .qp_rights = IBV_ACCESS_LOCAL_WRITE | (r)
#define MR_RIGHTS(r) .mr_takes = 1, .mr_rights = (r)
#define W IBV_WR_RDMA_WRITE
#define WI IBV_WR_RDMA_WRITE_WITH_IMM
#define S IBV_WR_SEND
#define SI IBV_WR_SEND_WITH_IMM
#define R IBV_WR_RDMA_READ
#define CS IBV_WR_ATOMIC_CMP_AND_SWP
#define FA IBV_WR_ATOMIC_FETCH_AND_ADD
#define DO(op, bytes, ...) { .posted = 1, .opcode = op, .length = bytes, __VA_ARGS__ }
#define ATOMIC_BYTES 8

static const struct test tests[] = {
    { "write, read, send, atomics", { RC, .receives = 3, .expected = 3 },
      { DO(W, 5000), DO(R, 5000), DO(S, 3000), DO(SI, 1), DO(WI, 2048), DO(FA, 8), DO(CS, 8) } },
    { "nothing but headers",
      { RC, .receives = 2, .expected = 2 }, { DO(S, 0), DO(WI, 0), DO(W, 0), DO(R, 0) } },
    { "no bytes, by a key that is none", { RC }, { DO(W, 0, .wrong = BAD_RKEY), DO(R, 0, .wrong = BAD_RKEY) } },
    { "inline",
      { RC, .receives = 1, .expected = 1 }, { DO(W, 20, .flags = IBV_SEND_INLINE), DO(S, 32, .flags = IBV_SEND_INLINE) } },
    { "solicited and fenced",
      { RC, .receives = 1, .expected = 1 }, { DO(R, 100), DO(S, 10, .flags = IBV_SEND_FENCE | IBV_SEND_SOLICITED) } },
    { "write: wrong R_Key", { RC }, { DO(W, 100, .wrong = BAD_RKEY), DO(W, 100) } },
    { "read: wrong R_Key", { RC }, { DO(R, 100, .wrong = BAD_RKEY), DO(W, 100) } },
    { "atomic: wrong R_Key", { RC }, { DO(FA, 8, .wrong = BAD_RKEY), DO(W, 100) } },
    { "write with immediate: wrong R_Key", { RC, .receives = 1 }, { DO(WI, 100, .wrong = BAD_RKEY) } },
    { "write: wrong R_Key, after good ones",
      { RC }, { DO(W, 100), DO(R, 100), DO(W, 3000, .wrong = BAD_RKEY), DO(R, 10) } },
    { "write beyond the region", { RC }, { DO(W, 100, .wrong = BEYOND) } },
    { "long write beyond the region", { RC }, { DO(W, 9000, .wrong = BEYOND) } },
    { "read beyond the region", { RC }, { DO(R, 100, .wrong = BEYOND) } },
    { "atomic beyond the region", { RC }, { DO(CS, 8, .wrong = BEYOND) } },
    { "atomic at an odd address", { RC }, { DO(FA, 8, .wrong = CROOKED), DO(W, 100) } },
    { "write: region without the right",
      { RC, MR_RIGHTS(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ) }, { DO(W, 100) } },
    { "read: region without the right",
      { RC, MR_RIGHTS(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) }, { DO(R, 100) } },
    { "atomic: region without the right",
      { RC, MR_RIGHTS(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) }, { DO(CS, 8) } },
    { "write: queue pair without the right", { RC, QP_RIGHTS(IBV_ACCESS_REMOTE_READ) }, { DO(W, 100) } },
    { "read: queue pair without the right", { RC, QP_RIGHTS(IBV_ACCESS_REMOTE_WRITE) }, { DO(R, 100) } },
    { "atomic: queue pair without the right",
      { RC, QP_RIGHTS(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) }, { DO(FA, 8) } },
    { "send longer than the receive",
      { RC, .receives = 1, .room = 50, .expected = 1 }, { DO(S, 100), DO(S, 10) } },
    { "send of several packets, longer than the receive",
      { RC, .receives = 1, .room = 1500, .expected = 1 }, { DO(S, 5000) } },
    { "send of exactly the receive", { RC, .receives = 1, .room = 100, .expected = 1 }, { DO(S, 100) } },
    { "no receive, no retry", { RC, .rnr_retry = 0 }, { DO(S, 100), DO(W, 100) } },
    { "no receive, two retries", { RC, .rnr_retry = 2 }, { DO(S, 100) } },
    { "one receive too few",
      { RC, .receives = 2, .rnr_retry = 1, .expected = 2 }, { DO(S, 9), DO(S, 8), DO(S, 7) } },
    { "write with immediate, no receive", { RC, .rnr_retry = 1 }, { DO(WI, 100) } },
    { "send: wrong L_Key", { RC, .receives = 1 }, { DO(S, 100, .wrong = BAD_LKEY) } },
    { "write: wrong L_Key, after a good one", { RC }, { DO(W, 10), DO(W, 100, .wrong = BAD_LKEY), DO(W, 10) } },
    { "read: wrong L_Key", { RC }, { DO(R, 100, .wrong = BAD_LKEY) } },
    { "first PSN ahead", { RC, .ahead = 3 }, { DO(W, 100) } },
    { "first PSN behind", { RC, .ahead = -3, .receives = 1 }, { DO(W, 100) } },
    { "nobody there", { RC, .astray = 1 }, { DO(W, 100), DO(R, 100) } },
    { "as many reads as are answered",
      { RC, .asks = 2, .answers = 2 }, { DO(R, 9), DO(R, 8), DO(R, 7), DO(FA, 8), DO(R, 5) } },
    { "reads that nobody answers", { RC, .asks = 1, .answers = -1 }, { DO(R, 9) } },
    { "more reads at once than are answered",
      { RC, .asks = 8, .answers = 1 }, { DO(R, 9), DO(R, 8), DO(R, 7), DO(R, 6), DO(R, 5), DO(R, 4) } },
    { "shared receive queue, limit reached",
      { RC, .shared = 1, .receives = 3, .limit = 2, .expected = 2 }, { DO(S, 9), DO(S, 8) } },
    { "shared receive queue, too long",
      { RC, .shared = 1, .receives = 2, .room = 10, .expected = 1 }, { DO(S, 100) } },
    { "UC: write and send",
      { UC, .receives = 2, .expected = 2 }, { DO(W, 5000), DO(S, 3000), DO(WI, 100) } },
    { "UC: wrong R_Key", { UC, .receives = 1, .expected = 1 }, { DO(W, 100, .wrong = BAD_RKEY), DO(S, 10) } },
    { "UC: queue pair without the right",
      { UC, QP_RIGHTS(0), .receives = 1, .expected = 1 }, { DO(W, 100), DO(S, 10) } },
    { "UC: no receive", { UC }, { DO(S, 100) } },
    { "UC: longer than the receive", { UC, .receives = 2, .room = 50 }, { DO(S, 100), DO(S, 10) } },
    { "UC: first PSN ahead", { UC, .ahead = 3, .receives = 1, .expected = 1 }, { DO(S, 100) } },
    { "UC: wrong L_Key", { UC }, { DO(W, 100, .wrong = BAD_LKEY) } },
};

static void post_request(struct pair *p, const struct request *r, int id)
{
    struct ibv_sge sge = { .addr = (uintptr_t)p->a.buffer, .length = r->length, .lkey = p->a.mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = id, .sg_list = &sge, .num_sge = r->length != 0, .opcode = r->opcode, .send_flags = r->flags,
        .imm_data = htonl(0x1000 + id),
    }, *bad;
    uint64_t at = (uintptr_t)p->b.buffer + HALF;
    uint32_t rkey = p->b.mr->rkey;
    switch (r->wrong) {
    /* The key's index stays, so that it is a key of nothing, wherever the index is in it. */
    case BAD_RKEY: rkey ^= 0x55; break;
    case BAD_LKEY: sge.lkey ^= 0x55; break;
    case BEYOND: at = (uintptr_t)p->b.buffer + BYTES - (r->length == ATOMIC_BYTES ? 0 : r->length / 2); break;
    case CROOKED: at += 4; break;
    default: break;
    }
    if (r->opcode == FA || r->opcode == CS) {
        wr.wr.atomic.remote_addr = at;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = r->opcode == FA ? 5 : 0x6161616161616161;
        wr.wr.atomic.swap = 7;
    } else {
        wr.wr.rdma.remote_addr = at;
        wr.wr.rdma.rkey = rkey;
    }
    int error = ibv_post_send(p->a.qp, &wr, &bad);
    if (error)
        printf("  post %d: refused\n", id);
    else
        p->posted++;
}

static void run(const struct test *t, struct ibv_context *a, struct ibv_context *b)
{
    struct pair p;
    printf("%s\n", t->name);
    open_pair(&p, a, b, &t->setting);
    int count = sizeof t->requests / sizeof *t->requests;
    for (int i = 0; i < count && t->requests[i].posted; i++)
        post_request(&p, &t->requests[i], i);
    close_pair(&p, &t->setting);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    struct ibv_context *a = open_device(argv[1]);
    struct ibv_context *b = strcmp(argv[1], argv[2]) ? open_device(argv[2]) : a;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        run(&tests[i], a, b);
    printf("all %zu cases\n", sizeof tests / sizeof *tests);
    return 0;
}
