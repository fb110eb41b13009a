//! Multicast groups: of UD QPs, and the multicast addresses of raw packet QPs.

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command, QpType};

use crate::card::Card;
use crate::error::{Error, Result};
use crate::qp::Qp;

impl<C: Card> Qp<C> {
    /// Joins a multicast group. For a raw packet QP that is an Ethernet address, the last six bytes of `gid`.
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
        match self.qp_type() {
            QpType::UD if crate::ah::multicast_mac(gid).is_none() => {
                return Err(Error::invalid("this GID is not a multicast one: its first byte must be ff"))
            }
            QpType::RAW_PACKET | QpType::RX_HASH if gid[10] & 1 == 0 => return Err(Error::invalid(
                "the Ethernet address in bytes 10 to 15 is not a multicast one: its first byte must be odd",
            )),
            QpType::UD | QpType::RAW_PACKET | QpType::RX_HASH => (),
            _ => return Err(Error::invalid("only UD and raw packet QPs join multicast groups")),
        }
        let command = Command::of(opcode).with_object(self.qpn()).with_gid(*gid);
        dev.admin().run(command, &[]).map(drop)
    }
}
