//! The slot: when DMA reads, DMA writes and stores to the card's registers are done.
//!
//! The bytes of each TLP are those of "Understanding PCIe performance for end host networking" (SIGCOMM
//! 2018). A direction of the link is busy until its last TLP is through. Ordering (PCIe Base Specification
//! 3.0, 2.4.1): writes stay in order, nothing passes a write that waits for credits, a read that waits for a
//! tag holds nothing back, completions come in the order of their requests.
//!
//! Calls come in the order of their times, of which debug builds make sure: what is to be transferred later is
//! asked for later, by an event. A transfer that was asked for ahead would keep the link from all that comes
//! before it.

use crate::plain::{zeroed, Plain};
use crate::profile::{Pcie, Profile};

/// Most read requests in flight at once.
pub const MAX_READS: usize = 256;
/// Most writes in flight at once.
pub const MAX_POSTED: usize = 256;

/// When the data of a DMA read are in the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The first completion, of at most a read completion boundary.
    pub first: u64,
    /// The last completion.
    pub last: u64,
}

/// The slot of a card. Zero bytes are an idle one.
#[derive(Plain)]
#[repr(C, align(64))]
pub struct Bus {
    /// Card to host is busy until then.
    up: u64,
    /// Host to card is busy with completions until then.
    down: u64,
    /// Host to card is busy with stores until then.
    stores: u64,
    /// Up to here, everything written is visible.
    visible: u64,
    /// When something was asked for last.
    last: u64,
    next_tag: u32,
    oldest: u32,
    count: u32,
    /// Data credits that the writes in `posted` hold.
    data_credits: u32,
    /// When each tag was or will be free again, oldest request first.
    tags: [u64; MAX_READS],
    /// Writes whose credits are not back, oldest first.
    posted: [Posted; MAX_POSTED],
}

#[derive(Clone, Copy, Default, Plain)]
#[repr(C)]
struct Posted {
    returned: u64,
    data_credits: u32,
}

impl Default for Bus {
    fn default() -> Bus {
        zeroed()
    }
}

impl Bus {
    /// Something is asked for at `now`.
    #[inline]
    fn asked(&mut self, now: u64) {
        debug_assert!(now >= self.last, "the bus is asked at {now} ps, and was at {} ps", self.last);
        self.last = now;
    }

    /// A DMA read of `bytes`, asked for at `now`.
    pub fn read(&mut self, now: u64, bytes: u32, p: &Profile) -> Read {
        self.asked(now);
        let pcie = &p.pcie;
        let request_ps = pcie.pcie_bps.time(pcie.mrd_overhead.into());
        let tags = pcie.reads_outstanding.clamp(1, MAX_READS as u32);
        let mut done = Read { first: 0, last: 0 };
        for (nth, request) in pieces(bytes, pcie.mrrs).enumerate() {
            let tag = if self.next_tag < tags { self.next_tag } else { 0 };
            self.next_tag = tag + 1;
            self.up = self.up.max(now) + request_ps;
            let asked = self.up.max(self.tags[tag as usize] + request_ps);
            let start = self.down.max(asked + pcie.read_ps);
            self.down = start + pcie.pcie_bps.time(tlp_bytes(request, pcie.mps, pcie.cpld_overhead));
            self.tags[tag as usize] = self.down;
            if nth == 0 {
                done.first = start + pcie.pcie_bps.time((request.min(pcie.rcb) + pcie.cpld_overhead).into());
            }
            done.last = self.down;
        }
        done
    }

    /// A DMA write of `bytes`, handed over at `now`: when all of it is visible to the processor.
    pub fn write(&mut self, now: u64, bytes: u32, p: &Profile) -> u64 {
        self.write_known(now, now, bytes, p)
    }

    /// The same of a write whose translation comes only at `known`. What is written after it waits for it too,
    /// since writes stay in order; reads do not.
    pub fn write_known(&mut self, now: u64, known: u64, bytes: u32, p: &Profile) -> u64 {
        self.asked(now);
        let pcie = &p.pcie;
        self.up = self.up.max(now);
        for payload in pieces(bytes, pcie.mps) {
            self.wait_for_credits(payload.div_ceil(16), pcie);
            self.up += pcie.pcie_bps.time((payload + pcie.mwr_overhead).into());
            self.nth(self.count - 1, pcie).returned = self.up + pcie.credit_return_ps;
        }
        self.visible = self.visible.max(self.up + known.saturating_sub(now) + pcie.write_ps);
        self.visible
    }

    /// A store of the processor of `bytes` (at most 64) to the card, made at `now`: when the card sees it.
    /// Stores stay in order. They go between the completions, whose share of the link they take.
    pub fn mmio(&mut self, now: u64, bytes: u32, p: &Profile) -> u64 {
        self.asked(now);
        let through = p.pcie.pcie_bps.time((bytes + p.pcie.mwr_overhead).into());
        self.stores = self.stores.max(now) + through;
        if self.down > now {
            self.down += through;
        }
        self.stores + p.pcie.mmio_ps
    }

    /// One of the writes in `posted`, of which only so much is used as there can be: it stays in the processor's caches.
    fn nth(&mut self, nth: u32, pcie: &Pcie) -> &mut Posted {
        &mut self.posted[((self.oldest + nth) % headers(pcie)) as usize]
    }

    /// Takes the credits of one write, after the wait for them.
    fn wait_for_credits(&mut self, data: u32, pcie: &Pcie) {
        let headers = headers(pcie);
        while self.count > 0 {
            let oldest = *self.nth(0, pcie);
            let enough = self.count < headers && self.data_credits + data <= pcie.posted_data_credits;
            if oldest.returned > self.up {
                if enough {
                    break;
                }
                self.up = oldest.returned;
            }
            self.data_credits -= oldest.data_credits;
            self.oldest = (self.oldest + 1) % headers;
            self.count -= 1;
        }
        self.nth(self.count, pcie).data_credits = data;
        self.data_credits += data;
        self.count += 1;
    }
}

/// Writes that may be without their credits.
fn headers(pcie: &Pcie) -> u32 {
    pcie.posted_header_credits.clamp(1, MAX_POSTED as u32)
}

/// `bytes` in pieces of `size`; nothing is one empty piece.
fn pieces(bytes: u32, size: u32) -> impl Iterator<Item = u32> {
    let size = size.max(1);
    (0..bytes.div_ceil(size).max(1)).map(move |n| (bytes - n * size).min(size))
}

/// Bytes on the link of `bytes` in TLPs of up to `mps`.
fn tlp_bytes(bytes: u32, mps: u32, overhead: u32) -> u64 {
    u64::from(bytes) + u64::from(bytes.div_ceil(mps.max(1)).max(1)) * u64::from(overhead)
}

#[cfg(test)]
#[path = "pcie_tests.rs"]
mod tests;
