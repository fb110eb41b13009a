//! What software sets of a port: whether it is enabled, and pause (IEEE 802.3 annex 31B): whether frames wait for receivers that
//! have no receives, at either end.

use fpga_regs::{AdminStatus, PortAttrMask, PortContext, Syndrome};

use super::command_error::{refuse_if, Refused};
use super::Device;
use crate::env::Env;
use crate::packet::PORTS;
use crate::plain::{Flag, Plain};

/// What a port does not do about pause. Zero is one that does all of it.
#[derive(Clone, Copy, Debug, Default, Plain)]
#[repr(C)]
pub(super) struct Pause {
    /// It does not ask its peers to stop: what nobody has receives for is lost.
    asks_not: Flag,
    /// It does not stop when it is asked to.
    stops_not: Flag,
}

impl Device {
    /// SET_PORT. Other settings of a port are those of its net.
    pub(super) fn set_port(
        &mut self,
        port: u32,
        mask: u64,
        context: &PortContext,
        env: &mut impl Env,
    ) -> Result<(), Refused> {
        refuse_if(!(1..=PORTS as u32).contains(&port), (AdminStatus::BAD_PARAM, Syndrome::BAD_PORT))?;
        let known = PortAttrMask::ENABLED | PortAttrMask::PAUSE;
        if mask == 0 || mask & !u64::from(known.0) != 0 {
            return Err((AdminStatus::NOT_SUPPORTED, Syndrome::ATTR_NOT_ALLOWED));
        }
        let mask = PortAttrMask(mask as u32);
        if mask.contains(PortAttrMask::PAUSE) {
            let (asks_not, stops_not) = (!context.tx_pause(), !context.rx_pause());
            self.pauses[port as usize - 1] = Pause { asks_not: asks_not.into(), stops_not: stops_not.into() };
        }
        if mask.contains(PortAttrMask::ENABLED) {
            self.enable(port as u8 - 1, context.enabled(), env);
        }
        Ok(())
    }

    /// Whether a port (from 0) asks senders to stop while receives are missing.
    pub(crate) fn asks_to_stop(&self, port: u8) -> bool {
        !self.pauses[usize::from(self.known_port(port)) % PORTS].asks_not.get()
    }

    /// Whether a port (from 0) stops when it is asked to.
    pub(crate) fn stops(&self, port: u8) -> bool {
        !self.pauses[usize::from(self.known_port(port)) % PORTS].stops_not.get()
    }
}
