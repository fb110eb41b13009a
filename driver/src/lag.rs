//! Link aggregation: makes the two ports of a card one.

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command, LacpRate, LagContext, LagMode, LagSelect};

use crate::card::Card;
use crate::device::Device;
use crate::error::Result;

const WHAT: &str = "link aggregation";

impl<C: Card> Device<C> {
    /// Makes the ports of the card one, or two again. Fails while the card has a queue pair, of whatever function. Devices
    /// that are opened after it have one port.
    pub fn set_lag(&self, mode: LagMode, select: LagSelect, rate: LacpRate) -> Result<()> {
        self.need(FeatureSet::LAG, WHAT)?;
        let context = LagContext::new().with_mode(mode).with_select(select).with_rate(rate);
        let command = Command::of(AdminOpcode::SET_LAG);
        self.admin().run(command, context.as_bytes()).map(drop)
    }

    /// Whether the ports are one, and how port 1 or 2 is as a member.
    pub fn query_lag(&self, port: u8) -> Result<LagContext> {
        self.need(FeatureSet::LAG, WHAT)?;
        let mut bytes = [0; LagContext::BYTES];
        self.admin().query(AdminOpcode::QUERY_LAG, port.into(), &mut bytes)?;
        Ok(LagContext::from_bytes(&bytes))
    }
}
