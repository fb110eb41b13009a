//! `layout!`: bytes in memory with named fields.
//!
//! A field is written `get set with (where);` and *where* is one of
//! `u8 @ 0`, `u32 @ 4 bits 0..24`, `bool @ 2 bit 3`, `[u8; 16] @ 8` or
//! `u8 @ 0 as Opcode`. All numbers are little endian.

/// Copies `M` bytes at `at`; a plain load once inlined.
#[inline(always)]
pub(crate) const fn load<const M: usize>(bytes: &[u8], at: usize) -> [u8; M] {
    match bytes.split_at(at).1.first_chunk::<M>() {
        Some(chunk) => *chunk,
        None => panic!("field outside its format"),
    }
}

/// Stores `M` bytes at `at`; a plain store once inlined.
#[inline(always)]
pub(crate) const fn store<const M: usize>(bytes: &mut [u8], at: usize, value: [u8; M]) {
    match bytes.split_at_mut(at).1.first_chunk_mut::<M>() {
        Some(chunk) => *chunk = value,
        None => panic!("field outside its format"),
    }
}

/// Sets `width` bits from bit `at` on to the low bits of `value`.
///
/// By whole words wherever a field is inside one: a value that is built field by field and then used as words stays
/// in registers. In memory, a load of a word would wait for the stores of its parts.
#[inline(always)]
pub(crate) const fn put(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    let (word, shift) = (at / 64 * 8, at % 64);
    let mask = u64::MAX >> (64 - width);
    if shift + width <= 64 && word + 8 <= bytes.len() {
        let others = u64::from_le_bytes(load(bytes, word)) & !(mask << shift);
        store(bytes, word, (others | (value & mask) << shift).to_le_bytes());
        return;
    }
    let mut bit = 0;
    while bit < width {
        let (byte, of) = ((at + bit) / 8, (at + bit) % 8);
        bytes[byte] = bytes[byte] & !(1 << of) | ((value >> bit & 1) as u8) << of;
        bit += 1;
    }
}

/// The accessors of one field.
macro_rules! wire_accessors {
    ($doc:tt $get:ident $set:ident $with:ident (bool @ $byte:literal bit $bit:literal)) => {
        wire_accessors!(@both $doc $get $set $with bool, self value {
            self.0[$byte] & (1 << $bit) != 0
        } {
            crate::layout::put(&mut self.0, $byte * 8 + $bit, 1, value as u64);
        });
    };
    ($doc:tt $get:ident $set:ident $with:ident ([u8; $n:literal] @ $byte:literal $(as $kind:ident)?)) => {
        wire_accessors!(@both $doc $get $set $with [u8; $n], self value {
            crate::layout::load(&self.0, $byte)
        } {
            crate::layout::store(&mut self.0, $byte, value);
        });
    };
    ($doc:tt $get:ident $set:ident $with:ident ($int:ident @ $byte:literal bits $lo:literal .. $hi:literal)) => {
        wire_accessors!(@both $doc $get $set $with $int, self value {
            let word = $int::from_le_bytes(crate::layout::load(&self.0, $byte));
            word >> $lo & ($int::MAX >> ($int::BITS - ($hi - $lo)))
        } {
            crate::layout::put(&mut self.0, $byte * 8 + $lo, $hi - $lo, value as u64);
        });
    };
    ($doc:tt $get:ident $set:ident $with:ident ($int:ident @ $byte:literal as $open:ident)) => {
        wire_accessors!(@both $doc $get $set $with $open, self value {
            $open($int::from_le_bytes(crate::layout::load(&self.0, $byte)))
        } {
            crate::layout::put(&mut self.0, $byte * 8, $int::BITS as usize, value.0 as u64);
        });
    };
    ($doc:tt $get:ident $set:ident $with:ident ($int:ident @ $byte:literal)) => {
        wire_accessors!(@both $doc $get $set $with $int, self value {
            $int::from_le_bytes(crate::layout::load(&self.0, $byte))
        } {
            crate::layout::put(&mut self.0, $byte * 8, $int::BITS as usize, value as u64);
        });
    };
    (@both [$($doc:literal)+] $get:ident $set:ident $with:ident $type:ty, $this:ident $value:ident $load:block $store:block) => {
        $(#[doc = $doc])+
        #[inline]
        pub const fn $get(&$this) -> $type {
            $load
        }
        #[doc = concat!("Sets [`Self::", stringify!($get), "`].")]
        #[inline]
        pub const fn $set(&mut $this, $value: $type) {
            $store
        }
        #[doc = concat!("A copy with [`Self::", stringify!($get), "`] set.")]
        #[inline]
        #[must_use]
        pub const fn $with(mut self, value: $type) -> Self {
            self.$set(value);
            self
        }
    };
}

/// The table entry of one field.
macro_rules! wire_field {
    (@entry $name:ident [$($doc:literal)+] $bit:expr, $width:expr, $kind:expr) => {
        crate::field::Field {
            name: stringify!($name),
            doc: concat!($($doc),+),
            bit: $bit,
            width: $width,
            kind: $kind,
        }
    };
    ($name:ident $doc:tt (bool @ $byte:literal bit $bit:literal)) => {
        wire_field!(@entry $name $doc $byte * 8 + $bit, 1, crate::field::Kind::Bool)
    };
    ($name:ident $doc:tt ([u8; 6] @ $byte:literal)) => {
        wire_field!(@entry $name $doc $byte * 8, 48, crate::field::Kind::Mac)
    };
    ($name:ident $doc:tt ([u8; 16] @ $byte:literal)) => {
        wire_field!(@entry $name $doc $byte * 8, 128, crate::field::Kind::Gid)
    };
    ($name:ident $doc:tt ($int:ident @ $byte:literal bits $lo:literal .. $hi:literal)) => {
        wire_field!(@entry $name $doc $byte * 8 + $lo, $hi - $lo, crate::field::Kind::Uint)
    };
    ($name:ident $doc:tt ($int:ident @ $byte:literal as $open:ident)) => {
        wire_field!(@entry $name $doc $byte * 8, $int::BITS as usize, <$open>::KIND)
    };
    ($name:ident $doc:tt ($int:ident @ $byte:literal)) => {
        wire_field!(@entry $name $doc $byte * 8, $int::BITS as usize, crate::field::Kind::Uint)
    };
}

/// A format of a fixed number of bytes.
macro_rules! layout {
    ($(#[doc = $tdoc:literal])+ $name:ident: $size:literal {
        $( $(#[doc = $doc:literal])+ $get:ident $set:ident $with:ident $at:tt; )+
    }) => {
        $(#[doc = $tdoc])+
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name([u8; $size]);

        impl $name {
            /// Size in bytes.
            pub const BYTES: usize = $size;

            /// The fields; all other bits are reserved and zero.
            pub const FIELDS: &'static [crate::field::Field] = &[$(
                wire_field!($get [$($doc)+] $at),
            )+];

            /// The whole description.
            pub const FORMAT: crate::field::Format = crate::field::Format {
                name: stringify!($name),
                doc: concat!($($tdoc, "\n"),+),
                bytes: $size,
                fields: Self::FIELDS,
            };

            /// All zero.
            #[inline]
            pub const fn new() -> Self {
                Self([0; $size])
            }

            /// From bytes in the order of memory.
            #[inline]
            pub const fn from_bytes(bytes: &[u8; $size]) -> Self {
                Self(*bytes)
            }

            /// From the first bytes of a slice; `None` if it is too short.
            #[inline]
            pub const fn from_slice(bytes: &[u8]) -> Option<Self> {
                match bytes.first_chunk::<$size>() {
                    Some(bytes) => Some(Self(*bytes)),
                    None => None,
                }
            }

            /// The bytes in the order of memory.
            #[inline]
            pub const fn as_bytes(&self) -> &[u8; $size] {
                &self.0
            }

            /// The bytes, to be changed in place.
            #[inline]
            pub const fn as_mut_bytes(&mut self) -> &mut [u8; $size] {
                &mut self.0
            }

            /// The same as words: whole ones can be stored from registers.
            #[inline(always)]
            pub const fn words(&self) -> [u64; $size / 8] {
                let mut words = [0; $size / 8];
                let mut i = 0;
                while i < $size / 8 {
                    words[i] = u64::from_le_bytes(crate::layout::load(&self.0, i * 8));
                    i += 1;
                }
                words
            }

            /// Sets it to these words, each stored from a register.
            #[inline(always)]
            pub const fn set_words(&mut self, words: [u64; $size / 8]) {
                let mut i = 0;
                while i < $size / 8 {
                    crate::layout::store(&mut self.0, i * 8, words[i].to_le_bytes());
                    i += 1;
                }
            }

            $( wire_accessors!([$($doc)+] $get $set $with $at); )+
        }

        #[cfg(test)]
        impl $name {
            /// For each field, a value in which only it was copied.
            pub(crate) fn each_alone(&self) -> Vec<Vec<u8>> {
                vec![$( Self::new().$with(self.$get()).0.to_vec(), )+]
            }
        }

        impl From<[u8; $size]> for $name {
            #[inline]
            fn from(bytes: [u8; $size]) -> Self {
                Self(bytes)
            }
        }

        impl Default for $name {
            #[inline]
            fn default() -> Self {
                Self::new()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                crate::field_text::debug(out, &Self::FORMAT, &self.0)
            }
        }

        const _: () = crate::field::check($name::FIELDS, $size);
    };
}
