//! The program's own DPDK: its release, and its functions, which are looked up by name when EAL loads the driver.
//!
//! The names of DPDK's libraries have the number of an ABI in them, so a driver for several releases cannot be linked with
//! them; and not every program is linked with all that a driver needs.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::null_mut;

use super::release::{self, RELEASES};

/// `RTE_LOG_ERR`.
const LOG_ERROR: u32 = 4;
/// `RTE_LOGTYPE_EAL`: DPDK 24.11 has none of drivers (`RTE_LOGTYPE_PMD`) any more.
const LOG_EAL: u32 = 0;

/// A library that is loaded, and those that it needs; or all that the program was started with.
#[derive(Clone, Copy)]
pub struct Library(*mut c_void);

impl Library {
    /// DPDK's library of this name.
    fn open(name: &str, abi: u32, flags: c_int) -> Result<Library, String> {
        let file = format!("librte_{name}.so.{abi}");
        let text = CString::new(file.as_str()).map_err(|error| error.to_string())?;
        // SAFETY: a zero-terminated name of one of DPDK's libraries.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | flags) };
        if handle.is_null() {
            return Err(format!("{file} is not there: the driver stays out"));
        }
        Ok(Library(handle))
    }

    /// The function or variable of this name; of a variable that each thread has of its own, this thread's.
    fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a handle that stays open, and a zero-terminated name.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

/// EAL, which loads the driver: one of a known release, wherever it is loaded, else the one that the program was started with.
fn eal() -> Library {
    let known = RELEASES.iter().find_map(|release| Library::open("eal", release.abi, libc::RTLD_NOLOAD).ok());
    known.unwrap_or(Library(libc::RTLD_DEFAULT))
}

/// A variable that each thread has of its own, this thread's.
pub fn of_this_thread(name: &CStr) -> *mut c_int {
    eal().symbol(name).unwrap_or(null_mut()).cast()
}

/// The program's DPDK.
pub struct Dpdk {
    version: String,
    libraries: [Library; 3],
}

impl Dpdk {
    /// Finds it; else says why it is none for this driver.
    pub fn find() -> Result<Dpdk, String> {
        let version = eal().symbol(c"rte_version").ok_or("this program has no DPDK: the driver stays out")?;
        // SAFETY: a function without conditions, which gives a static text.
        let version = unsafe {
            let version: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(version);
            CStr::from_ptr(version()).to_string_lossy().into_owned()
        };
        let release = release::of(&version)?;
        let library = |name| Library::open(name, release.abi, 0);
        // What all libraries of the program use, which may be a copy of a variable in the program itself; then each of these
        // with all that it needs.
        let libraries = [Library(libc::RTLD_DEFAULT), library("ethdev")?, library("bus_vdev")?];
        release::choose(release);
        Ok(Dpdk { version, libraries })
    }

    /// A function or variable of it; else says that there is none.
    pub fn symbol(&self, name: &CStr) -> Result<*mut c_void, String> {
        let found = self.libraries.iter().find_map(|library| library.symbol(name));
        found.ok_or_else(|| {
            format!("{} has no {}: the driver stays out", self.version, name.to_string_lossy())
        })
    }
}

/// Says an error where DPDK says its own; also of a DPDK that is not known.
pub fn log(text: &str) {
    let Some(log) = eal().symbol(c"rte_log") else { return eprintln!("verbena: {text}") };
    let text = format!("verbena: {text}\n\0").replace('%', "percent");
    // SAFETY: the same in all releases; the text ends in a zero, and is given to a format that prints one.
    unsafe {
        let log: unsafe extern "C" fn(u32, u32, *const c_char, ...) -> c_int = std::mem::transmute(log);
        log(LOG_ERROR, LOG_EAL, c"%s".as_ptr(), text.as_ptr());
    }
}

/// Declares functions of DPDK, which are called as those of an `extern` block are.
macro_rules! functions {
    ($($(#[$about:meta])* fn $name:ident($($arg:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        /// Where they are.
        struct Functions { $($name: unsafe extern "C" fn($($kind),*) $(-> $result)?,)* }

        impl Functions {
            fn find(dpdk: &Dpdk) -> Result<Self, String> {
                let name = |name: &'static str| CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
                Ok(Functions { $($name: {
                    let found = dpdk.symbol(name(concat!(stringify!($name), "\0")))?;
                    // SAFETY: the function of this name, which is of this type in all known releases.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) $(-> $result)?>(found) }
                },)* })
            }
        }

        $($(#[$about])*
        ///
        /// # Safety
        /// As DPDK says of it.
        pub unsafe fn $name($($arg: $kind),*) $(-> $result)? {
            // SAFETY: as the caller promises.
            unsafe { (found().functions.$name)($($arg),*) }
        })*
    };
}
pub(super) use functions;
