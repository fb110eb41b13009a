//! MSI-X vectors as eventfds.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_MSIX_IRQ_INDEX,
};
use vfio_ioctls::VfioDevice;
use vmm_sys_util::eventfd::{EventFd, EFD_NONBLOCK};

use crate::card::CardError;

/// `VFIO_DEVICE_SET_IRQS` of <linux/vfio.h>: `_IO(';', 100 + 10)`.
const DEVICE_SET_IRQS: libc::c_ulong = 0x3b6e;

/// One eventfd a vector.
pub(in crate::backend) struct Vectors {
    /// The eventfds by vector.
    pub fds: Vec<EventFd>,
}

impl Vectors {
    /// `count` eventfds, which no card fires yet.
    pub fn new(count: u32) -> Result<Self, CardError> {
        let fds = (0..count).map(|_| EventFd::new(EFD_NONBLOCK)).collect::<io::Result<_>>();
        let fds = fds.map_err(|source| CardError::Os { what: "creating an eventfd".into(), source })?;
        Ok(Vectors { fds })
    }

    /// Enables up to `most` vectors of the device.
    pub fn enable(device: &VfioDevice, most: u32) -> Result<Self, CardError> {
        let has = device.get_irq_info(VFIO_PCI_MSIX_IRQ_INDEX).map_or(0, |irq| irq.count);
        if has == 0 {
            return Err(CardError::Setup("the card has no MSI-X vectors: this is not a Verbena card".into()));
        }
        let mut vectors = Self::new(has.min(most))?;
        vectors.enable_by(|fds| set_msix(device, fds))?;
        Ok(vectors)
    }

    /// Enables the vectors by `set`, or as many as it has where those are fewer: it has enabled none then, and gives
    /// their number.
    fn enable_by(&mut self, set: impl Fn(&[EventFd]) -> io::Result<usize>) -> Result<(), CardError> {
        loop {
            let asked = self.fds.len();
            match set(&self.fds) {
                Ok(0) => return Ok(()),
                Ok(has) if has < asked => self.fds.truncate(has),
                Ok(has) => {
                    return Err(CardError::Setup(format!("of {asked} interrupts the kernel enables {has}")))
                }
                Err(source) => {
                    return Err(CardError::Os { what: format!("enabling {asked} interrupts"), source })
                }
            }
        }
    }

    /// Number of vectors.
    pub fn count(&self) -> u32 {
        self.fds.len() as u32
    }

    /// Ends the wait of another thread, as if the vector had fired.
    pub fn wake(&self, vector: u32) {
        if let Some(fd) = self.fds.get(vector as usize) {
            // It fails only when 2^64 wake-ups are waiting.
            let _ = fd.write(1);
        }
    }

    /// Waits until a vector fires, and consumes the interrupt.
    pub fn wait(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        let count = self.fds.len() as u32;
        let fd = self.fds.get(vector as usize).ok_or(CardError::NoVector { vector, count })?;
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if fd.read().is_ok() {
                return Ok(true);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            // Rounded up, so that the last millisecond is not spent spinning.
            let ms = left.map_or(-1, |left| i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX));
            let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd.
            if unsafe { libc::poll(&mut poll, 1, ms) } < 0 {
                let source = io::Error::last_os_error();
                if source.kind() != io::ErrorKind::Interrupted {
                    return Err(CardError::Os { what: "waiting for an interrupt".into(), source });
                }
            }
        }
    }
}

/// Enables an MSI-X vector an eventfd; gives 0, or the number of vectors that the kernel has where those are fewer.
// Not by `enable_msix` of vfio-ioctls, for which fewer are a success.
fn set_msix(device: &VfioDevice, fds: &[EventFd]) -> io::Result<usize> {
    let flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
    let mut set = vec![0, flags, VFIO_PCI_MSIX_IRQ_INDEX, 0, fds.len() as u32];
    set.extend(fds.iter().map(|fd| fd.as_raw_fd() as u32));
    set[0] = size_of_val(&*set) as u32;
    // SAFETY: a `vfio_irq_set` of five words, and its data; the first word is the size of both.
    let has = unsafe { libc::ioctl(device.as_raw_fd(), DEVICE_SET_IRQS, set.as_ptr()) };
    usize::try_from(has).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_consumed_once() {
        let vectors = Vectors::new(2).unwrap();
        vectors.fds[1].write(1).unwrap();
        vectors.fds[1].write(1).unwrap();
        assert!(!vectors.wait(0, Duration::ZERO).unwrap());
        assert!(vectors.wait(1, Duration::ZERO).unwrap());
        assert!(!vectors.wait(1, Duration::from_millis(2)).unwrap());
        assert!(matches!(vectors.wait(2, Duration::ZERO), Err(CardError::NoVector { vector: 2, count: 2 })));
    }

    #[test]
    fn fewer_vectors_than_asked_for_are_taken() {
        let mut vectors = Vectors::new(8).unwrap();
        vectors.enable_by(|fds| Ok(if fds.len() > 5 { 5 } else { 0 })).unwrap();
        assert_eq!(vectors.count(), 5);
        let refused = vectors.enable_by(|_| Err(io::ErrorKind::InvalidInput.into())).unwrap_err();
        assert!(refused.to_string().contains("enabling 5 interrupts"), "{refused}");
        // A kernel that says otherwise each time is not asked forever.
        assert!(matches!(vectors.enable_by(|fds| Ok(fds.len())), Err(CardError::Setup(_))));
    }

    #[test]
    fn a_waiting_thread_is_woken() {
        let vectors = Vectors::new(1).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| vectors.wait(0, Duration::MAX).unwrap());
            std::thread::sleep(Duration::from_millis(5));
            vectors.wake(0);
            assert!(waiter.join().unwrap());
        });
    }
}
