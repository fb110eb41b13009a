//! Flow rules: which frames a raw packet QP receives.

use std::sync::Arc;

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command, FlowContext, FrameTags, QpType};

use crate::card::Card;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::object::Object;
use crate::qp::Qp;

const FILTER: &str = "flow rules that go by a table of VLANs";

/// A flow rule. The queue pair cannot be destroyed while there is one.
pub struct Flow<C: Card> {
    /// First: destroyed before what it uses.
    object: Object<C>,
    _qp: Arc<Qp<C>>,
}

impl<C: Card> Qp<C> {
    /// From now on the frames that a rule names come to this queue pair, which must be a raw packet or RX-hash one. Equal rules of
    /// several queue pairs give each of them a copy.
    pub fn create_flow(self: &Arc<Self>, rule: &FlowContext) -> Result<Flow<C>> {
        let dev = &self.dev;
        dev.need(FeatureSet::FLOW, "flow rules")?;
        if rule.drop() || rule.tags_mask() != FrameTags::default() {
            dev.need(FeatureSet::FLOW_DROP, "flow rules that drop frames or ask for their tags")?;
        }
        if rule.marked() {
            dev.need(FeatureSet::FLOW_MARK, "flow rules that mark frames")?;
        }
        if rule.counted() {
            dev.need(FeatureSet::FLOW_COUNT, "flow rules that count frames")?;
        }
        if rule.by_vlan() {
            dev.need(FeatureSet::VLAN_FILTER, FILTER)?;
        }
        if !matches!(self.qp_type(), QpType::RAW_PACKET | QpType::RX_HASH) {
            return Err(Error::invalid("only raw packet and RX-hash QPs have flow rules"));
        }
        dev.check_port(rule.port())?;
        let command = Command::of(AdminOpcode::CREATE_FLOW).with_object(self.qpn());
        let number = dev.admin().run(command, rule.as_bytes())?.object();
        let object = Object::new(dev, "flow rule", AdminOpcode::DESTROY_FLOW, number);
        Ok(Flow { object, _qp: self.clone() })
    }
}

impl<C: Card> Device<C> {
    /// Whether the rules of this device that go by VLAN take one at a port, at once. At first they take none.
    pub fn set_vlan(&self, port: u8, vlan: u16, on: bool) -> Result<()> {
        self.need(FeatureSet::VLAN_FILTER, FILTER)?;
        self.check_port(port)?;
        let command = Command::of(AdminOpcode::SET_VLAN)
            .with_object(port.into())
            .with_param0(vlan.into())
            .with_param1(on.into());
        self.admin().run(command, &[]).map(drop)
    }
}

/// What a flow rule has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCount {
    /// Frames that matched it.
    pub frames: u64,
    /// Their bytes, without check sequences.
    pub bytes: u64,
}

impl<C: Card> Flow<C> {
    /// What it has counted, if it is [counted](FlowContext::counted); else nothing.
    pub fn count(&self) -> Result<FlowCount> {
        let command = Command::of(AdminOpcode::QUERY_FLOW).with_object(self.object.number);
        let reply = self.object.dev.admin().run(command, &[])?;
        Ok(FlowCount { frames: reply.value0(), bytes: reply.value1() })
    }

    /// Ends the rule.
    pub fn destroy(&self) -> Result<()> {
        self.object.destroy()
    }
}
