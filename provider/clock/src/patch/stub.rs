//! A stub: the code that a patched `rdtsc` jumps to.
//!
//! It lies where the jump has a privileged instruction at each byte at which an instruction began
//! before: whoever comes there by another way (a thread or a handler that was interrupted there, a jump
//! through a table) faults, and is sent on to the same instruction here.
#![allow(unsafe_code)]

use super::displaced::{Replaced, JUMP, LONGEST};
use crate::sys::sys;

/// `hlt`: a general protection fault in a program.
pub const HLT: u8 = 0xf4;

/// Instructions that fault likewise, since programs have no access to I/O ports: ins, outs, in, out.
/// As the highest byte of a distance, `hlt` alone would leave one range of 16 MiB.
const FAULTING: [u8; 13] = [HLT, 0x6c, 0x6d, 0x6e, 0x6f, 0xe4, 0xe5, 0xe6, 0xe7, 0xec, 0xed, 0xee, 0xef];

/// Highest bytes of distances, where there is a choice: far away, where nothing else is looking for room
/// (the heap grows above the program, mappings grow down below the libraries).
const FAR: [u8; 12] = [0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0x70, 0x60, 0x50, 0x40, 0x30, 0x20];

const PAGE: usize = 4096;

/// Before the code: where it calls, and the site.
const DATA: usize = 16;

/// Where the call returns to, from the code's start.
const RETURN: usize = 5 + 6;

/// The longest stub: with the instruction that clears ECX, what was replaced, and the jump back.
const MAX: usize = DATA + RETURN + 8 + 5 + LONGEST + JUMP;

/// A stub that exists.
#[derive(Clone, Copy)]
pub struct Stub {
    /// Its first instruction.
    pub code: usize,
    /// Where the replaced instructions are.
    pub moved: usize,
}

/// The site of the stub whose call returns to `address`.
pub fn site(address: usize) -> usize {
    // SAFETY: lies there before the code of each stub.
    unsafe { *((address - RETURN - 8) as *const usize) }
}

/// A jump at `from` to `to`.
pub fn jump(from: usize, to: usize) -> [u8; JUMP] {
    let [a, b, c, d] = (to.wrapping_sub(from + JUMP) as u32).to_le_bytes();
    [0xe9, a, b, c, d]
}

/// Makes the stub for the instruction of `first` bytes at the start of `code`, which calls `entry`; `None` if
/// there is no room.
///
/// # Safety
/// `replaced` is what the jump replaces there, and `entry` is what `entry::entry` gives.
pub unsafe fn make(code: &[u8], first: usize, replaced: Replaced, entry: usize) -> Option<Stub> {
    let site = code.as_ptr() as usize;
    let mut bytes = [0u8; MAX];
    let mut length = 0;
    let mut put = |piece: &[u8]| {
        bytes[length..length + piece.len()].copy_from_slice(piece);
        length += piece.len();
        length
    };
    put(&entry.to_le_bytes());
    put(&site.to_le_bytes());
    put(&[0x48, 0x8d, 0x64, 0x24, 0x80]); // lea -128(%rsp), %rsp: the red zone
    put(&[0xff, 0x15]);
    put(&(-((DATA + RETURN) as i32)).to_le_bytes()); // call *
    let mut moved = put(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea 128(%rsp), %rsp
    if first == 3 {
        moved = put(&[0xb9, 0, 0, 0, 0]); // mov $0, %ecx: rdtscp's number of the processor
    }
    let end = put(&code[first..replaced.bytes]);
    for start in places(site, replaced.starts) {
        bytes[end..end + JUMP].copy_from_slice(&jump(start + end, site + replaced.bytes));
        // SAFETY: the whole stub, to a place of its own.
        if unsafe { put_at(start, &bytes[..end + JUMP]) }.is_some() {
            return Some(Stub { code: start + DATA, moved: start + moved });
        }
    }
    None
}

/// Addresses at which the stub of `site` may start, best first.
fn places(site: usize, starts: u8) -> impl Iterator<Item = usize> {
    let begins = move |byte: u8| starts & 1 << byte != 0;
    let highest: &[u8] = if begins(4) { &FAULTING } else { &FAR };
    let second: &[u8] = if begins(3) { &[HLT] } else { &[0x00, 0x40, 0x80, 0xc0] };
    let third: &[u8] = if begins(2) { &[HLT] } else { &[0x00, 0x80] };
    let distances = highest.iter().flat_map(move |&d| {
        second.iter().flat_map(move |&c| third.iter().map(move |&b| i32::from_le_bytes([0, b, c, d])))
    });
    // The lowest byte makes the code lie at a multiple of 16.
    let aligned = move |distance: i32| {
        (site + JUMP).checked_add_signed(distance as isize)?.checked_next_multiple_of(16)
    };
    distances.filter_map(aligned).filter_map(|code| code.checked_sub(DATA)).filter(|start| *start >= 1 << 20)
}

/// Maps memory around `start` where there is none, and puts `bytes` there as code.
///
/// # Safety
/// `bytes` must be code, or not be executed.
unsafe fn put_at(start: usize, bytes: &[u8]) -> Option<()> {
    let from = start / PAGE * PAGE;
    let length = (start + bytes.len()).next_multiple_of(PAGE) - from;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: replaces no mapping: kernels that do not know the flag take the address as a hint.
    let got =
        unsafe { sys!(libc::SYS_mmap, from, length, access, flags | libc::MAP_FIXED_NOREPLACE, -1isize, 0) };
    if (-4095..0).contains(&got) {
        return None;
    }
    // SAFETY: the new mapping, which nobody else knows, holds all of the stub.
    let made = got as usize == from
        && unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len());
            sys!(libc::SYS_mprotect, from, length, libc::PROT_READ | libc::PROT_EXEC) == 0
        };
    if !made {
        // SAFETY: the new mapping.
        unsafe { sys!(libc::SYS_munmap, got, length) };
    }
    made.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_faults_where_instructions_began() {
        let site = 0x5555_5556_ee81;
        for starts in [0b100, 0b1000, 0b1_0100, 0b1_1000, 0b1_1100, 0b1_0000] {
            let mut count = 0;
            for start in places(site, starts) {
                let jump = jump(site, start + DATA);
                for byte in 2..JUMP {
                    let faults = jump[byte] == HLT || (byte == 4 && FAULTING.contains(&jump[byte]));
                    assert!(starts & 1 << byte == 0 || faults, "{jump:02x?} for {starts:b}");
                }
                assert_eq!((start + DATA) % 16, 0);
                count += 1;
            }
            assert!(count >= 8, "{count} places for {starts:b}");
        }
    }
}
