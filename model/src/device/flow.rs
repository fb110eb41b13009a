//! Commands for flow rules: which frames come to which queue pair.

use fpga_regs::{AdminStatus, FlowContext, FlowKind, QpType, Syndrome};

use super::command_error::{refuse_if, Refused, FULL};
use super::objects::owned;
use super::Device;
use crate::steering::VLANS;

impl Device {
    /// CREATE_FLOW: a rule for a queue pair of function `f`.
    pub(super) fn create_flow(&mut self, f: u16, q: usize, rule: &FlowContext) -> Result<u32, Refused> {
        if !matches!(self.qps[q].qp_type, QpType::RAW_PACKET | QpType::RX_HASH) {
            return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_NOT_ALLOWED));
        }
        if rule.port() == 0 || u32::from(rule.port()) > self.limits().ports() {
            return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_PORT));
        }
        refuse_if(self.lacks_frames(rule.port()), (AdminStatus::NOT_SUPPORTED, Syndrome::BAD_PORT))?;
        if rule.kind().0 > FlowKind::KERNEL.0 || !matches!(rule.ip_version(), 0 | 4 | 6) {
            return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE));
        }
        if rule.drop() && (rule.kind() != FlowKind::NORMAL || rule.dont_trap()) {
            return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_NOT_ALLOWED));
        }
        match self.rules.add(rule, f, q as u16) {
            Some(place) => Ok(place as u32),
            None => Err(FULL),
        }
    }

    /// DESTROY_FLOW.
    pub(super) fn destroy_flow(&mut self, f: u16, number: u32) -> Result<(), Refused> {
        let place = number as usize;
        owned(self.rules.get(place).map(|rule| (true, rule.function)), f)?;
        self.rules.remove(place);
        Ok(())
    }

    /// QUERY_FLOW: frames and bytes that a rule of function `f` has counted.
    pub(super) fn query_flow(&self, f: u16, number: u32) -> Result<(u64, u64), Refused> {
        let place = number as usize;
        owned(self.rules.get(place).map(|rule| (true, rule.function)), f)?;
        Ok(self.rules.counts(place))
    }

    /// SET_VLAN: whether the rules of function `f` that go by VLAN take one at a port.
    pub(super) fn set_vlan(&mut self, f: u16, port: u32, vlan: u64, on: bool) -> Result<(), Refused> {
        refuse_if(port == 0 || port > self.limits().ports(), (AdminStatus::BAD_PARAM, Syndrome::BAD_PORT))?;
        match vlan < VLANS as u64 {
            true => self.rules.vlans.set((f, port as u8 - 1), vlan as usize, on),
            false => return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE)),
        }
        Ok(())
    }
}
