//! What ethdev calls: each finds the port of the device, and answers with 0 or a negative errno value.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::time::Instant;

use driver::{Card, Error};
use fpga_regs::MAX_FRAME;

use crate::abi::ethdev::*;
use crate::abi::info::{RxConf, TxConf, RX_VLAN_STRIP};
use crate::abi::mbuf::Mempool;
use crate::dev::{calls, with};
use crate::flow;
use crate::hash;
use crate::info;
use crate::port::Port;
use crate::queues;
use crate::rx::{self, RxQueue};
use crate::slots::OVERHEAD;
use crate::tx::{self, TxQueue, DRAIN};

/// `RTE_ETH_VLAN_STRIP_MASK`.
const VLAN_STRIP_CHANGES: c_int = 1;

calls! {
    unsafe fn configure(dev) "configuring" {
        hash::configure(dev)?;
        dev.filter_vlans()
    }

    unsafe fn start(dev) "starting" {
        let mtu = dev.mtu();
        // Nobody receives or sends at a port that is stopped.
        dev.receiving().filter(|queue| !queue.deferred).try_for_each(|queue| queue.start(mtu))?;
        dev.sending().filter(|queue| !queue.deferred).try_for_each(|queue| queue.start())?;
        let queues = dev.work_queues();
        dev.port.start(&queues).inspect_err(|_| dev.port.stop())?;
        if dev.interrupts() & INTERRUPT_RX != 0 {
            let (ethdev, count) = (dev.ethdev, (*dev.data).nb_rx_queues);
            dev.port.interrupts.start(ethdev, count).inspect_err(|_| dev.port.stop())?;
        }
        info::watch(dev).inspect_err(|_| dev.port.stop())?;
        dev.set_states(true);
        Ok(())
    }

    pub unsafe fn promiscuous_on(dev) "promiscuous mode" { dev.port.want(|wanted| wanted.promiscuous = true) }
    pub unsafe fn promiscuous_off(dev) "promiscuous mode" { dev.port.want(|wanted| wanted.promiscuous = false) }
    pub unsafe fn groups_on(dev) "all multicast" { dev.port.want(|wanted| wanted.all_groups = true) }
    pub unsafe fn groups_off(dev) "all multicast" { dev.port.want(|wanted| wanted.all_groups = false) }
}

unsafe extern "C" fn stop<C: Card>(dev: *mut EthDev) -> c_int {
    let mut watch = None;
    // SAFETY: called by ethdev for a device of this driver.
    let stopped = unsafe {
        with::<C>(dev, "stopping", |dev| {
            watch = dev.port.watch.take();
            // Nobody sends at a port that is stopped, and what was sent is to arrive.
            let until = Instant::now() + DRAIN;
            // It stops for the program even where the card is lost, which has stopped them already.
            dev.sending().for_each(|queue| drop(queue.stop(until)));
            dev.port.stop();
            dev.receiving().for_each(|queue| drop(queue.stop()));
            dev.set_states(false);
            Ok(())
        })
    };
    // Now that the port is free, which the program asks when it is told of its link.
    drop(watch);
    stopped
}

/// `dev_close`: also when a queue is still there.
///
/// # Safety
/// Called for a device of this driver, which is not used any more.
pub unsafe extern "C" fn close<C: Card>(dev: *mut EthDev) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let stopped = stop::<C>(dev);
        let port = std::mem::replace(&mut (*EthDev::data(dev)).dev_private, null_mut());
        if !port.is_null() {
            drop(Box::from_raw(port.cast::<Mutex<Port<C>>>()));
        }
        stopped
    }
}

/// `dev_reset`: the port begins again as one that was just opened, without queues and rules. ethdev has stopped it, and restores
/// addresses and modes when it is started.
///
/// # Safety
/// Called by ethdev for a device of this driver, whose queues are not used any more.
pub unsafe fn reset<C: Card>(dev: *mut EthDev, opened: Port<C>) -> c_int {
    // SAFETY: as the caller promises: ethdev's arrays.
    unsafe {
        with::<C>(dev, "resetting", |dev| {
            let data = dev.data;
            (0..(*data).nb_rx_queues).for_each(|n| *(*data).rx_queues.add(n.into()) = null_mut());
            (0..(*data).nb_tx_queues).for_each(|n| *(*data).tx_queues.add(n.into()) = null_mut());
            let mut old = std::mem::replace(&mut *dev.port, opened);
            dev.port.flows.follow(&old.flows);
            // Threads that wake now still write to EAL's handle.
            dev.port.interrupts = std::mem::take(&mut old.interrupts);
            Ok(())
        })
    }
}

/// The address of a queue, which does not move until it is released, for ethdev's array.
fn address<Q>(queue: &Q) -> *mut c_void {
    std::ptr::from_ref(queue).cast_mut().cast()
}

calls! {
    unsafe fn rx_setup(
        dev, queue: u16, size: u16, _socket: u32, conf: *const RxConf, pool: *mut Mempool,
    ) "a receive queue" {
        // SAFETY: ethdev calls it with a pool of mbufs, which the program keeps as long as the queue.
        // Those that all have, and its own.
        let asked = (dev.rx_offloads() | (*conf).offloads, (*conf).deferred_start != 0);
        let place = ((*EthDevData::more(dev.data)).port_id, size);
        let made = Box::new(RxQueue::new(&dev.port.device, &dev.port.pd, pool, place, asked)?);
        let address = address(&*made);
        dev.port.receiving.insert(queue, made);
        let queues = dev.work_queues();
        dev.port.requeue(&queues).inspect_err(|_| drop(dev.port.receiving.remove(&queue)))?;
        *(*dev.data).rx_queues.add(usize::from(queue)) = address;
        Ok(())
    }

    unsafe fn tx_setup(dev, queue: u16, size: u16, _socket: u32, conf: *const TxConf) "a transmit queue" {
        // SAFETY: ethdev calls it for a queue within its array.
        let asked = (dev.tx_offloads() | (*conf).offloads, (*conf).deferred_start != 0);
        let made = Box::new(TxQueue::new(&dev.port.device, &dev.port.pd, dev.port.number, size, asked)?);
        *(*dev.data).tx_queues.add(usize::from(queue)) = address(&*made);
        dev.port.sending.insert(queue, made);
        Ok(())
    }

    unsafe fn address_add(dev, mac: *mut Mac, index: u32, _pool: u32) "an address" {
        // SAFETY: ethdev calls it with an address.
        dev.port.want(|wanted| {
            wanted.addresses.insert(index, *mac);
        })
    }

    unsafe fn address_set(dev, mac: *mut Mac) "the address" {
        // SAFETY: ethdev calls it with an address.
        dev.port.want(|wanted| wanted.mac = *mac)
    }

    unsafe fn vlan_filter_set(dev, number: u16, on: c_int) "a VLAN" {
        dev.port.device.set_vlan(dev.port.number, number, on != 0)
    }

    /// Of what the program has asked for, which ethdev has noted.
    unsafe fn vlan_offload_set(dev, changed: c_int) "VLAN offloads" {
        if changed & VLAN_STRIP_CHANGES != 0 {
            let strip = dev.rx_offloads() & RX_VLAN_STRIP != 0;
            dev.receiving().try_for_each(|queue| queue.set_strip_vlan(strip))?;
        }
        dev.filter_vlans()
    }

    unsafe fn groups_set(dev, groups: *mut Mac, count: u32) "the groups" {
        // SAFETY: ethdev calls it with so many addresses, or none.
        let given = if count == 0 { &[] } else { std::slice::from_raw_parts(groups, count as usize) };
        dev.port.want(|wanted| wanted.groups = given.to_vec())
    }

    /// What comes and is longer is dropped.
    unsafe fn mtu_set(dev, mtu: u16) "the MTU" {
        match u32::from(mtu) + OVERHEAD {
            0..=MAX_FRAME => {
                dev.receiving().for_each(|queue| queue.set_mtu(mtu));
                Ok(())
            }
            _ => Err(Error::Invalid(format!("{mtu}: at most {}", MAX_FRAME - OVERHEAD))),
        }
    }

    /// What the port does about pause, as the card says it: other programs may set it, too.
    pub unsafe fn pause_get(dev, conf: *mut FlowControl) "flow control" {
        // SAFETY: ethdev calls it with a structure that is zero.
        let link = dev.port.info()?.link;
        (*conf).mode = u32::from(link.rx_pause()) | u32::from(link.tx_pause()) << 1;
        Ok(())
    }

    /// Thresholds and times are the card's own: those that are given do not count, as ethdev allows.
    unsafe fn pause_set(dev, conf: *mut FlowControl) "flow control" {
        // SAFETY: ethdev calls it with what is asked for.
        let FlowControl { mode, forwards, negotiates, .. } = *conf;
        if forwards != 0 || negotiates != 0 {
            return Err(Error::Unsupported("pause frames that are given to programs or negotiated"));
        }
        dev.port.device.set_pause(dev.port.number, mode & 1 != 0, mode & 2 != 0)
    }
}

unsafe extern "C" fn rx_release<C: Card>(dev: *mut EthDev, queue: u16) {
    // SAFETY: called by ethdev for a queue at which nobody receives.
    unsafe {
        with::<C>(dev, "releasing a receive queue", |dev| {
            dev.port.receiving.remove(&queue);
            Ok(())
        });
    }
}

unsafe extern "C" fn tx_release<C: Card>(dev: *mut EthDev, queue: u16) {
    // SAFETY: called by ethdev for a queue at which nobody sends.
    unsafe {
        with::<C>(dev, "releasing a transmit queue", |dev| {
            dev.port.sending.remove(&queue);
            Ok(())
        });
    }
}

unsafe extern "C" fn address_remove<C: Card>(dev: *mut EthDev, index: u32) {
    // SAFETY: called by ethdev for a device of this driver.
    unsafe {
        with::<C>(dev, "an address", |dev| {
            dev.port.want(|wanted| {
                wanted.addresses.remove(&index);
            })
        });
    }
}

unsafe extern "C" fn vlan_strip_queue_set<C: Card>(dev: *mut EthDev, queue: u16, on: c_int) {
    // SAFETY: called by ethdev for a device of this driver.
    unsafe {
        with::<C>(dev, "VLAN stripping of a queue", |dev| {
            dev.receive_queue(queue).map_or(Ok(()), |queue| queue.set_strip_vlan(on != 0))
        });
    }
}

impl EthDevOps {
    /// The functions of a driver for cards of this kind.
    pub fn of<C: Card>() -> EthDevOps {
        EthDevOps {
            dev_configure: Some(configure::<C>),
            dev_start: Some(start::<C>),
            dev_stop: Some(stop::<C>),
            dev_set_link_up: Some(info::link_on::<C>),
            dev_set_link_down: Some(info::link_off::<C>),
            dev_close: Some(close::<C>),
            link_update: Some(info::link_update::<C>),
            promiscuous_enable: Some(promiscuous_on::<C>),
            promiscuous_disable: Some(promiscuous_off::<C>),
            allmulticast_enable: Some(groups_on::<C>),
            allmulticast_disable: Some(groups_off::<C>),
            mac_addr_remove: Some(address_remove::<C>),
            mac_addr_add: Some(address_add::<C>),
            mac_addr_set: Some(address_set::<C>),
            set_mc_addr_list: Some(groups_set::<C>),
            mtu_set: Some(mtu_set::<C>),
            stats_get: Some(info::stats::<C>),
            stats_reset: Some(info::stats_reset::<C>),
            xstats_get: Some(info::counters::<C>),
            xstats_reset: Some(info::stats_reset::<C>),
            xstats_get_names: Some(info::counter_names::<C>),
            dev_infos_get: Some(info::infos::<C>),
            rxq_info_get: Some(queues::rx_info::<C>),
            txq_info_get: Some(queues::tx_info::<C>),
            dev_supported_ptypes_get: Some(info::packet_types::<C>),
            vlan_filter_set: Some(vlan_filter_set::<C>),
            vlan_strip_queue_set: Some(vlan_strip_queue_set::<C>),
            vlan_offload_set: Some(vlan_offload_set::<C>),
            rx_queue_start: Some(queues::rx_start::<C>),
            rx_queue_stop: Some(queues::rx_stop::<C>),
            tx_queue_start: Some(queues::tx_start::<C>),
            tx_queue_stop: Some(queues::tx_stop::<C>),
            rx_queue_setup: Some(rx_setup::<C>),
            rx_queue_release: Some(rx_release::<C>),
            rx_queue_intr_enable: Some(queues::rx_interrupt_on::<C>),
            rx_queue_intr_disable: Some(queues::rx_interrupt_off::<C>),
            tx_queue_setup: Some(tx_setup::<C>),
            tx_queue_release: Some(tx_release::<C>),
            tx_done_cleanup: Some(tx::cleanup),
            flow_ctrl_get: Some(pause_get::<C>),
            flow_ctrl_set: Some(pause_set::<C>),
            rss_hash_update: Some(hash::update::<C>),
            rss_hash_conf_get: Some(hash::get::<C>),
            reta_update: Some(hash::table_update::<C>),
            reta_query: Some(hash::table_get::<C>),
            flow_ops_get: Some(flow::ops::get::<C>),
            ..EthDevOps::default()
        }
    }
}

/// Gives a device the functions of its data path.
///
/// # Safety
/// `dev` must be a device of ethdev that nobody else uses yet.
pub unsafe fn data_path<C: Card>(dev: *mut EthDev) {
    // SAFETY: as the caller promises.
    unsafe {
        (*dev).rx_pkt_burst = Some(rx::burst::<C>);
        (*dev).tx_pkt_burst = Some(tx::burst::<C>);
        (*dev).tx_pkt_prepare = Some(tx::prepare::<C>);
        (*dev).rx_queue_count = Some(queues::count::<C>);
        (*dev).rx_descriptor_status = Some(queues::rx_status::<C>);
        EthDev::tells_sent(dev, queues::tx_status::<C>);
    }
}
