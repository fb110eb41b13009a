//! A field's place and meaning: the table that decoding and documentation use.

/// A named value of an open enum, or a named bit (then `value` is its mask).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The number on the wire.
    pub value: u64,
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// The names of an open enum or of a flag set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Name of the Rust type.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Bits of the Rust type.
    pub bits: usize,
    /// Every value or bit that has a name.
    pub values: &'static [Named],
}

/// How to read a field's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One bit.
    Bool,
    /// An unsigned number.
    Uint,
    /// Six bytes of an Ethernet address, first byte of the wire first.
    Mac,
    /// Sixteen bytes of a GID, in the order of the wire.
    Gid,
    /// One of these values, or an unknown one.
    Enum(&'static Names),
    /// A set of these bits, or unknown ones.
    Flags(&'static Names),
}

/// One field of a format or of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the accessor.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// First bit, counted from bit 0 of byte 0 (little endian).
    pub bit: usize,
    /// Width in bits.
    pub width: usize,
    /// How to read it.
    pub kind: Kind,
}

/// A whole format: its name, size and fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Name of the Rust type.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Size in bytes.
    pub bytes: usize,
    /// The fields, in any order; what they leave out is reserved.
    pub fields: &'static [Field],
}

impl Field {
    /// The byte where the field starts.
    pub const fn byte(&self) -> usize {
        self.bit / 8
    }

    /// True where the field is made of whole bytes.
    pub const fn is_bytes(&self) -> bool {
        self.bit % 8 == 0 && self.width % 8 == 0
    }

    /// The field's number, for fields of at most 64 bits; `None` where `bytes`
    /// is too short or the field is wider.
    pub fn value(&self, bytes: &[u8]) -> Option<u64> {
        if self.width > 64 {
            return None;
        }
        self.wide(bytes).map(|value| value as u64)
    }

    /// The field's number, at most 128 bits; `None` where `bytes` is too short.
    pub fn wide(&self, bytes: &[u8]) -> Option<u128> {
        let end = self.bit + self.width;
        let byte = |index: usize| bytes.get(index).map(|byte| u128::from(*byte));
        let first = byte(self.byte())? >> (self.bit % 8);
        let rest = self.byte() + 1..end.div_ceil(8);
        let wide = rest
            .enumerate()
            .try_fold(first, |sum, (i, index)| Some(sum | byte(index)? << (8 * (i + 1) - self.bit % 8)))?;
        Some(wide & (u128::MAX >> (128 - self.width)))
    }

    /// Stores the lowest bits of `value`, of bytes that have the field.
    pub fn put(&self, bytes: &mut [u8], value: u128) {
        for i in 0..self.width {
            let (byte, mask) = ((self.bit + i) / 8, 1 << ((self.bit + i) % 8));
            bytes[byte] = bytes[byte] & !mask | if value >> i & 1 != 0 { mask } else { 0 };
        }
    }

    /// The field's value as text; never panics.
    pub fn text(&self, bytes: &[u8]) -> String {
        use crate::field_text as text;
        let Some(raw) = bytes.get(self.byte()..(self.bit + self.width).div_ceil(8)) else {
            return "missing".to_string();
        };
        match (self.kind, self.value(bytes)) {
            (Kind::Bool, Some(value)) => text::yes_no(value),
            (Kind::Mac, _) => text::mac(raw),
            (Kind::Gid, _) => text::gid(raw),
            (Kind::Enum(names), Some(value)) => text::named(value, names.values),
            (Kind::Flags(names), Some(value)) => text::flags(value, names.values),
            (_, Some(value)) => text::number(value),
            (_, None) => text::hex(raw),
        }
    }
}

/// Compile-time check: every field is inside and none overlaps another.
pub(crate) const fn check(fields: &[Field], bytes: usize) {
    let mut i = 0;
    while i < fields.len() {
        let a = &fields[i];
        assert!(a.width > 0, "a field has no bits");
        assert!(a.bit + a.width <= bytes * 8, "a field ends outside");
        let mut j = 0;
        while j < i {
            let b = &fields[j];
            assert!(a.bit + a.width <= b.bit || b.bit + b.width <= a.bit, "two fields overlap");
            j += 1;
        }
        i += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn field(bit: usize, width: usize) -> Field {
        Field { name: "x", doc: "", bit, width, kind: Kind::Uint }
    }

    #[test]
    fn fields_side_by_side_pass() {
        check(&[field(8, 8), field(0, 8), field(16, 16)], 4);
    }

    #[test]
    #[should_panic(expected = "two fields overlap")]
    fn an_overlap_is_found() {
        check(&[field(0, 9), field(8, 8)], 4);
    }

    #[test]
    #[should_panic(expected = "a field ends outside")]
    fn a_field_beyond_the_end_is_found() {
        check(&[field(24, 9)], 4);
    }

    #[test]
    fn a_field_across_bytes_is_read() {
        let bytes = [0x80, 0xff, 0x01];
        assert_eq!(field(7, 10).value(&bytes), Some(0x3ff));
        assert_eq!(field(7, 18).value(&bytes), None);
        assert_eq!(field(20, 8).text(&bytes), "missing");
    }
}
