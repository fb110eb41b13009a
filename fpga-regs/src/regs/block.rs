//! `registers!`: a block of registers.
//!
//! A register is written `NAME (where);` and *where* is one of
//! `RO u32 @ 0x00`, `RW u32 as Control @ 0x20` (a `word!` type) or
//! `RW u32 x 32 @ 0x100` (an array); `RO`, `RW`, `WO`, `W1C` are the modes of
//! [`Mode`](super::register::Mode). `= 0` after it is the value after a reset,
//! where the definition fixes it. What the offsets leave out is reserved.

/// An option of what there is.
macro_rules! if_given {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// A block of registers: offset constants, the table of them, and the check that they do not overlap.
macro_rules! registers {
    ($(#[doc = $tdoc:literal])+ $table:ident: $size:literal {
        $(
            $(#[doc = $doc:literal])+
            $name:ident ($mode:ident $word:ident $(as $value:ident)? $(x $count:literal)? @ $at:literal)
                $(= $reset:expr)?;
        )+
    }) => {
        $( $(#[doc = $doc])+ pub const $name: u32 = $at; )+

        $(#[doc = $tdoc])+
        pub const $table: &[crate::regs::register::Register] = &[$(
            crate::regs::register::Register {
                name: stringify!($name),
                doc: concat!($($doc),+),
                offset: $at,
                bytes: $word::BITS / 8,
                count: 1 $(* $count)?,
                mode: crate::regs::register::Mode::$mode,
                value: if_given!($(&$value::FORMAT)?),
                reset: if_given!($($reset as u64)?),
            },
        )+];

        const _: () = crate::regs::block::check($table, $size);
    };
}

/// Compile-time check: registers are aligned, in order, and do not overlap.
pub(crate) const fn check(registers: &[super::register::Register], size: u32) {
    let mut end = 0;
    let mut i = 0;
    while i < registers.len() {
        let register = &registers[i];
        assert!(register.offset >= end, "two registers overlap");
        assert!(register.offset % register.bytes == 0, "a register is not aligned");
        if let Some(value) = register.value {
            assert!(value.bytes == register.bytes as usize, "a value's size is wrong");
        }
        if let Some(reset) = register.reset {
            assert!(register.bytes == 8 || reset >> 32 == 0, "a reset value is too large");
        }
        end = register.offset + register.bytes * register.count;
        i += 1;
    }
    assert!(end <= size, "a register is outside its block");
}
