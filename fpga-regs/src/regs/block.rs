//! `registers!`: a block of registers.
//!
//! A register is written `NAME field (where);` and *where* is one of
//! `RO u32 @ 0x00`, `RW Control: u32 @ 0x20` (a `word!` type) or
//! `RW u32 x 32 @ 0x100` (an array); `RO`, `RW`, `WO`, `W1C` are the modes of
//! [`Mode`](super::register::Mode). `= 0` after it is the value after a reset,
//! where the definition fixes it. `gap _g 8;` declares reserved bytes between
//! registers and `rest _r 8;` for those at the end.

/// Offset constant, table entry or cell type of one register.
macro_rules! register {
    (@offset ($mode:ident $word:ident @ $at:literal)) => { $at };
    (@offset ($mode:ident $value:ident: $word:ident @ $at:literal)) => { $at };
    (@offset ($mode:ident $word:ident x $count:literal @ $at:literal)) => { $at };

    (@cell (W1C $($rest:tt)+)) => { register!(@cell (RW $($rest)+)) };
    (@cell ($mode:ident $word:ident @ $at:literal)) => {
        volatile_register::$mode<$word>
    };
    (@cell ($mode:ident $value:ident: $word:ident @ $at:literal)) => {
        volatile_register::$mode<$value>
    };
    (@cell ($mode:ident $word:ident x $count:literal @ $at:literal)) => {
        [volatile_register::$mode<$word>; $count]
    };

    (@reset) => { None };
    (@reset $reset:expr) => { Some($reset as u64) };

    (@entry $name:ident $doc:tt ($mode:ident $word:ident @ $at:literal), $reset:expr) => {
        register!(@full $name $doc $mode $word $at 1, None, $reset)
    };
    (@entry $name:ident $doc:tt ($mode:ident $value:ident: $word:ident @ $at:literal), $reset:expr) => {
        register!(@full $name $doc $mode $word $at 1, Some(&<$value>::FORMAT), $reset)
    };
    (@entry $name:ident $doc:tt ($mode:ident $word:ident x $count:literal @ $at:literal), $reset:expr) => {
        register!(@full $name $doc $mode $word $at $count, None, $reset)
    };
    (@full $name:ident [$($doc:literal)+] $mode:ident $word:ident $at:literal $count:literal, $value:expr,
        $reset:expr) => {
        crate::regs::register::Register {
            name: stringify!($name),
            doc: concat!($($doc),+),
            offset: $at,
            bytes: $word::BITS / 8,
            count: $count,
            mode: crate::regs::register::Mode::$mode,
            value: $value,
            reset: $reset,
        }
    };
}

/// A block of registers: constants, cells, table, and the checks that they agree.
macro_rules! registers {
    ($(#[doc = $tdoc:literal])+ $block:ident: $size:literal {
        $(
            $(gap $gap:ident $gap_bytes:literal;)?
            $(#[doc = $doc:literal])+ $name:ident $field:ident $at:tt $(= $reset:expr)?;
        )+
        $(rest $rest:ident $rest_bytes:literal;)?
    }) => {
        $(
            $(#[doc = $doc])+
            pub const $name: u32 = register!(@offset $at);
        )+

        /// Every register of the block.
        pub const REGISTERS: &[crate::regs::register::Register] = &[
            $( register!(@entry $name [$($doc)+] $at, register!(@reset $($reset)?)), )+
        ];

        $(#[doc = $tdoc])+
        #[repr(C)]
        pub struct $block {
            $(
                $($gap: [u8; $gap_bytes],)?
                $(#[doc = $doc])+
                pub $field: register!(@cell $at),
            )+
            $($rest: [u8; $rest_bytes],)?
        }

        const _: () = {
            assert!(size_of::<$block>() == $size, "the block has another size");
            $(assert!(
                std::mem::offset_of!($block, $field) == $name as usize,
                "a cell is not at its register's offset"
            );)+
            crate::regs::block::check(REGISTERS, $size);
        };
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
