/* Extended reliable connections: two processes share a domain and a receiving QP, and what is refused.
 *
 * The parent connects an XRC_SEND QP of verbena1 with an XRC_RECV QP of verbena0, and has an SRQ. The child has an SRQ of
 * the same domain, which it finds by the file, and opens the QP. */
#define RNR_RETRIES 1
#include "rendezvous.h"
#include <fcntl.h>
#include <poll.h>

enum { LENGTH = 3000 };

/* What the child says of itself. */
struct child {
    uint32_t srqn, rkey;
    uint64_t addr;
};

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    volatile char *buffer;
    struct ibv_xrcd *xrcd;
    struct ibv_srq *srq;
    uint32_t srqn;
};

static struct ibv_xrcd *domain(struct ibv_context *context, int fd, int oflags)
{
    struct ibv_xrcd_init_attr attr = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags,
    };
    return ibv_open_xrcd(context, &attr);
}

static struct ibv_srq *queue(const struct end *end, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
    struct ibv_srq_init_attr_ex attr = {
        .attr = { .max_wr = 8, .max_sge = 1 },
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC,
        .pd = end->pd,
        .xrcd = xrcd,
        .cq = cq,
    };
    return ibv_create_srq_ex(end->context, &attr);
}

static void post_recv(const struct end *end, uint64_t id)
{
    post_shared_receive(end->srq, id, end->mr, end->buffer, LENGTH);
}

static struct end make_end(const char *device)
{
    struct end end = { .context = open_device(device) };
    CHECK(end.pd = ibv_alloc_pd(end.context));
    CHECK(end.cq = ibv_create_cq(end.context, 64, NULL, NULL, 0));
    end.buffer = new_pages(4096);
    CHECK(end.mr = ibv_reg_mr(end.pd, (void *)end.buffer, 4096, ACCESS));
    return end;
}

static struct end receiver(int fd, int oflags)
{
    struct end end = make_end("verbena0");
    CHECK(end.xrcd = domain(end.context, fd, oflags));
    CHECK(end.srq = queue(&end, end.xrcd, end.cq));
    CHECK(!ibv_get_srq_num(end.srq, &end.srqn) && end.srqn);
    return end;
}

static void give_back(struct end *end)
{
    CHECK(!ibv_destroy_srq(end->srq) && !ibv_close_xrcd(end->xrcd) && !ibv_destroy_cq(end->cq));
    CHECK(!ibv_dereg_mr(end->mr) && !ibv_dealloc_pd(end->pd) && !ibv_close_device(end->context));
}

static struct ibv_qp *receiving(const struct end *end)
{
    struct ibv_qp_init_attr_ex init = {
        .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = end->xrcd,
    };
    return ibv_create_qp_ex(end->context, &init);
}

/* The receiving QP of this number, once more. */
static struct ibv_qp *opened(struct ibv_xrcd *xrcd, uint32_t number)
{
    struct ibv_qp_open_attr attr = {
        .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
        .qp_num = number,
        .xrcd = xrcd,
        .qp_type = IBV_QPT_XRC_RECV,
    };
    return ibv_open_qp(xrcd->context, &attr);
}

static struct ibv_qp *sending(const struct end *end)
{
    struct ibv_qp_init_attr_ex init = {
        .qp_type = IBV_QPT_XRC_SEND,
        .send_cq = end->cq,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = end->pd,
        .cap = { .max_send_wr = 8, .max_send_sge = 1 },
        .sq_sig_all = 1,
    };
    return ibv_create_qp_ex(end->context, &init);
}

/* Connects one half of a connection with the other. */
static void connect_half(struct ibv_qp *qp, const struct ibv_qp *peer)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
    CHECK(!advance(qp, attr));
    union ibv_gid gid;
    CHECK(!ibv_query_gid(peer->context, PORT, GID_INDEX, &gid));
    /* As programs do, with what only the other half needs. */
    connect_qp(qp, peer->qp_num, gid, 14, 7);
}

/* A message to an SRQ, or a WRITE that names it; how it ended. */
static enum ibv_wc_status sent(const struct end *end, struct ibv_qp *qp, uint32_t srqn, const struct child *at)
{
    struct ibv_sge sge = { .addr = (uintptr_t)end->buffer, .length = LENGTH, .lkey = end->mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = at ? IBV_WR_RDMA_WRITE : IBV_WR_SEND }, *bad;
    if (at)
        aim(&wr, at->addr, at->rkey, 0);
    wr.qp_type.xrc.remote_srqn = srqn;
    CHECK(!ibv_post_send(qp, &wr, &bad));
    return completion(end->cq, 10).status;
}

static void refused(const struct end *end, int fd)
{
    CHECK(!domain(end->context, fd, O_CREAT | O_EXCL) && errno == EINVAL);
    CHECK(!domain(end->context, 999, O_CREAT) && errno == EBADF);
    CHECK(ibv_close_xrcd(end->xrcd) == EBUSY);
    CHECK(ibv_destroy_cq(end->cq) == EBUSY);
    CHECK(!queue(end, end->xrcd, NULL) && errno == EINVAL);
    CHECK(!queue(end, NULL, end->cq) && errno == EINVAL);
    struct end none = *end;
    none.xrcd = NULL;
    CHECK(!receiving(&none) && errno == EINVAL);
    CHECK(!opened(end->xrcd, 0x123456) && errno == EINVAL);
    /* Its SRQ is named by packets, and not when a QP is created. */
    struct ibv_qp_init_attr rc = {
        .qp_type = IBV_QPT_RC, .send_cq = end->cq, .recv_cq = end->cq, .srq = end->srq,
        .cap = { .max_send_wr = 1, .max_send_sge = 1 },
    };
    CHECK(!ibv_create_qp(end->pd, &rc) && errno == EINVAL);
}

/* A QP that receives has no queues. */
static void takes_no_requests(struct ibv_qp *qp)
{
    struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
    struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
    CHECK(ibv_post_send(qp, &send, &bad_send) == EINVAL && ibv_post_recv(qp, &recv, &bad_recv) == EINVAL);
}

/* The next event of a QP, if it is this one. */
static void event_of(struct ibv_qp *qp, enum ibv_event_type type)
{
    struct ibv_async_event event;
    struct pollfd wait = { .fd = qp->context->async_fd, .events = POLLIN };
    CHECK(poll(&wait, 1, 10000) == 1 && !ibv_get_async_event(qp->context, &event));
    if (event.event_type != type || event.element.qp != qp)
        die("event %s", ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
}

static int child(int fd, int from, int to)
{
    uint32_t qpn;
    hear(from, &qpn, sizeof qpn);
    struct end end = receiver(fd, 0);
    struct ibv_qp *qps[2];
    for (int i = 0; i < 2; i++)
        CHECK((qps[i] = opened(end.xrcd, qpn)) && qps[i]->qp_num == qpn);
    CHECK(!ibv_destroy_qp(qps[0]));
    struct child self = { .srqn = end.srqn, .rkey = end.mr->rkey, .addr = (uintptr_t)end.buffer };
    for (uint64_t i = 1; i <= 3; i++)
        post_recv(&end, i);
    tell(to, &self, sizeof self);
    for (uint64_t i = 1; i <= 2; i++) {
        struct ibv_wc wc = completion(end.cq, 10);
        if (wc.status != IBV_WC_SUCCESS || wc.wr_id != i || wc.qp_num != qpn || wc.byte_len != LENGTH)
            die("message %d: %s", (int)i, ibv_wc_status_str(wc.status));
        CHECK(end.buffer[0] == 'x' && end.buffer[LENGTH - 1] == 'y');
        end.buffer[LENGTH - 1] = 0;
        tell(to, "n", 1);
    }
    /* The parent has let go of the QP, and knows that it is not its own. */
    char gone;
    hear(from, &gone, 1);
    CHECK(end.buffer[LENGTH - 1] == 'y');
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(qps[1], &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS);
    tell(to, "n", 1);
    event_of(qps[1], IBV_EVENT_QP_ACCESS_ERR);
    CHECK(!ibv_query_qp(qps[1], &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
    CHECK(ibv_close_xrcd(end.xrcd) == EBUSY);
    CHECK(!ibv_destroy_qp(qps[1]));
    give_back(&end);
    return 0;
}

/* A QP that is held by two open domains of a file is held by each. */
static void twice(const struct end *end, int fd, uint32_t qpn)
{
    struct ibv_xrcd *xrcds[2];
    struct ibv_qp *qps[2];
    for (int i = 0; i < 2; i++) {
        CHECK(xrcds[i] = domain(end->context, fd, 0));
        CHECK(qps[i] = opened(xrcds[i], qpn));
    }
    CHECK(!ibv_destroy_qp(qps[1]) && !ibv_close_xrcd(xrcds[1]) && ibv_close_xrcd(xrcds[0]) == EBUSY);
    CHECK(!ibv_destroy_qp(qps[0]) && !ibv_close_xrcd(xrcds[0]));
}

/* A new connection with an SRQ of a domain that is nobody else's. */
static void apart(const struct end *from)
{
    struct end end = receiver(-1, O_CREAT), other = receiver(-1, O_CREAT);
    struct { uint32_t srqn; enum ibv_wc_status status; } cases[] = {
        { end.srqn, IBV_WC_SUCCESS },
        { end.srqn, IBV_WC_RNR_RETRY_EXC_ERR },
        { other.srqn, IBV_WC_REM_INV_REQ_ERR },
        { 0, IBV_WC_REM_INV_REQ_ERR },
        { 0xffffff, IBV_WC_REM_INV_REQ_ERR },
    };
    post_recv(&end, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ibv_qp *recv = receiving(&end), *send = sending(from);
        CHECK(recv && send);
        connect_half(recv, send), connect_half(send, recv);
        takes_no_requests(recv);
        enum ibv_wc_status status = sent(from, send, cases[i].srqn, NULL);
        if (status != cases[i].status)
            die("case %d: %s", (int)i, ibv_wc_status_str(status));
        CHECK(!ibv_destroy_qp(send) && !ibv_destroy_qp(recv));
    }
    give_back(&end), give_back(&other);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int fd = open(argv[1], O_RDONLY | O_CREAT, 0600), down[2], up[2];
    CHECK(fd >= 0 && !pipe(down) && !pipe(up));
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(fd, down[0], up[1]));
    struct end from = make_end("verbena1");
    CHECK(!domain(from.context, fd, 0) && errno == EAGAIN);
    struct end end = receiver(fd, O_CREAT);
    refused(&end, fd);
    struct ibv_qp *recv = receiving(&end), *send = sending(&from);
    CHECK(recv && send);
    connect_half(recv, send), connect_half(send, recv);
    twice(&end, fd, recv->qp_num);
    tell(down[1], &recv->qp_num, sizeof recv->qp_num);
    struct child there;
    char next;
    hear(up[0], &there, sizeof there);
    from.buffer[0] = 'x', from.buffer[LENGTH - 1] = 'y';

    /* To either SRQ, by one connection. */
    post_recv(&end, 7);
    CHECK(sent(&from, send, end.srqn, NULL) == IBV_WC_SUCCESS);
    struct ibv_wc wc = completion(end.cq, 10);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 7 && wc.byte_len == LENGTH && wc.opcode == IBV_WC_RECV);
    CHECK(wc.qp_num == recv->qp_num && wc.src_qp == send->qp_num && end.buffer[LENGTH - 1] == 'y');
    CHECK(sent(&from, send, there.srqn, NULL) == IBV_WC_SUCCESS);
    hear(up[0], &next, 1);

    /* The creator lets go; the QP is the child's. */
    CHECK(!ibv_destroy_qp(recv));
    give_back(&end);
    CHECK(sent(&from, send, there.srqn, NULL) == IBV_WC_SUCCESS);
    hear(up[0], &next, 1);

    /* Memory is that of the SRQ's protection domain. */
    CHECK(sent(&from, send, there.srqn, &there) == IBV_WC_SUCCESS);
    tell(down[1], "n", 1);
    hear(up[0], &next, 1);
    CHECK(sent(&from, send, 0xabcdef, NULL) == IBV_WC_REM_INV_REQ_ERR);
    CHECK(!ibv_destroy_qp(send));
    apart(&from);
    char last;
    close(up[1]);
    CHECK(read(up[0], &last, 1) == 0);
    printf("all as it should be\n");
    return 0;
}
