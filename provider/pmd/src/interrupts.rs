//! Interrupts of receive queues: a descriptor for each, on which a thread sleeps (`rte_epoll_wait`) until a frame has come.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use driver::{Error, Result};

use crate::abi;
use crate::abi::ethdev::EthDev;

/// `RTE_INTR_INSTANCE_F_PRIVATE`.
pub const OF_THIS_PROCESS: u32 = 0;
/// `RTE_INTR_HANDLE_VDEV`: EAL reads the counter of a descriptor on which it has waited.
pub const KIND: c_int = 8;
/// `RTE_INTR_VEC_RXTX_OFFSET`: the vector of the first queue.
pub const FIRST: c_int = 1;
/// Bytes of the counter of an eventfd.
const COUNTER: usize = 8;

/// The descriptor of a receive queue.
pub struct Bell {
    /// The completion queue that was last asked to tell.
    cqn: AtomicU32,
    eventfd: File,
}

impl Bell {
    fn new() -> Result<Bell> {
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Error::Invalid(format!("no descriptor for an interrupt: {error}")));
        }
        // SAFETY: a new descriptor.
        Ok(Bell { cqn: AtomicU32::new(u32::MAX), eventfd: unsafe { File::from_raw_fd(fd) } })
    }

    /// Wakes who sleeps on it.
    pub fn ring(&self) {
        // It fails where it has been rung 2^64 times.
        let _ = (&self.eventfd).write(&1_u64.to_ne_bytes());
    }

    /// From now on it rings for this completion queue, which is to be asked to tell.
    pub fn rings_for(&self, cqn: u32) {
        self.cqn.store(cqn, Ordering::Release);
    }

    /// It has not been rung.
    pub fn silence(&self) {
        let _ = (&self.eventfd).read(&mut [0; COUNTER]);
    }
}

/// The descriptors of a port, by receive queue.
pub struct Bells(Box<[Bell]>);

impl Bells {
    /// That of a receive queue.
    pub fn of(&self, queue: u16) -> Option<&Bell> {
        self.0.get(usize::from(queue))
    }

    /// A completion queue has something.
    pub fn ring(&self, cqn: u32) {
        self.0.iter().filter(|bell| bell.cqn.load(Ordering::Acquire) == cqn).for_each(Bell::ring);
    }

    /// Nobody looks after the card any more: who sleeps is to see for itself.
    pub fn ring_all(&self) {
        self.0.iter().for_each(Bell::ring);
    }
}

/// The interrupts of a port that is started.
pub struct Interrupts {
    /// What is rung.
    pub bells: Arc<Bells>,
    dev: *mut EthDev,
    /// EAL's own.
    handle: *mut c_void,
}

impl Interrupts {
    /// Those of a device with so many receive queues.
    ///
    /// # Safety
    /// `dev` must be a device of ethdev that stays until this is dropped.
    pub unsafe fn new(dev: *mut EthDev, count: u16) -> Result<Interrupts> {
        let bells = (0..count).map(|_| Bell::new()).collect::<Result<Box<[Bell]>>>()?;
        // SAFETY: a function without conditions.
        let handle = unsafe { abi::rte_intr_instance_alloc(OF_THIS_PROCESS) };
        let made = Interrupts { bells: Arc::new(Bells(bells)), dev, handle };
        let refused = || Error::invalid("DPDK has no room for the interrupts of the port");
        if handle.is_null() {
            return Err(refused());
        }
        let count = c_int::from(count);
        // SAFETY: a handle that nobody else uses yet.
        let all = unsafe {
            abi::rte_intr_type_set(handle, KIND) == 0
                && abi::rte_intr_efd_counter_size_set(handle, COUNTER as u8) == 0
                && abi::rte_intr_vec_list_alloc(handle, c"verbena".as_ptr(), count) == 0
                && made.bells.0.iter().zip(0..).all(|(bell, n)| {
                    abi::rte_intr_efds_index_set(handle, n, bell.eventfd.as_raw_fd()) == 0
                        && abi::rte_intr_vec_list_index_set(handle, n, FIRST + n) == 0
                })
                && abi::rte_intr_nb_efd_set(handle, count) == 0
        };
        if !all {
            return Err(refused());
        }
        // SAFETY: as the caller promises.
        unsafe { EthDev::interrupts_by(dev, handle) };
        Ok(made)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        // SAFETY: no thread waits at a port that is stopped, and the descriptors are still open.
        unsafe {
            EthDev::interrupts_by(self.dev, null_mut());
            abi::rte_intr_free_epoll_fd(self.handle);
            abi::rte_intr_vec_list_free(self.handle);
            abi::rte_intr_instance_free(self.handle);
        }
    }
}
