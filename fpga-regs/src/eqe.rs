//! The event queue entry.

open_enum! {
    /// What happened.
    EventKind: u8 {
        /// An armed CQ has a new CQE; `object` is the CQN.
        COMPLETION = 1,
        /// A CQ overran; `object` is the CQN.
        CQ_ERR = 2,
        /// A QP failed without a CQE to say so; `object` is the QPN.
        QP_FATAL = 3,
        /// A peer's request was invalid; `object` is the QPN.
        QP_REQ_ERR = 4,
        /// A peer's request violated access rights; `object` is the QPN.
        QP_ACCESS_ERR = 5,
        /// First packet on a QP in RTR; `object` is the QPN.
        COMM_EST = 6,
        /// The send queue drained after SQD; `object` is the QPN.
        SQ_DRAINED = 7,
        /// An SRQ failed; `object` is the SRQN.
        SRQ_ERR = 8,
        /// An SRQ fell below its limit; `object` is the SRQN.
        SRQ_LIMIT = 9,
        /// A QP took its last WQE from its SRQ; `object` is the QPN.
        QP_LAST_WQE = 10,
        /// The link came up.
        PORT_ACTIVE = 11,
        /// The link went down.
        PORT_ERR = 12,
        /// The card failed; `data` is the error cause.
        DEVICE_FATAL = 13,
        /// A receive work queue failed; `object` is its number, a QPN.
        WQ_FATAL = 14,
        /// An entry of the port's GID table was added or removed.
        GID_CHANGE = 15,
    }
}

layout! {
    /// Event queue entry. The card writes the phase bit last.
    Eqe: 32 {
        /// What happened.
        kind set_kind with_kind (u8 @ 0 as EventKind);
        /// Port, counted from 1; 0 where no port is meant.
        port set_port with_port (u8 @ 1);
        /// CQN, QPN or SRQN.
        object set_object with_object (u32 @ 4);
        /// The card's time in nanoseconds.
        timestamp set_timestamp with_timestamp (u64 @ 8);
        /// More, by kind.
        data set_data with_data (u32 @ 16);
        /// 1 on the first lap of the ring, then it toggles with each lap.
        phase set_phase with_phase (bool @ 31 bit 0);
    }
}

impl Eqe {
    /// The byte that holds the phase bit.
    pub const PHASE_BYTE: usize = 31;
}
