//! What each admin command takes and gives: one table for decoding and the docs.

use crate::admin::*;
use crate::context::*;
use crate::field::{Field, Format, Kind, Named, Names};
use crate::flow::FlowContext;
use crate::lag::LagContext;
use crate::limits::CardLimits;
use crate::rss::{EthernetLimits, TableContext};

/// One admin command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The opcode.
    pub opcode: AdminOpcode,
    /// What [`Command::object`] is the number of; empty where it is not used.
    pub object: &'static str,
    /// The parameters that are used, as fields of [`Command`].
    pub params: &'static [Field],
    /// The context that the card reads.
    pub input: Option<&'static Format>,
    /// The context that the card writes.
    pub output: Option<&'static Format>,
    /// What [`Reply::object`] is the number of; empty where it is zero.
    pub result: &'static str,
    /// The values that are used, as fields of [`Reply`].
    pub values: &'static [Field],
}

impl CommandSpec {
    const fn new(opcode: AdminOpcode, object: &'static str) -> Self {
        Self { opcode, object, params: &[], input: None, output: None, result: "", values: &[] }
    }

    const fn params(mut self, params: &'static [Field]) -> Self {
        self.params = params;
        self
    }

    const fn input(mut self, format: &'static Format) -> Self {
        self.input = Some(format);
        self
    }

    const fn output(mut self, format: &'static Format) -> Self {
        self.output = Some(format);
        self
    }

    const fn result(mut self, result: &'static str) -> Self {
        self.result = result;
        self
    }

    const fn values(mut self, values: &'static [Field]) -> Self {
        self.values = values;
        self
    }
}

/// The parameter or value of 64 bits at byte `at`.
const fn value(name: &'static str, doc: &'static str, at: usize, kind: Kind) -> Field {
    Field { name, doc, bit: at * 8, width: 64, kind }
}

/// A state, or any.
const STATE_OR_ANY: &Names = &Names {
    name: "QpState",
    doc: QpState::NAMES.doc,
    bits: QpState::NAMES.bits,
    values: &{
        const ANY: Named = Named { value: 0xff, name: "ANY", doc: "Any state." };
        let mut all = [ANY; QpState::VALUES.len() + 1];
        let mut i = 0;
        while i < QpState::VALUES.len() {
            all[i] = QpState::VALUES[i];
            i += 1;
        }
        all
    },
};

const GID: Field = Field {
    name: "gid",
    doc: "The GID, in the order of the wire.",
    bit: 32 * 8,
    width: 128,
    kind: Kind::Gid,
};

const MAC: Field = Field {
    name: "mac",
    doc: "The Ethernet address; the first byte of the wire is the lowest byte.",
    bit: 8 * 8,
    width: 48,
    kind: Kind::Mac,
};

/// Every command, in the order of the opcodes.
pub const COMMANDS: &[CommandSpec] = {
    use AdminOpcode as Op;
    use CommandSpec as Spec;
    &[
        Spec::new(Op::NOP, ""),
        Spec::new(Op::QUERY_CARD, "").output(&CardLimits::FORMAT),
        Spec::new(Op::QUERY_PORT, "port, from 1")
            .params(&[value("gid_index", "Which GID to report.", 32, Kind::Uint)])
            .output(&PortContext::FORMAT),
        Spec::new(Op::SET_PORT, "port, from 1")
            .params(&[value("mask", "What to change.", 32, PortAttrMask::KIND)])
            .input(&PortContext::FORMAT),
        Spec::new(Op::QUERY_ETHERNET, "").output(&EthernetLimits::FORMAT),
        Spec::new(Op::ALLOC_PD, "").result("PD"),
        Spec::new(Op::FREE_PD, "PD"),
        Spec::new(Op::OPEN_XRCD, "")
            .params(&[
                value(
                    "key_low",
                    "What software knows the domain by; a key of zero is nobody's.",
                    32,
                    Kind::Uint,
                ),
                value("key_high", "The rest of it.", 40, Kind::Uint),
                value("flags", "Whether it may or must be new.", 48, XrcdFlags::KIND),
            ])
            .result("XRC domain"),
        Spec::new(Op::CLOSE_XRCD, "XRC domain"),
        Spec::new(Op::CREATE_MR, "").input(&MrContext::FORMAT).result("L_Key, which is the R_Key too"),
        Spec::new(Op::DESTROY_MR, "L_Key"),
        Spec::new(Op::CREATE_MW, "")
            .params(&[
                value("pd", "Protection domain.", 32, Kind::Uint),
                value("mw_type", "Type, 1 or 2.", 40, Kind::Uint),
            ])
            .result("R_Key"),
        Spec::new(Op::DESTROY_MW, "R_Key"),
        Spec::new(Op::QUERY_MW, "R_Key").output(&MwContext::FORMAT),
        Spec::new(Op::MODIFY_MR, "L_Key")
            .params(&[value("mask", "What to change.", 32, MrAttrMask::KIND)])
            .input(&MrContext::FORMAT),
        Spec::new(Op::CREATE_EQ, "").input(&EqContext::FORMAT).result("EQN"),
        Spec::new(Op::DESTROY_EQ, "EQN"),
        Spec::new(Op::CREATE_CQ, "").input(&CqContext::FORMAT).result("CQN"),
        Spec::new(Op::RESIZE_CQ, "CQN").input(&CqContext::FORMAT),
        Spec::new(Op::DESTROY_CQ, "CQN"),
        Spec::new(Op::MODIFY_CQ, "CQN").input(&CqContext::FORMAT),
        Spec::new(Op::CREATE_SRQ, "").input(&SrqContext::FORMAT).result("SRQN"),
        Spec::new(Op::MODIFY_SRQ, "SRQN").input(&SrqContext::FORMAT),
        Spec::new(Op::QUERY_SRQ, "SRQN").output(&SrqContext::FORMAT),
        Spec::new(Op::DESTROY_SRQ, "SRQN"),
        Spec::new(Op::CREATE_QP, "").input(&QpContext::FORMAT).result("QPN"),
        Spec::new(Op::MODIFY_QP, "QPN")
            .params(&[
                value("mask", "Attributes to change.", 32, QpAttrMask::KIND),
                value("new_state", "State to go to, with STATE.", 40, QpState::KIND),
                value(
                    "cur_state",
                    "State that the QP must be in; 0xff for any.",
                    48,
                    Kind::Enum(STATE_OR_ANY),
                ),
            ])
            .input(&QpContext::FORMAT),
        Spec::new(Op::QUERY_QP, "QPN").output(&QpContext::FORMAT),
        Spec::new(Op::DESTROY_QP, "QPN").params(&[value(
            "xrcd",
            "XRC_RECV: the domain that it was created or opened by.",
            32,
            Kind::Uint,
        )]),
        Spec::new(Op::OPEN_QP, "QPN").params(&[value("xrcd", "The QP's XRC domain.", 32, Kind::Uint)]),
        Spec::new(Op::ATTACH_MCAST, "QPN").params(&[GID]),
        Spec::new(Op::DETACH_MCAST, "QPN").params(&[GID]),
        Spec::new(Op::CREATE_FLOW, "QPN").input(&FlowContext::FORMAT).result("flow rule"),
        Spec::new(Op::DESTROY_FLOW, "flow rule"),
        Spec::new(Op::QUERY_FLOW, "flow rule").values(&[
            value("frames", "Frames that matched it, if it counts.", 8, Kind::Uint),
            value("bytes", "Their bytes without check sequences.", 16, Kind::Uint),
        ]),
        Spec::new(Op::SET_VLAN, "port, from 1").params(&[
            value("vlan", "The VLAN, 0 to 4095.", 32, Kind::Uint),
            value("on", "1: rules with `by_vlan` take it; 0: they do not, as after a reset.", 40, Kind::Uint),
        ]),
        Spec::new(Op::RESOLVE, "port, from 1")
            .params(&[GID, value("sgid_index", "The port's own GID that packets come from.", 48, Kind::Uint)])
            .values(&[MAC]),
        Spec::new(Op::CREATE_TABLE, "").input(&TableContext::FORMAT).result("indirection table"),
        Spec::new(Op::MODIFY_TABLE, "indirection table").input(&TableContext::FORMAT),
        Spec::new(Op::DESTROY_TABLE, "indirection table"),
        Spec::new(Op::ALLOC_PAGE, "").result("doorbell page"),
        Spec::new(Op::FREE_PAGE, "doorbell page"),
        Spec::new(Op::ALLOC_MEMORY, "")
            .params(&[
                value("bytes", "How many.", 32, Kind::Uint),
                value("log_align", "Log2 of the alignment.", 40, Kind::Uint),
            ])
            .result("offset in the card's memory"),
        Spec::new(Op::FREE_MEMORY, "offset in the card's memory"),
        Spec::new(Op::WRITE_MEMORY, "offset in the card's memory, a multiple of 4"),
        Spec::new(Op::READ_MEMORY, "offset in the card's memory, a multiple of 4"),
        Spec::new(Op::SET_LAG, "").input(&LagContext::FORMAT),
        Spec::new(Op::QUERY_LAG, "port, from 1").output(&LagContext::FORMAT),
    ]
};

impl AdminOpcode {
    /// What the command takes and gives; `None` for one that is not known.
    pub fn spec(self) -> Option<&'static CommandSpec> {
        COMMANDS.iter().find(|spec| spec.opcode == self)
    }
}
