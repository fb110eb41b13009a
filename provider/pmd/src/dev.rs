//! A device of ethdev and its port: how the functions that ethdev calls get at both.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use driver::{Card, Error, Qp};

use crate::abi::ethdev::{EthDev, EthDevData};
use crate::abi::info::RX_VLAN_FILTER;
use crate::abi::log;
use crate::port::Port;
use crate::rx::RxQueue;
use crate::tx::TxQueue;

/// A port with ethdev's part of it.
pub struct Dev<'a, C: Card> {
    /// The port.
    pub port: MutexGuard<'a, Port<C>>,
    /// The device itself.
    pub ethdev: *mut EthDev,
    /// What ethdev knows of it, which its own threads read and write, too.
    pub data: *mut EthDevData,
}

impl<C: Card> Dev<'_, C> {
    /// Each receive queue that was made.
    pub fn receiving(&self) -> impl Iterator<Item = &RxQueue<C>> {
        self.port.receiving.values().map(|queue| &**queue)
    }

    /// Each transmit queue that was made.
    pub fn sending(&self) -> impl Iterator<Item = &TxQueue<C>> {
        self.port.sending.values().map(|queue| &**queue)
    }

    /// The receive queue of this number, if it was made.
    pub fn receive_queue(&self, number: u16) -> Option<&RxQueue<C>> {
        self.port.receiving.get(&number).map(|queue| &**queue)
    }

    /// The transmit queue of this number, if it was made.
    pub fn transmit_queue(&self, number: u16) -> Option<&TxQueue<C>> {
        self.port.sending.get(&number).map(|queue| &**queue)
    }

    /// The work queues of its receive queues, as far as these were made.
    pub fn work_queues(&self) -> Vec<Option<Arc<Qp<C>>>> {
        // SAFETY: ethdev's own, which only the thread that configures the port writes.
        let count = unsafe { (*self.data).nb_rx_queues };
        (0..count).map(|n| self.receive_queue(n).map(|queue| queue.wq.clone())).collect()
    }

    /// What the program asked for of all receive queues: bits of `RTE_ETH_RX_OFFLOAD_*`.
    pub fn rx_offloads(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (*self.data).rx_offloads }
    }

    /// What the program asked for of all transmit queues: bits of `RTE_ETH_TX_OFFLOAD_*`.
    pub fn tx_offloads(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (*self.data).tx_offloads }
    }

    /// The interrupts that the program asked for: bits of `INTERRUPT_*`.
    pub fn interrupts(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*EthDevData::more(self.data)).interrupts }
    }

    /// Bytes of the longest packet without Ethernet header that the program asked for.
    pub fn mtu(&self) -> u16 {
        // SAFETY: as above.
        unsafe { (*EthDevData::more(self.data)).mtu }
    }

    /// The port receives by VLAN if the program asked for that.
    pub fn filter_vlans(&mut self) -> Result<(), Error> {
        let by_vlan = self.rx_offloads() & RX_VLAN_FILTER != 0;
        self.port.want(|wanted| wanted.by_vlan = by_vlan)
    }

    /// Notes that a receive queue is started, or stopped.
    pub fn set_receiving(&mut self, queue: u16, started: bool) {
        // SAFETY: ethdev's own; only the thread that starts and stops queues writes it.
        unsafe { (*EthDevData::more(self.data)).rx_queue_state[usize::from(queue)] = started.into() }
    }

    /// Notes that a transmit queue is started, or stopped.
    pub fn set_sending(&mut self, queue: u16, started: bool) {
        // SAFETY: as above.
        unsafe { (*EthDevData::more(self.data)).tx_queue_state[usize::from(queue)] = started.into() }
    }

    /// Notes that the port is started, with all queues that are not to start apart, or is stopped.
    pub fn set_states(&mut self, started: bool) {
        // SAFETY: ethdev's own; only the thread that configures the port writes them.
        let (receiving, sending) = unsafe { ((*self.data).nb_rx_queues, (*self.data).nb_tx_queues) };
        for n in 0..receiving {
            let starts = self.receive_queue(n).is_some_and(|queue| !queue.deferred);
            self.set_receiving(n, started && starts);
        }
        for n in 0..sending {
            let starts = self.transmit_queue(n).is_some_and(|queue| !queue.deferred);
            self.set_sending(n, started && starts);
        }
    }
}

/// Calls with the port of a device; errors become negative errno values, which `what` explains in the log.
///
/// # Safety
/// `dev` must be a device of this driver.
pub unsafe fn with<C: Card>(
    dev: *mut EthDev,
    what: &str,
    call: impl FnOnce(&mut Dev<'_, C>) -> Result<(), Error>,
) -> c_int {
    // SAFETY: as the caller promises: its private data is the port.
    let (data, port) = unsafe {
        let data = EthDev::data(dev);
        (data, (*data).dev_private.cast::<Mutex<Port<C>>>().as_ref())
    };
    let Some(port) = port else { return -libc::ENODEV };
    let called = catch_unwind(AssertUnwindSafe(|| {
        call(&mut Dev { port: port.lock().unwrap_or_else(PoisonError::into_inner), ethdev: dev, data })
    }));
    match called {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            log(&format!("{what}: {error}"));
            -error.errno()
        }
        Err(_) => -libc::EIO,
    }
}

/// Defines functions that ethdev calls with a device of this driver: each gets its port, as in [`with`], and the text names the
/// failed operation in the log. A body may rely only on what ethdev guarantees for that callback.
macro_rules! calls {
    ($($(#[$doc:meta])* $vis:vis unsafe fn $name:ident($dev:ident $(, $arg:ident: $type:ty)* $(,)?) $what:literal $body:block)*) => { $(
        $(#[$doc])*
        $vis unsafe extern "C" fn $name<C: driver::Card>(
            $dev: *mut $crate::abi::ethdev::EthDev,
            $($arg: $type),*
        ) -> std::ffi::c_int {
            // SAFETY: ethdev calls it for a device of this driver.
            unsafe { $crate::dev::with::<C>($dev, $what, |$dev| $body) }
        }
    )* };
}
pub(crate) use calls;
