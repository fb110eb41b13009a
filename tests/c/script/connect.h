/* Creates queue pairs and changes their states. */
#ifndef CONNECT_H
#define CONNECT_H

#include "player.h"

static int modify(struct player *p, int q, struct ibv_qp_attr *attr, int mask)
{
    return p->qps[q] ? ibv_modify_qp(p->qps[q], attr, mask) : -1;
}

static struct ibv_ah_attr path(struct player *p)
{
    return path_to(theirs(p, 0)->gid);
}

static int create(struct player *p, const long *f)
{
    int q = f[0];
    struct ibv_qp_init_attr init = {
        .qp_type = f[1], .srq = f[2] ? p->srqs[f[2] - 1] : NULL, .sq_sig_all = f[3],
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
    return p->qps[f[0]] ? advance(p->qps[f[0]], attr) : -1;
}

static int to_rtr(struct player *p, const long *f)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = f[2], .max_dest_rd_atomic = f[3], .rq_psn = f[4], .min_rnr_timer = f[5],
        /* A number that nothing has: queue pairs are numbered from below. */
        .dest_qp_num = f[1] < 0 ? 0xfffff0 : theirs(p, f[1])->qpn[f[1]], .ah_attr = path(p),
    };
    return p->qps[f[0]] ? advance(p->qps[f[0]], attr) : -1;
}

static int to_rts(struct player *p, const long *f)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .sq_psn = f[1], .timeout = f[2], .retry_cnt = f[3], .rnr_retry = f[4], .max_rd_atomic = f[5],
    };
    return p->qps[f[0]] ? advance(p->qps[f[0]], attr) : -1;
}

static int to_state(struct player *p, const long *f)
{
    struct ibv_qp_attr attr = { .qp_state = f[1], .en_sqd_async_notify = f[2] > 0 };
    return modify(p, f[0], &attr, IBV_QP_STATE | (f[2] >= 0 ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
}

static struct ibv_qp_attr query(struct player *p, int q)
{
    struct ibv_qp_attr attr = { 0 };
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(p->qps[q], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init));
    return attr;
}

#endif
