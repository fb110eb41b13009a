//! Defects: ways in which a prototype is wrong, so that tools and people can practise on a card that is.
//!
//! A defect acts where a card's state is set up, a register is accessed or a command answered, as the real mistake
//! would (a phase bit that starts wrong, an address that is off by a line). The data path does not know of it.

use fpga_regs::doorbell_page;

use super::Device;
use crate::named::named;
use crate::plain::Plain;

/// What is wrong with a card: an open value, because it is in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
#[repr(transparent)]
pub struct Defect(u8);

named! {
    Defect(place => place + 1) {
        StuckReset "stuck-reset" "a reset never ends",
        WrongIdentity "wrong-identity" "the identity register names another device",
        StuckAdmin "stuck-admin" "the admin queue fetches no command",
        LostInterrupts "lost-interrupts" "events are written, no interrupt is raised",
        CqePhase "cqe-phase" "completions are written with the wrong phase bit",
        DmaAddress "dma-address" "DMA writes of data go 64 bytes too far",
        WqeFetch "wqe-fetch" "send WQEs are fetched without their first four bytes",
        LinkFlap "link-flap" "the links go down and come back all the time",
        DoorbellPage "doorbell-page" "doorbell pages are given by offset, not by number",
    }
}

/// Time that the link is up (ns).
const LINK_UP: u64 = 20_000_000;
/// Time that it is down after that (ns).
const LINK_DOWN: u64 = 10_000_000;

impl Defect {
    /// Nothing is wrong.
    #[allow(non_upper_case_globals)]
    pub const None: Defect = Defect(0);

    /// The defect of that name.
    pub fn named(name: &str) -> Option<Defect> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(defect, ..)| *defect)
    }
}

impl Device {
    /// Bytes by which DMA of data misses its address.
    pub(super) fn dma_slip(&self) -> u64 {
        64 * u64::from(self.defect == Defect::DmaAddress)
    }

    /// Bytes that the fetch of a send WQE loses.
    pub(super) fn fetch_slip(&self) -> u64 {
        4 * u64::from(self.defect == Defect::WqeFetch)
    }

    /// What ALLOC_PAGE gives for doorbell page `page`.
    pub(super) fn named_page(&self, page: u32) -> u32 {
        if self.defect == Defect::DoorbellPage {
            doorbell_page(page)
        } else {
            page
        }
    }

    /// The running index at which a completion queue of this many entries begins.
    pub(super) fn first_cqe(&self, entries: u32) -> u32 {
        entries * u32::from(self.defect == Defect::CqePhase)
    }

    /// Whether the links go down and come up again.
    pub(super) fn flaps(&self) -> bool {
        self.defect == Defect::LinkFlap
    }

    /// Whether the links do not flap, or are up at time `now` (ns), and how often they changed.
    pub(super) fn flaps_at(&self, now: u64) -> (bool, u16) {
        if !self.flaps() {
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
