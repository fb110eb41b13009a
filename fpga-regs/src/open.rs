//! Named constants, open enums and flag sets: newtypes that keep values they do
//! not know.

/// Numbers with a name: a `pub const` each, and the table `CONSTANTS`.
macro_rules! constants {
    ($( $(#[doc = $doc:literal])+ $name:ident: $int:ident = $value:expr; )+) => {
        $( $(#[doc = $doc])+ pub const $name: $int = $value; )+

        /// The constants above, for [`crate::catalog`].
        pub(crate) const CONSTANTS: &[crate::field::Named] = &[$(
            crate::field::Named {
                value: $name as u64,
                name: stringify!($name),
                doc: concat!($($doc),+),
            },
        )+];
    };
}

/// What open enums and flag sets have in common: names and descriptions of the type and its values.
macro_rules! named {
    ($($tdoc:literal)+ $name:ident: $int:ident, $kind:ident, {
        $( $value:ident = $number:expr, $($doc:literal)+; )+
    }) => {
        impl $name {
            /// Everything that has a name.
            pub const VALUES: &'static [crate::field::Named] = &[$(
                crate::field::Named {
                    value: $number,
                    name: stringify!($value),
                    doc: concat!($($doc),+),
                },
            )+];

            /// The type's name, meaning and values.
            pub const NAMES: &'static crate::field::Names = &crate::field::Names {
                name: stringify!($name),
                doc: concat!($($tdoc, "\n"),+),
                bits: $int::BITS as usize,
                values: Self::VALUES,
            };

            /// How a field of this type is read.
            pub const KIND: crate::field::Kind = crate::field::Kind::$kind(Self::NAMES);
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, out)
            }
        }
    };
}

/// An open enum: `Name(pub u8)` with constants, `name()`, `Display`, `KIND`.
macro_rules! open_enum {
    ($(#[doc = $tdoc:literal])+ $name:ident: $int:ident {
        $( $(#[doc = $doc:literal])+ $value:ident = $number:literal, )+
    }) => {
        $(#[doc = $tdoc])+
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $int);

        impl $name {
            $( $(#[doc = $doc])+ pub const $value: $name = $name($number); )+
        }

        named! {
            $($tdoc)+ $name: $int, Enum, {
                $( $value = $number, $($doc)+; )+
            }
        }

        impl $name {
            /// The value's name, where it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $number => Some(stringify!($value)), )+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => out.pad(name),
                    None => write!(out, "{:#x}", self.0),
                }
            }
        }
    };
}

/// A set of bits: `Name(pub u8)` with a constant a bit, given by its number.
macro_rules! flag_set {
    ($(#[doc = $tdoc:literal])+ $name:ident: $int:ident {
        $( $(#[doc = $doc:literal])+ $value:ident = $bit:literal, )+
    }) => {
        $(#[doc = $tdoc])+
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);

        named! {
            $($tdoc)+ $name: $int, Flags, {
                $( $value = 1 << $bit, $($doc)+; )+
            }
        }

        impl $name {
            $( $(#[doc = $doc])+ pub const $value: $name = $name(1 << $bit); )+

            /// No bit set.
            pub const fn empty() -> Self {
                Self(0)
            }

            /// The raw number.
            pub const fn bits(self) -> $int {
                self.0
            }

            /// True where every bit of `other` is set.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// True where any bit of `other` is set.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Both sets together.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// This set without the bits of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// The bits that have no name.
            pub const fn unknown(self) -> $int {
                self.0 $( & !(1 << $bit) )+
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(&crate::field_text::flags(u64::from(self.0), Self::VALUES))
            }
        }
    };
}
