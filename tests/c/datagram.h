/* A side with a UD queue pair in place of its connection. */
#ifndef DATAGRAM_H
#define DATAGRAM_H

#include "rig.h"

enum { QKEY = 17, GRH = 40 };

/* It is in RTS, and shares nothing but what the connection had. */
static inline void use_datagrams(struct side *side)
{
    struct ibv_qp_init_attr init = {
        .send_cq = side->cq,
        .recv_cq = side->cq,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_UD,
    };
    CHECK(!ibv_destroy_qp(side->qp));
    CHECK(side->qp = ibv_create_qp(side->pd, &init));
    make_ready(side->qp, QKEY);
    side->address.qpn = side->qp->qp_num;
}

static inline struct ibv_ah *way_to(struct side *side, const struct address *peer)
{
    struct ibv_ah_attr attr = path_to(peer->gid);
    struct ibv_ah *ah = ibv_create_ah(side->pd, &attr);
    CHECK(ah);
    return ah;
}

#endif
