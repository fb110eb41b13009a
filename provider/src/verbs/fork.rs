//! What a program that forks finds in the child: contexts that refuse everything.
//!
//! The card belongs to the parent, whose rings and doorbells the child has mapped too. So the child
//! of a fork gets operations that fail with EIO in every context that it inherited, and may open the
//! device anew. Nothing changes for the parent, and the data path needs no check: the child's
//! function pointers are exchanged. Objects whose functions the program calls without the context
//! (`ibv_wr_*`, `ibv_start_poll`) compare [`generation`].
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rdma_sys::*;

use super::errno::{set_errno, Errno};
use crate::abi::private::{verbs_context_ops, verbs_mr, verbs_set_ops};

/// Addresses of the open contexts.
static CONTEXTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static GENERATION: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The lock on CONTEXTS while this thread forks.
    static HELD: RefCell<Option<MutexGuard<'static, Vec<usize>>>> = const { RefCell::new(None) };
}

/// Counts the forks that led to this process.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// A context was opened.
pub fn opened(context: *mut verbs_context) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: three functions that live as long as the program (providers stay loaded).
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
    lock().push(context as usize);
}

/// A context is about to be closed.
pub fn closing(context: *mut verbs_context) {
    lock().retain(|&open| open != context as usize);
}

fn lock() -> MutexGuard<'static, Vec<usize>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn prepare() {
    let held = lock();
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
    let Some(mut contexts) = held else { return };
    for context in contexts.drain(..) {
        // SAFETY: the context is open; the child has this one thread only.
        unsafe { verbs_set_ops(context as *mut verbs_context, &DEAD) };
    }
}

/// Says once in each process why its calls fail.
#[cold]
pub fn refuse() -> c_int {
    static SAID: AtomicU32 = AtomicU32::new(0);
    if SAID.swap(generation(), Ordering::Relaxed) != generation() {
        eprintln!("verbena: a device opened before fork() does not work in the child: open it again");
    }
    set_errno(Errno::EIO);
    libc::EIO
}

/// Operations that only refuse.
macro_rules! dead {
    ($($op:ident($($arg:ty),*) -> $result:ty = $value:expr;)*) => {
        verbs_context_ops {
            $($op: Some({
                unsafe extern "C" fn $op($(_: $arg),*) -> $result {
                    refuse();
                    $value
                }
                $op
            }),)*
            free_context: Some(free_context),
            ..verbs_context_ops::NONE
        }
    };
}

/// Closing in the child must not touch what the parent uses.
unsafe extern "C" fn free_context(_: *mut ibv_context) {}

static DEAD: verbs_context_ops = dead! {
    alloc_mw(*mut ibv_pd, ibv_mw_type::Type) -> *mut ibv_mw = null_mut();
    alloc_pd(*mut ibv_context) -> *mut ibv_pd = null_mut();
    attach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int = libc::EIO;
    detach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int = libc::EIO;
    create_ah(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah = null_mut();
    create_cq(*mut ibv_context, c_int, *mut ibv_comp_channel, c_int) -> *mut ibv_cq = null_mut();
    create_cq_ex(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex = null_mut();
    create_qp(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp = null_mut();
    create_qp_ex(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp = null_mut();
    create_srq(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq = null_mut();
    dealloc_mw(*mut ibv_mw) -> c_int = libc::EIO;
    dealloc_pd(*mut ibv_pd) -> c_int = libc::EIO;
    dereg_mr(*mut verbs_mr) -> c_int = libc::EIO;
    destroy_ah(*mut ibv_ah) -> c_int = libc::EIO;
    destroy_cq(*mut ibv_cq) -> c_int = libc::EIO;
    destroy_qp(*mut ibv_qp) -> c_int = libc::EIO;
    destroy_srq(*mut ibv_srq) -> c_int = libc::EIO;
    get_srq_num(*mut ibv_srq, *mut u32) -> c_int = libc::EIO;
    modify_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int = libc::EIO;
    modify_srq(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int = libc::EIO;
    poll_cq(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int = -1;
    post_recv(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int = libc::EIO;
    post_send(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int = libc::EIO;
    post_srq_recv(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int = libc::EIO;
    query_device_ex(
        *mut ibv_context,
        *const ibv_query_device_ex_input,
        *mut ibv_device_attr_ex,
        usize
    ) -> c_int = libc::EIO;
    query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int = libc::EIO;
    query_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int = libc::EIO;
    query_rt_values(*mut ibv_context, *mut ibv_values_ex) -> c_int = libc::EIO;
    query_srq(*mut ibv_srq, *mut ibv_srq_attr) -> c_int = libc::EIO;
    reg_mr(*mut ibv_pd, *mut c_void, usize, u64, c_int) -> *mut ibv_mr = null_mut();
    req_notify_cq(*mut ibv_cq, c_int) -> c_int = libc::EIO;
    resize_cq(*mut ibv_cq, c_int) -> c_int = libc::EIO;
};
