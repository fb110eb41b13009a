/* Two connected queue pairs that are made for one case, and what came of it. */
#ifndef PAIR_H
#define PAIR_H

#include "../rig.h"
#include <arpa/inet.h>
#include <poll.h>

/* Milliseconds without anything new, after which nothing more comes: emulated processors may pause for a while. */
enum { BYTES = 1 << 16, HALF = BYTES / 2, MOST = 16, QUIET = 150 };
enum { REMOTE = ACCESS & ~IBV_ACCESS_LOCAL_WRITE };

/* What is special about a case. */
struct setting {
    enum ibv_qp_type type;
    /* Rights of the responder's queue pair and region, where they are not all. */
    int qp_takes, qp_rights, mr_takes, mr_rights;
    /* How far the requester's first PSN is ahead of what the responder expects. */
    int ahead;
    /* Reads and atomics at once; 0: four. -1: none. */
    int asks, answers;
    /* Receives that are posted, and their length; 0: HALF. */
    int receives, room;
    /* -1: 7, without end. */
    int rnr_retry;
    /* The requester names a queue pair that is not there. */
    int astray;
    /* The receives come from a shared receive queue with this limit. */
    int shared, limit;
    /* Completions of receives that are waited for. */
    int expected;
};

/* One end. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *sends, *receives;
    struct ibv_srq *srq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    union ibv_gid gid;
    unsigned char *buffer;
};

struct pair {
    struct end a, b;
    int posted;
};

static int rights(int takes, int given)
{
    return takes ? given : ACCESS;
}

static void open_end(struct end *end, struct ibv_context *context, const struct setting *s, int responder)
{
    end->context = context;
    CHECK(end->pd = ibv_alloc_pd(context));
    CHECK(end->sends = ibv_create_cq(context, 64, NULL, NULL, 0));
    CHECK(end->receives = ibv_create_cq(context, 64, NULL, NULL, 0));
    CHECK(!posix_memalign((void **)&end->buffer, 4096, BYTES));
    memset(end->buffer, responder ? 0 : 'a', BYTES);
    int access = responder ? rights(s->mr_takes, s->mr_rights) : ACCESS;
    CHECK(end->mr = ibv_reg_mr(end->pd, end->buffer, BYTES, access));
    struct ibv_qp_init_attr init = {
        .send_cq = end->sends, .recv_cq = end->receives, .qp_type = s->type, .sq_sig_all = 1,
        .cap = { .max_send_wr = MOST, .max_recv_wr = MOST, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 32 },
    };
    if (responder && s->shared) {
        struct ibv_srq_init_attr srq = { .attr = { .max_wr = MOST, .max_sge = 1 } };
        CHECK(end->srq = ibv_create_srq(end->pd, &srq));
        init.srq = end->srq;
    }
    CHECK(end->qp = ibv_create_qp(end->pd, &init));
    CHECK(!ibv_query_gid(context, PORT, GID_INDEX, &end->gid));
}

static int to_init(struct end *end, int access)
{
    return advance(end->qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = access, .qkey = 0x1234 });
}

static int to_rtr(struct end *end, const struct end *peer, const struct setting *s, uint32_t psn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .rq_psn = psn,
        .dest_qp_num = peer->qp->qp_num ^ (s->astray ? 0x5000 : 0),
        .max_dest_rd_atomic = s->answers < 0 ? 0 : s->answers ? s->answers : 4, .min_rnr_timer = 5,
        .ah_attr = path_to(peer->gid),
    };
    return advance(end->qp, attr);
}

static int to_rts(struct end *end, const struct setting *s, uint32_t psn)
{
    /* Half a second, three times: a peer on an emulated processor that pauses is not given up. */
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = 17, .retry_cnt = 2,
        .rnr_retry = s->rnr_retry < 0 ? 7 : s->rnr_retry,
        .max_rd_atomic = s->asks < 0 ? 0 : s->asks ? s->asks : 4,
    };
    return advance(end->qp, attr);
}

static void receive(struct end *end, uint64_t id, int room, uint32_t lkey)
{
    struct ibv_sge sge = { .addr = (uintptr_t)end->buffer, .length = room ? room : HALF, .lkey = lkey };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;
    CHECK(!(end->srq ? ibv_post_srq_recv(end->srq, &wr, &bad) : ibv_post_recv(end->qp, &wr, &bad)));
}

static void open_pair(struct pair *p, struct ibv_context *a, struct ibv_context *b, const struct setting *s)
{
    enum { FIRST = 0xfffffe };
    memset(p, 0, sizeof *p);
    open_end(&p->a, a, s, 0);
    open_end(&p->b, b, s, 1);
    /* UC has no reads and no atomics. */
    int all = s->type == IBV_QPT_UC ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : ACCESS;
    CHECK(!to_init(&p->a, all) && !to_init(&p->b, s->qp_takes ? s->qp_rights : all));
    for (int i = 0; i < s->receives; i++)
        receive(&p->b, 100 + i, s->room, p->b.mr->lkey);
    CHECK(!to_rtr(&p->b, &p->a, &(struct setting){ .type = s->type, .answers = s->answers }, FIRST));
    CHECK(!to_rts(&p->b, s, 77));
    CHECK(!to_rtr(&p->a, &p->b, s, 77) && !to_rts(&p->a, s, (FIRST + s->ahead) & 0xffffff));
    if (s->limit) {
        struct ibv_srq_attr attr = { .srq_limit = s->limit };
        CHECK(!ibv_modify_srq(p->b.srq, &attr, IBV_SRQ_LIMIT));
    }
}

static void close_end(struct end *end)
{
    CHECK(!ibv_destroy_qp(end->qp));
    if (end->srq)
        CHECK(!ibv_destroy_srq(end->srq));
    CHECK(!ibv_destroy_cq(end->sends) && !ibv_destroy_cq(end->receives));
    CHECK(!ibv_dereg_mr(end->mr) && !ibv_dealloc_pd(end->pd));
    free(end->buffer);
}

/* Takes completions until there are `wanted` and a moment was quiet, or nothing more comes. */
static int take(const char *who, struct ibv_cq *cq, int wanted)
{
    struct ibv_wc wc;
    int found = 0;
    double until = now() + 20, quiet = now() + QUIET / 1e3;
    while (now() < (found < wanted ? until : quiet)) {
        if (ibv_poll_cq(cq, 1, &wc) != 1) {
            usleep(500);
            continue;
        }
        quiet = now() + QUIET / 1e3;
        found++;
        printf("  %s %llu: %s", who, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
        if (wc.status == IBV_WC_SUCCESS) {
            printf(", opcode %d", wc.opcode);
            if (wc.opcode & IBV_WC_RECV || wc.opcode == IBV_WC_RDMA_READ)
                printf(", %u bytes", wc.byte_len);
            if (wc.wc_flags & IBV_WC_WITH_IMM)
                printf(", immediate %x", ntohl(wc.imm_data));
        }
        printf("\n");
    }
    return found;
}

static void events(struct ibv_context *context, const struct pair *p)
{
    struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
    while (poll(&fd, 1, QUIET) == 1) {
        struct ibv_async_event event;
        CHECK(!ibv_get_async_event(context, &event));
        int of_a = event.element.qp == p->a.qp;
        int of_b = event.element.qp == p->b.qp || (p->b.srq && event.element.srq == p->b.srq);
        printf("  event%s: %s\n", of_a ? " a" : of_b ? " b" : "", ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
    }
}

static const char *state(struct end *end)
{
    static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init));
    return attr.qp_state < 7 ? names[attr.qp_state] : "?";
}

/* What the responder's memory looks like: nothing, or how many bytes were written. */
static int written(const struct pair *p)
{
    int count = 0;
    for (int i = 0; i < BYTES; i++)
        count += p->b.buffer[i] != 0;
    return count;
}

static void close_pair(struct pair *p, const struct setting *s)
{
    if (take("a", p->a.sends, p->posted) < p->posted)
        printf("  a: %s\n", "a request is not completed");
    take("b", p->b.receives, s->expected);
    events(p->a.context, p);
    if (p->b.context != p->a.context)
        events(p->b.context, p);
    printf("  states %s %s, %d bytes written\n", state(&p->a), state(&p->b), written(p));
    close_end(&p->a);
    close_end(&p->b);
}

#endif
