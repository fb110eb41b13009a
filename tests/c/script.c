/* Runs scripts of verbs and writes down what came of them.
 *
 * script both|0|1 CARD0 CARD1 SOCKET SCRIPT LOG LIMIT: plays side 0, side 1 or both of all scripts in the file SCRIPT. What
 * side 0 sees goes to LOG.0, what side 1 sees to LOG.1. The sides meet at the UNIX socket SOCKET, which is there when
 * side 1 may be started. A request that is not
 * completed within LIMIT seconds is noted as missing.
 *
 * A script is a list of lines: a letter, the side whose step it is, numbers. tests/tests/differential/script.rs writes
 * them and says what each means. What is written down does not depend on addresses, keys, queue pair numbers or
 * times, nor on the order between different queues: completions stand below their queue. */
#include "rendezvous.h"
#include <pthread.h>

enum {
    QPS = 8, CQS = 4, KEYS = 9, REGIONS = 7, WINDOWS = 2, ZONE = 32768, BYTES = QPS * ZONE, FIELDS = 24,
    RECEIVE = 1 << 20, SENTINEL = QPS, TEXT = 1 << 18, PLACES = QPS * 512,
};

/* What one side tells the other at each barrier. */
struct hello {
    uint32_t qpn[QPS], keys[KEYS];
    uint64_t base;
    union ibv_gid gid;
};

struct text {
    char *bytes;
    size_t used;
};

struct line {
    char kind;
    int fields;
    long f[FIELDS];
};

struct player {
    int side, peer, threads;
    double limit;
    FILE *log;
    struct ibv_context *context;
    struct ibv_pd *pds[2];
    struct ibv_mr *regions[REGIONS];
    struct ibv_mw *windows[WINDOWS];
    struct ibv_cq *cqs[CQS];
    struct ibv_srq *srq, *sentinel_srq;
    struct ibv_qp *qps[QPS + 1];
    struct ibv_ah *ah;
    char *buffer;
    struct hello mine, theirs;
    /* By queue pair: posts and completions of the send queue, and of receives. */
    struct text sent[QPS], received[QPS], rest;
    long done[QPS];
    /* Where receives put their bytes, by number. */
    struct { uint32_t at, length; } places[PLACES];
    struct line *lines;
    size_t count;
};

/* Where a thread's part of a section lies. */
struct part {
    struct player *p;
    size_t from, to;
    int parity;
};

__attribute__((format(printf, 2, 3))) static void note(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text->used += vsnprintf(text->bytes + text->used, TEXT - text->used, format, arguments);
    va_end(arguments);
    if (text->used >= TEXT)
        die("a script says too much");
}

enum { EVERYTHING = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND };

static const struct { int access, pd; } REGION[REGIONS] = {
    { EVERYTHING, 0 }, { IBV_ACCESS_LOCAL_WRITE, 0 }, { IBV_ACCESS_REMOTE_READ, 0 }, { EVERYTHING, 1 },
    /* Below windows. */
    { EVERYTHING, 0 }, { EVERYTHING, 0 }, { EVERYTHING, 0 },
};

static void region(struct player *p, int i)
{
    p->regions[i] = ibv_reg_mr(p->pds[REGION[i].pd], p->buffer, BYTES, REGION[i].access);
    CHECK(p->regions[i]);
}

static uint32_t local_key(struct player *p, long key)
{
    return key >= 0 && key < REGIONS && p->regions[key] ? p->regions[key]->lkey : p->regions[0]->lkey ^ 1;
}

static void completed(struct player *p, const struct ibv_wc *wc)
{
    int q = 0;
    while (q < QPS && !(p->qps[q] && p->qps[q]->qp_num == wc->qp_num))
        q++;
    if (q == QPS) {
        note(&p->rest, "completion %lu of no queue pair\n", (unsigned long)wc->wr_id);
        return;
    }
    int receive = (wc->wr_id & RECEIVE) != 0;
    struct text *text = receive ? &p->received[q] : &p->sent[q];
    note(text, "%s%d %ld status %d", receive ? "  receive " : "  send ", q, (long)wc->wr_id, wc->status);
    /* The specification gives no other field a meaning when there is an error. */
    if (wc->status == IBV_WC_SUCCESS) {
        note(text, " opcode %d", wc->opcode);
        if (receive || wc->opcode == IBV_WC_RDMA_READ || wc->opcode == IBV_WC_COMP_SWAP || wc->opcode == IBV_WC_FETCH_ADD)
            note(text, " bytes %u", wc->byte_len);
        if (receive) {
            /* The flags say which fields mean something. */
            note(text, " flags %d", wc->wc_flags);
            if (wc->wc_flags & IBV_WC_WITH_IMM)
                note(text, " imm %u", wc->imm_data);
            if (p->qps[q]->qp_type == IBV_QPT_UD) {
                int from = 0;
                while (from < QPS && p->theirs.qpn[from] != wc->src_qp)
                    from++;
                note(text, " from %d sl %d", from, wc->sl);
            }
        }
    } else {
        note(text, " vendor %u", wc->vendor_err);
    }
    note(text, "\n");
    if (!receive) {
        p->done[q] = wc->wr_id;
    } else if (wc->status != IBV_WC_SUCCESS) {
        /* What came before the mistake was seen may lie there or not: several packets may travel as one. */
        memset(p->buffer + p->places[wc->wr_id % PLACES].at, 0, p->places[wc->wr_id % PLACES].length);
    }
}

/* Polls the queues of one parity of queue pairs; how many completions there were. */
static int drain(struct player *p, int parity)
{
    int all = 0;
    for (int c = 2 * parity; c < 2 * parity + 2; c++) {
        struct ibv_wc wc[4];
        int found;
        while ((found = ibv_poll_cq(p->cqs[c], 4, wc)) > 0) {
            for (int i = 0; i < found; i++)
                completed(p, &wc[i]);
            all += found;
        }
        CHECK(found == 0);
    }
    return all;
}

static int modify(struct player *p, int q, struct ibv_qp_attr *attr, int mask)
{
    return p->qps[q] ? ibv_modify_qp(p->qps[q], attr, mask) : -1;
}

static struct ibv_ah_attr path(struct player *p)
{
    struct ibv_ah_attr ah = { .is_global = 1, .port_num = PORT };
    ah.grh.dgid = p->theirs.gid;
    ah.grh.sgid_index = GID_INDEX;
    ah.grh.hop_limit = 64;
    return ah;
}

static int create(struct player *p, const long *f)
{
    int q = f[0];
    struct ibv_qp_init_attr init = {
        .qp_type = f[1], .srq = f[2] ? p->srq : NULL, .sq_sig_all = f[3],
        .send_cq = p->cqs[f[4]], .recv_cq = p->cqs[f[5]],
        .cap = { .max_send_wr = 64, .max_recv_wr = f[2] ? 0 : 64, .max_send_sge = 3, .max_recv_sge = f[2] ? 0 : 3, .max_inline_data = 64 },
    };
    p->qps[q] = ibv_create_qp(p->pds[0], &init);
    p->mine.qpn[q] = p->qps[q] ? p->qps[q]->qp_num : 0;
    p->done[q] = -1;
    return p->qps[q] ? 0 : errno;
}

static int to_init(struct player *p, const long *f)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = f[1], .qkey = 0x11111111 };
    int ud = p->qps[f[0]] && p->qps[f[0]]->qp_type == IBV_QPT_UD;
    return modify(p, f[0], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int to_rtr(struct player *p, const long *f)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = f[2], .max_dest_rd_atomic = f[3], .rq_psn = f[4], .min_rnr_timer = f[5],
        /* A number that nothing has: queue pairs are numbered from below. */
        .dest_qp_num = f[1] < 0 ? 0xfffff0 : p->theirs.qpn[f[1]], .ah_attr = path(p),
    };
    int type = p->qps[f[0]] ? p->qps[f[0]]->qp_type : 0, mask = IBV_QP_STATE;
    if (type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (type == IBV_QPT_RC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return modify(p, f[0], &attr, mask);
}

static int to_rts(struct player *p, const long *f)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .sq_psn = f[1], .timeout = f[2], .retry_cnt = f[3], .rnr_retry = f[4], .max_rd_atomic = f[5],
    };
    int type = p->qps[f[0]] ? p->qps[f[0]]->qp_type : 0, mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (type == IBV_QPT_RC)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return modify(p, f[0], &attr, mask);
}

static int to_state(struct player *p, const long *f)
{
    struct ibv_qp_attr attr = { .qp_state = f[1], .en_sqd_async_notify = f[2] > 0 };
    return modify(p, f[0], &attr, IBV_QP_STATE | (f[2] >= 0 ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
}

static void elements(struct player *p, const long *f, int n, struct ibv_sge *sge)
{
    for (int i = 0; i < n; i++)
        sge[i] = (struct ibv_sge){ .addr = (uintptr_t)p->buffer + f[3 * i], .length = f[3 * i + 1], .lkey = local_key(p, f[3 * i + 2]) };
}

static void receive(struct player *p, int q, long id, int n, const long *f)
{
    struct ibv_sge sge[3];
    elements(p, f, n, sge);
    p->places[id % PLACES].at = f[0];
    p->places[id % PLACES].length = f[1];
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n }, *bad;
    int error = q < 0 ? ibv_post_srq_recv(p->srq, &wr, &bad) : ibv_post_recv(p->qps[q], &wr, &bad);
    if (error)
        note(q < 0 ? &p->rest : &p->received[q], "  receive %ld is refused: %d\n", id, error);
}

static uint32_t their_key(struct player *p, long key)
{
    return key >= 0 && key < KEYS ? p->theirs.keys[key] : p->theirs.keys[0] ^ 1;
}

/* S qp id opcode flags imm more n, three elements, remote place and key, three numbers of the operation. */
static void build(struct player *p, const long *f, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    const long *to = f + 16;
    *wr = (struct ibv_send_wr){ .wr_id = f[1], .sg_list = sge, .num_sge = f[6], .opcode = f[2], .send_flags = f[3] };
    wr->imm_data = f[4];
    elements(p, f + 7, f[6], sge);
    uint64_t remote = p->theirs.base + to[0];
    uint32_t rkey = their_key(p, to[1]);
    if (p->qps[f[0]]->qp_type == IBV_QPT_UD) {
        wr->wr.ud.ah = p->ah;
        wr->wr.ud.remote_qpn = to[2] < 0 ? 0xfffff0 : p->theirs.qpn[to[2]];
        wr->wr.ud.remote_qkey = to[3] ? 0x22222222 : 0x11111111;
    } else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->wr.atomic.remote_addr = remote;
        wr->wr.atomic.rkey = rkey;
        wr->wr.atomic.compare_add = to[2];
        wr->wr.atomic.swap = to[3];
    } else if (wr->opcode == IBV_WR_LOCAL_INV) {
        wr->invalidate_rkey = p->mine.keys[REGIONS + to[2]];
    } else if (wr->opcode == IBV_WR_SEND_WITH_INV) {
        wr->invalidate_rkey = rkey;
    } else if (wr->opcode == IBV_WR_BIND_MW) {
        /* The window to[2] over `to[0]`, of element 0's length, in region to[3], with rights to[4]. */
        struct ibv_mw *mw = p->windows[to[2]];
        wr->num_sge = 0;
        wr->bind_mw.mw = mw;
        wr->bind_mw.rkey = ibv_inc_rkey(mw->rkey);
        wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
            .mr = p->regions[to[3]], .addr = (uintptr_t)p->buffer + to[0], .length = f[8], .mw_access_flags = to[4],
        };
        p->mine.keys[REGIONS + to[2]] = wr->bind_mw.rkey;
    } else {
        wr->wr.rdma.remote_addr = remote;
        wr->wr.rdma.rkey = rkey;
    }
}

/* Posts the chain that begins at `at`; the last line of it. */
static size_t post_chain(struct player *p, size_t at)
{
    static const int MOST = 40;
    struct ibv_send_wr wrs[MOST], *bad = NULL;
    struct ibv_sge sge[MOST][3];
    int n = 0, q = p->lines[at].f[1];
    for (;; at++) {
        CHECK(n < MOST);
        build(p, p->lines[at].f + 1, &wrs[n], sge[n]);
        if (n)
            wrs[n - 1].next = &wrs[n];
        n++;
        if (!p->lines[at].f[6])
            break;
    }
    int error = ibv_post_send(p->qps[q], wrs, &bad);
    /* Posting reads the old key of a window, so the new one is set behind it. */
    for (int i = 0; i < n; i++)
        if (wrs[i].opcode == IBV_WR_BIND_MW)
            wrs[i].bind_mw.mw->rkey = wrs[i].bind_mw.rkey;
    if (error)
        note(&p->sent[q], "  send %d %ld is refused: %d\n", q, bad ? (long)bad->wr_id : -1, error);
    return at;
}

/* Until the send request is completed: nothing that was posted may be lost without a word. */
static void wait_for(struct player *p, int q, long id)
{
    double until = now() + p->limit;
    while (p->done[q] != id) {
        if (!drain(p, q & 1) && now() > until) {
            note(&p->sent[q], "  send %d %ld is missing\n", q, id);
            return;
        }
        if (p->threads)
            sched_yield();
    }
}

static struct ibv_qp_attr query(struct player *p, int q)
{
    struct ibv_qp_attr attr = { 0 };
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(p->qps[q], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init));
    return attr;
}

static void wait_drained(struct player *p, int q)
{
    double until = now() + p->limit;
    while (query(p, q).sq_draining) {
        drain(p, q & 1);
        if (now() > until) {
            note(&p->sent[q], "  queue %d does not drain\n", q);
            return;
        }
    }
}

/* All events until now: those of a queue pair of our own come behind them. */
static void events(struct player *p)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    CHECK(!modify(p, SENTINEL, &attr, IBV_QP_STATE));
    const long init[] = { SENTINEL, 0 };
    CHECK(!to_init(p, init));
    attr.qp_state = IBV_QPS_ERR;
    CHECK(!modify(p, SENTINEL, &attr, IBV_QP_STATE));
    int seen[QPS + CQS + 1][IBV_EVENT_WQ_FATAL + 1] = { 0 };
    for (;;) {
        struct ibv_async_event event;
        CHECK(!ibv_get_async_event(p->context, &event));
        int what = QPS + CQS;
        for (int c = 0; c < CQS; c++)
            if (event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == p->cqs[c])
                what = QPS + c;
        for (int q = 0; q < QPS; q++)
            if (event.event_type != IBV_EVENT_CQ_ERR && event.element.qp == p->qps[q])
                what = q;
        int end = event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == p->qps[SENTINEL];
        if (!end)
            seen[what][event.event_type]++;
        ibv_ack_async_event(&event);
        if (end)
            break;
    }
    for (int what = 0; what <= QPS + CQS; what++)
        for (int type = 0; type <= IBV_EVENT_WQ_FATAL; type++)
            if (seen[what][type])
                fprintf(p->log, "  event %s %d: %d x %s\n", what < QPS ? "qp" : what < QPS + CQS ? "cq" : "srq",
                        what < QPS ? what : what - QPS, seen[what][type], ibv_event_type_str(type));
}

static uint64_t sum(const char *from, size_t bytes)
{
    const uint64_t *words = (const uint64_t *)from;
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes / 8; i++)
        sum = (sum ^ words[i]) * 0x100000001b3, sum ^= sum >> 29;
    return sum;
}

/* Writes down all that there is to see. */
static void look(struct player *p, int number)
{
    /* What was begun is done: a query takes its turn with whoever runs the cards, a sleep lets a simulated bus do what it has. */
    for (int i = 0; i < 3; i++) {
        usleep(40);
        for (int q = 0; q < QPS; q++)
            if (p->qps[q])
                query(p, q);
        drain(p, 0);
        drain(p, 1);
    }
    fprintf(p->log, " look %d\n", number);
    for (int q = 0; q < QPS; q++) {
        fwrite(p->sent[q].bytes, 1, p->sent[q].used, p->log);
        fwrite(p->received[q].bytes, 1, p->received[q].used, p->log);
        p->sent[q].used = p->received[q].used = 0;
        if (!p->qps[q])
            continue;
        struct ibv_qp_attr attr = query(p, q);
        fprintf(p->log, "  qp %d state %d draining %d", q, attr.qp_state, attr.sq_draining);
        /* Where in a message of several packets an error was seen nobody promises. */
        if (attr.qp_state != IBV_QPS_ERR)
            fprintf(p->log, " psn %#x %#x", attr.sq_psn, attr.rq_psn);
        fprintf(p->log, "\n");
        const char *zone = p->buffer + q * ZONE;
        fprintf(p->log, "  memory %d: %lx %lx %lx %lx\n", q, sum(zone, 8192), sum(zone + 8192, 4096), sum(zone + 12288, 8192),
                sum(zone + 20480, ZONE - 20480));
    }
    fprintf(p->log, "  memory of the shared queue: %lx\n", sum(p->buffer + (QPS - 1) * ZONE, ZONE));
    fwrite(p->rest.bytes, 1, p->rest.used, p->log);
    p->rest.used = 0;
    events(p);
}

/* A call that is refused. */
static void tell(struct text *text, char kind, long object, int error)
{
    if (error)
        note(text, "  %c %ld: %d\n", kind, object, error);
}

/* One line of our own side; the last line that belongs to it. */
static size_t step(struct player *p, size_t at)
{
    const long *f = p->lines[at].f + 1;
    char kind = p->lines[at].kind;
    switch (kind) {
    case 'Q': tell(&p->sent[f[0]], kind, f[0], create(p, f)); break;
    case 'I': tell(&p->sent[f[0]], kind, f[0], to_init(p, f)); break;
    case 'T': tell(&p->sent[f[0]], kind, f[0], to_rtr(p, f)); break;
    case 'R': tell(&p->sent[f[0]], kind, f[0], to_rts(p, f)); break;
    case 'M': tell(&p->sent[f[0]], kind, f[0], to_state(p, f)); break;
    case 'r': receive(p, f[0], f[1], f[2], f + 3); break;
    case 'v': receive(p, -1, f[0], f[1], f + 2); break;
    case 'S': return post_chain(p, at);
    case 'W': wait_for(p, f[0], f[1]); break;
    case 'V': wait_drained(p, f[0]); break;
    case 'Z': usleep(f[1]); query(p, f[0]); break;
    case 'C': tell(&p->sent[f[0]], kind, f[0], ibv_resize_cq(p->cqs[f[1]], f[2])); break;
    case 'A': {
        struct ibv_srq_attr attr = { .srq_limit = f[0] };
        tell(&p->rest, kind, f[0], ibv_modify_srq(p->srq, &attr, IBV_SRQ_LIMIT));
        break;
    }
    case 'G': {
        int error = ibv_dereg_mr(p->regions[f[1]]);
        tell(&p->sent[f[0]], kind, f[1], error);
        if (!error)
            region(p, f[1]);
        p->mine.keys[f[1]] = p->regions[f[1]]->rkey;
        break;
    }
    case 'N':
        CHECK(!ibv_dealloc_mw(p->windows[f[0]]));
        CHECK(p->windows[f[0]] = ibv_alloc_mw(p->pds[0], IBV_MW_TYPE_2));
        p->mine.keys[REGIONS + f[0]] = p->windows[f[0]]->rkey;
        break;
    case 'X':
        tell(&p->sent[f[0]], kind, f[0], ibv_destroy_qp(p->qps[f[0]]));
        p->qps[f[0]] = NULL;
        break;
    case 'L': look(p, f[0]); break;
    default: die("line %zu: %c is no step", at, kind);
    }
    return at;
}

/* Which thread does a line of a section: that of its queue pair. */
static int parity_of(const struct line *line)
{
    return strchr("rSWVZCQITRMXGN", line->kind) ? line->f[1] & 1 : 0;
}

static void *run_part(void *argument)
{
    struct part *part = argument;
    struct player *p = part->p;
    for (size_t at = part->from; at < part->to; at++)
        if (p->lines[at].f[0] == p->side && (part->parity < 0 || parity_of(&p->lines[at]) == part->parity))
            at = step(p, at);
    return NULL;
}

static void section(struct player *p, size_t from, size_t to)
{
    int here[2] = { 0 };
    for (size_t at = from; at < to; at++)
        if (p->lines[at].f[0] == p->side)
            here[parity_of(&p->lines[at])] = 1;
    struct part parts[2] = { { p, from, to, -1 }, { p, from, to, 1 } };
    pthread_t thread;
    int two = p->threads && here[0] && here[1];
    if (two) {
        parts[0].parity = 0;
        CHECK(!pthread_create(&thread, NULL, run_part, &parts[1]));
    }
    run_part(&parts[0]);
    if (two)
        CHECK(!pthread_join(thread, NULL));
}

static void barrier(struct player *p)
{
    size_t got = 0;
    CHECK(write(p->peer, &p->mine, sizeof p->mine) == sizeof p->mine);
    while (got < sizeof p->theirs) {
        ssize_t n = read(p->peer, (char *)&p->theirs + got, sizeof p->theirs - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            die("the other side is gone");
        got += n;
    }
}

/* The objects that every script finds; they are new for each. */
static void begin(struct player *p)
{
    uint64_t state = 0x9e3779b97f4a7c15 + p->side;
    for (size_t i = 0; i < BYTES / 8; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        ((uint64_t *)p->buffer)[i] = state;
    }
    for (int i = 0; i < 2; i++)
        CHECK(p->pds[i] = ibv_alloc_pd(p->context));
    for (int i = 0; i < REGIONS; i++) {
        region(p, i);
        p->mine.keys[i] = p->regions[i]->rkey;
    }
    for (int i = 0; i < WINDOWS; i++) {
        CHECK(p->windows[i] = ibv_alloc_mw(p->pds[0], IBV_MW_TYPE_2));
        p->mine.keys[REGIONS + i] = p->windows[i]->rkey;
    }
    for (int i = 0; i < CQS; i++)
        CHECK(p->cqs[i] = ibv_create_cq(p->context, i & 1 ? 8 : 512, NULL, NULL, 0));
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 64, .max_sge = 1 } };
    CHECK(p->srq = ibv_create_srq(p->pds[0], &srq));
    CHECK(p->sentinel_srq = ibv_create_srq(p->pds[0], &srq));
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC, .srq = p->sentinel_srq, .send_cq = p->cqs[0], .recv_cq = p->cqs[0], .cap = { .max_send_wr = 1, .max_send_sge = 1 },
    };
    CHECK(p->qps[SENTINEL] = ibv_create_qp(p->pds[0], &init));
    p->mine.base = (uintptr_t)p->buffer;
    CHECK(!ibv_query_gid(p->context, PORT, GID_INDEX, &p->mine.gid));
    barrier(p);
    struct ibv_ah_attr ah = path(p);
    CHECK(p->ah = ibv_create_ah(p->pds[0], &ah));
}

static void end(struct player *p)
{
    for (int q = 0; q <= QPS; q++) {
        if (p->qps[q])
            CHECK(!ibv_destroy_qp(p->qps[q]));
        p->qps[q] = NULL;
    }
    memset(p->mine.qpn, 0, sizeof p->mine.qpn);
    CHECK(!ibv_destroy_ah(p->ah));
    CHECK(!ibv_destroy_srq(p->srq) && !ibv_destroy_srq(p->sentinel_srq));
    for (int i = 0; i < CQS; i++)
        CHECK(!ibv_destroy_cq(p->cqs[i]));
    for (int i = 0; i < WINDOWS; i++)
        CHECK(!ibv_dealloc_mw(p->windows[i]));
    for (int i = 0; i < REGIONS; i++)
        CHECK(!ibv_dereg_mr(p->regions[i]));
    for (int i = 0; i < 2; i++)
        CHECK(!ibv_dealloc_pd(p->pds[i]));
}

static void *play(void *argument)
{
    struct player *p = argument;
    for (int q = 0; q < QPS; q++)
        CHECK((p->sent[q].bytes = malloc(TEXT)) && (p->received[q].bytes = malloc(TEXT)));
    CHECK(p->rest.bytes = malloc(TEXT));
    CHECK((p->buffer = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
    size_t from = 0;
    for (size_t at = 0; at < p->count; at++) {
        char kind = p->lines[at].kind;
        if (!strchr("<->", kind))
            continue;
        section(p, from, at);
        from = at + 1;
        if (kind == '<') {
            fprintf(p->log, "script %ld\n", p->lines[at].f[0]);
            p->threads = p->lines[at].f[1];
            begin(p);
        } else if (kind == '>') {
            end(p);
            fflush(p->log);
        }
        barrier(p);
    }
    fprintf(p->log, "done\n");
    fclose(p->log);
    return NULL;
}

static void load(const char *path, struct line **lines, size_t *count)
{
    FILE *file = fopen(path, "r");
    CHECK(file);
    char text[512];
    size_t room = 0;
    while (fgets(text, sizeof text, file)) {
        if (*count == room)
            CHECK(*lines = realloc(*lines, (room = room ? 2 * room : 256) * sizeof **lines));
        struct line *line = &(*lines)[(*count)++];
        memset(line, 0, sizeof *line);
        line->kind = text[0];
        char *rest = text + 1, *after;
        for (;; rest = after) {
            long value = strtol(rest, &after, 0);
            if (after == rest)
                break;
            CHECK(line->fields < FIELDS);
            line->f[line->fields++] = value;
        }
        /* Nobody's. */
        if (line->kind == '-')
            line->f[0] = -1;
    }
    fclose(file);
}

int main(int count, char **arguments)
{
    if (count != 8)
        die("usage: script both|0|1 CARD0 CARD1 SOCKET SCRIPT LOG LIMIT");
    struct line *lines = NULL;
    size_t lines_count = 0;
    load(arguments[5], &lines, &lines_count);
    static struct player players[2];
    int both = !strcmp(arguments[1], "both"), only = atoi(arguments[1]), ends[2];
    if (both)
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    else
        ends[only] = rendezvous(only, arguments[4]);
    for (int side = 0; side < 2; side++) {
        if (!both && side != only)
            continue;
        struct player *p = &players[side];
        char path[512];
        snprintf(path, sizeof path, "%s.%d", arguments[6], side);
        p->side = side;
        p->peer = ends[side];
        p->limit = atof(arguments[7]);
        p->lines = lines;
        p->count = lines_count;
        CHECK(p->log = fopen(path, "w"));
        p->context = open_device(arguments[2 + side]);
    }
    pthread_t thread;
    if (both)
        CHECK(!pthread_create(&thread, NULL, play, &players[1]));
    play(&players[both ? 0 : only]);
    if (both)
        CHECK(!pthread_join(thread, NULL));
    for (int side = 0; side < 2; side++)
        if (players[side].context)
            CHECK(!ibv_close_device(players[side].context));
    return 0;
}
