//! What a program may ask of its queues: how they were made, and what their descriptors are for.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use driver::Card;

use crate::abi::ethdev::EthDev;
use crate::abi::info::{RxqInfo, TxqInfo};
use crate::dev::with;
use crate::rx::RxQueue;
use crate::tx::TxQueue;

/// `RTE_ETH_RX_DESC_AVAIL`: a frame may come there.
const RX_AVAILABLE: c_int = 0;
/// `RTE_ETH_RX_DESC_DONE`: a frame waits there.
const RX_DONE: c_int = 1;
/// `RTE_ETH_TX_DESC_FULL`: a frame waits there to be sent.
const TX_FULL: c_int = 0;
/// `RTE_ETH_TX_DESC_DONE`: it is free.
const TX_DONE: c_int = 1;

/// `rxq_info_get`.
pub unsafe extern "C" fn rx_info<C: Card>(dev: *mut EthDev, queue: u16, info: *mut RxqInfo) {
    // SAFETY: called by ethdev with a structure that is zero, for a queue that was made.
    unsafe {
        with::<C>(dev, "a receive queue", |dev| {
            if let Some(queue) = dev.receive_queue(queue) {
                let info = &mut *info;
                info.pool = queue.pool().cast();
                info.conf.offloads = queue.offloads();
                info.scattered = 1;
                info.descriptors = queue.size();
                info.buffer = queue.room();
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
                (*info).conf.offloads = queue.offloads();
                (*info).descriptors = queue.size() as u16;
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
        _ if ahead >= queue.size() => -libc::EINVAL,
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
    let (ahead, size) = (u32::from(ahead), queue.size());
    match ahead {
        _ if ahead >= size => -libc::EINVAL,
        _ if ahead < size - queue.under_way() => TX_DONE,
        _ => TX_FULL,
    }
}
