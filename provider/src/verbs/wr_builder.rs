//! A chain of work requests under construction by `ibv_wr_*` calls.
//!
//! A work request is complete when the next one begins, and only then goes to the driver, so its
//! parts wait here. Errors are kept for the end of the chain, which then posts nothing at all.

use std::panic::{catch_unwind, AssertUnwindSafe};

use driver::{Data, Segmented, SendPost, SendWr, Sge};
use fpga_regs::{MAX_INLINE, MAX_SGE};

use super::card::Card;
use super::errno::{Errno, Result};
use super::fork;

/// Where the data of the request under construction is.
#[derive(Clone, Copy)]
pub enum Parts {
    /// There is none.
    None,
    /// In this number of elements.
    Sges(usize),
    /// In this number of inline bytes.
    Inline(usize),
}

/// The headers of TCP that the card cuts into frames: the first of the inline bytes.
#[derive(Clone, Copy)]
pub struct Cut {
    /// Most bytes of data in a frame.
    pub mss: u16,
    /// Bytes of the headers.
    pub header: usize,
}

/// A chain under construction.
pub struct Builder {
    /// The driver's chain, which holds the lock of the send queue.
    // The references inside live as long as the queue pair and the program's objects, which the
    // program may not destroy before it completes the chain.
    pub post: Option<SendPost<'static, Card>>,
    /// The request under construction.
    pub wr: Option<SendWr<'static>>,
    /// Its data.
    pub parts: Parts,
    /// The request under construction is of TCP that is cut into frames.
    pub cut: Option<Cut>,
    /// The first error of the chain.
    pub error: Option<Errno>,
    /// Of the process that created the queue pair.
    pub generation: u32,
    /// Elements, if that is where the data is.
    pub sges: [Sge; MAX_SGE],
    /// Inline data, if that is where it is.
    pub bytes: [u8; MAX_INLINE],
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            post: None,
            wr: None,
            parts: Parts::None,
            cut: None,
            error: None,
            generation: fork::generation(),
            sges: [Sge::default(); MAX_SGE],
            bytes: [0; MAX_INLINE],
        }
    }
}

impl Builder {
    /// Hands the request under construction, if there is one, to the driver.
    #[inline]
    pub fn flush(&mut self) {
        let Some(mut wr) = self.wr.take() else { return };
        if self.error.is_some() {
            return;
        }
        let (parts, cut) = (self.parts, self.cut);
        let (sges, bytes, post) = (&self.sges, &self.bytes, &mut self.post);
        let push = || {
            let wr: &mut SendWr<'_> = &mut wr;
            let data = match parts {
                Parts::None => Data::Sges(&[]),
                Parts::Sges(count) => Data::Sges(&sges[..count]),
                Parts::Inline(length) => Data::Bytes(&bytes[..length]),
            };
            let segmented;
            let data = match (cut, data) {
                (None, data) => data,
                (Some(cut), Data::Sges(data)) => {
                    segmented = Segmented { header: &bytes[..cut.header], mss: cut.mss, data };
                    Data::Segmented(&segmented)
                }
                _ => return Err(Errno::EINVAL),
            };
            let wr = SendWr { data, ..*wr };
            let Some(post) = post else {
                return Err(Errno::EINVAL);
            };
            post.push(&wr).map_err(|error| Errno(error.errno()))
        };
        let pushed: Result<()> = catch_unwind(AssertUnwindSafe(push)).unwrap_or(Err(Errno::EIO));
        self.error = pushed.err();
    }

    /// Keeps the first error for the end of the chain.
    pub fn fail(&mut self, error: Errno) {
        self.error.get_or_insert(error);
    }

    /// Changes the request under construction.
    #[inline]
    pub fn set(&mut self, change: impl FnOnce(&mut SendWr<'static>)) {
        match &mut self.wr {
            Some(wr) => change(wr),
            None => self.fail(Errno::EINVAL),
        }
    }
}
