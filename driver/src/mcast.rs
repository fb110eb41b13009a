//! Multicast groups of UD QPs.

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command, QpType};

use crate::card::Card;
use crate::error::{Error, Result};
use crate::qp::Qp;

impl<C: Card> Qp<C> {
    /// Joins a multicast group.
    pub fn attach_mcast(&self, gid: &[u8; 16]) -> Result<()> {
        self.mcast(AdminOpcode::ATTACH_MCAST, gid)
    }

    /// Leaves a multicast group.
    pub fn detach_mcast(&self, gid: &[u8; 16]) -> Result<()> {
        self.mcast(AdminOpcode::DETACH_MCAST, gid)
    }

    fn mcast(&self, opcode: AdminOpcode, gid: &[u8; 16]) -> Result<()> {
        let dev = &self.dev;
        dev.need(FeatureSet::MULTICAST, "multicast")?;
        if self.qp_type() != QpType::UD {
            return Err(Error::invalid("only UD QPs join multicast groups"));
        }
        if crate::ah::multicast_mac(gid).is_none() {
            return Err(Error::invalid("this GID is not a multicast one: its first byte must be ff"));
        }
        let command = Command::new().with_opcode(opcode).with_object(self.qpn()).with_gid(*gid);
        dev.admin().run(command, &[], &mut [])?;
        Ok(())
    }
}
