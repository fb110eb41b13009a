//! What a device says of itself, and how its queues are asked for.

use std::ffi::{c_char, c_int, c_void};

use super::release::layout;
use super::vdev::Device;

/// `RTE_ETH_RX_OFFLOAD_VLAN_STRIP`: VLAN tags are removed.
pub const RX_VLAN_STRIP: u64 = 1 << 0;
/// `RTE_ETH_RX_OFFLOAD_VLAN_FILTER`: frames with other VLAN tags than those that were asked for are not received.
pub const RX_VLAN_FILTER: u64 = 1 << 9;
/// `RTE_ETH_TX_OFFLOAD_VLAN_INSERT`: VLAN tags are inserted.
pub const TX_VLAN_INSERT: u64 = 1 << 0;
/// `RTE_ETH_RX_OFFLOAD_{IPV4,UDP,TCP}_CKSUM`: checksums are checked.
pub const RX_CHECKSUMS: u64 = 0b111 << 1;
/// `RTE_ETH_RX_OFFLOAD_RSS_HASH`: packets have their hash.
pub const RX_HASH: u64 = 1 << 19;
/// `RTE_ETH_TX_OFFLOAD_{IPV4,UDP,TCP}_CKSUM`: checksums are filled in.
pub const TX_CHECKSUMS: u64 = 0b111 << 1;
/// `RTE_ETH_TX_OFFLOAD_TCP_TSO`: TCP is cut into frames.
pub const TX_TCP_TSO: u64 = 1 << 5;
/// `RTE_ETH_RX_OFFLOAD_KEEP_CRC`: packets have their check sequence behind them.
pub const RX_KEEP_CRC: u64 = 1 << 16;
/// `RTE_ETH_RX_OFFLOAD_SCATTER`: a packet may be received into several mbufs.
pub const RX_SCATTER: u64 = 1 << 13;
/// `RTE_ETH_TX_OFFLOAD_MULTI_SEGS`: a packet may be sent from several mbufs.
pub const TX_MULTI_SEGS: u64 = 1 << 15;
/// `RTE_ETH_LINK_SPEED_10G`.
pub const SPEED_10G: u32 = 1 << 8;

/// `RTE_ETH_DEV_CAPA_RUNTIME_{RX,TX}_QUEUE_SETUP`: queues that are stopped can be made anew while the port is started.
pub const MAKES_QUEUES: u64 = 0b11;
/// `RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP`: flow rules stay while the port is stopped.
pub const KEEPS_RULES: u64 = 1 << 3;

/// `struct rte_eth_dev_info`.
#[repr(C)]
pub struct DevInfo {
    device: *mut Device,
    driver_name: *const c_char,
    if_index: u32,
    /// Bytes.
    pub min_mtu: u16,
    /// Bytes.
    pub max_mtu: u16,
    dev_flags: *const u32,
    /// Bytes of the smallest buffer.
    pub min_rx_bufsize: u32,
    /// [`Limits`], which are not at the same place in all releases, and more.
    limits: [u32; 9],
    /// What can be asked for of all receive queues.
    pub rx_offload_capa: u64,
    /// Of all transmit queues.
    pub tx_offload_capa: u64,
    /// Of a single receive queue.
    pub rx_queue_offload_capa: u64,
    /// Of a single transmit queue.
    pub tx_queue_offload_capa: u64,
    /// Entries of the redirection table.
    pub reta_size: u16,
    /// Bytes of the hash's key.
    pub hash_key_size: u8,
    /// Kinds of packets that are hashed.
    pub flow_type_rss_offloads: u64,
    default_rxconf: RxConf,
    default_txconf: TxConf,
    vmdq: [u16; 3],
    /// Sizes of receive queues.
    pub rx_desc_lim: DescLim,
    /// Sizes of transmit queues.
    pub tx_desc_lim: DescLim,
    /// Bits of `RTE_ETH_LINK_SPEED_*`.
    pub speed_capa: u32,
    nb_queues: [u16; 2],
    max_rx_mempools: u16,
    /// Sizes that serve well.
    pub default_rxportconf: PortConf,
    /// Sizes that serve well.
    pub default_txportconf: PortConf,
    /// Bits of `RTE_ETH_DEV_CAPA_*`.
    pub capabilities: u64,
    switch: [u64; 7],
}

/// Limits of a device, in `struct rte_eth_dev_info`.
#[repr(C)]
pub struct Limits {
    /// Bytes of the longest frame.
    pub max_rx_pktlen: u32,
    max_lro_pkt_size: u32,
    /// Receive queues.
    pub max_rx_queues: u16,
    /// Transmit queues.
    pub max_tx_queues: u16,
    /// Addresses of the port.
    pub max_mac_addrs: u32,
}

impl DevInfo {
    /// Its limits, wherever the release has them.
    ///
    /// # Safety
    /// `info` must be a whole structure.
    pub unsafe fn limits(info: *mut DevInfo) -> *mut Limits {
        // SAFETY: as the caller promises.
        unsafe { info.byte_add(layout().info_limits).cast() }
    }
}

/// `struct rte_eth_desc_lim`: sizes of a queue, in descriptors.
#[repr(C)]
pub struct DescLim {
    /// The largest.
    pub max: u16,
    /// The smallest.
    pub min: u16,
    /// It is a multiple of this.
    pub align: u16,
    /// Pieces of a packet.
    pub segments: u16,
    /// Pieces of a packet that is not segmented by the card.
    pub mtu_segments: u16,
}

/// `struct rte_eth_dev_portconf`.
#[repr(C)]
pub struct PortConf {
    /// Packets in a burst.
    pub burst: u16,
    /// Descriptors in a queue.
    pub ring: u16,
    /// Queues.
    pub queues: u16,
}

/// `struct rte_eth_rxconf`.
#[repr(C)]
pub struct RxConf {
    threshold: [u8; 4],
    free_threshold: u16,
    drop: u8,
    /// The queue is not to be started with the port.
    pub deferred_start: u8,
    others: [u32; 2],
    /// Offloads of the queue.
    pub offloads: u64,
    reserved: [u64; 7],
}

/// `struct rte_eth_txconf`.
#[repr(C)]
pub struct TxConf {
    threshold: [u8; 4],
    rs_threshold: u16,
    free_threshold: u16,
    /// The queue is not to be started with the port.
    pub deferred_start: u8,
    /// Offloads of the queue.
    pub offloads: u64,
    reserved: [*mut c_void; 4],
}

/// `struct rte_eth_rxq_info`: how a receive queue was made.
#[repr(C, align(64))]
pub struct RxqInfo {
    /// The pool of its mbufs ([`Mempool`](super::mbuf::Mempool)).
    pub pool: *mut c_void,
    /// What was asked for.
    pub conf: RxConf,
    /// A packet may be received into several mbufs.
    pub scattered: u8,
    state: u8,
    /// Descriptors.
    pub descriptors: u16,
    /// Bytes of an mbuf for data.
    pub buffer: u16,
    threshold: u8,
}

/// `struct rte_eth_txq_info`: how a transmit queue was made.
#[repr(C, align(64))]
pub struct TxqInfo {
    /// What was asked for.
    pub conf: TxConf,
    /// Descriptors.
    pub descriptors: u16,
    state: u8,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<RxConf>() == 80 && size_of::<TxConf>() == 56 && size_of::<c_int>() == 4);
    assert!(offset_of!(DevInfo, limits) == 36 && offset_of!(DevInfo, rx_offload_capa) == 72);
    assert!(offset_of!(Limits, max_rx_queues) == 8 && size_of::<Limits>() == 16);
    assert!(offset_of!(DevInfo, reta_size) == 104 && offset_of!(DevInfo, flow_type_rss_offloads) == 112);
    assert!(offset_of!(DevInfo, rx_desc_lim) == 262 && offset_of!(DevInfo, speed_capa) == 284);
    assert!(offset_of!(DevInfo, default_rxportconf) == 294 && size_of::<DevInfo>() == 376);
    assert!(offset_of!(DevInfo, capabilities) == 312);
    assert!(offset_of!(RxqInfo, descriptors) == 90 && size_of::<RxqInfo>() == 128);
    assert!(offset_of!(TxqInfo, descriptors) == 56 && size_of::<TxqInfo>() == 64);
};
