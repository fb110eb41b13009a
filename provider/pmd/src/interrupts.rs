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
use crate::spread::RX_QUEUES;

/// `RTE_INTR_INSTANCE_F_PRIVATE`.
pub const OF_THIS_PROCESS: u32 = 0;
/// `RTE_INTR_HANDLE_VDEV`: of a descriptor on which it has waited EAL reads as many bytes as the driver says. It is told none:
/// it waits for the next write (`EPOLLET`), and would read for ever where another thread has emptied the counter meanwhile.
pub const KIND: c_int = 8;
/// `RTE_INTR_VEC_RXTX_OFFSET`: the vector of the first queue.
pub const FIRST: c_int = 1;
/// Bytes of the counter of an eventfd.
const COUNTER: usize = 8;
/// A bell that rings for no completion queue.
const NOBODY: u32 = u32::MAX;

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
        Ok(Bell { cqn: AtomicU32::new(NOBODY), eventfd: unsafe { File::from_raw_fd(fd) } })
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

    /// It rings for nobody, and has not been rung.
    pub fn silence(&self) {
        self.rings_for(NOBODY);
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

/// The interrupts of a port.
pub struct Interrupts {
    /// What is rung, while the port is started and the program asked for that.
    pub bells: Option<Arc<Bells>>,
    dev: *mut EthDev,
    /// EAL's own, once it was needed. It outlives the stop of the port: threads that wake then still write to it.
    handle: *mut c_void,
}

impl Default for Interrupts {
    fn default() -> Self {
        Interrupts { bells: None, dev: null_mut(), handle: null_mut() }
    }
}

impl Interrupts {
    /// Programs may wait for so many receive queues of a device.
    ///
    /// # Safety
    /// `dev` must be a device of ethdev that is there until the [stop](Self::stop).
    pub unsafe fn start(&mut self, dev: *mut EthDev, count: u16) -> Result<()> {
        self.stop();
        let bells = Bells((0..count).map(|_| Bell::new()).collect::<Result<_>>()?);
        // SAFETY: a function without conditions, and a handle that no program knows while the port is stopped. What is there
        // already stays.
        let all = unsafe {
            if self.handle.is_null() {
                self.handle = abi::rte_intr_instance_alloc(OF_THIS_PROCESS);
            }
            let handle = self.handle;
            !handle.is_null()
                && abi::rte_intr_type_set(handle, KIND) == 0
                && abi::rte_intr_vec_list_alloc(handle, c"verbena".as_ptr(), RX_QUEUES.into()) == 0
                && bells.0.iter().zip(0..).all(|(bell, n)| {
                    abi::rte_intr_efds_index_set(handle, n, bell.eventfd.as_raw_fd()) == 0
                        && abi::rte_intr_vec_list_index_set(handle, n, FIRST + n) == 0
                })
                && abi::rte_intr_nb_efd_set(handle, count.into()) == 0
        };
        if !all {
            return Err(Error::invalid("DPDK has no room for the interrupts of the port"));
        }
        (self.dev, self.bells) = (dev, Some(Arc::new(bells)));
        // SAFETY: as the caller promises.
        unsafe { EthDev::interrupts_by(dev, self.handle) };
        Ok(())
    }

    /// Nobody waits any more.
    pub fn stop(&mut self) {
        if self.bells.is_some() {
            // SAFETY: the device is there, and the descriptors are still open.
            unsafe {
                EthDev::interrupts_by(self.dev, null_mut());
                abi::rte_intr_free_epoll_fd(self.handle);
            }
            self.bells = None;
        }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.stop();
        if !self.handle.is_null() {
            // SAFETY: no thread waits at a port that is closed.
            unsafe {
                abi::rte_intr_vec_list_free(self.handle);
                abi::rte_intr_instance_free(self.handle);
            }
        }
    }
}
