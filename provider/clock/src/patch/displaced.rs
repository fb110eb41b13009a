//! The instructions behind an `rdtsc` that move into its stub, since the jump there is longer than it is.
//!
//! Only what compilers put there and what does the same at any address: moves, arithmetic and shifts of
//! registers and memory, nothing that jumps, calls, or is relative to the instruction pointer. There are
//! no prefixes but REX, so nobody jumps behind one.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, appendix A
//! (opcode maps) and section 2.1 (ModR/M, SIB).

/// Length of the jump.
pub const JUMP: usize = 5;

/// The longest that is replaced: up to four bytes, and an instruction that begins in the fifth.
pub const LONGEST: usize = JUMP - 1 + 15;

/// What the jump replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Bytes of all the instructions, the first of them included.
    pub bytes: usize,
    /// Where the others begin within the jump: bit n for its byte n.
    pub starts: u8,
}

/// What a jump at the start of `code` replaces, if the first instruction has `first` bytes and the others
/// may move; `None` if they may not.
pub fn replaced(code: &[u8], first: usize) -> Option<Replaced> {
    let mut replaced = Replaced { bytes: first, starts: 0 };
    while replaced.bytes < JUMP {
        replaced.starts |= 1 << replaced.bytes;
        replaced.bytes += length(code.get(replaced.bytes..)?)?;
    }
    (replaced.bytes <= code.len()).then_some(replaced)
}

/// Length of an instruction that does the same anywhere; `None` for all that are not known to.
fn length(code: &[u8]) -> Option<usize> {
    let wide = code.first().filter(|byte| **byte & 0xf0 == 0x40);
    let prefix = usize::from(wide.is_some());
    let immediate = if wide.is_some_and(|rex| rex & 8 != 0) { 8 } else { 4 };
    let operands = code.get(prefix + 1..)?;
    let length = match code[prefix] {
        // add, or, adc, sbb, and, sub, xor, cmp, test, mov: register and register or memory
        opcode @ 0x00..=0x3f if opcode & 7 < 4 => modrm(operands)?,
        0x63 | 0x84 | 0x85 | 0x88..=0x8b | 0x8d => modrm(operands)?,
        // the same with an immediate operand
        0x80 | 0x83 | 0x6b | 0xc0 | 0xc1 => modrm(operands)? + 1,
        0x81 | 0x69 => modrm(operands)? + 4,
        0xc6 if reg(operands)? == 0 => modrm(operands)? + 1,
        0xc7 if reg(operands)? == 0 => modrm(operands)? + 4,
        0xb8..=0xbf => immediate,
        // shifts by one and by CL
        0xd0..=0xd3 => modrm(operands)?,
        // push, pop, nop, sign extensions
        0x50..=0x5f | 0x90 | 0x98 | 0x99 => 0,
        0x0f => match (operands.first()?, &operands[1..]) {
            (0x1f | 0x40..=0x4f | 0x90..=0x9f | 0xaf | 0xb6 | 0xb7 | 0xbe | 0xbf, rest) => 1 + modrm(rest)?,
            (0xae, [0xe8 | 0xf0 | 0xf8, ..]) => 2, // fences
            _ => return None,
        },
        _ => return None,
    };
    Some(prefix + 1 + length)
}

/// The middle field of a ModR/M byte.
fn reg(operands: &[u8]) -> Option<u8> {
    operands.first().map(|modrm| modrm >> 3 & 7)
}

/// Length of ModR/M, SIB and displacement; `None` if that is relative to the instruction pointer.
fn modrm(operands: &[u8]) -> Option<usize> {
    let modrm = *operands.first()?;
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let sib = usize::from(mode != 3 && rm == 4);
    let without_base = mode == 0 && sib == 1 && operands.get(1)? & 7 == 5;
    let displacement = match mode {
        0 if rm == 5 => return None,
        0 if without_base => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(1 + sib + displacement)
}

#[cfg(test)]
mod tests {
    use super::{length, replaced, Replaced};

    #[test]
    fn what_compilers_put_there_is_known() {
        let codes: [&[u8]; 20] = [
            &[0x48, 0xc1, 0xe2, 0x20],                // shl $32, %rdx
            &[0x89, 0xc0],                            // mov %eax, %eax
            &[0x48, 0x09, 0xd0],                      // or %rdx, %rax
            &[0x48, 0x8b, 0x8f, 0x28, 2, 0, 0],       // mov 552(%rdi), %rcx
            &[0x4c, 0x8b, 0xac, 0x24, 0x88, 0, 0, 0], // mov 136(%rsp), %r13
            &[0x49, 0x89, 0x19],                      // mov %rbx, (%r9)
            &[0x48, 0x89, 0x44, 0xd7, 0xf8],          // mov %rax, -8(%rdi,%rdx,8)
            &[0x48, 0x8b, 0x04, 0xc5, 0, 1, 0, 0],    // mov 256(,%rax,8), %rax
            &[0xc7, 0x44, 0x24, 8, 0, 0, 0, 0],       // movl $0, 8(%rsp)
            &[0xbe, 2, 0, 0, 0],                      // mov $2, %esi
            &[0x48, 0xb8, 1, 0, 0, 0, 3, 0, 0, 0],    // movabs
            &[0x41, 0x83, 0xbf, 0xdc, 1, 0, 0, 1],    // cmpl $1, 476(%r15)
            &[0x48, 0x81, 0xec, 0, 1, 0, 0],          // sub $256, %rsp
            &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],          // nopl 0(%rax)
            &[0x0f, 0xae, 0xe8],                      // lfence
            &[0x4d, 0x0f, 0xaf, 0x6f, 0x40],          // imul 64(%r15), %r13
            &[0x41, 0x54],                            // push %r12
            &[0x48, 0x98],                            // cltq
            &[0x48, 0x8d, 0x44, 0x24, 0x30],          // lea 48(%rsp), %rax
            &[0x48, 0x63, 0x45, 0x00],                // movslq 0(%rbp), %rax
        ];
        for code in codes {
            assert_eq!(length(code), Some(code.len()), "{code:02x?}");
        }
    }

    #[test]
    fn what_depends_on_its_address_may_not_move() {
        let codes: [&[u8]; 14] = [
            &[0x48, 0x8b, 0x05, 1, 0, 0, 0],                // mov 1(%rip), %rax
            &[0x48, 0x8d, 0x05, 1, 0, 0, 0],                // lea 1(%rip), %rax
            &[0xc7, 0x05, 1, 0, 0, 0, 1, 0, 0, 0],          // movl $1, 1(%rip)
            &[0xe8, 0, 0, 0, 0],                            // call
            &[0xff, 0xd0],                                  // call *%rax
            &[0xeb, 0],                                     // jmp
            &[0x74, 0],                                     // je
            &[0x0f, 0x84, 0, 0, 0, 0],                      // je
            &[0xc3],                                        // ret
            &[0x0f, 0x31],                                  // rdtsc
            &[0x0f, 0x05],                                  // syscall
            &[0xf0, 0x48, 0x01, 0x10],                      // lock add
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], // mov %fs:40, %rax
            &[0xc5, 0xfc, 0x77],                            // vzeroall
        ];
        for code in codes {
            assert_eq!(length(code), None, "{code:02x?}");
        }
    }

    #[test]
    fn as_many_as_the_jump_needs() {
        let one = Replaced { bytes: 6, starts: 0b100 };
        assert_eq!(replaced(&[0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0xcc], 2), Some(one));
        let three = Replaced { bytes: 7, starts: 0b10100 };
        assert_eq!(replaced(&[0x0f, 0x31, 0x89, 0xc0, 0x48, 0x09, 0xd0], 2), Some(three));
        let after_rdtscp = Replaced { bytes: 5, starts: 0b1000 };
        assert_eq!(replaced(&[0x0f, 0x01, 0xf9, 0x89, 0xc0], 3), Some(after_rdtscp));
        assert_eq!(replaced(&[0x0f, 0x31, 0x89, 0xc0, 0xc3], 2), None, "a return");
        assert_eq!(replaced(&[0x0f, 0x31, 0x48, 0xc1, 0xe2], 2), None, "the end of the code");
        assert_eq!(replaced(&[0x0f, 0x31], 2), None, "the end of the code");
    }
}
