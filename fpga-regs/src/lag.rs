//! Link aggregation: a card whose two ports are one (IEEE 802.1AX).

open_enum! {
    /// How the ports of a card are one; the numbers are those of Linux bonding.
    LagMode: u8 {
        /// They are two.
        OFF = 0,
        /// Port 1 has the traffic, and port 2 while the link of port 1 is down.
        ACTIVE_BACKUP = 1,
        /// Both have it (a static aggregation).
        XOR = 2,
        /// Those have it that the card negotiates by LACP.
        LACP = 4,
    }
}

open_enum! {
    /// Which port the packets of a QP leave by.
    LagSelect: u8 {
        /// Each QP has a port, in turn, from RTR on.
        AFFINITY = 0,
        /// By a hash of the UDP source port; of a frame, by a hash of its fields.
        HASH = 1,
    }
}

open_enum! {
    /// How often the partner is asked to send LACPDUs.
    LacpRate: u8 {
        /// Every second; it is gone after three.
        FAST = 0,
        /// Every thirty seconds; it is gone after ninety.
        SLOW = 1,
    }
}

flag_set! {
    /// The state of a port in a LACPDU (IEEE 802.1AX-2014, 6.4.2.3).
    LacpState: u8 {
        /// It sends without being asked.
        ACTIVITY = 0,
        /// Its partner is to send every second.
        TIMEOUT = 1,
        /// It can be one of several.
        AGGREGATION = 2,
        /// It is in the aggregation that it belongs to.
        SYNCHRONIZATION = 3,
        /// It takes frames.
        COLLECTING = 4,
        /// It sends frames.
        DISTRIBUTING = 5,
        /// What it knows of its partner was set, not received.
        DEFAULTED = 6,
        /// Its partner has not been heard of in time.
        EXPIRED = 7,
    }
}

layout! {
    /// SET_LAG (in: the first three fields), and one port of it: QUERY_LAG (out).
    LagContext: 64 {
        /// How the ports are one.
        mode set_mode with_mode (u8 @ 0 as LagMode);
        /// Which one packets leave by.
        select set_select with_select (u8 @ 1 as LagSelect);
        /// LACP only.
        rate set_rate with_rate (u8 @ 2 as LacpRate);
        /// The link of the port is up.
        link_up set_link_up with_link_up (bool @ 3 bit 0);
        /// It has a part of the traffic.
        active set_active with_active (bool @ 3 bit 1);
        /// QPs whose packets leave by it.
        qps set_qps with_qps (u32 @ 4);
        /// LACPDUs received.
        lacp_received set_lacp_received with_lacp_received (u64 @ 8);
        /// LACPDUs sent.
        lacp_sent set_lacp_sent with_lacp_sent (u64 @ 16);
        /// The port's own state.
        actor_state set_actor_state with_actor_state (u8 @ 24 as LacpState);
        /// Its partner's.
        partner_state set_partner_state with_partner_state (u8 @ 25 as LacpState);
        /// Number of the partner's port.
        partner_port set_partner_port with_partner_port (u16 @ 26);
        /// Ports of the partner with the same key can be one.
        partner_key set_partner_key with_partner_key (u16 @ 28);
        /// The partner's priority.
        partner_priority set_partner_priority with_partner_priority (u16 @ 30);
        /// The partner; zero if none was heard of.
        partner set_partner with_partner ([u8; 6] @ 32);
        /// The port's aggregation, 1 or 2: ports of the same one are one.
        aggregator set_aggregator with_aggregator (u8 @ 38);
    }
}
