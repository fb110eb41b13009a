//! What a program may ask of single queues: to start, to stop, to tell of frames, how they were made, and what their descriptors are for.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::time::Instant;

use driver::{Card, Error, Result};

use crate::abi::ethdev::EthDev;
use crate::abi::info::{RxqInfo, TxqInfo};
use crate::dev::{calls, with, Dev};
use crate::interrupts::Bell;
use crate::rx::RxQueue;
use crate::tx::{TxQueue, DRAIN};

/// `RTE_ETH_RX_DESC_AVAIL`: a frame may come there.
const RX_AVAILABLE: c_int = 0;
/// `RTE_ETH_RX_DESC_DONE`: a frame waits there.
const RX_DONE: c_int = 1;
/// `RTE_ETH_TX_DESC_FULL`: a frame waits there to be sent.
const TX_FULL: c_int = 0;
/// `RTE_ETH_TX_DESC_DONE`: it is free.
const TX_DONE: c_int = 1;

calls! {
    /// `rx_queue_start`.
    pub unsafe fn rx_start(dev, number: u16) "starting a receive queue" {
        // SAFETY: ethdev calls it for a queue at which nobody receives.
        receive_queue(dev, number)?.start(dev.mtu())?;
        dev.set_receiving(number, true);
        Ok(())
    }

    /// `rx_queue_stop`: what comes to it from now on is dropped, as is what waits.
    pub unsafe fn rx_stop(dev, number: u16) "stopping a receive queue" {
        // SAFETY: as above.
        receive_queue(dev, number)?.stop()?;
        dev.set_receiving(number, false);
        Ok(())
    }

    /// `rx_queue_intr_enable`: the next frame is told, and also those that wait already.
    pub unsafe fn rx_interrupt_on(dev, number: u16) "an interrupt" {
        let (queue, bell) = (receive_queue(dev, number)?, bell(dev, number)?);
        // Nobody rings for a card that is lost.
        dev.port.device.check()?;
        bell.rings_for(queue.cqn());
        if queue.tell() {
            bell.ring();
        }
        Ok(())
    }

    /// `rx_queue_intr_disable`.
    pub unsafe fn rx_interrupt_off(dev, number: u16) "an interrupt" {
        bell(dev, number)?.silence();
        Ok(())
    }

    /// `tx_queue_start`.
    pub unsafe fn tx_start(dev, number: u16) "starting a transmit queue" {
        transmit_queue(dev, number)?.start()?;
        dev.set_sending(number, true);
        Ok(())
    }
}

/// `tx_queue_stop`. Others use the port while the queue waits for its frames.
pub unsafe extern "C" fn tx_stop<C: Card>(dev: *mut EthDev, number: u16) -> c_int {
    const WHAT: &str = "stopping a transmit queue";
    let mut queue = None;
    // SAFETY: ethdev calls it for a device of this driver, and a queue at which nobody sends and that nobody releases.
    unsafe {
        with::<C>(dev, WHAT, |dev| {
            queue = dev.transmit_queue(number).map(std::ptr::from_ref);
            Ok(())
        });
        let stop = |queue: *const TxQueue<C>| (*queue).stop(Instant::now() + DRAIN);
        let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queue.map(stop)));
        let Ok(stopped) = stopped else { return -libc::EIO };
        with::<C>(dev, WHAT, |dev| {
            stopped.unwrap_or_else(|| Err(none(number)))?;
            dev.set_sending(number, false);
            Ok(())
        })
    }
}

fn receive_queue<'a, C: Card>(dev: &'a Dev<'_, C>, number: u16) -> Result<&'a RxQueue<C>> {
    dev.receive_queue(number).ok_or_else(|| none(number))
}

fn transmit_queue<'a, C: Card>(dev: &'a Dev<'_, C>, number: u16) -> Result<&'a TxQueue<C>> {
    dev.transmit_queue(number).ok_or_else(|| none(number))
}

fn bell<'a, C: Card>(dev: &'a Dev<'_, C>, number: u16) -> Result<&'a Bell> {
    let bells = dev.port.interrupts.bells.as_ref();
    bells.and_then(|bells| bells.of(number)).ok_or(Error::Unsupported(
        "an interrupt of a port that is stopped, or was configured without intr_conf.rxq,",
    ))
}

fn none(number: u16) -> Error {
    Error::Invalid(format!("there is no queue {number}"))
}

/// `rxq_info_get`.
pub unsafe extern "C" fn rx_info<C: Card>(dev: *mut EthDev, queue: u16, info: *mut RxqInfo) {
    // SAFETY: called by ethdev with a structure that is zero, for a queue that was made.
    unsafe {
        with::<C>(dev, "a receive queue", |dev| {
            if let Some(queue) = dev.receive_queue(queue) {
                let info = &mut *info;
                info.pool = queue.pool.cast();
                info.conf.offloads = queue.offloads();
                info.conf.deferred_start = queue.deferred.into();
                info.scattered = 1;
                info.descriptors = queue.size;
                info.buffer = queue.room;
            }
            Ok(())
        });
    }
}

/// `txq_info_get`.
pub unsafe extern "C" fn tx_info<C: Card>(dev: *mut EthDev, queue: u16, info: *mut TxqInfo) {
    // SAFETY: as above.
    unsafe {
        with::<C>(dev, "a transmit queue", |dev| {
            if let Some(queue) = dev.transmit_queue(queue) {
                let info = &mut *info;
                info.conf.offloads = queue.offloads;
                info.conf.deferred_start = queue.deferred.into();
                info.descriptors = queue.size as u16;
            }
            Ok(())
        });
    }
}

/// `rx_queue_count`: the frames that wait in a receive queue. Of one that was never made a program may ask, too, but for the debug
/// builds of ethdev.
///
/// # Safety
/// Called by ethdev with a receive queue, or null.
pub unsafe extern "C" fn count<C: Card>(queue: *mut c_void) -> u32 {
    // SAFETY: as the caller promises.
    match unsafe { queue.cast::<RxQueue<C>>().as_ref() } {
        Some(queue) => queue.waiting(),
        // As a number with a sign to its callers.
        None => -libc::EINVAL as u32,
    }
}

/// `rx_descriptor_status`.
///
/// # Safety
/// As [`count`].
pub unsafe extern "C" fn rx_status<C: Card>(queue: *mut c_void, ahead: u16) -> c_int {
    // SAFETY: as the caller promises.
    let Some(queue) = (unsafe { queue.cast::<RxQueue<C>>().as_ref() }) else { return -libc::EINVAL };
    match ahead {
        _ if ahead >= queue.size => -libc::EINVAL,
        _ if u32::from(ahead) < queue.waiting() => RX_DONE,
        // Each burst leaves all places to the card.
        _ => RX_AVAILABLE,
    }
}

/// `tx_descriptor_status`.
///
/// # Safety
/// Called by ethdev with a transmit queue, or null.
pub unsafe extern "C" fn tx_status<C: Card>(queue: *mut c_void, ahead: u16) -> c_int {
    // SAFETY: as the caller promises.
    let Some(queue) = (unsafe { queue.cast::<TxQueue<C>>().as_ref() }) else { return -libc::EINVAL };
    let (ahead, size) = (u32::from(ahead), queue.size);
    match ahead {
        _ if ahead >= size => -libc::EINVAL,
        _ if ahead < size - queue.under_way() => TX_DONE,
        _ => TX_FULL,
    }
}
