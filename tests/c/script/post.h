/* Posts requests and waits for them. */
#ifndef POST_H
#define POST_H

#include "look.h"

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
    p->places[id % PLACES].length = 0;
    /* The elements follow each other. */
    for (int i = 0; i < n; i++)
        p->places[id % PLACES].length += f[3 * i + 1];
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n }, *bad;
    int error = ibv_post_recv(p->qps[q], &wr, &bad);
    if (error)
        note(&p->calls[q], "  receive %ld is refused: %d\n", id, error);
}

/* A receive for an SRQ, for a message to queue pair q. */
static void receive_shared(struct player *p, int q, int srq)
{
    int n = srq * SLOTS;
    while (n < (srq + 1) * SLOTS - 1 && __atomic_exchange_n(&p->posted[n], 1, __ATOMIC_ACQUIRE))
        n++;
    struct ibv_sge sge = { .addr = (uintptr_t)p->pool + n * SLOT, .length = SLOT, .lkey = p->pool_region->lkey };
    struct ibv_recv_wr wr = { .wr_id = SHARED + n, .sg_list = &sge, .num_sge = 1 }, *bad;
    int error = ibv_post_srq_recv(p->srqs[srq], &wr, &bad);
    if (error)
        note(&p->calls[q], "  receive of SRQ %d is refused: %d\n", srq, error);
}

static uint32_t their_key(struct player *p, int q, long key)
{
    const uint32_t *keys = theirs(p, q)->keys;
    return key >= 0 && key < KEYS ? keys[key] : keys[0] ^ 1;
}

/* S qp id opcode flags imm more n, three elements, remote place and key, three numbers of the operation. */
static void build(struct player *p, const long *f, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    const long *to = f + 16;
    *wr = (struct ibv_send_wr){ .wr_id = f[1], .sg_list = sge, .num_sge = f[6], .opcode = f[2], .send_flags = f[3] };
    wr->imm_data = f[4];
    elements(p, f + 7, f[6], sge);
    uint64_t remote = theirs(p, f[0])->base + to[0];
    uint32_t rkey = their_key(p, f[0], to[1]);
    if (p->qps[f[0]]->qp_type == IBV_QPT_UD) {
        wr->wr.ud.ah = p->ah;
        wr->wr.ud.remote_qpn = to[2] < 0 ? 0xfffff0 : theirs(p, to[2])->qpn[to[2]];
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
    /* Posting reads the old key of a window, so the new one is set afterwards. */
    for (int i = 0; i < n; i++)
        if (wrs[i].opcode == IBV_WR_BIND_MW)
            wrs[i].bind_mw.mw->rkey = wrs[i].bind_mw.rkey;
    if (error)
        note(&p->calls[q], "  send %d %ld is refused: %d\n", q, bad ? (long)bad->wr_id : -1, error);
    return at;
}

/* Until the send request is completed: nothing that was posted may be lost without a word. */
static void wait_for(struct player *p, int q, long id)
{
    double until = now() + p->limit;
    while (p->done[q] != id) {
        if (!drain(p) && now() > until) {
            note(&p->calls[q], "  send %d %ld is missing\n", q, id);
            return;
        }
        if (p->threads > 1)
            sched_yield();
    }
}

static void wait_drained(struct player *p, int q)
{
    double until = now() + p->limit;
    while (query(p, q).sq_draining) {
        drain(p);
        if (now() > until) {
            note(&p->calls[q], "  queue %d does not drain\n", q);
            return;
        }
    }
}

#endif
