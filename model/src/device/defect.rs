//! Defects: ways in which a prototype is wrong, so that tools and people can practise on a card that is.
//!
//! A defect acts where a card's state is set up or a register is accessed, as the real mistake would
//! (a phase bit that starts wrong, an address that is off by a line). The data path does not know of it.

use super::Device;

/// What is wrong with a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Defect {
    /// Nothing.
    #[default]
    None = 0,
    /// A reset never ends.
    StuckReset,
    /// The identity register names another device.
    WrongIdentity,
    /// The admin queue fetches no command.
    StuckAdmin,
    /// Event queue entries are written, the interrupt is not raised.
    LostInterrupts,
    /// The first lap of a completion queue is written with phase 0.
    CqePhase,
    /// DMA writes of data go 64 bytes too far.
    DmaAddress,
    /// A send WQE is fetched without its first four bytes.
    WqeFetch,
    /// The link of each port goes down and comes back all the time.
    LinkFlap,
}

/// The link is up for so long (ns).
const LINK_UP: u64 = 20_000_000;
/// And then down for so long (ns).
const LINK_DOWN: u64 = 10_000_000;

impl Defect {
    /// Every defect, with the name that a person gives it and what it does.
    pub const ALL: &'static [(Defect, &'static str, &'static str)] = &[
        (Defect::StuckReset, "stuck-reset", "a reset never ends"),
        (Defect::WrongIdentity, "wrong-identity", "the identity register names another device"),
        (Defect::StuckAdmin, "stuck-admin", "the admin queue fetches no command"),
        (Defect::LostInterrupts, "lost-interrupts", "events are written, no interrupt is raised"),
        (Defect::CqePhase, "cqe-phase", "completions are written with the wrong phase bit"),
        (Defect::DmaAddress, "dma-address", "DMA writes of data go 64 bytes too far"),
        (Defect::WqeFetch, "wqe-fetch", "send WQEs are fetched without their first four bytes"),
        (Defect::LinkFlap, "link-flap", "the links go down and come back all the time"),
    ];

    /// The defect of that name.
    pub fn named(name: &str) -> Option<Defect> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(defect, ..)| *defect)
    }
}

impl Device {
    /// Bytes by which DMA of data misses its address.
    pub(super) fn dma_slip(&self) -> u64 {
        if self.defect == Defect::DmaAddress {
            64
        } else {
            0
        }
    }

    /// Bytes that the fetch of a send WQE loses.
    pub(super) fn fetch_slip(&self) -> u64 {
        if self.defect == Defect::WqeFetch {
            4
        } else {
            0
        }
    }

    /// The running index at which a completion queue of so many entries begins.
    pub(super) fn first_cqe(&self, entries: u32) -> u32 {
        if self.defect == Defect::CqePhase {
            entries
        } else {
            0
        }
    }

    /// Whether the links are up at time `now` (ns), and how often they changed.
    pub fn link_at(&self, now: u64) -> (bool, u16) {
        if self.defect != Defect::LinkFlap {
            return (true, 0);
        }
        let (periods, phase) = (now / (LINK_UP + LINK_DOWN), now % (LINK_UP + LINK_DOWN));
        let up = phase < LINK_UP;
        (up, (2 * periods + u64::from(!up)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (defect, name, _) in Defect::ALL {
            assert_eq!(Defect::named(name), Some(*defect));
        }
        assert_eq!(Defect::named("none"), None);
    }
}
