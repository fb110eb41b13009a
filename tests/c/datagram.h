/* A side with a UD queue pair in place of its connection. */
#ifndef DATAGRAM_H
#define DATAGRAM_H

#include "rig.h"

enum { QKEY = 17, GRH = 40 };

/* It is in RTS, and shares nothing but what the connection had. */
static inline void use_datagrams(struct side *side)
{
    CHECK(!ibv_destroy_qp(side->qp));
    side->qp = new_qp(side->pd, IBV_QPT_UD, side->cq, side->cq, DEPTH);
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
