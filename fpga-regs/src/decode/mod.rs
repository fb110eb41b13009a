//! From bytes to text: the hex beside the name and meaning of every field.
//!
//! Any bytes give text and nothing panics. Reserved bits are shown when they
//! are not zero, so one changed bit always shows as one changed line (or more,
//! where the bit decides how what follows is to be read).

mod admin;
mod hex;
mod lines;
mod queue;
mod recv;
mod wqe;

pub use admin::{command, reply};
pub use hex::{parse_hex, HexError};
pub use lines::{Decoded, Line, Section};
pub use queue::{cqe, eqe, format};
pub use recv::recv_wqe;
pub use wqe::{wqe, wqes};

use crate::context::*;
use crate::field::Format;
use crate::flow::FlowContext;
use crate::lag::LagContext;
use crate::limits::CardLimits;
use crate::rss::{EthernetLimits, TableContext};

/// The contexts that [`entries`] knows, by the name of their kind.
pub const CONTEXTS: &[(&str, &Format)] = &[
    ("qp", &QpContext::FORMAT),
    ("cq", &CqContext::FORMAT),
    ("srq", &SrqContext::FORMAT),
    ("eq", &EqContext::FORMAT),
    ("mr", &MrContext::FORMAT),
    ("mw", &MwContext::FORMAT),
    ("port", &PortContext::FORMAT),
    ("flow", &FlowContext::FORMAT),
    ("table", &TableContext::FORMAT),
    ("lag", &LagContext::FORMAT),
    ("ethernet", &EthernetLimits::FORMAT),
    ("limits", &CardLimits::FORMAT),
];

/// The kinds that [`entries`] knows, beside [`CONTEXTS`].
pub const KINDS: &[&str] = &["wqe", "recv", "cqe", "eqe", "cmd", "reply"];

/// [`entries`] does not know this kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind(pub String);

impl std::fmt::Display for UnknownKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let contexts = CONTEXTS.iter().map(|(kind, _)| *kind);
        let known: Vec<&str> = KINDS.iter().copied().chain(contexts).collect();
        write!(out, "nothing of kind {:?} can be decoded; known: {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownKind {}

/// [`entries`] in words.
pub fn text(kind: &str, bytes: &[u8]) -> Result<String, UnknownKind> {
    let texts: Vec<String> = entries(kind, bytes)?.iter().map(Decoded::to_string).collect();
    Ok(texts.join("\n"))
}

/// Decodes `bytes` as one of [`KINDS`] or [`CONTEXTS`]; several
/// consecutive entries are decoded one by one.
pub fn entries(kind: &str, bytes: &[u8]) -> Result<Vec<Decoded>, UnknownKind> {
    Ok(match kind {
        "wqe" => wqes(bytes),
        "recv" => vec![recv_wqe(bytes)],
        "cqe" => each(bytes, crate::Cqe::BYTES, cqe),
        "eqe" => each(bytes, crate::Eqe::BYTES, eqe),
        "cmd" => vec![command(bytes)],
        "reply" => each(bytes, crate::Reply::BYTES, reply),
        _ => match CONTEXTS.iter().find(|(name, _)| *name == kind) {
            Some((_, known)) => vec![format(known, bytes)],
            None => return Err(UnknownKind(kind.to_string())),
        },
    })
}

/// Entries of a fixed size, one after the other; at least one.
fn each(bytes: &[u8], size: usize, decode: fn(&[u8]) -> Decoded) -> Vec<Decoded> {
    if bytes.is_empty() {
        return vec![decode(bytes)];
    }
    bytes.chunks(size).map(decode).collect()
}
