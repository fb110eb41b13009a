//! Members of a C struct from fields of bits: where several fields share a
//! number, or a field has an odd width, a member holds them and masks take it
//! apart.

use super::text::{pieces, Piece};
use crate::field::{Field, Format, Kind};

/// A member of a struct.
pub struct Member<'a> {
    /// Its name.
    pub name: String,
    /// First byte.
    pub byte: usize,
    /// Bytes.
    pub bytes: usize,
    /// It is an array of bytes instead of one number.
    pub array: bool,
    /// The fields in it; none where it is reserved.
    pub fields: Vec<&'a Field>,
}

impl Member<'_> {
    /// One field that is the whole member: no mask is needed.
    pub fn is_plain(&self) -> bool {
        matches!(self.fields[..], [field] if field.width == self.bytes * 8)
    }
}

/// The members of a format, without gaps.
pub fn members(format: &Format) -> Vec<Member<'_>> {
    let mut all: Vec<Member> = Vec::new();
    for piece in pieces(format) {
        if let Piece::Field(field) = piece {
            match all.last_mut() {
                // Shares its last byte with the member before: one number for both.
                Some(last) if field.byte() < last.byte + last.bytes => {
                    last.bytes = number_bytes(last.byte, field);
                    last.fields.push(field);
                }
                _ => all.push(alone(field)),
            }
        }
    }
    let shared = all.iter().filter(|member| member.fields.len() > 1).count();
    for member in all.iter_mut().filter(|member| member.fields.len() > 1) {
        member.name = match shared {
            1 => "flags".to_string(),
            _ => format!("flags_{}", member.byte),
        };
    }
    with_reserved(all, format.bytes)
}

/// A member for this field only.
fn alone(field: &Field) -> Member<'_> {
    let array = matches!(field.kind, Kind::Mac | Kind::Gid);
    let bytes = if array { field.width / 8 } else { number_bytes(field.byte(), field) };
    Member { name: field.name.to_string(), byte: field.byte(), bytes, array, fields: vec![field] }
}

/// Bytes of the least number that starts at `byte` and holds `field`.
fn number_bytes(byte: usize, field: &Field) -> usize {
    let bytes = (field.bit + field.width - byte * 8).div_ceil(8).next_power_of_two();
    assert!(bytes <= 8 && byte % bytes == 0, "{} is not in an aligned number", field.name);
    bytes
}

/// Reserved bytes between the members as members.
fn with_reserved(members: Vec<Member<'_>>, end: usize) -> Vec<Member<'_>> {
    let mut all = Vec::new();
    let mut at = 0;
    let reserved = |byte, bytes| Member {
        name: format!("reserved_{byte}"),
        byte,
        bytes,
        array: true,
        fields: Vec::new(),
    };
    for member in members {
        if member.byte > at {
            all.push(reserved(at, member.byte - at));
        }
        assert!(member.byte >= at, "{} overlaps the member before", member.name);
        at = member.byte + member.bytes;
        all.push(member);
    }
    if at < end {
        all.push(reserved(at, end - at));
    }
    all
}
