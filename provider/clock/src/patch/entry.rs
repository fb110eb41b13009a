//! From a stub into this library and back: all that the program may have in registers stays as it is.
//!
//! Vector registers are saved one by one: XSAVE and XRSTOR take ten times as long. x87 and the tiles of
//! AMX are left alone, since neither this library nor its timeline computes with them.
#![allow(unsafe_code)]

use std::arch::global_asm;
use std::arch::x86_64::_xgetbv;
use std::is_x86_feature_detected as has;
use std::sync::atomic::AtomicU32;

use super::stub;
use crate::{sigstack, sys, tsc};

/// What a signal handler begins with: no traps, rounding to nearest, subnormal numbers.
static MXCSR: AtomicU32 = AtomicU32::new(0x1f80);

/// The parts of the processor's state that are known (Intel's manual, volume 1, section 13.1): x87, SSE, AVX,
/// MPX, the three of AVX-512, protection keys, AMX.
const KNOWN: u64 = 0x6_02ff;

unsafe extern "C" {
    #[link_name = "verbena_clock_patched_sse"]
    fn with_sse();
    #[link_name = "verbena_clock_patched_avx"]
    fn with_avx();
    #[link_name = "verbena_clock_patched_avx512"]
    fn with_avx512();
}

/// Where stubs call with 128 bytes of red zone left free: returns the time stamp counter in EDX:EAX and leaves
/// all else as it was. `None` if that cannot be promised on this processor.
pub fn entry() -> Option<usize> {
    // SAFETY: the system lets programs use XGETBV.
    let parts = if has!("xsave") { unsafe { _xgetbv(0) } } else { 0 };
    let entry: unsafe extern "C" fn() = match () {
        () if parts & !KNOWN != 0 => return None,
        () if has!("avx512f") && has!("avx512bw") => with_avx512,
        () if has!("avx512f") => return None,
        () if has!("avx") => with_avx,
        () => with_sse,
    };
    Some(entry as usize)
}

/// A reading, as of the trap at the same site. `stub` is where its stub goes on, `stack` where the stack is.
extern "C" fn read(stub: usize, stack: usize) -> u64 {
    let errno = sys::get_errno();
    let value = tsc::answer(stub::site(stub), sigstack::is_small(stack));
    sys::set_errno(errno);
    value
}

// Three functions, which differ in the vector registers. At [rbp] is rbp, then the flags, then where the stub
// goes on; MXCSR is saved above the vector registers.
global_asm!(
    ".pushsection .text",
    ".altmacro",
    ".macro verbena_move direction, instruction, register, count, size",
    "verbena_n = 0",
    ".rept \\count",
    "verbena_\\direction \\instruction, \\register, %verbena_n, \\size",
    "verbena_n = verbena_n + 1",
    ".endr",
    ".endm",
    ".macro verbena_save instruction, register, n, size",
    "\\instruction [rsp + \\n * \\size], \\register\\n",
    ".endm",
    ".macro verbena_restore instruction, register, n, size",
    "\\instruction \\register\\n, [rsp + \\n * \\size]",
    ".endm",
    ".macro verbena_patched name, instruction, register, count, size, masks, clean",
    ".p2align 4",
    ".hidden \\name",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    "pushfq",
    "cld",
    "push rbp",
    "mov rbp, rsp",
    "push rcx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "sub rsp, \\count * \\size + 128",
    "and rsp, -64",
    "verbena_move save, \\instruction, \\register, \\count, \\size",
    "stmxcsr [rsp + \\count * \\size]",
    ".if \\masks",
    "lea rax, [rsp + \\count * \\size + 64]",
    "kmovq [rax], k0",
    "kmovq [rax + 8], k1",
    "kmovq [rax + 16], k2",
    "kmovq [rax + 24], k3",
    "kmovq [rax + 32], k4",
    "kmovq [rax + 40], k5",
    "kmovq [rax + 48], k6",
    "kmovq [rax + 56], k7",
    ".endif",
    "ldmxcsr [rip + {mxcsr}]",
    "\\clean",
    "mov rdi, [rbp + 16]",
    "mov rsi, rbp",
    "call {read}",
    "verbena_move restore, \\instruction, \\register, \\count, \\size",
    "ldmxcsr [rsp + \\count * \\size]",
    ".if \\masks",
    "lea rdx, [rsp + \\count * \\size + 64]",
    "kmovq k0, [rdx]",
    "kmovq k1, [rdx + 8]",
    "kmovq k2, [rdx + 16]",
    "kmovq k3, [rdx + 24]",
    "kmovq k4, [rdx + 32]",
    "kmovq k5, [rdx + 40]",
    "kmovq k6, [rdx + 48]",
    "kmovq k7, [rdx + 56]",
    ".endif",
    "mov rdx, rax",
    "shr rdx, 32",
    "mov eax, eax",
    "lea rsp, [rbp - 56]",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rcx",
    "pop rbp",
    "popfq",
    "ret",
    ".size \\name, . - \\name",
    ".endm",
    "verbena_patched verbena_clock_patched_sse, movaps, xmm, 16, 16, 0, nop",
    "verbena_patched verbena_clock_patched_avx, vmovaps, ymm, 16, 32, 0, vzeroupper",
    "verbena_patched verbena_clock_patched_avx512, vmovaps, zmm, 32, 64, 1, vzeroupper",
    ".noaltmacro",
    ".popsection",
    mxcsr = sym MXCSR,
    read = sym read,
);
