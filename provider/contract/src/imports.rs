//! Replaces a function that a loaded library imports, by patching that library's own GOT.
//!
//! Only the slots of that one library change: every other caller of the function, the program
//! included, keeps the original. `LD_PRELOAD` does the same for all libraries, and needs the
//! environment for it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void, CStr, CString};
use std::ops::Range;

use libc::{Elf64_Rela, Elf64_Sym};

#[repr(C)]
struct Dyn {
    tag: i64,
    value: u64,
}

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

#[cfg(target_arch = "x86_64")]
const SLOT_KINDS: [u32; 2] = [6, 7]; // GLOB_DAT, JUMP_SLOT
#[cfg(target_arch = "aarch64")]
const SLOT_KINDS: [u32; 2] = [1025, 1026];

/// A loaded library.
#[derive(Default)]
pub struct Library {
    /// The addresses from its first segment to its last.
    pub addresses: Range<usize>,
    base: usize,
    dynamic: usize,
    relro: Range<usize>,
}

/// What [`Library::containing`] looks for, and what it has found.
struct Search {
    inside: usize,
    found: Option<Library>,
}

/// What [`Library::called`] looks for, and what it has found.
struct Called<'a> {
    name: &'a str,
    found: Vec<Library>,
}

unsafe extern "C" fn visit_called(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and `data` is the Called of `called`.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Called<'_>>()) };
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's names are terminated.
        let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
        if path.rsplit('/').next().is_some_and(|file| file.starts_with(search.name)) {
            search.found.push(describe(info));
        }
    }
    0
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and `data` is the Search of `containing`.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    let library = describe(info);
    let found = library.addresses.contains(&search.inside);
    if found {
        search.found = Some(library);
    }
    found.into()
}

/// The library of a description by the loader.
fn describe(info: &libc::dl_phdr_info) -> Library {
    // SAFETY: the program headers of a loaded library stay mapped.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr as usize;
    let mut library = Library { base, ..Library::default() };
    let (mut first, mut end) = (usize::MAX, 0);
    for header in headers {
        let start = base + header.p_vaddr as usize;
        let range = start..start + header.p_memsz as usize;
        match header.p_type {
            libc::PT_LOAD => (first, end) = (first.min(range.start), end.max(range.end)),
            libc::PT_DYNAMIC => library.dynamic = range.start,
            libc::PT_GNU_RELRO => library.relro = range,
            _ => {}
        }
    }
    library.addresses = first..end;
    library
}

/// The names of the loaded libraries, as `dlopen` takes them.
pub fn loaded() -> Vec<CString> {
    unsafe extern "C" fn name(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description with a name, and `data` is the list below.
        let (names, name) = unsafe { (&mut *data.cast::<Vec<CString>>(), CStr::from_ptr((*info).dlpi_name)) };
        names.push(name.to_owned());
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the callback gets `names` as its data and is called only during this call.
    unsafe { libc::dl_iterate_phdr(Some(name), (&raw mut names).cast()) };
    // The program itself has no name.
    names.retain(|name| !name.is_empty());
    names
}

impl Library {
    /// The loaded library that contains the address `inside`.
    pub fn containing(inside: usize) -> Option<Library> {
        let mut search = Search { inside, found: None };
        // SAFETY: the callback gets `search` back as its data and is called only during this call.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    /// The loaded libraries whose file name begins with `name`.
    pub fn called(name: &str) -> Vec<Library> {
        let mut search = Called { name, found: Vec::new() };
        // SAFETY: as in `containing`.
        unsafe { libc::dl_iterate_phdr(Some(visit_called), (&raw mut search).cast()) };
        search.found
    }

    /// Lets every import of `symbol` by this library point to `new`, and returns the number of slots that changed.
    ///
    /// # Safety
    /// `new` must be a function of the same signature that stays loaded as long as the library.
    pub unsafe fn replace_import(&self, symbol: &CStr, new: usize) -> Result<usize, String> {
        if self.dynamic == 0 {
            return Err("the library has no dynamic section".into());
        }
        // SAFETY: `dynamic` is the PT_DYNAMIC segment of a loaded library.
        let slots = unsafe { self.find_slots(symbol) }?;
        for &slot in &slots {
            // SAFETY: `slot` comes from the library's relocations for a function of this signature.
            unsafe { self.store(slot, new) }?;
        }
        Ok(slots.len())
    }

    /// # Safety
    /// `dynamic` must be the dynamic section of a loaded library.
    unsafe fn find_slots(&self, symbol: &CStr) -> Result<Vec<usize>, String> {
        let (mut symtab, mut strtab) = (0, 0);
        let mut tables = [(0usize, 0usize); 2];
        let mut entry = self.dynamic as *const Dyn;
        loop {
            // SAFETY: the dynamic section ends with a tag of zero.
            let Dyn { tag, value } = unsafe { std::ptr::read(entry) };
            // glibc has made these addresses absolute, other loaders leave them relative.
            let address =
                if (value as usize) < self.base { self.base + value as usize } else { value as usize };
            match tag {
                0 => break,
                DT_SYMTAB => symtab = address,
                DT_STRTAB => strtab = address,
                DT_JMPREL => tables[0].0 = address,
                DT_PLTRELSZ => tables[0].1 = value as usize,
                DT_RELA => tables[1].0 = address,
                DT_RELASZ => tables[1].1 = value as usize,
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        if symtab == 0 || strtab == 0 {
            return Err("the library has no symbol table".into());
        }
        let mut slots = Vec::new();
        for (start, bytes) in tables.into_iter().filter(|t| t.0 != 0) {
            // SAFETY: address and size are those of the library's relocation table, which stays mapped.
            let table = unsafe {
                std::slice::from_raw_parts(start as *const Elf64_Rela, bytes / size_of::<Elf64_Rela>())
            };
            for rela in table.iter().filter(|r| SLOT_KINDS.contains(&(r.r_info as u32))) {
                let index = (rela.r_info >> 32) as usize;
                // SAFETY: relocations name symbols of this table, and their names are in the string table.
                let name = unsafe {
                    let sym = &*(symtab as *const Elf64_Sym).add(index);
                    CStr::from_ptr((strtab + sym.st_name as usize) as *const _)
                };
                if name == symbol {
                    slots.push(self.base + rela.r_offset as usize);
                }
            }
        }
        Ok(slots)
    }

    /// # Safety
    /// `slot` must be a GOT slot of this library.
    unsafe fn store(&self, slot: usize, new: usize) -> Result<(), String> {
        // SAFETY: sysconf only reads a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let start = (slot & !(page - 1)) as *mut c_void;
        let error = || format!("mprotect of a GOT page: {}", std::io::Error::last_os_error());
        // SAFETY: the page belongs to the library's data; making it writable harms no reader.
        if unsafe { libc::mprotect(start, page, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(error());
        }
        // SAFETY: an aligned slot of pointer size; other threads see the old or the new function.
        unsafe { std::sync::atomic::AtomicUsize::from_ptr(slot as *mut usize) }
            .store(new, std::sync::atomic::Ordering::Release);
        let read_only = self.relro.contains(&slot);
        // SAFETY: only gives the page back the protection that the loader had set.
        if read_only && unsafe { libc::mprotect(start, page, libc::PROT_READ) } != 0 {
            return Err(error());
        }
        Ok(())
    }
}
