//! `word!`: the value of a register or doorbell, with named bits.
//!
//! A field is written `get with (where);` and *where* is one of `bool 3`,
//! `u32 0..24` (the type of the accessor, then the bits) or
//! `LinkState: u8 4..8`.

/// The accessors of one field.
macro_rules! word_accessors {
    ($word:ident $doc:tt $get:ident $with:ident (bool $bit:literal)) => {
        word_accessors!(@both $doc $get $with bool, self value {
            self.0 >> $bit & 1 != 0
        } {
            Self(self.0 & !(1 << $bit) | (value as $word) << $bit)
        });
    };
    ($word:ident $doc:tt $get:ident $with:ident ($int:ident $lo:literal .. $hi:literal)) => {
        word_accessors!(@both $doc $get $with $int, self value {
            (self.0 >> $lo & ($word::MAX >> ($word::BITS - ($hi - $lo)))) as $int
        } {
            let mask = $word::MAX >> ($word::BITS - ($hi - $lo)) << $lo;
            Self(self.0 & !mask | (value as $word) << $lo & mask)
        });
    };
    ($word:ident $doc:tt $get:ident $with:ident ($open:ident: $int:ident $lo:literal .. $hi:literal)) => {
        word_accessors!(@both $doc $get $with $open, self value {
            $open((self.0 >> $lo & ($word::MAX >> ($word::BITS - ($hi - $lo)))) as $int)
        } {
            let mask = $word::MAX >> ($word::BITS - ($hi - $lo)) << $lo;
            Self(self.0 & !mask | (value.0 as $word) << $lo & mask)
        });
    };
    (@both [$($doc:literal)+] $get:ident $with:ident $type:ty, $this:ident $value:ident $load:block $changed:block) => {
        $(#[doc = $doc])+
        #[inline]
        pub const fn $get($this) -> $type {
            $load
        }
        #[doc = concat!("A copy with [`Self::", stringify!($get), "`] set.")]
        #[inline]
        #[must_use]
        pub const fn $with($this, $value: $type) -> Self {
            $changed
        }
    };
}

/// The table entry of one field.
macro_rules! word_field {
    ($name:ident $doc:tt (bool $bit:literal)) => {
        wire_field!(@entry $name $doc $bit, 1, crate::field::Kind::Bool)
    };
    ($name:ident $doc:tt ($int:ident $lo:literal .. $hi:literal)) => {
        wire_field!(@entry $name $doc $lo, $hi - $lo, crate::field::Kind::Uint)
    };
    ($name:ident $doc:tt ($open:ident: $int:ident $lo:literal .. $hi:literal)) => {
        wire_field!(@entry $name $doc $lo, $hi - $lo, <$open>::KIND)
    };
}

/// A register's or doorbell's value of 32 or 64 bits.
macro_rules! word {
    ($(#[doc = $tdoc:literal])+ $name:ident: $word:ident {
        $( $(#[doc = $doc:literal])+ $get:ident $with:ident $at:tt; )+
    }) => {
        $(#[doc = $tdoc])+
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $word);

        impl $name {
            /// The fields; all other bits are reserved and zero.
            pub const FIELDS: &'static [crate::field::Field] = &[$(
                word_field!($get [$($doc)+] $at),
            )+];

            /// The whole description.
            pub const FORMAT: crate::field::Format = crate::field::Format {
                name: stringify!($name),
                doc: concat!($($tdoc, "\n"),+),
                bytes: $word::BITS as usize / 8,
                fields: Self::FIELDS,
            };

            $( word_accessors!($word [$($doc)+] $get $with $at); )+
        }

        #[cfg(test)]
        impl $name {
            /// For each field, a value in which only it was copied.
            pub(crate) fn each_alone(&self) -> Vec<Vec<u8>> {
                vec![$( Self(0).$with(self.$get()).0.to_le_bytes().to_vec(), )+]
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                crate::field_text::debug(out, &Self::FORMAT, &self.0.to_le_bytes())
            }
        }

        const _: () = crate::field::check($name::FIELDS, $word::BITS as usize / 8);
    };
}
