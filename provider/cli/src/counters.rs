//! A port's counters under the names that Linux has for them.
//!
//! Names and meanings are those of the kernel's mlx5 driver (`hw_counters`, drivers/infiniband/hw/mlx5/counters.c) and of
//! InfiniBand's PortCounters (`counters`, drivers/infiniband/core/sysfs.c); `retrans_pkts` is its efa driver's.

use fpga_regs::regs::port;

/// A file of counters, or a line of it.
pub struct Counter {
    pub name: &'static str,
    /// Registers that are added up.
    pub registers: &'static [u32],
    /// Registers that are taken off.
    less: &'static [u32],
    /// What one of it is in units of the registers.
    unit: u64,
}

const fn sum(name: &'static str, registers: &'static [u32]) -> Counter {
    Counter { name, registers, less: &[], unit: 1 }
}

/// The directory `counters`: data is counted in words of four bytes.
pub const PORT: [Counter; 10] = [
    sum("multicast_rcv_packets", &[port::RX_MULTICAST]),
    sum("multicast_xmit_packets", &[port::TX_MULTICAST]),
    Counter { unit: 4, ..sum("port_rcv_data", &[port::RX_BYTES]) },
    sum("port_rcv_errors", &[port::RX_ICRC_ERRORS, port::RX_MALFORMED]),
    sum("port_rcv_packets", &[port::RX_PACKETS]),
    Counter { unit: 4, ..sum("port_xmit_data", &[port::TX_BYTES]) },
    sum("port_xmit_discards", &[port::TX_DISCARDS]),
    sum("port_xmit_packets", &[port::TX_PACKETS]),
    Counter { less: &[port::RX_MULTICAST], ..sum("unicast_rcv_packets", &[port::RX_PACKETS]) },
    Counter { less: &[port::TX_MULTICAST], ..sum("unicast_xmit_packets", &[port::TX_PACKETS]) },
];

/// Of `counters` too: what this card never has.
pub const NEVER: [&str; 10] = [
    "excessive_buffer_overrun_errors",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_wait",
    "symbol_error",
    "VL15_dropped",
];

/// Of `counters` too: how often the link went down, which is no register of its own.
pub const LINK_DOWNED: &str = "link_downed";

/// The directory `hw_counters`.
pub const HARDWARE: [Counter; 12] = [
    sum("duplicate_request", &[port::DUPLICATE]),
    sum("local_ack_timeout_err", &[port::ACK_TIMEOUTS]),
    sum("np_cnp_sent", &[port::TX_CNP]),
    sum("np_ecn_marked_roce_packets", &[port::RX_ECN_MARKED]),
    sum("out_of_buffer", &[port::RX_NO_RECV, port::RNR_NAK]),
    sum("out_of_sequence", &[port::OUT_OF_SEQUENCE]),
    sum("packet_seq_err", &[port::SEQUENCE_NAK]),
    sum("resp_remote_access_errors", &[port::ACCESS_NAK]),
    sum("retrans_pkts", &[port::RETRANSMITS]),
    sum("rnr_nak_retry_err", &[port::RNR_NAK_RECEIVED]),
    sum("rp_cnp_handled", &[port::RX_CNP]),
    sum("rx_icrc_encapsulated", &[port::RX_ICRC_ERRORS]),
];

/// What `ibv_query_port` has of such, and no file.
const QUERIED: [(u32, &str); 2] =
    [(port::RX_PKEY_ERRORS, "bad_pkey_cntr"), (port::RX_QKEY_ERRORS, "qkey_viol_cntr")];

impl Counter {
    /// Its value, of counters in the order of their registers.
    pub fn of(&self, counters: &[u64]) -> u64 {
        let total = |registers: &[u32]| {
            let values = registers.iter().map(|register| ((register - port::TX_PACKETS) / 8) as usize);
            values.map(|index| counters.get(index).copied().unwrap_or(0)).fold(0, u64::wrapping_add)
        };
        total(self.registers).wrapping_sub(total(self.less)) / self.unit
    }
}

/// The name of Linux for what a register counts, if it has one.
pub fn name_of(register: u32) -> Option<&'static str> {
    let files = HARDWARE.iter().filter(|counter| counter.registers == [register]);
    let queried = QUERIED.iter().filter(|(of, _)| *of == register);
    files.map(|counter| counter.name).chain(queried.map(|(_, name)| *name)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_the_registers() {
        let mut counters = vec![0; port::counters().count()];
        for (value, (to, _)) in (1..).zip(counters.iter_mut().zip(port::counters())) {
            *to = value * 100;
        }
        let value = |offset| counters[port::counters().position(|c| c.offset == offset).expect("a counter")];
        let of = |table: &[Counter], name: &str| {
            table.iter().find(|counter| counter.name == name).expect("a counter").of(&counters)
        };
        assert_eq!(of(&HARDWARE, "out_of_sequence"), value(port::OUT_OF_SEQUENCE));
        assert_eq!(of(&HARDWARE, "out_of_buffer"), value(port::RX_NO_RECV) + value(port::RNR_NAK));
        assert_eq!(of(&PORT, "port_xmit_data"), value(port::TX_BYTES) / 4);
        let multicast = value(port::RX_MULTICAST);
        assert_eq!(of(&PORT, "unicast_rcv_packets"), value(port::RX_PACKETS).wrapping_sub(multicast));
        assert_eq!(name_of(port::ACK_TIMEOUTS), Some("local_ack_timeout_err"));
        assert_eq!(name_of(port::RX_PKEY_ERRORS), Some("bad_pkey_cntr"));
        assert_eq!(name_of(port::RX_NO_RECV), None);
    }
}
