//! Which attributes of a queue pair each bit of [`QpAttrMask`] names.

use crate::{QpAttrMask, QpContext};

macro_rules! attributes {
    ($($bit:ident: $($get:ident $set:ident),+;)+) => {
        impl QpContext {
            /// Takes the attributes that a mask names from another context.
            pub const fn take(&mut self, from: &QpContext, mask: QpAttrMask) {
                $(if mask.contains(QpAttrMask::$bit) {
                    $(self.$set(from.$get());)+
                })+
            }
        }
    };
}

attributes! {
    ACCESS_FLAGS: access set_access;
    PKEY_INDEX: pkey_index set_pkey_index;
    PORT: port set_port;
    QKEY: qkey set_qkey;
    AV: sgid_index set_sgid_index, hop_limit set_hop_limit, traffic_class set_traffic_class, sl set_sl,
        flow_label set_flow_label, dgid set_dgid, dmac set_dmac, udp_sport set_udp_sport;
    PATH_MTU: mtu set_mtu;
    TIMEOUT: timeout set_timeout;
    RETRY_CNT: retry_cnt set_retry_cnt;
    RNR_RETRY: rnr_retry set_rnr_retry;
    RQ_PSN: rq_psn set_rq_psn;
    SQ_PSN: sq_psn set_sq_psn;
    MAX_QP_RD_ATOMIC: max_rd_atomic set_max_rd_atomic;
    MAX_DEST_RD_ATOMIC: max_dest_rd_atomic set_max_dest_rd_atomic;
    MIN_RNR_TIMER: min_rnr_timer set_min_rnr_timer;
    DEST_QPN: dest_qpn set_dest_qpn;
    RATE_LIMIT: rate_limit set_rate_limit, max_burst set_max_burst, typical_packet set_typical_packet;
}
