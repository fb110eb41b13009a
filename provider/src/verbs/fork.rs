//! Contexts in a forked child: they refuse what needs the parent's card, as does a closed one that the program still has
//! pointers to.
//!
//! The card belongs to the parent, whose rings and doorbells the child has mapped too. So the child
//! of a fork gets operations that fail with EIO in every context that it inherited (all but a few, see `ops`), and may open the
//! device again. Nothing changes for the parent, and the data path needs no check: the child's
//! function pointers are exchanged. Objects whose functions the program calls without the context
//! (`ibv_wr_*`, `ibv_start_poll`) compare [`generation`].
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rdma_sys::*;

use super::errno::{set_errno, Errno};
use crate::abi::libibverbs::Libibverbs;
use crate::abi::private::{operations, verbs_context_ops, verbs_mr};
use crate::abi::write_hook::{self, Ours};

/// The open contexts by their addresses, each with the libibverbs that it is open in, and what a child can do with it.
type Contexts = Vec<(&'static Libibverbs, usize, &'static verbs_context_ops)>;

type Locks = (MutexGuard<'static, Contexts>, MutexGuard<'static, Ours>);

static CONTEXTS: Mutex<Contexts> = Mutex::new(Vec::new());
static GENERATION: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The locks on CONTEXTS and on the descriptors of contexts while this thread forks.
    static HELD: RefCell<Option<Locks>> = const { RefCell::new(None) };
}

/// No process is of this [`generation`].
pub const NEVER: u32 = u32::MAX;

/// Counts the forks that led to this process.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// A context was opened, with which a child can do `in_child`.
pub fn opened(library: &'static Libibverbs, context: *mut ibv_context, in_child: &'static verbs_context_ops) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: three functions that live as long as the program (providers stay loaded).
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
    lock().push((library, context as usize, in_child));
}

/// A context is about to be closed.
pub fn closing(context: *mut ibv_context) {
    lock().retain(|&(_, open, _)| open != context as usize);
}

fn lock() -> MutexGuard<'static, Contexts> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn prepare() {
    let held = (lock(), write_hook::lock());
    // Fails only while the thread ends; then the list is free again at once.
    let _ = HELD.try_with(|slot| *slot.borrow_mut() = Some(held));
}

unsafe extern "C" fn parent() {
    let _ = HELD.try_with(|slot| slot.borrow_mut().take());
}

unsafe extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    super::timeline::forked();
    let held = HELD.try_with(|slot| slot.borrow_mut().take()).ok().flatten();
    let Some((mut contexts, _ours)) = held else { return };
    for (library, context, in_child) in contexts.drain(..) {
        // SAFETY: the context is open; the child has this one thread only.
        unsafe { library.set_ops(context as *mut ibv_context, in_child) };
    }
}

/// Says once in each process why its calls fail.
#[cold]
pub fn refuse() -> c_int {
    static SAID: AtomicU32 = AtomicU32::new(NEVER);
    if SAID.swap(generation(), Ordering::Relaxed) != generation() {
        model::tell!(
            "verbena: a device that was opened before fork(), or is closed, does not work: open it again"
        );
    }
    set_errno(Errno::EIO);
    libc::EIO
}

/// What a refused operation returns.
trait Refusal {
    fn refusal() -> Self;
}

impl Refusal for c_int {
    fn refusal() -> c_int {
        refuse()
    }
}

impl<T> Refusal for *mut T {
    fn refusal() -> *mut T {
        refuse();
        null_mut()
    }
}

/// Closing in the child must not touch what the parent uses.
impl Refusal for () {
    fn refusal() {}
}

/// For `ibv_poll_cq` any positive number is a count.
unsafe extern "C" fn poll_cq(_: *mut ibv_cq, _: c_int, _: *mut ibv_wc) -> c_int {
    refuse();
    -1
}

/// Operations that only refuse.
macro_rules! dead {
    ($($name:ident $([$since:literal])? $(: fn($($argument:ty),*) $(-> $result:ty)?)?,)*) => {
        verbs_context_ops { $($name: dead!(@ $(($($argument),*) $(-> $result)?)?),)* }
    };
    (@) => { None };
    (@ ($($argument:ty),*) $(-> $result:ty)?) => {{
        unsafe extern "C" fn refused($(_: $argument),*) $(-> $result)? {
            Refusal::refusal()
        }
        Some(refused)
    }};
}

/// Every operation that this provider has, refused.
pub const REFUSED: verbs_context_ops = verbs_context_ops { poll_cq: Some(poll_cq), ..operations!(dead) };
