/* What the test programs share: a side of an RC connection, on stock verbs. */
#ifndef RIG_H
#define RIG_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { GID_INDEX = 1, PORT = 1 };
enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

/* A program may have others. */
#ifndef DEPTH
#define DEPTH 64
#endif
#ifndef PATH_MTU
#define PATH_MTU IBV_MTU_1024
#endif
#ifndef RNR_RETRIES
#define RNR_RETRIES 7
#endif

/* What the other side has to know. */
struct address {
    uint32_t qpn, rkey;
    uint64_t addr;
    union ibv_gid gid;
};

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    volatile char *buffer;
    size_t bytes;
    struct address address;
};

__attribute__((noreturn, format(printf, 1, 2), unused)) static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "FAILED: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    fflush(stdout);
    _exit(1);
}

/* Prints a line for whoever waits for it. */
__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

#define CHECK(condition) \
    do { \
        if (!(condition)) \
            die("%s:%d: %s (%s)", __FILE__, __LINE__, #condition, strerror(errno)); \
    } while (0)

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static inline struct ibv_context *open_device(const char *name)
{
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    CHECK(list);
    for (int i = 0; i < count; i++) {
        if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
            struct ibv_context *context = ibv_open_device(list[i]);
            CHECK(context);
            ibv_free_device_list(list);
            return context;
        }
    }
    die("there is no device %s", name);
}

/* The way to a port. */
static inline struct ibv_ah_attr path_to(union ibv_gid gid)
{
    return (struct ibv_ah_attr){
        .is_global = 1, .port_num = PORT, .grh = { .dgid = gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
    };
}

/* From RESET to INIT, from there to RTR, or from there to RTS, with all of `attr` that this takes for the type of the queue
 * pair; 0 or an errno. */
static inline int advance(struct ibv_qp *qp, struct ibv_qp_attr attr)
{
    int raw = qp->qp_type == IBV_QPT_RAW_PACKET, ud = qp->qp_type == IBV_QPT_UD;
    int connected = !raw && !ud, reliable = connected && qp->qp_type != IBV_QPT_UC;
    int mask = IBV_QP_STATE;
    switch (attr.qp_state) {
    case IBV_QPS_INIT:
        mask |= IBV_QP_PORT | (raw ? 0 : IBV_QP_PKEY_INDEX) | (ud ? IBV_QP_QKEY : 0) | (connected ? IBV_QP_ACCESS_FLAGS : 0);
        break;
    case IBV_QPS_RTR:
        mask |= connected ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN : 0;
        mask |= reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
        break;
    case IBV_QPS_RTS:
        mask |= raw ? 0 : IBV_QP_SQ_PSN;
        mask |= reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;
        break;
    default: die("no step leads to state %d", attr.qp_state);
    }
    return ibv_modify_qp(qp, &attr, mask);
}

/* A mapping of its own. */
static inline void *new_pages(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* A queue pair in RESET, with so many places each way. */
static inline struct ibv_qp *new_qp(struct ibv_pd *pd, enum ibv_qp_type type, struct ibv_cq *sends, struct ibv_cq *receives, uint32_t depth)
{
    struct ibv_qp_init_attr init = {
        .send_cq = sends,
        .recv_cq = receives,
        .cap = { .max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = type,
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp);
    return qp;
}

/* Makes a queue pair that of a side, in INIT. */
static inline void take_qp(struct side *side, struct ibv_qp *qp)
{
    CHECK(!advance(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = ACCESS }));
    side->qp = qp;
    side->address.qpn = qp->qp_num;
}

/* A QP in INIT. It may share the context, PD and CQ of another side. */
static inline struct side make_side(struct ibv_context *context, const struct side *share, size_t bytes)
{
    struct side side = { .context = context, .bytes = bytes };
    if (share) {
        side.pd = share->pd, side.channel = share->channel, side.cq = share->cq;
    } else {
        CHECK(side.pd = ibv_alloc_pd(context));
        CHECK(side.channel = ibv_create_comp_channel(context));
        CHECK(side.cq = ibv_create_cq(context, 4 * DEPTH, NULL, side.channel, 0));
    }
    side.buffer = new_pages(bytes);
    CHECK(side.mr = ibv_reg_mr(side.pd, (void *)side.buffer, bytes, ACCESS));
    take_qp(&side, new_qp(side.pd, IBV_QPT_RC, side.cq, side.cq, DEPTH));
    side.address.rkey = side.mr->rkey;
    side.address.addr = (uintptr_t)side.buffer;
    CHECK(!ibv_query_gid(context, PORT, GID_INDEX, &side.address.gid));
    return side;
}

/* RESET to RTS, of a raw packet or UD queue pair. */
static inline void make_ready(struct ibv_qp *qp, uint32_t qkey)
{
    static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
    for (int i = 0; i < 3; i++)
        CHECK(!advance(qp, (struct ibv_qp_attr){ .qp_state = states[i], .port_num = PORT, .qkey = qkey }));
}

/* A raw packet queue pair in RTS, with so many places each way. */
static inline struct ibv_qp *plain_raw(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t depth)
{
    struct ibv_qp *qp = new_qp(pd, IBV_QPT_RAW_PACKET, cq, cq, depth);
    make_ready(qp, 0);
    return qp;
}

/* Frames to an address come to a queue pair. */
static inline struct ibv_flow *rule_for(struct ibv_qp *qp, const uint8_t mac[6])
{
    struct {
        struct ibv_flow_attr attr;
        struct ibv_flow_spec_eth eth;
    } rule = {
        .attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof rule, .num_of_specs = 1, .port = PORT },
        .eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof rule.eth },
    };
    memcpy(rule.eth.val.dst_mac, mac, 6);
    memset(rule.eth.mask.dst_mac, 0xff, 6);
    struct ibv_flow *flow = ibv_create_flow(qp, &rule.attr);
    CHECK(flow);
    return flow;
}

/* INIT to RTS. `timeout` is the exponent of the specification. */
static inline void connect_qp(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid, int timeout, int retries)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = PATH_MTU,
        .dest_qp_num = peer,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 1,
        .ah_attr = path_to(gid),
    };
    CHECK(!advance(qp, attr));
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = timeout;
    attr.retry_cnt = retries;
    attr.rnr_retry = RNR_RETRIES;
    attr.max_rd_atomic = 4;
    CHECK(!advance(qp, attr));
}

static inline void connect_side(struct side *side, const struct address *peer, int timeout, int retries)
{
    connect_qp(side->qp, peer->qpn, peer->gid, timeout, retries);
}

static inline void connect_pair(struct side *a, struct side *b)
{
    connect_side(a, &b->address, 14, 7);
    connect_side(b, &a->address, 14, 7);
}

/* Posts a receive of one piece. */
static inline void post_receive(struct ibv_qp *qp, uint64_t id, const struct ibv_mr *mr, volatile void *at, uint32_t length)
{
    struct ibv_sge sge = { .addr = (uintptr_t)at, .length = length, .lkey = mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;
    CHECK(!ibv_post_recv(qp, &wr, &bad));
}

/* The same to a shared receive queue. */
static inline void post_shared_receive(struct ibv_srq *srq, uint64_t id, const struct ibv_mr *mr, volatile void *at, uint32_t length)
{
    struct ibv_sge sge = { .addr = (uintptr_t)at, .length = length, .lkey = mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;
    CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

/* Sends one piece, or a frame. */
static inline void post_message(struct ibv_qp *qp, uint64_t id, const struct ibv_mr *mr, volatile void *at, uint32_t length)
{
    struct ibv_sge sge = { .addr = (uintptr_t)at, .length = length, .lkey = mr->lkey };
    struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
    CHECK(!ibv_post_send(qp, &wr, &bad));
}

/* Names what a request is to reach at the other side; an atomic adds `add` there. */
static inline void aim(struct ibv_send_wr *wr, uint64_t at, uint32_t rkey, uint64_t add)
{
    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        wr->wr.atomic.remote_addr = at, wr->wr.atomic.rkey = rkey, wr->wr.atomic.compare_add = add;
    else
        wr->wr.rdma.remote_addr = at, wr->wr.rdma.rkey = rkey;
}

/* Names who is to get a datagram. */
static inline void aim_datagram(struct ibv_send_wr *wr, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    wr->wr.ud.ah = ah, wr->wr.ud.remote_qpn = qpn, wr->wr.ud.remote_qkey = qkey;
}

/* Posts one signaled request on `length` bytes at offset `at` of both buffers. */
static inline void post(struct side *side, const struct address *peer, enum ibv_wr_opcode opcode, uint64_t id, size_t at, uint32_t length)
{
    struct ibv_sge sge = { .addr = (uintptr_t)side->buffer + at, .length = length, .lkey = side->mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
    };
    aim(&wr, peer->addr + at, peer->rkey, 0);
    struct ibv_send_wr *bad;
    CHECK(!(errno = ibv_post_send(side->qp, &wr, &bad)));
}

/* The next completion, of whatever status. */
static inline struct ibv_wc completion(struct ibv_cq *cq, int seconds)
{
    struct ibv_wc wc;
    double until = now() + seconds;
    int found;
    while ((found = ibv_poll_cq(cq, 1, &wc)) == 0)
        if (now() > until)
            die("no completion within %d s", seconds);
    CHECK(found == 1);
    return wc;
}

/* How one request ends; an atomic adds 3. */
static inline enum ibv_wc_status outcome(struct side *side, enum ibv_wr_opcode opcode, const struct ibv_sge *sges, int count, uint64_t at, uint32_t rkey)
{
    struct ibv_send_wr *bad, wr = {
        .wr_id = 7, .sg_list = (struct ibv_sge *)sges, .num_sge = count, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
    };
    aim(&wr, at, rkey, 3);
    CHECK(!ibv_post_send(side->qp, &wr, &bad));
    struct ibv_wc wc = completion(side->cq, 20);
    CHECK(wc.wr_id == 7);
    return wc.status;
}

/* The next completion, which must be a success of `id`. */
static inline void expect(struct side *side, uint64_t id)
{
    struct ibv_wc wc = completion(side->cq, 30);
    if (wc.status != IBV_WC_SUCCESS || wc.wr_id != id)
        die("request %llu: %s of %llu", (unsigned long long)id, ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id);
}

#endif
