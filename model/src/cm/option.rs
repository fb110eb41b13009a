//! What is special to a program: options of identifiers, events of its own, services by name.

use libc::{EINVAL, ENOSYS, EOPNOTSUPP};

use super::ids::{event, Result, SILENT};
use super::query;
use super::tables::*;
use crate::env::Env;

impl<E: Env> Manager<'_, E> {
    /// SET_OPTION.
    pub fn set_option(&mut self, slot: u16, (level, name): (u32, u32), value: &[u8]) -> Result<()> {
        const ID: u32 = 0;
        const IB: u32 = 1;
        let byte = || (value.len() == 1).then(|| value[0]).ok_or(EINVAL);
        let flag = || (value.len() == 4).then(|| value.iter().any(|&b| b != 0)).ok_or(EINVAL);
        let id = self.id(slot);
        match (level, name) {
            (ID, 0) => id.tos = byte()?,
            (ID, 1) => {
                let reuse = flag()?;
                if !reuse && id.state != state::IDLE {
                    return Err(EINVAL);
                }
                id.reuse = reuse.into();
            }
            (ID, 2) => {
                let only = flag()?;
                if !matches!(id.state, state::IDLE | state::BOUND) {
                    return Err(EINVAL);
                }
                (id.afonly, id.afonly_set) = (only.into(), true.into());
            }
            (ID, 3) => {
                let timeout = byte()?;
                if id.qp_type != qp_type::RC {
                    return Err(EINVAL);
                }
                (id.ack_timeout, id.ack_timeout_set) = (timeout, true.into());
            }
            (IB, 1) => {
                let wanted = query::PRIMARY.to_ne_bytes();
                let whole = value.len() % query::PATH_DATA == 0;
                if !whole || !value.chunks(query::PATH_DATA).any(|path| path.starts_with(&wanted)) {
                    return Err(EINVAL);
                }
                self.route(slot)?;
            }
            _ => return Err(ENOSYS),
        }
        Ok(())
    }

    /// RESOLVE_IB_SERVICE: a card on Ethernet has no subnet administration to ask.
    pub fn resolve_service(&mut self, slot: u16) -> Result<()> {
        let id = self.id(slot);
        Err(if id.way.known.get() && id.state == state::BOUND { EOPNOTSUPP } else { EINVAL })
    }

    /// WRITE_CM_EVENT: an event that a program, or librdmacm, queues for itself.
    pub fn write_event(
        &mut self,
        channel: u16,
        id: u32,
        (kind, status): (u32, u32),
        argument: &[u8],
    ) -> Result<()> {
        if !matches!(kind, event::USER | event::INTERNAL) {
            return Err(EINVAL);
        }
        let slot = self.owned(channel, id)?;
        let mut param = SILENT;
        param[..argument.len()].copy_from_slice(argument);
        self.queue((slot, 0, 0), kind, status as i32, &param)
    }
}
