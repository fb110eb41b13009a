//! What a rule sees of a frame: the classes that it belongs to, its QP and its PSN.

use std::fmt;

use crate::cm::mad::GSI_QPN;
use crate::named::named;
use crate::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_ROCE};
use crate::wire::udp::ROCE_PORT;
use crate::wire::{
    Bth, BthOpcode, Ethernet, Ipv4, Ipv6, NakCode, Operation, RnrTimer, Syndrome, SyndromeKind, Udp,
};

/// Kinds of packets. A packet is of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(pub(super) u32);

named! {
    Classes(place => 1 << place) {
        DATA "data" "A packet of a SEND, a WRITE, or the response to a READ, but of no MAD.",
        FIRST "first" "The first of several packets of a message.",
        MIDDLE "middle" "Neither the first nor the last packet of a message.",
        LAST "last" "The last of several packets of a message.",
        ONLY "only" "The only packet of its message.",
        REQUEST "request" "From a requester: a SEND, WRITE, READ or atomic.",
        RESPONSE "response" "From a responder: any acknowledgement or response.",
        SEND "send" "A SEND.",
        WRITE "write" "A WRITE.",
        READ "read" "The request of a READ.",
        READ_RESPONSE "read-response" "A packet of the response to a READ.",
        ATOMIC "atomic" "The request of an atomic operation.",
        ATOMIC_RESPONSE "atomic-response" "The response to one.",
        ACK "ack" "An ACK.",
        NAK "nak" "A NAK, of any code.",
        RNR "rnr" "An RNR NAK.",
        CNP "cnp" "A congestion notification packet.",
        MAD "mad" "A management datagram, for QP 1.",
    }
}

impl Classes {
    /// Anything.
    pub const NONE: Classes = Classes(0);

    /// Whether these are all of `wanted`.
    pub fn has(self, wanted: Classes) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }

    /// Whether some packet is of all of these.
    pub(super) fn has_packets(self) -> bool {
        let syndromes =
            [Syndrome::ACK, Syndrome::rnr(RnrTimer(0)), Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR)];
        (0..=u8::MAX).map(BthOpcode).any(|opcode| {
            let of = |qp| syndromes.iter().any(|&syndrome| Classes::of(opcode, qp, syndrome).has(self));
            of(GSI_QPN) || of(GSI_QPN + 1)
        })
    }

    fn of(opcode: BthOpcode, qp: u32, syndrome: Syndrome) -> Classes {
        use Classes as C;
        if opcode.has_deth() && qp == GSI_QPN {
            return C::MAD;
        }
        let Some(operation) = opcode.operation() else { return C::NONE };
        let way = if opcode.is_response() { C::RESPONSE } else { C::REQUEST };
        let kind = match operation {
            Operation::Send => C::SEND,
            Operation::Write => C::WRITE,
            Operation::ReadRequest => C::READ,
            Operation::ReadResponse => C::READ_RESPONSE,
            Operation::CompareSwap | Operation::FetchAdd => C::ATOMIC,
            Operation::AtomicAcknowledge => C::ATOMIC_RESPONSE,
            Operation::CongestionNotification => return C::CNP,
            Operation::Acknowledge => match syndrome.kind() {
                SyndromeKind::Ack { .. } => C::ACK,
                SyndromeKind::RnrNak(_) => C::RNR,
                SyndromeKind::Nak(_) | SyndromeKind::Reserved => C::NAK,
            },
        };
        if !matches!(operation, Operation::Send | Operation::Write | Operation::ReadResponse) {
            return way.and(kind);
        }
        let place = [
            (opcode.is_first(), C::FIRST),
            (opcode.is_middle(), C::MIDDLE),
            (opcode.is_last(), C::LAST),
            (opcode.is_only(), C::ONLY),
        ];
        let place = place.into_iter().find(|place| place.0).map_or(C::NONE, |place| place.1);
        way.and(kind).and(C::DATA).and(place)
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Classes::ALL.iter().filter(|(class, ..)| self.has(*class));
        names.enumerate().try_for_each(|(n, (_, name, _))| {
            f.write_str(if n == 0 { "" } else { " " })?;
            f.write_str(name)
        })
    }
}

/// What is seen of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub classes: Classes,
    /// Destination QP.
    pub qp: u32,
    pub psn: u32,
}

/// `None`: no frame of RoCE, or too short.
pub(super) fn seen(frame: &[u8]) -> Option<Seen> {
    let (ethernet, packet) = Ethernet::decode(frame)?;
    let udp_at = match ethernet.ethertype {
        ETHERTYPE_IPV4 => Some(Ipv4::BYTES),
        ETHERTYPE_IPV6 => Some(Ipv6::BYTES),
        ETHERTYPE_ROCE => None,
        _ => return None,
    };
    let bth_at = match udp_at {
        Some(udp) => {
            let port = Udp::decode(packet.get(udp..)?.first_chunk()?).dst_port;
            (port == ROCE_PORT).then_some(udp + Udp::BYTES)?
        }
        None => Ipv6::BYTES,
    };
    let (bth, rest) = packet.get(bth_at..)?.split_first_chunk()?;
    let bth = Bth::decode(bth);
    let syndrome = Syndrome(*rest.first()?);
    let classes = Classes::of(bth.opcode, bth.dest_qp, syndrome);
    Some(Seen { classes, qp: bth.dest_qp, psn: bth.psn })
}
