//! Ethernet devices: what ethdev and a driver share, and the functions that a driver has.

use std::ffi::{c_char, c_int, c_void};

use super::info::{DevInfo, RxConf, RxqInfo, TxConf, TxqInfo};
use super::mbuf::{Mbuf, Mempool};
use super::release::{layout, Layout};
use super::vdev::Device;

/// `RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS`: ethdev lists the counters of queues.
pub const AUTOFILL_QUEUE_XSTATS: u32 = 1 << 6;
/// `RTE_ETH_DEV_INTR_LSC`: the driver tells when the link changes.
pub const TELLS_LINK: u32 = 1 << 1;
/// `intr_conf.lsc`: the program wants to be told when the link changes.
pub const INTERRUPT_LINK: u32 = 1 << 0;
/// `intr_conf.rxq`: it wants interrupts of receive queues.
pub const INTERRUPT_RX: u32 = 1 << 1;
/// `RTE_ETH_EVENT_INTR_LSC`.
pub const LINK_CHANGED: c_int = 1;
/// `RTE_ETHDEV_QUEUE_STAT_CNTRS`: queues with counters of their own in [`Stats`].
pub const QUEUE_COUNTERS: usize = 16;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The function that receives or sends a burst of packets at a queue.
pub type Burst = unsafe extern "C" fn(*mut c_void, *mut *mut Mbuf, u16) -> u16;

/// The function that says what a descriptor of a queue is for, counted from the one that is used next.
pub type DescriptorStatus = unsafe extern "C" fn(*mut c_void, u16) -> c_int;

/// Start of `struct rte_eth_dev`.
#[repr(C)]
pub struct EthDev {
    /// Receives.
    pub rx_pkt_burst: Option<Burst>,
    /// Sends.
    pub tx_pkt_burst: Option<Burst>,
    /// Checks packets before they are sent.
    pub tx_pkt_prepare: Option<Burst>,
    /// Counts the packets that wait in a receive queue.
    pub rx_queue_count: Option<unsafe extern "C" fn(*mut c_void) -> u32>,
    /// What a descriptor of a receive queue is for.
    pub rx_descriptor_status: Option<DescriptorStatus>,
}

impl EthDev {
    /// What processes share.
    ///
    /// # Safety
    /// `dev` must be a device of ethdev.
    pub unsafe fn data(dev: *mut EthDev) -> *mut EthDevData {
        // SAFETY: as the caller promises.
        unsafe { *dev.byte_add(layout().data).cast() }
    }

    /// Says whose functions it has, and the device beneath. The functions are those of the release ([`EthDevOps::of_release`]).
    ///
    /// # Safety
    /// `dev` must be a device of ethdev that nobody else uses yet.
    pub unsafe fn belongs(dev: *mut EthDev, ops: &'static [usize], device: *mut Device) {
        // SAFETY: as the caller promises.
        unsafe {
            *dev.byte_add(layout().dev_ops).cast() = ops.as_ptr();
            *dev.byte_add(layout().device).cast() = device;
        }
    }

    /// Says by which handle of EAL programs wait for its interrupts.
    ///
    /// # Safety
    /// `dev` must be a device of ethdev, at which no thread waits.
    pub unsafe fn interrupts_by(dev: *mut EthDev, handle: *mut c_void) {
        // SAFETY: as the caller promises.
        unsafe { *dev.byte_add(layout().intr_handle).cast() = handle }
    }

    /// Says what a descriptor of a transmit queue is for.
    ///
    /// # Safety
    /// As [`belongs`](Self::belongs).
    pub unsafe fn tells_sent(dev: *mut EthDev, status: DescriptorStatus) {
        // SAFETY: as the caller promises.
        unsafe { *dev.byte_add(layout().tx_descriptor_status).cast() = Some(status) }
    }
}

/// Start of `struct rte_eth_dev_data`, as far as it is the same in all releases.
#[repr(C)]
pub struct EthDevData {
    /// Name of the device.
    pub name: [c_char; 64],
    /// Receive queues, as the driver gave them.
    pub rx_queues: *mut *mut c_void,
    /// Transmit queues.
    pub tx_queues: *mut *mut c_void,
    /// Number of receive queues.
    pub nb_rx_queues: u16,
    /// Number of transmit queues.
    pub nb_tx_queues: u16,
    sriov: [u8; 8],
    /// The driver's own.
    pub dev_private: *mut c_void,
    /// The link: see [`link`].
    pub dev_link: u64,
    conf_start: [u8; 8],
    /// How frames are spread over receive queues: bits of `RTE_ETH_MQ_RX_*`.
    pub mq_mode: u32,
    rx_sizes: [u8; 12],
    /// Offloads of all receive queues.
    pub rx_offloads: u64,
    conf_modes: [u8; 40],
    /// Offloads of all transmit queues.
    pub tx_offloads: u64,
    conf_tx: [u8; 48],
    /// The hash that was asked for.
    pub rss_conf: RssConf,
}

/// What follows.
#[repr(C)]
pub struct EthDevMore {
    conf: [u8; 2112],
    /// Interrupts that were asked for: [`INTERRUPT_LINK`], [`INTERRUPT_RX`].
    pub interrupts: u32,
    conf_end: u32,
    /// Bytes of the longest packet without Ethernet header.
    pub mtu: u16,
    min_rx_buf_size: u32,
    /// Packets that were not received for want of an mbuf.
    pub rx_mbuf_alloc_failed: u64,
    /// The port's addresses; the first is its own.
    pub mac_addrs: *mut Mac,
    mac_pool_sel: [u64; 128],
    hash_mac_addrs: *mut Mac,
    /// Number of the port.
    pub port_id: u16,
    modes: u8,
    /// Of each receive queue, whether it is started (`RTE_ETH_QUEUE_STATE_STARTED`).
    pub rx_queue_state: [u8; 1024],
    /// Of each transmit queue.
    pub tx_queue_state: [u8; 1024],
    /// What ethdev may do for the driver.
    pub dev_flags: u32,
    /// NUMA node.
    pub numa_node: c_int,
}

impl EthDevData {
    /// What follows, wherever the release has it.
    ///
    /// # Safety
    /// `data` must be the data of a device of ethdev.
    pub unsafe fn more(data: *mut EthDevData) -> *mut EthDevMore {
        // SAFETY: as the caller promises.
        unsafe { data.byte_add(layout().after_rss_conf).cast() }
    }
}

/// A link of this speed in Mb/s (`struct rte_eth_link`): full duplex.
pub fn link(speed: u32, up: bool) -> u64 {
    const FULL_DUPLEX: u64 = 1;
    const AUTONEGOTIATED: u64 = 2;
    let speed = if up { u64::from(speed) } else { 0 };
    speed | (FULL_DUPLEX | AUTONEGOTIATED | u64::from(up) << 2) << 32
}

/// `struct rte_eth_stats`.
#[repr(C)]
pub struct Stats {
    /// Packets received.
    pub ipackets: u64,
    /// Packets sent.
    pub opackets: u64,
    /// Bytes received.
    pub ibytes: u64,
    /// Bytes sent.
    pub obytes: u64,
    /// Packets that no receive was there for.
    pub imissed: u64,
    /// Packets received with an error.
    pub ierrors: u64,
    /// Packets that could not be sent.
    pub oerrors: u64,
    /// Packets that no mbuf was there for.
    pub rx_nombuf: u64,
    /// Packets received, by queue.
    pub q_ipackets: [u64; QUEUE_COUNTERS],
    /// Packets sent, by queue.
    pub q_opackets: [u64; QUEUE_COUNTERS],
    /// Bytes received, by queue.
    pub q_ibytes: [u64; QUEUE_COUNTERS],
    /// Bytes sent, by queue.
    pub q_obytes: [u64; QUEUE_COUNTERS],
    /// Errors of reception, by queue.
    pub q_errors: [u64; QUEUE_COUNTERS],
}

/// `struct rte_eth_rss_conf`: the hash that chooses a receive queue.
#[repr(C)]
pub struct RssConf {
    /// Its key; null for the one there is, or the driver's own.
    pub key: *mut u8,
    /// Bytes of the key.
    pub key_len: u8,
    /// Kinds of packets that are hashed: bits of `RTE_ETH_RSS_*`.
    pub kinds: u64,
}

/// `struct rte_eth_rss_reta_entry64`: 64 entries of the redirection table.
#[repr(C)]
pub struct RetaEntries {
    /// Those that count.
    pub mask: u64,
    /// The receive queue of each.
    pub queues: [u16; 64],
}

/// `struct rte_eth_xstat`.
#[repr(C)]
pub struct Xstat {
    /// Index in the list of names.
    pub id: u64,
    /// Count.
    pub value: u64,
}

/// `struct rte_eth_xstat_name`: zero-terminated.
pub type XstatName = [u8; 64];

/// `struct rte_eth_fc_conf`: flow control.
#[repr(C)]
pub struct FlowControl {
    waters: [u32; 2],
    times: [u16; 2],
    /// `RTE_ETH_FC_*`: bit 0, it stops when it is asked to; bit 1, it asks.
    pub mode: u32,
    /// Pause frames are given to the program.
    pub forwards: u8,
    /// It is negotiated.
    pub negotiates: u8,
}

type Call = unsafe extern "C" fn(*mut EthDev) -> c_int;
type RxSetup = unsafe extern "C" fn(*mut EthDev, u16, u16, u32, *const RxConf, *mut Mempool) -> c_int;
type TxSetup = unsafe extern "C" fn(*mut EthDev, u16, u16, u32, *const TxConf) -> c_int;
type OfQueue = unsafe extern "C" fn(*mut EthDev, u16) -> c_int;
type Release = unsafe extern "C" fn(*mut EthDev, u16);

/// `struct eth_dev_ops` of 22.11: the functions of a driver. What is zero, ethdev refuses as not supported.
#[repr(C)]
#[derive(Default)]
pub struct EthDevOps {
    /// Checks the configuration.
    pub dev_configure: Option<Call>,
    /// Starts to receive and send.
    pub dev_start: Option<Call>,
    /// Stops that.
    pub dev_stop: Option<Call>,
    /// Enables the port.
    pub dev_set_link_up: Option<Call>,
    /// Disables it.
    pub dev_set_link_down: Option<Call>,
    /// Frees all.
    pub dev_close: Option<Call>,
    /// Begins again as a device that was just found, while it is stopped.
    pub dev_reset: Option<Call>,
    /// Reads the link's state.
    pub link_update: Option<unsafe extern "C" fn(*mut EthDev, c_int) -> c_int>,
    pub(crate) gap_64: [usize; 1],
    /// Receives packets for anybody.
    pub promiscuous_enable: Option<Call>,
    /// Ends that.
    pub promiscuous_disable: Option<Call>,
    /// Receives packets for every group.
    pub allmulticast_enable: Option<Call>,
    /// Ends that.
    pub allmulticast_disable: Option<Call>,
    /// Forgets one of its addresses.
    pub mac_addr_remove: Option<unsafe extern "C" fn(*mut EthDev, u32)>,
    /// Receives for another address, too.
    pub mac_addr_add: Option<unsafe extern "C" fn(*mut EthDev, *mut Mac, u32, u32) -> c_int>,
    /// Sets its own address.
    pub mac_addr_set: Option<unsafe extern "C" fn(*mut EthDev, *mut Mac) -> c_int>,
    /// Sets the groups that it receives for.
    pub set_mc_addr_list: Option<unsafe extern "C" fn(*mut EthDev, *mut Mac, u32) -> c_int>,
    /// Sets the MTU.
    pub mtu_set: Option<unsafe extern "C" fn(*mut EthDev, u16) -> c_int>,
    /// Reads the counters.
    pub stats_get: Option<unsafe extern "C" fn(*mut EthDev, *mut Stats) -> c_int>,
    /// Zeroes the counters.
    pub stats_reset: Option<Call>,
    /// Reads the card's own counters.
    pub xstats_get: Option<unsafe extern "C" fn(*mut EthDev, *mut Xstat, u32) -> c_int>,
    /// Zeroes them.
    pub xstats_reset: Option<Call>,
    /// Their names.
    pub xstats_get_names: Option<unsafe extern "C" fn(*mut EthDev, *mut XstatName, u32) -> c_int>,
    pub(crate) gap_184: [usize; 1],
    /// What the device can do.
    pub dev_infos_get: Option<unsafe extern "C" fn(*mut EthDev, *mut DevInfo) -> c_int>,
    /// How a receive queue was made.
    pub rxq_info_get: Option<unsafe extern "C" fn(*mut EthDev, u16, *mut RxqInfo)>,
    /// How a transmit queue was made.
    pub txq_info_get: Option<unsafe extern "C" fn(*mut EthDev, u16, *mut TxqInfo)>,
    pub(crate) gap_216: [usize; 3],
    /// The kinds of packets that it tells: see [`packet_types`](crate::info::packet_types).
    pub dev_supported_ptypes_get: Option<unsafe extern "C" fn(*mut EthDev, *mut usize) -> *const u32>,
    pub(crate) gap_248: [usize; 1],
    /// Receives frames with this VLAN tag, or does not.
    pub vlan_filter_set: Option<unsafe extern "C" fn(*mut EthDev, u16, c_int) -> c_int>,
    pub(crate) gap_264: [usize; 1],
    /// Whether a receive queue strips VLAN tags.
    pub vlan_strip_queue_set: Option<unsafe extern "C" fn(*mut EthDev, u16, c_int)>,
    /// Some of the offloads of VLAN tags have changed: bits of `RTE_ETH_VLAN_*_MASK`.
    pub vlan_offload_set: Option<unsafe extern "C" fn(*mut EthDev, c_int) -> c_int>,
    pub(crate) gap_288: [usize; 1],
    /// Starts a receive queue apart from its port.
    pub rx_queue_start: Option<OfQueue>,
    /// Stops one.
    pub rx_queue_stop: Option<OfQueue>,
    /// Starts a transmit queue.
    pub tx_queue_start: Option<OfQueue>,
    /// Stops one.
    pub tx_queue_stop: Option<OfQueue>,
    /// Makes a receive queue.
    pub rx_queue_setup: Option<RxSetup>,
    /// Frees it.
    pub rx_queue_release: Option<Release>,
    /// Has a receive queue tell when a frame comes.
    pub rx_queue_intr_enable: Option<OfQueue>,
    /// Ends that.
    pub rx_queue_intr_disable: Option<OfQueue>,
    /// Makes a transmit queue.
    pub tx_queue_setup: Option<TxSetup>,
    /// Frees it.
    pub tx_queue_release: Option<Release>,
    /// Frees mbufs that were sent.
    pub tx_done_cleanup: Option<unsafe extern "C" fn(*mut c_void, u32) -> c_int>,
    pub(crate) gap_384: [usize; 2],
    /// Reads what the port does about pause.
    pub flow_ctrl_get: Option<unsafe extern "C" fn(*mut EthDev, *mut FlowControl) -> c_int>,
    /// Changes it.
    pub flow_ctrl_set: Option<unsafe extern "C" fn(*mut EthDev, *mut FlowControl) -> c_int>,
    pub(crate) gap_416: [usize; 8],
    /// Changes the hash.
    pub rss_hash_update: Option<unsafe extern "C" fn(*mut EthDev, *mut RssConf) -> c_int>,
    /// Reads it.
    pub rss_hash_conf_get: Option<unsafe extern "C" fn(*mut EthDev, *mut RssConf) -> c_int>,
    /// Changes the redirection table.
    pub reta_update: Option<unsafe extern "C" fn(*mut EthDev, *mut RetaEntries, u16) -> c_int>,
    /// Reads it.
    pub reta_query: Option<unsafe extern "C" fn(*mut EthDev, *mut RetaEntries, u16) -> c_int>,
    pub(crate) gap_512: [usize; 6],
    /// Gives the functions that make flow rules ([`FlowOps`](super::flow::FlowOps)).
    pub flow_ops_get: Option<unsafe extern "C" fn(*mut EthDev, *mut *const c_void) -> c_int>,
    pub(crate) gap_568: [usize; 9],
    pub(crate) gap_640: [usize; 32],
    pub(crate) gap_896: [usize; 1],
}

/// Functions in [`EthDevOps`].
const OPS: usize = size_of::<EthDevOps>() / size_of::<usize>();

impl EthDevOps {
    /// The same functions where a release has them.
    pub fn of_release(self, release: &Layout) -> Vec<usize> {
        // SAFETY: as many words, each a function or zero.
        let ops: [usize; OPS] = unsafe { std::mem::transmute(self) };
        let more = |at| release.more_ops.iter().filter(move |&&before| before == at).map(|_| 0);
        let each = ops.into_iter().enumerate().flat_map(|(at, function)| more(at).chain([function]));
        each.chain(more(OPS)).collect()
    }
}

// Of 22.11. Other releases: see `release`.
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(EthDevData, dev_private) == 96 && offset_of!(EthDevData, mq_mode) == 112 + 8);
    assert!(
        offset_of!(EthDevData, rx_offloads) == 112 + 24 && offset_of!(EthDevData, tx_offloads) == 112 + 72
    );
    assert!(offset_of!(EthDevData, rss_conf) == 112 + 128 && size_of::<RetaEntries>() == 136);
    const MORE: usize = size_of::<EthDevData>();
    assert!(MORE == 264 && MORE + offset_of!(EthDevMore, interrupts) == 112 + 2264);
    assert!(MORE + offset_of!(EthDevMore, mtu) == 2384 && MORE + offset_of!(EthDevMore, mac_addrs) == 2400);
    assert!(MORE + offset_of!(EthDevMore, port_id) == 3440);
    assert!(MORE + offset_of!(EthDevMore, rx_queue_state) == 3443);
    assert!(MORE + offset_of!(EthDevMore, dev_flags) == 5492);
    assert!(offset_of!(EthDevOps, mtu_set) == 136 && offset_of!(EthDevOps, dev_infos_get) == 192);
    assert!(offset_of!(EthDevOps, txq_info_get) == 208);
    assert!(offset_of!(EthDevOps, dev_supported_ptypes_get) == 240);
    assert!(offset_of!(EthDev, rx_descriptor_status) == 32);
    assert!(offset_of!(EthDevOps, vlan_filter_set) == 256 && offset_of!(EthDevOps, vlan_offload_set) == 280);
    assert!(offset_of!(EthDevOps, rx_queue_setup) == 328 && offset_of!(EthDevOps, tx_done_cleanup) == 376);
    assert!(offset_of!(EthDevOps, flow_ctrl_get) == 400 && size_of::<FlowControl>() == 20);
    assert!(offset_of!(EthDevOps, rss_hash_update) == 480 && offset_of!(EthDevOps, reta_query) == 504);
    assert!(offset_of!(EthDevOps, flow_ops_get) == 560);
    assert!(size_of::<EthDevOps>() == 904 && size_of::<Stats>() == 704);
};
