//! What a port says of itself: what it can do, its link, its counters.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use driver::{Card, Device, Error};
use fpga_regs::regs::FeatureSet;
use fpga_regs::{HASH_KEY, MAX_FRAME};

use crate::abi::ethdev::{
    link, EthDev, EthDevData, Stats, Xstat, XstatName, INTERRUPT_LINK, LINK_CHANGED, QUEUE_COUNTERS,
};
use crate::abi::info::{
    DescLim, DevInfo, PortConf, KEEPS_RULES, MAKES_QUEUES, RX_CHECKSUMS, RX_HASH, RX_KEEP_CRC, RX_SCATTER,
    RX_VLAN_FILTER, RX_VLAN_STRIP, SPEED_10G, TX_CHECKSUMS, TX_MULTI_SEGS, TX_TCP_TSO, TX_VLAN_INSERT,
};
use crate::abi::release::layout;
use crate::abi::rte_eth_dev_callback_process;
use crate::dev::{calls, with, Dev};
use crate::kinds::PACKET_TYPES;
use crate::slots::OVERHEAD;
use crate::spread::{ENTRIES, KINDS, RX_QUEUES};
use crate::watch::Watch;

/// Addresses of a port, its own among them.
pub const ADDRESSES: u32 = 64;
/// Transmit queues.
const TX_QUEUES: u16 = 64;

calls! {
    /// `dev_infos_get`.
    pub unsafe fn infos(dev, info: *mut DevInfo) "the port's abilities" {
        // SAFETY: ethdev calls it with a structure that it has filled with defaults.
        let limits = dev.port.device.limits();
        let max = limits.max_qp_wr().min(4096) as u16;
        // A transmit queue has a power of two.
        let max = 1 << max.ilog2();
        let sizes =
            || DescLim { max, min: max.min(32), align: 1, segments: u16::MAX, mtu_segments: u16::MAX };
        let serves_well = || PortConf { burst: 32, ring: 256, queues: 1 };
        let (limits, info) = (&mut *DevInfo::limits(info), &mut *info);
        info.min_mtu = 68;
        info.max_mtu = (MAX_FRAME - OVERHEAD) as u16;
        info.min_rx_bufsize = 256;
        limits.max_rx_pktlen = MAX_FRAME;
        limits.max_rx_queues = RX_QUEUES;
        limits.max_tx_queues = TX_QUEUES;
        limits.max_mac_addrs = ADDRESSES;
        info.rx_offload_capa = RX_SCATTER | RX_HASH;
        info.tx_offload_capa = TX_MULTI_SEGS;
        if dev.port.device.features().contains(FeatureSet::CHECKSUM) {
            info.rx_offload_capa |= RX_CHECKSUMS;
            info.tx_offload_capa |= TX_CHECKSUMS;
        }
        if dev.port.device.features().contains(FeatureSet::VLAN) {
            info.rx_offload_capa |= RX_VLAN_STRIP;
            info.tx_offload_capa |= TX_VLAN_INSERT;
        }
        if dev.port.device.features().contains(FeatureSet::SCATTER_FCS) {
            info.rx_offload_capa |= RX_KEEP_CRC;
        }
        if dev.port.device.features().contains(FeatureSet::TSO) {
            info.tx_offload_capa |= TX_TCP_TSO;
        }
        info.rx_queue_offload_capa = info.rx_offload_capa;
        if dev.port.device.features().contains(FeatureSet::VLAN_FILTER) {
            info.rx_offload_capa |= RX_VLAN_FILTER;
        }
        info.tx_queue_offload_capa = info.tx_offload_capa;
        info.reta_size = ENTRIES as u16;
        info.hash_key_size = HASH_KEY as u8;
        info.flow_type_rss_offloads = KINDS;
        info.rx_desc_lim = sizes();
        info.tx_desc_lim = sizes();
        info.speed_capa = SPEED_10G;
        info.capabilities |= KEEPS_RULES | MAKES_QUEUES;
        info.default_rxportconf = serves_well();
        info.default_txportconf = serves_well();
        Ok(())
    }
}

/// Writes the state of the link where ethdev reads it.
///
/// # Safety
/// The data of a device, of whose link several threads may read and write the state.
unsafe fn set_link(data: *mut EthDevData, speed: u32, up: bool) {
    // SAFETY: as the caller promises.
    let state = unsafe { AtomicU64::from_ptr(&raw mut (*data).dev_link) };
    state.store(link(speed, up), Ordering::Release);
}

/// Takes the card's events, if the program wants to know of frames or of changes of the link. With `lsc`, ethdev then no longer
/// asks the driver for the link.
pub fn watch<C: Card>(dev: &mut Dev<'_, C>) -> Result<(), Error> {
    /// A device of ethdev, which stays until it is closed.
    #[derive(Clone, Copy)]
    struct Told(*mut EthDev);
    // SAFETY: other threads only name it and write the state of its link, as DPDK's own threads for interrupts do.
    unsafe impl Send for Told {}
    impl Told {
        fn link(self, speed: u32, up: bool) {
            // SAFETY: the device is there until the port is stopped, which waits for this thread.
            unsafe {
                set_link(EthDev::data(self.0), speed, up);
                rte_eth_dev_callback_process(self.0, LINK_CHANGED, null_mut());
            }
        }
    }
    let tells_link = dev.interrupts() & INTERRUPT_LINK != 0;
    let bells = dev.port.interrupts.bells.clone();
    if !tells_link && bells.is_none() {
        return Ok(());
    }
    let (told, number) = (Told(dev.ethdev), dev.port.number);
    let info = dev.port.device.query_port(number)?;
    // SAFETY: the data of this device.
    unsafe { set_link(dev.data, info.speed_mbps, info.link_up) };
    let mut is_up = info.link_up;
    let look = move |device: &Device<C>| {
        if tells_link {
            let info = device.query_port(number)?;
            if info.link_up != is_up {
                is_up = info.link_up;
                told.link(info.speed_mbps, is_up);
            }
        }
        Ok(())
    };
    dev.port.watch = Some(Watch::start(dev.port.device.clone(), bells, look)?);
    Ok(())
}

calls! {
    /// `link_update`.
    pub unsafe fn link_update(dev, _wait: c_int) "the link" {
        let info = dev.port.device.query_port(dev.port.number)?;
        set_link(dev.data, info.speed_mbps, info.link_up);
        Ok(())
    }

    /// `dev_set_link_up`.
    pub unsafe fn link_on(dev) "enabling the port" { dev.port.device.set_enabled(dev.port.number, true) }
    /// `dev_set_link_down`: for all programs on the port.
    pub unsafe fn link_off(dev) "disabling the port" { dev.port.device.set_enabled(dev.port.number, false) }

    /// `stats_get`.
    pub unsafe fn stats(dev, stats: *mut Stats) "the counters" {
        // SAFETY: ethdev calls it with a structure that is zero.
        let stats = &mut *stats;
        for (&n, queue) in &dev.port.receiving {
            let (packets, bytes, errors) = queue.counters.sums();
            stats.ipackets += packets;
            stats.ibytes += bytes;
            stats.ierrors += errors;
            stats.rx_nombuf += queue.counters.no_mbuf.get();
            let n = usize::from(n);
            if n < QUEUE_COUNTERS {
                (stats.q_ipackets[n], stats.q_ibytes[n], stats.q_errors[n]) = (packets, bytes, errors);
            }
        }
        for (&n, queue) in &dev.port.sending {
            let (packets, bytes, errors) = queue.counters.sums();
            stats.opackets += packets;
            stats.obytes += bytes;
            stats.oerrors += errors;
            let n = usize::from(n);
            if n < QUEUE_COUNTERS {
                (stats.q_opackets[n], stats.q_obytes[n]) = (packets, bytes);
            }
        }
        let info = dev.port.info()?;
        stats.imissed = info.counter("RX_NO_RECV");
        stats.oerrors += info.counter("TX_DISCARDS");
        Ok(())
    }

    /// `stats_reset` and `xstats_reset`.
    pub unsafe fn stats_reset(dev) "the counters" {
        dev.receiving().for_each(|queue| queue.counters.reset());
        dev.sending().for_each(|queue| queue.counters.reset());
        let info = dev.port.device.query_port(dev.port.number)?;
        dev.port.zero = info.counters.iter().map(|counter| counter.1).collect();
        Ok(())
    }
}

/// Writes an `entry` for each of the card's counters, if there is room for all; returns their number, or a negative errno value.
///
/// # Safety
/// As [`with`]; `list` must be null or have room for so many.
unsafe fn with_counters<C: Card, T>(
    dev: *mut EthDev,
    (list, room): (*mut T, u32),
    entry: impl Fn(usize, &(&'static str, u64)) -> T,
) -> c_int {
    let mut count = 0;
    let read = |dev: &mut Dev<'_, C>| -> Result<(), Error> {
        let info = dev.port.info()?;
        count = info.counters.len();
        if count <= room as usize && !list.is_null() {
            for (n, counter) in info.counters.iter().enumerate() {
                // SAFETY: there is room, as the caller promises.
                unsafe { list.add(n).write(entry(n, counter)) };
            }
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    match unsafe { with::<C>(dev, "the card's counters", read) } {
        0 => count as c_int,
        status => status,
    }
}

/// `xstats_get`: the counters of the port's registers.
pub unsafe extern "C" fn counters<C: Card>(dev: *mut EthDev, list: *mut Xstat, room: u32) -> c_int {
    let entry = |n, counter: &(&str, u64)| Xstat { id: n as u64, value: counter.1 };
    // SAFETY: called by ethdev with so much room.
    unsafe { with_counters::<C, _>(dev, (list, room), entry) }
}

/// `xstats_get_names`.
pub unsafe extern "C" fn counter_names<C: Card>(dev: *mut EthDev, list: *mut XstatName, room: u32) -> c_int {
    let entry = |_, counter: &(&str, u64)| {
        let mut name: XstatName = [0; 64];
        let text = counter.0.to_ascii_lowercase();
        let length = text.len().min(name.len() - 1);
        name[..length].copy_from_slice(&text.as_bytes()[..length]);
        name
    };
    // SAFETY: called by ethdev with so much room, or to learn the number.
    unsafe { with_counters::<C, _>(dev, (list, room), entry) }
}

/// `dev_supported_ptypes_get`: a list that ends in zero, with its length where the release asks for it; null for a card that
/// does not say what frames are.
///
/// # Safety
/// Called by ethdev for a device of this driver; `count` is a place in releases that have it, and else anything.
pub unsafe extern "C" fn packet_types<C: Card>(dev: *mut EthDev, count: *mut usize) -> *const u32 {
    let mut knows = false;
    // SAFETY: as the caller promises.
    unsafe {
        with::<C>(dev, "kinds of packets", |dev| {
            knows = dev.port.device.features().contains(FeatureSet::FRAME_KIND);
            Ok(())
        });
        if layout().counts_kinds {
            *count = if knows { PACKET_TYPES.len() - 1 } else { 0 };
        }
    }
    if knows {
        PACKET_TYPES.as_ptr()
    } else {
        std::ptr::null()
    }
}
