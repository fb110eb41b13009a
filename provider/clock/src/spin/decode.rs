//! What an x86-64 instruction does beside changing registers, for those that loops over memory
//! are made of. All others are `Unknown`, which ends a proof.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, appendix A
//! (opcode maps) and section 2.1 (ModR/M, SIB).
#![allow(unsafe_code)]

/// A place in memory that an instruction reads or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Address.
    pub at: usize,
    /// Length, at most 8.
    pub bytes: usize,
}

/// What an instruction does beside changing registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// It reads memory that others may write; the stack and a thread's own variables do not count.
    Reads(Place),
    /// It writes memory, and may read it before.
    Writes(Place),
    /// Not known here.
    Unknown,
}

/// The encoding's order of registers, as indices of the kernel's.
const REGISTERS: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

struct Reader<'a> {
    at: usize,
    registers: &'a [i64; 23],
    rex: u8,
    operand_16: bool,
    segment: bool,
    repeat: bool,
}

/// The effect of the instruction that the registers point to.
///
/// # Safety
/// The thread whose registers these are must be about to execute it.
pub unsafe fn effect(registers: &[i64; 23]) -> Effect {
    let at = registers[libc::REG_RIP as usize] as usize;
    let mut reader = Reader { at, registers, rex: 0, operand_16: false, segment: false, repeat: false };
    loop {
        match reader.byte() {
            0x66 => reader.operand_16 = true,
            0x64 | 0x65 => reader.segment = true,
            0xf3 | 0xf2 => reader.repeat = true,
            0x2e | 0x36 | 0x3e | 0x26 => {}
            byte @ 0x40..=0x4f => {
                reader.rex = byte;
                let opcode = reader.byte();
                return reader.opcode(opcode);
            }
            opcode => return reader.opcode(opcode),
        }
    }
}

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        // SAFETY: reads no further than the instruction, which is about to be executed.
        let byte = unsafe { *(self.at as *const u8) };
        self.at += 1;
        byte
    }

    fn signed(&mut self, bytes: usize) -> i64 {
        let value = (0..bytes).fold(0u64, |value, i| value | u64::from(self.byte()) << (8 * i));
        let unused = 64 - 8 * bytes as u32;
        (value << unused) as i64 >> unused
    }

    /// Bytes of an operand that is not a byte.
    fn operand(&self) -> usize {
        match (self.rex & 8 != 0, self.operand_16) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        }
    }

    /// Bytes of an operand by the lowest bit of most opcodes.
    fn by_bit(&self, opcode: u8) -> usize {
        if opcode & 1 == 0 {
            1
        } else {
            self.operand()
        }
    }

    /// Bytes of an immediate operand.
    fn immediate(&self) -> usize {
        self.operand().min(4)
    }

    fn opcode(&mut self, opcode: u8) -> Effect {
        if self.repeat && !matches!(opcode, 0x90 | 0x0f | 0xc3 | 0xe8 | 0xe9 | 0x70..=0x7f | 0xff) {
            return Effect::Unknown; // string instructions
        }
        match opcode {
            0x0f => {
                let second = self.byte();
                self.two_byte(second)
            }
            // add, or, adc, sbb, and, sub, xor: to memory in the first two forms; cmp never
            0x00..=0x3f => match opcode & 7 {
                0 | 1 if opcode < 0x38 => self.writes_rm(self.by_bit(opcode), 0),
                0..=3 => self.reads_rm(self.by_bit(opcode), 0),
                4 | 5 => Effect::Nothing,
                _ => Effect::Unknown,
            },
            0x50..=0x57 | 0x68 | 0x6a => self.pushes(),
            0x58..=0x5f => Effect::Nothing,
            0x63 => self.reads_rm(4, 0),
            0x69 => self.reads_rm(self.operand(), self.immediate()),
            0x6b => self.reads_rm(self.operand(), 1),
            0x70..=0x7f => Effect::Nothing,
            0x80 | 0x81 | 0x83 => {
                let immediate = if opcode == 0x81 { self.immediate() } else { 1 };
                if self.peek_reg() == 7 {
                    self.reads_rm(self.by_bit(opcode), immediate)
                } else {
                    self.writes_rm(self.by_bit(opcode), immediate)
                }
            }
            0x84 | 0x85 | 0x8a | 0x8b => self.reads_rm(self.by_bit(opcode), 0),
            0x88 | 0x89 => self.writes_rm(self.by_bit(opcode), 0),
            0x8d => Effect::Nothing,
            0x90..=0x99 => Effect::Nothing,
            0xa8 | 0xa9 | 0xb0..=0xbf => Effect::Nothing,
            0xc0 | 0xc1 => self.writes_rm(self.by_bit(opcode), 1),
            0xd0..=0xd3 => self.writes_rm(self.by_bit(opcode), 0),
            0xc2 | 0xc3 | 0xc9 => Effect::Nothing,
            0xc6 | 0xc7 if self.peek_reg() == 0 => {
                let immediate = if opcode == 0xc6 { 1 } else { self.immediate() };
                self.writes_rm(self.by_bit(opcode), immediate)
            }
            0xe8 => self.pushes(),
            0xe9 | 0xeb => Effect::Nothing,
            0xf6 | 0xf7 => match self.peek_reg() {
                2 | 3 => self.writes_rm(self.by_bit(opcode), 0),
                0 | 1 if opcode == 0xf6 => self.reads_rm(1, 1),
                0 | 1 => self.reads_rm(self.operand(), self.immediate()),
                _ => self.reads_rm(self.by_bit(opcode), 0),
            },
            0xfe | 0xff => match self.peek_reg() {
                0 | 1 => self.writes_rm(self.by_bit(opcode), 0),
                2 | 6 if opcode == 0xff => self.pushes(),
                4 if opcode == 0xff => self.reads_rm(8, 0),
                _ => Effect::Unknown,
            },
            _ => Effect::Unknown,
        }
    }

    fn two_byte(&mut self, opcode: u8) -> Effect {
        match opcode {
            // hints and long no-operations, among them endbr64
            0x0d | 0x18 | 0x1e | 0x1f => Effect::Nothing,
            0x40..=0x4f | 0xaf | 0xb8 | 0xbc | 0xbd => self.reads_rm(self.operand(), 0),
            0x80..=0x8f => Effect::Nothing,
            0x90..=0x9f => self.writes_rm(1, 0),
            // The bit's number may lead beyond the operand: a register's is taken for any place.
            0xa3 if self.peek() >> 6 == 3 => Effect::Nothing,
            0xb6 | 0xbe => self.reads_rm(1, 0),
            0xb7 | 0xbf => self.reads_rm(2, 0),
            0xba if self.peek_reg() == 4 => self.reads_rm(self.operand(), 1),
            // fences
            0xae if !self.repeat && self.peek() >= 0xe8 => Effect::Nothing,
            _ => Effect::Unknown,
        }
    }

    fn peek(&self) -> u8 {
        // SAFETY: the opcode has a ModR/M byte, which is part of the instruction.
        unsafe { *(self.at as *const u8) }
    }

    /// The middle field of the ModR/M byte.
    fn peek_reg(&self) -> u8 {
        self.peek() >> 3 & 7
    }

    fn register(&self, number: u8) -> i64 {
        self.registers[REGISTERS[usize::from(number)] as usize]
    }

    fn pushes(&self) -> Effect {
        if self.operand_16 {
            return Effect::Unknown;
        }
        let at = self.register(4).wrapping_sub(8) as usize;
        Effect::Writes(Place { at, bytes: 8 })
    }

    /// Writes the operand that ModR/M names; `immediate` bytes follow.
    fn writes_rm(&mut self, bytes: usize, immediate: usize) -> Effect {
        match self.place(immediate) {
            None => Effect::Nothing,
            Some(_) if self.segment => Effect::Unknown, // whose base is not known here
            Some(at) => Effect::Writes(Place { at, bytes }),
        }
    }

    /// Reads the operand that ModR/M names; `immediate` bytes follow.
    fn reads_rm(&mut self, bytes: usize, immediate: usize) -> Effect {
        match self.place(immediate) {
            None => Effect::Nothing,
            Some(_) if self.segment => Effect::Nothing, // the thread's own
            Some(at) => Effect::Reads(Place { at, bytes }),
        }
    }

    /// Address of the operand that ModR/M names, unless it is a register; `immediate` bytes follow.
    fn place(&mut self, immediate: usize) -> Option<usize> {
        let modrm = self.byte();
        let (mode, rm) = (modrm >> 6, modrm & 7);
        if mode == 3 {
            return None;
        }
        // A base register, or none: then four bytes of displacement follow in any mode.
        let (base, index) = match (mode, rm) {
            (_, 4) => self.sib(mode),
            (0, 5) => (None, 0),
            _ => (Some(self.register(rm | (self.rex & 1) << 3)), 0),
        };
        let displacement = match (mode, base) {
            (1, _) => self.signed(1),
            (2, _) | (_, None) => self.signed(4),
            _ => 0,
        };
        let relative = if rm == 5 { (self.at + immediate) as i64 } else { 0 };
        Some(base.unwrap_or(relative).wrapping_add(index).wrapping_add(displacement) as usize)
    }

    /// Base and scaled index of a SIB byte.
    fn sib(&mut self, mode: u8) -> (Option<i64>, i64) {
        let sib = self.byte();
        let index = (sib >> 3 & 7) | (self.rex & 2) << 2;
        let index = if index == 4 { 0 } else { self.register(index) << (sib >> 6) };
        let none = mode == 0 && sib & 7 == 5;
        ((!none).then(|| self.register(sib & 7 | (self.rex & 1) << 3)), index)
    }
}

#[cfg(test)]
mod tests {
    use super::{effect, Effect, Place};

    /// The effect of an instruction, with 0x1000 times its number in each register.
    fn of(code: &[u8]) -> Effect {
        let mut bytes = [0x90; 16];
        bytes[..code.len()].copy_from_slice(code);
        let mut registers = [0i64; 23];
        for (number, &place) in super::REGISTERS.iter().enumerate() {
            registers[place as usize] = 0x1000 * number as i64;
        }
        registers[libc::REG_RIP as usize] = bytes.as_ptr() as i64;
        // SAFETY: there is an instruction.
        let effect = unsafe { effect(&registers) };
        match effect {
            // Relative to the instruction pointer: given relative to the instruction's start.
            Effect::Writes(place) if place.at > 0x10_0000 => {
                Effect::Writes(Place { at: place.at - bytes.as_ptr() as usize, ..place })
            }
            Effect::Reads(place) if place.at > 0x10_0000 => {
                Effect::Reads(Place { at: place.at - bytes.as_ptr() as usize, ..place })
            }
            effect => effect,
        }
    }

    fn writes(at: usize, bytes: usize) -> Effect {
        Effect::Writes(Place { at, bytes })
    }

    fn reads(at: usize, bytes: usize) -> Effect {
        Effect::Reads(Place { at, bytes })
    }

    #[test]
    fn loads_say_where() {
        assert_eq!(of(&[0x0f, 0xb6, 0x05, 1, 0, 0, 0]), reads(7 + 1, 1)); // movzx eax, byte [rip+1]
        assert_eq!(of(&[0x48, 0x0f, 0xbf, 0x43, 2]), reads(0x3002, 2)); // movsx rax, word [rbx+2]
        assert_eq!(of(&[0x8b, 0x04, 0x8b]), reads(0x3000 + 4 * 0x1000, 4)); // mov eax, [rbx+rcx*4]
        assert_eq!(of(&[0x38, 0x10]), reads(0, 1)); // cmp [rax], dl
        assert_eq!(of(&[0x48, 0x3b, 0x43, 8]), reads(0x3008, 8)); // cmp rax, [rbx+8]
        assert_eq!(of(&[0x80, 0x3b, 5]), reads(0x3000, 1)); // cmp byte [rbx], 5
        assert_eq!(of(&[0x83, 0x3d, 1, 0, 0, 0, 7]), reads(7 + 1, 4)); // cmp dword [rip+1], 7
        assert_eq!(of(&[0x81, 0x3d, 1, 0, 0, 0, 7, 0, 0, 0]), reads(10 + 1, 4)); // cmp dword [rip+1], 7
        assert_eq!(of(&[0xf6, 0x05, 1, 0, 0, 0, 1]), reads(7 + 1, 1)); // test byte [rip+1], 1
        assert_eq!(of(&[0xf7, 0x05, 1, 0, 0, 0, 1, 0, 0, 0]), reads(10 + 1, 4)); // test dword [rip+1], 1
        assert_eq!(of(&[0x48, 0x63, 0x03]), reads(0x3000, 4)); // movsxd rax, [rbx]
        assert_eq!(of(&[0x48, 0x0f, 0x44, 0x03]), reads(0x3000, 8)); // cmove rax, [rbx]
    }

    #[test]
    fn compares_and_jumps_change_nothing() {
        let codes: [&[u8]; 8] = [
            &[0x48, 0x39, 0xd0],                // cmp rax, rdx
            &[0x74, 0xfe],                      // je
            &[0x0f, 0x84, 0, 0, 0, 0],          // je
            &[0xf3, 0x90],                      // pause
            &[0xf3, 0x0f, 0x1e, 0xfa],          // endbr64
            &[0x0f, 0xae, 0xe8],                // lfence
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0], // mov rax, fs:[..]
            &[0x83, 0xc0, 1],                   // add eax, 1
        ];
        for code in codes {
            assert_eq!(of(code), Effect::Nothing, "{code:02x?}");
        }
    }

    #[test]
    fn stores_say_where() {
        assert_eq!(of(&[0x89, 0x03]), writes(0x3000, 4)); // mov [rbx], eax
        assert_eq!(of(&[0x48, 0x89, 0x44, 0x24, 0x10]), writes(0x4010, 8)); // mov [rsp+16], rax
        assert_eq!(of(&[0x66, 0x41, 0x89, 0x40, 0xff]), writes(0x7fff, 2)); // mov [r8-1], ax
        assert_eq!(of(&[0x88, 0x84, 0x8b, 0, 1, 0, 0]), writes(0x3000 + 0x4000 + 0x100, 1)); // mov [rbx+rcx*4+256], al
        assert_eq!(of(&[0x42, 0x89, 0x04, 0xa3]), writes(0x3000 + 4 * 0xc000, 4)); // mov [rbx+r12*4], eax
        assert_eq!(of(&[0x83, 0x00, 1]), writes(0, 4)); // add dword [rax], 1
        assert_eq!(of(&[0xff, 0x45, 0xfc]), writes(0x4ffc, 4)); // inc dword [rbp-4]
        assert_eq!(of(&[0xc6, 0x45, 0xff, 9]), writes(0x4fff, 1)); // mov byte [rbp-1], 9
        assert_eq!(of(&[0x0f, 0x94, 0x45, 0xff]), writes(0x4fff, 1)); // sete [rbp-1]
        assert_eq!(of(&[0x83, 0x05, 0x10, 0, 0, 0, 1]), writes(7 + 0x10, 4)); // add dword [rip+16], 1
        assert_eq!(of(&[0xe8, 0, 0, 0, 0]), writes(0x4000 - 8, 8)); // call
        assert_eq!(of(&[0x41, 0x54]), writes(0x4000 - 8, 8)); // push r12
        assert_eq!(of(&[0x89, 0x04, 0x25, 0, 2, 0, 0]), writes(0x200, 4)); // mov [0x200], eax
        assert_eq!(of(&[0x89, 0x45, 0x00]), writes(0x5000, 4)); // mov [rbp+0], eax
    }

    #[test]
    fn all_others_are_not_known() {
        let codes: [&[u8]; 9] = [
            &[0x0f, 0x05],                   // syscall
            &[0x0f, 0x31],                   // rdtsc
            &[0xf3, 0xaa],                   // rep stosb
            &[0xa4],                         // movsb
            &[0xf0, 0x0f, 0xb1, 0x10],       // lock cmpxchg
            &[0x87, 0x03],                   // xchg [rbx], eax
            &[0x0f, 0x11, 0x00],             // movups
            &[0xc5, 0xfc, 0x77],             // vzeroall
            &[0x64, 0x89, 0x04, 0x25, 0, 0], // mov fs:[..], eax
        ];
        for code in codes {
            assert_eq!(of(code), Effect::Unknown, "{code:02x?}");
        }
    }
}
