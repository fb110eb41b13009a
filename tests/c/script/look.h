/* Takes completions and events, and writes down all that there is to see. */
#ifndef LOOK_H
#define LOOK_H

#include "connect.h"

/* The own window of this key, or -1. */
static int window_of(const struct player *p, uint32_t rkey)
{
    for (int i = 0; i < WINDOWS; i++)
        if (p->mine.keys[REGIONS + i] == rkey)
            return i;
    return -1;
}

static uint64_t sum(const char *from, size_t bytes)
{
    const uint64_t *words = (const uint64_t *)from;
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes / 8; i++)
        sum = (sum ^ words[i]) * 0x100000001b3, sum ^= sum >> 29;
    return sum;
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
    int shared = (wc->wr_id & SHARED) != 0, receive = shared || (wc->wr_id & RECEIVE) != 0;
    struct text *text = receive ? &p->received[q] : &p->sent[q];
    /* Which of the receives of an SRQ a message takes depends on the others that come. */
    note(text, "%s%d %ld status %d", receive ? "  receive " : "  send ", q, shared ? -1l : (long)wc->wr_id, wc->status);
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
            if (wc->wc_flags & IBV_WC_WITH_INV)
                note(text, " invalidated %d", window_of(p, wc->invalidated_rkey));
            if (p->qps[q]->qp_type == IBV_QPT_UD) {
                int from = 0;
                while (from < QPS && theirs(p, from)->qpn[from] != wc->src_qp)
                    from++;
                note(text, " from %d sl %d", from, wc->sl);
            }
        }
    } else {
        note(text, " vendor %u", wc->vendor_err);
    }
    if (shared) {
        /* All of its buffer: what a message does not fill was empty. */
        char *slot = p->pool + wc->wr_id % SHARED * SLOT;
        if (wc->status == IBV_WC_SUCCESS)
            note(text, " with %lx", sum(slot, SLOT));
        memset(slot, 0, SLOT);
        __atomic_store_n(&p->posted[wc->wr_id % SHARED], 0, __ATOMIC_RELEASE);
    }
    note(text, "\n");
    if (!receive) {
        p->done[q] = wc->wr_id;
    } else if (!shared && wc->status != IBV_WC_SUCCESS) {
        /* What came before the mistake was seen may lie there or not: several packets may travel as one. */
        memset(p->buffer + p->places[wc->wr_id % PLACES].at, 0, p->places[wc->wr_id % PLACES].length);
    }
}

/* Polls all queues, for all threads, unless another thread does; how many completions there were. */
static int drain(struct player *p)
{
    int all = 0;
    if (__atomic_exchange_n(&p->polling, 1, __ATOMIC_ACQUIRE))
        return 0;
    for (int c = 0; c < CQS; c++) {
        struct ibv_wc wc[4];
        int found;
        while ((found = ibv_poll_cq(p->cqs[c], 4, wc)) > 0) {
            for (int i = 0; i < found; i++)
                completed(p, &wc[i]);
            all += found;
        }
        CHECK(found == 0);
    }
    __atomic_store_n(&p->polling, 0, __ATOMIC_RELEASE);
    return all;
}

/* All events until now: the event of a spare queue pair, which comes last, ends them. */
static void events(struct player *p)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    CHECK(!modify(p, SENTINEL, &attr, IBV_QP_STATE));
    const long init[] = { SENTINEL, 0 };
    CHECK(!to_init(p, init));
    attr.qp_state = IBV_QPS_ERR;
    CHECK(!modify(p, SENTINEL, &attr, IBV_QP_STATE));
    int seen[QPS + CQS + SRQS][IBV_EVENT_WQ_FATAL + 1] = { 0 };
    for (;;) {
        struct ibv_async_event event;
        CHECK(!ibv_get_async_event(p->context, &event));
        int what = QPS + CQS + (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == p->srqs[1]);
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
    for (int what = 0; what < QPS + CQS + SRQS; what++)
        for (int type = 0; type <= IBV_EVENT_WQ_FATAL; type++)
            if (seen[what][type])
                fprintf(p->log, "  event %s %d: %d x %s\n", what < QPS ? "qp" : what < QPS + CQS ? "cq" : "srq",
                        what < QPS ? what : what < QPS + CQS ? what - QPS : what - QPS - CQS, seen[what][type], ibv_event_type_str(type));
}

/* Writes down all that there is to see. */
static void look(struct player *p, int number)
{
    /* Lets the cards finish: a query waits for the lock holder, and during a sleep a simulated bus empties. */
    for (int i = 0; i < 3; i++) {
        usleep(40);
        for (int q = 0; q < QPS; q++)
            if (p->qps[q])
                query(p, q);
        drain(p);
    }
    fprintf(p->log, " look %d\n", number);
    for (int q = 0; q < QPS; q++) {
        fwrite(p->calls[q].bytes, 1, p->calls[q].used, p->log);
        fwrite(p->sent[q].bytes, 1, p->sent[q].used, p->log);
        fwrite(p->received[q].bytes, 1, p->received[q].used, p->log);
        p->calls[q].used = p->sent[q].used = p->received[q].used = 0;
        if (!p->qps[q])
            continue;
        struct ibv_qp_attr attr = query(p, q);
        fprintf(p->log, "  qp %d state %d draining %d", q, attr.qp_state, attr.sq_draining);
        /* At which packet of a message an error is noticed is not specified. */
        if (attr.qp_state != IBV_QPS_ERR)
            fprintf(p->log, " psn %#x %#x", attr.sq_psn, attr.rq_psn);
        fprintf(p->log, "\n");
        const char *zone = p->buffer + q * ZONE;
        fprintf(p->log, "  memory %d: %lx %lx %lx %lx\n", q, sum(zone, 8192), sum(zone + 8192, 4096), sum(zone + 12288, 8192),
                sum(zone + 20480, ZONE - 20480));
    }
    fwrite(p->rest.bytes, 1, p->rest.used, p->log);
    p->rest.used = 0;
    events(p);
}

#endif
