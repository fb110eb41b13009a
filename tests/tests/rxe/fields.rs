//! The fields of management datagrams and of the headers before them, and how each is compared with Linux'.

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum As {
    /// All bits are the same.
    Same,
    /// A number of the sender's choice: the first one of an exchange and its repetitions, the second one and its, and so on.
    Choice(Class),
    /// An address of either end, with what is before it.
    Address,
    /// The flow label of the connection's two ports, and the rate, which is the same.
    Label,
    /// Not at all: each sender counts for itself, or it follows from what is compared.
    Counted,
    /// A UDP port from 49152 on.
    SourcePort,
    /// The card says this, and Linux that.
    Known(u8, u8),
}

/// Numbers of a sender's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Transaction,
    Id,
    Guid,
    Qpn,
    Psn,
    Port,
}

/// Name, bytes, comparison.
pub type Field = (&'static str, usize, As);

use As::*;
use Class::*;

/// The fields of an IPv4 header, in their order, without a gap.
pub const IPV4: &[Field] = &[
    ("version and length of the header", 1, Same),
    ("type of service", 1, Same),
    ("length", 2, Same),
    ("identification", 2, Counted),
    ("flags and fragment", 2, Same),
    ("time to live", 1, Same),
    ("protocol", 1, Same),
    ("checksum", 2, Counted),
    ("source", 4, Address),
    ("destination", 4, Address),
];
/// The same of an IPv6 header.
pub const IPV6: &[Field] = &[
    ("version, traffic class and flow label", 4, Same),
    ("length", 2, Same),
    ("next header", 1, Same),
    ("hop limit", 1, Same),
    ("source", 16, Address),
    ("destination", 16, Address),
];
/// UDP, BTH and DETH.
pub const TRANSPORT: &[Field] = &[
    ("UDP source port", 2, SourcePort),
    ("UDP destination port", 2, Same),
    ("UDP length", 2, Same),
    ("UDP checksum", 2, Same),
    ("opcode", 1, Same),
    ("solicited event, migration, pad, version", 1, Same),
    ("P_Key", 2, Same),
    ("reserved", 1, Same),
    ("destination QP", 3, Same),
    // Linux sets it in each last packet, also where nothing is acknowledged.
    ("acknowledge request", 1, Known(0, 0x80)),
    ("PSN", 3, Counted),
    ("Q_Key", 4, Same),
    ("reserved", 1, Same),
    ("source QP", 3, Same),
];
/// The header of each datagram.
pub const MAD: &[Field] = &[
    ("base version", 1, Same),
    ("class", 1, Same),
    ("class version", 1, Same),
    ("method", 1, Same),
    ("status", 2, Same),
    ("class specific", 2, Same),
    ("transaction", 8, Choice(Transaction)),
    ("attribute", 2, Same),
    ("reserved", 2, Same),
    ("attribute modifier", 4, Same),
];
/// What is known of the connection at both ends.
pub const LOCAL_ID: &str = "local ID";
const BOTH: [Field; 2] = [(LOCAL_ID, 4, Choice(Id)), ("remote ID", 4, Choice(Id))];

/// Attribute, name, fields after the header.
pub const MESSAGES: &[(u8, &str, &[Field])] = &[
    (
        0x10,
        "REQ",
        &[
            ("local ID", 4, Choice(Id)),
            ("reserved", 4, Same),
            ("service ID", 8, Same),
            ("local CA GUID", 8, Choice(Guid)),
            ("reserved", 4, Same),
            ("local Q_Key", 4, Same),
            ("local QPN", 3, Choice(Qpn)),
            ("responder resources", 1, Same),
            ("local EECN", 3, Same),
            ("initiator depth", 1, Same),
            ("remote EECN", 3, Same),
            ("remote response time-out, transport, flow control", 1, Same),
            ("starting PSN", 3, Choice(Psn)),
            ("local response time-out, retry count", 1, Same),
            ("P_Key", 2, Same),
            ("MTU, RDC exists, RNR retry count", 1, Same),
            ("CM retries, SRQ, extended transport", 1, Same),
            ("local LID", 2, Same),
            ("remote LID", 2, Same),
            ("local GID", 16, Address),
            ("remote GID", 16, Address),
            ("flow label, rate", 4, Label),
            ("traffic class", 1, Same),
            ("hop limit", 1, Same),
            ("SL, subnet local", 1, Same),
            ("ACK time-out", 1, Same),
            ("alternate path", 44, Same),
            ("IP version", 2, Same),
            ("port", 2, Choice(Port)),
            ("source address", 16, Address),
            ("destination address", 16, Address),
            ("private data", 56, Same),
        ],
    ),
    (
        0x11,
        "MRA",
        &[BOTH[0], BOTH[1], ("message", 1, Same), ("service time-out", 1, Same), ("private data", 222, Same)],
    ),
    (
        0x12,
        "REJ",
        &[
            BOTH[0],
            BOTH[1],
            ("message", 1, Same),
            ("length of the information", 1, Same),
            ("reason", 2, Same),
            // Of a time-out: the sender's GUID.
            ("additional information", 8, Choice(Guid)),
            ("additional information", 64, Same),
            ("private data", 148, Same),
        ],
    ),
    (
        0x13,
        "REP",
        &[
            BOTH[0],
            BOTH[1],
            ("local Q_Key", 4, Same),
            ("local QPN", 3, Choice(Qpn)),
            ("reserved", 1, Same),
            ("local EECN", 3, Same),
            ("reserved", 1, Same),
            ("starting PSN", 3, Choice(Psn)),
            ("reserved", 1, Same),
            ("responder resources", 1, Same),
            ("initiator depth", 1, Same),
            ("ACK delay, failover, flow control", 1, Same),
            ("RNR retry count, SRQ", 1, Same),
            ("local CA GUID", 8, Choice(Guid)),
            ("private data", 196, Same),
        ],
    ),
    (0x14, "RTU", &[BOTH[0], BOTH[1], ("private data", 224, Same)]),
    (
        0x15,
        "DREQ",
        &[
            BOTH[0],
            BOTH[1],
            ("remote QPN", 3, Choice(Qpn)),
            ("reserved", 1, Same),
            ("private data", 220, Same),
        ],
    ),
    (0x16, "DREP", &[BOTH[0], BOTH[1], ("private data", 224, Same)]),
    (
        0x17,
        "SIDR_REQ",
        &[
            ("request ID", 4, Choice(Id)),
            ("P_Key", 2, Same),
            ("reserved", 2, Same),
            ("service ID", 8, Same),
            ("IP version", 2, Same),
            ("port", 2, Choice(Port)),
            ("source address", 16, Address),
            ("destination address", 16, Address),
            ("private data", 180, Same),
        ],
    ),
    (
        0x18,
        "SIDR_REP",
        &[
            ("request ID", 4, Choice(Id)),
            ("status", 1, Same),
            ("length of the information", 1, Same),
            ("vendor", 2, Same),
            ("QPN", 3, Choice(Qpn)),
            ("reserved", 1, Same),
            ("service ID", 8, Same),
            ("Q_Key", 4, Same),
            ("additional information", 72, Same),
            ("private data", 136, Same),
        ],
    ),
];
