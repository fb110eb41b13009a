//! The copies of libibverbs in this process: which release each is, and the private functions of each.
//!
//! This provider needs no libibverbs of a certain name: a bundle brings its own under another one. It looks for what is
//! loaded when it is loaded itself. Every copy gets [operations](verbs_device_ops) of its own, and each device points to
//! those of its copy, which tells the copies apart afterwards.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void, CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Once, OnceLock};

use contract::imports::{self, Library};
use contract::release;
use rdma_sys::{ibv_context, ibv_device, ibv_qp, ibv_qp_ex, verbs_context};

use super::private::{verbs_context_ops, verbs_device, verbs_device_ops, verbs_qp, VERBS_QP_EX};

/// `verbs_context` grows at its beginning: the offset of its last field, `context`, in the newest release.
pub const CONTEXT_ROOM: usize = 368;

/// A loaded libibverbs of a known release.
pub struct Libibverbs {
    /// The first release of rdma-core that has these structs.
    release: u32,
    /// Offset of `context` in `verbs_context`.
    context: usize,
    /// Offset of `comp_mask` in `verbs_qp`.
    comp_mask: usize,
    /// What is registered with it.
    device_ops: verbs_device_ops,
    image: Library,
    patched: Once,
    functions: Functions,
}

// SAFETY: constant after its construction but for `patched`; all pointers lead to functions and constants.
unsafe impl Send for Libibverbs {}
// SAFETY: as above.
unsafe impl Sync for Libibverbs {}

/// The private functions of one copy.
struct Functions {
    register: unsafe extern "C" fn(*const verbs_device_ops),
    init_and_alloc_context:
        unsafe extern "C" fn(*mut ibv_device, c_int, usize, *mut verbs_context, u32) -> *mut c_void,
    set_ops: unsafe extern "C" fn(*mut verbs_context, *const *const ()),
    uninit_context: unsafe extern "C" fn(*mut verbs_context),
    qp_to_qp_ex: unsafe extern "C" fn(*mut ibv_qp) -> *mut ibv_qp_ex,
}

/// The copies that this provider has registered with.
static LOADED: OnceLock<Vec<Libibverbs>> = OnceLock::new();

/// Registers with all that are loaded; says why, for those of an unknown release.
pub fn register(ops: fn() -> verbs_device_ops) -> Vec<String> {
    let mut refused = Vec::new();
    let mut known = Vec::new();
    for name in imports::loaded() {
        match Handle::open(&name).map(|handle| Libibverbs::find(&handle, ops())) {
            None | Some(Ok(None)) => {}
            Some(Ok(Some(found))) => known.push(found),
            Some(Err(why)) => refused.push(why),
        }
    }
    for library in LOADED.get_or_init(|| known) {
        // SAFETY: the operations are in a static, and live as long as this shared object, which is never unloaded.
        unsafe { (library.functions.register)(&library.device_ops) };
    }
    // SAFETY: a call without arguments, which forgets the symbols that were not found here.
    unsafe { libc::dlerror() };
    refused
}

/// The copies that this provider has registered with.
pub fn loaded() -> &'static [Libibverbs] {
    LOADED.get().map_or(&[], Vec::as_slice)
}

impl Libibverbs {
    /// The libibverbs in a loaded library, if it is one; or why it is refused.
    fn find(handle: &Handle, device_ops: verbs_device_ops) -> Result<Option<Self>, String> {
        let Some(uninit_context) = handle.own(c"verbs_uninit_context") else { return Ok(None) };
        let registers = |abi| {
            let name = CString::new(format!("verbs_register_driver_{abi}")).ok()?;
            handle.own(&name).map(|address| (abi, address))
        };
        let Some((abi, register)) = release::OFFERED.into_iter().find_map(registers) else { return Ok(None) };
        let path = Path::new(OsStr::from_bytes(handle.name.to_bytes()));
        let refused = || release::refusal(path, abi);
        let function = |name| handle.own(name).ok_or_else(refused);
        // SAFETY: the functions that have these names in all releases, with the types that driver.h and verbs.h give them.
        let functions = unsafe {
            Functions {
                register: std::mem::transmute::<usize, unsafe extern "C" fn(*const verbs_device_ops)>(
                    register,
                ),
                init_and_alloc_context: std::mem::transmute::<
                    usize,
                    unsafe extern "C" fn(
                        *mut ibv_device,
                        c_int,
                        usize,
                        *mut verbs_context,
                        u32,
                    ) -> *mut c_void,
                >(function(c"_verbs_init_and_alloc_context")?),
                set_ops: std::mem::transmute::<
                    usize,
                    unsafe extern "C" fn(*mut verbs_context, *const *const ()),
                >(function(c"verbs_set_ops")?),
                uninit_context: std::mem::transmute::<usize, unsafe extern "C" fn(*mut verbs_context)>(
                    uninit_context,
                ),
                qp_to_qp_ex: std::mem::transmute::<usize, unsafe extern "C" fn(*mut ibv_qp) -> *mut ibv_qp_ex>(
                    function(c"ibv_qp_to_qp_ex")?,
                ),
            }
        };
        let has = |name| handle.own(name).is_some();
        // The number says less than it should: 34 had fewer operations before release 36, and 59 got more with 62.
        let (release, context) = match abi {
            34 if !has(c"ibv_query_qp_data_in_order") => return Err(refused()),
            34 | 57 => (36, 320),
            59 if has(c"ibv_query_port_speed") => (62, 352),
            59 => (59, 344),
            64 => (64, 368),
            65 => (65, 368),
            _ => return Err(refused()),
        };
        let comp_mask = functions.find_comp_mask().ok_or_else(refused)?;
        let image = Library::containing(register).ok_or_else(refused)?;
        handle.keep();
        Ok(Some(Self { release, context, comp_mask, device_ops, image, patched: Once::new(), functions }))
    }

    /// The copy that a device of this provider belongs to.
    ///
    /// # Safety
    /// `device` must be live and of this provider.
    pub unsafe fn of(device: *mut ibv_device) -> Option<&'static Self> {
        // SAFETY: as the caller promises: libibverbs notes there what was registered.
        let ops = unsafe { (*device.cast::<verbs_device>()).ops };
        loaded().iter().find(|library| std::ptr::eq(&library.device_ops, ops))
    }

    /// Runs `patch` on the library's image the first time.
    pub fn patch_once(&self, patch: impl FnOnce(&Library)) {
        self.patched.call_once(|| patch(&self.image));
    }

    /// Allocates `size` zeroed bytes with `calloc`; the `ibv_context` that libibverbs sets up in them is at
    /// [`CONTEXT_ROOM`]. Owns `cmd_fd`. Null if it fails, as errno says.
    ///
    /// # Safety
    /// `device` must be of this copy, and `size` at least [`CONTEXT_ROOM`] and an `ibv_context`.
    pub unsafe fn alloc_context(&self, device: *mut ibv_device, cmd_fd: c_int, size: usize) -> *mut c_void {
        let offset = std::ptr::without_provenance_mut(CONTEXT_ROOM - self.context);
        // SAFETY: as the caller promises; the offset leaves room for the verbs_context of this release.
        unsafe { (self.functions.init_and_alloc_context)(device, cmd_fd, size, offset, 0) }
    }

    /// The `verbs_context` that a context is the end of.
    pub fn verbs_context(&self, context: *mut ibv_context) -> *mut verbs_context {
        context.wrapping_byte_sub(self.context).cast()
    }

    /// Sets those operations of a context that are not null.
    ///
    /// # Safety
    /// `context` must be open and of this copy.
    pub unsafe fn set_ops(&self, context: *mut ibv_context, ops: &verbs_context_ops) {
        let table = ops.table(self.release);
        // SAFETY: as the caller promises; the table is as this release lays it out.
        unsafe { (self.functions.set_ops)(self.verbs_context(context), table.as_ptr()) };
    }

    /// Undoes [`alloc_context`](Self::alloc_context) but for the memory; closes `cmd_fd` and `async_fd`.
    ///
    /// # Safety
    /// `context` must be of this copy, and not used after this.
    pub unsafe fn uninit_context(&self, context: *mut ibv_context) {
        // SAFETY: as the caller promises.
        unsafe { (self.functions.uninit_context)(self.verbs_context(context)) };
    }

    /// Tells this copy that the functions of the queue pair's `ibv_qp_ex` are there.
    pub fn mark_extended(&self, qp: &mut verbs_qp) {
        // SAFETY: `comp_mask` is inside of a `verbs_qp`, whatever the release.
        unsafe { (&raw mut *qp).byte_add(self.comp_mask).cast::<u32>().write(VERBS_QP_EX) };
    }
}

impl Functions {
    /// Where this libibverbs looks for `comp_mask`: releases 44 and 45 each added a call before it, and no number tells.
    fn find_comp_mask(&self) -> Option<usize> {
        const PLACES: [usize; 3] = [344, 352, 360];
        PLACES.into_iter().find(|place| {
            let mut qp = [0u32; size_of::<verbs_qp>() / 4];
            qp[place / 4] = VERBS_QP_EX;
            // SAFETY: the function reads `comp_mask` and nothing else.
            unsafe { !(self.qp_to_qp_ex)(qp.as_mut_ptr().cast()).is_null() }
        })
    }
}

/// A reference to a loaded library, which keeps it loaded.
struct Handle<'a> {
    name: &'a CStr,
    handle: *mut c_void,
}

impl<'a> Handle<'a> {
    fn open(name: &'a CStr) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD: loads nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self { name, handle })
    }

    /// The address of a function that this library itself exports, and none of those that it needs.
    fn own(&self, symbol: &CStr) -> Option<usize> {
        // SAFETY: an open handle and a name; dladdr gets room for its answer, whose strings stay while the library does.
        unsafe {
            let address = libc::dlsym(self.handle, symbol.as_ptr());
            let mut info: libc::Dl_info = std::mem::zeroed();
            let found =
                !address.is_null() && libc::dladdr(address, &mut info) != 0 && !info.dli_fname.is_null();
            (found && CStr::from_ptr(info.dli_fname) == self.name).then_some(address as usize)
        }
    }

    /// The library stays loaded for good: it has what this provider registered.
    fn keep(&self) {
        // SAFETY: one more reference, which is never given back.
        unsafe { libc::dlopen(self.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: our own reference.
        unsafe { libc::dlclose(self.handle) };
    }
}
