//! Receiving: the card writes frames into slots, from where they are copied into the program's mbufs.
#![allow(unsafe_code)]

use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use driver::{Card, Cq, Device, Offloads, Pd, Qp, QpAttr, Result, Wc, WcFlags};
use fpga_regs::{CqeStatus, QpState, MAX_FRAME};

use crate::abi::info::{RX_KEEP_CRC, RX_VLAN_STRIP};
use crate::abi::mbuf::{
    Mbuf, Mempool, EXTERNAL, HEADROOM, RX_IP_CKSUM_GOOD, RX_L4_CKSUM_GOOD, RX_MARKED, RX_RSS_HASH,
    RX_VLAN_STRIPPED,
};
use crate::counters::Counters;
use crate::cut::TAG;
use crate::kinds::packet_type;
use crate::slots::{Slots, FCS, OVERHEAD, SLOT};
use crate::turns::Turns;

/// mbufs that are taken from the pool in one go, and completions that are looked at.
const BATCH: usize = 32;
/// Bytes of a cache line.
const LINE: u32 = 64;

/// A receive queue. Its places are those of the thread that receives; everybody may look at the rest.
pub struct RxQueue<C: Card> {
    /// A receive work queue.
    pub wq: Arc<Qp<C>>,
    cq: Arc<Cq<C>>,
    places: UnsafeCell<Places<C>>,
    /// Bytes of the longest frame that the program wants.
    longest: AtomicU32,
    /// What went through it.
    pub counters: Arc<Counters>,
    /// Where its mbufs are from.
    pub pool: *mut Mempool,
    /// Bytes of an mbuf for data.
    pub room: u16,
    /// How many places it has.
    pub size: u16,
    offloads: AtomicU64,
    /// It starts apart from its port.
    pub deferred: bool,
}

/// The places of a receive queue: each has a slot.
struct Places<C: Card> {
    slots: Slots<C>,
    turns: Turns,
    pool: *mut Mempool,
    /// mbufs to come, of which the first `left` are there.
    fresh: [*mut Mbuf; BATCH],
    left: usize,
    /// Bytes of an mbuf for data.
    room: u32,
    /// Number of the port in DPDK.
    port: u16,
    /// Something failed that only a restart mends.
    broken: bool,
    /// Bytes of the check sequence behind a frame, which statistics do not count.
    fcs: u32,
    counters: Arc<Counters>,
}

impl<C: Card> RxQueue<C> {
    /// Makes one with `size` places, for port number `port` of DPDK, and with what was `asked` for, bits of
    /// `RTE_ETH_RX_OFFLOAD_*`. It takes frames from its [start](Self::start) on, which is that of the port unless it is `deferred`.
    ///
    /// # Safety
    /// `pool` must be a live pool of mbufs, which outlives the queue.
    pub unsafe fn new(
        device: &Arc<Device<C>>,
        pd: &Arc<Pd<C>>,
        pool: *mut Mempool,
        (port, size): (u16, u16),
        (asked, deferred): (u64, bool),
    ) -> Result<Self> {
        let (strip_vlan, scatter_fcs) = (asked & RX_VLAN_STRIP != 0, asked & RX_KEEP_CRC != 0);
        let offloads = Offloads { strip_vlan, scatter_fcs, ..Offloads::default() };
        // SAFETY: as the caller promises.
        let room = unsafe { Mbuf::room(pool) };
        if room == 0 {
            return Err(driver::Error::invalid("the mbufs of this pool have no room for data"));
        }
        let count = u32::from(size);
        let counters = Arc::<Counters>::default();
        let cq = device.create_cq(count + 1, 0)?;
        let wq = pd.create_wq(&cq, (count, 1), offloads)?;
        let places = Places {
            slots: Slots::new(pd, count)?,
            turns: Turns::new(count),
            pool,
            fresh: [null_mut(); BATCH],
            left: 0,
            room: room.into(),
            port,
            broken: false,
            fcs: if scatter_fcs { FCS } else { 0 },
            counters: counters.clone(),
        };
        let (places, longest) = (UnsafeCell::new(places), AtomicU32::new(0));
        let offloads = AtomicU64::new(asked);
        Ok(RxQueue { wq, cq, places, longest, counters, pool, room, size, offloads, deferred })
    }

    /// Begins with all places posted, and nothing that was received before.
    ///
    /// # Safety
    /// No thread receives at the same time.
    pub unsafe fn start(&self, mtu: u16) -> Result<()> {
        self.set_mtu(mtu);
        // SAFETY: as the caller promises.
        let places = unsafe { &mut *self.places.get() };
        places.empty(&self.wq)?;
        places.post(&self.wq);
        Ok(())
    }

    /// Takes nothing any more. What waits is dropped.
    ///
    /// # Safety
    /// As [`start`](Self::start).
    pub unsafe fn stop(&self) -> Result<()> {
        to(&self.wq, QpState::RESET)
    }

    /// From now on what is longer than this MTU is dropped, as an error: the program has no room for it.
    pub fn set_mtu(&self, mtu: u16) {
        self.longest.store((u32::from(mtu) + OVERHEAD + TAG).min(MAX_FRAME), Ordering::Relaxed);
    }

    /// What is asked of it: bits of `RTE_ETH_RX_OFFLOAD_*`.
    pub fn offloads(&self) -> u64 {
        self.offloads.load(Ordering::Relaxed)
    }

    /// From now on VLAN tags are removed, or are not.
    pub fn set_strip_vlan(&self, strip: bool) -> Result<()> {
        self.wq.set_strip_vlan(strip)?;
        match strip {
            true => self.offloads.fetch_or(RX_VLAN_STRIP, Ordering::Relaxed),
            false => self.offloads.fetch_and(!RX_VLAN_STRIP, Ordering::Relaxed),
        };
        Ok(())
    }

    /// How many frames wait in it.
    pub fn waiting(&self) -> u32 {
        self.cq.waiting().min(self.size.into())
    }

    /// The number of its completion queue, as events name it.
    pub fn cqn(&self) -> u32 {
        self.cq.cqn()
    }

    /// Has an event raised for the next frame. True if one waits already.
    pub fn tell(&self) -> bool {
        self.cq.arm(false);
        self.cq.waiting() != 0
    }

    /// Receives packets.
    ///
    /// # Safety
    /// One thread receives at a time.
    unsafe fn burst(&self, packets: &mut [*mut Mbuf]) -> usize {
        // SAFETY: as the caller promises.
        let (wq, cq, places) = unsafe { (&self.wq, &self.cq, &mut *self.places.get()) };
        let longest = self.longest.load(Ordering::Relaxed) + places.fcs;
        let mut received = 0;
        for packets in packets.chunks_mut(BATCH) {
            // All are looked at before the first is copied: their frames come from another core's cache meanwhile.
            let mut done = [const { MaybeUninit::<Wc>::uninit() }; BATCH];
            let mut count = 0;
            let polled = cq.poll(packets.len(), |wc| {
                places.expect(&wc);
                done[count].write(wc);
                count += 1;
            });
            let mut here = 0;
            for wc in &done[..count] {
                // SAFETY: written by the poll.
                if let Some(packet) = places.take(unsafe { wc.assume_init_ref() }, longest) {
                    packets[here] = packet;
                    here += 1;
                }
            }
            received += here;
            if polled.is_err() || places.broken {
                places.restart(wq);
            }
            places.post(wq);
            if here < packets.len() {
                break;
            }
        }
        received
    }
}

/// Moves a work queue to a state.
fn to<C: Card>(wq: &Qp<C>, state: QpState) -> Result<()> {
    wq.step(&QpAttr { state, ..QpAttr::default() })
}

impl<C: Card> Places<C> {
    /// Posts all places that are free.
    #[inline]
    fn post(&mut self, wq: &Qp<C>) {
        if self.turns.none_free() {
            return;
        }
        let mut post = wq.recv();
        let slots = &self.slots;
        self.turns.post(|place| post.push(u64::from(place), &[slots.sge(place, SLOT)]).is_ok());
        post.ring();
    }

    /// Takes back all that is posted or has been received.
    fn empty(&mut self, wq: &Qp<C>) -> Result<()> {
        to(wq, QpState::RESET)?;
        to(wq, QpState::RTR)?;
        self.broken = false;
        self.turns.take_back();
        Ok(())
    }

    /// Begins again after an error.
    #[cold]
    fn restart(&mut self, wq: &Qp<C>) {
        if let Err(error) = self.empty(wq) {
            crate::abi::log(&format!("a receive queue of port {} does not restart: {error}", self.port));
        }
    }

    /// The frame of a receive that has ended is about to be read.
    #[inline]
    fn expect(&self, wc: &Wc) {
        let place = wc.wr_id as usize;
        if place < self.turns.count() {
            let at = self.slots.at(place as u32).cast::<i8>();
            // SAFETY: a prefetch has no effects, whatever the address; the second is within the slot.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(at);
                if wc.byte_len > LINE {
                    _mm_prefetch::<_MM_HINT_T0>(at.add(LINE as usize));
                }
            }
        }
    }

    /// The packet of a receive that has ended, unless it is too long.
    #[inline]
    fn take(&mut self, wc: &Wc, longest: u32) -> Option<*mut Mbuf> {
        let place = match wc.status {
            CqeStatus::SUCCESS => self.turns.done(wc.wr_id),
            _ => None,
        };
        let Some(place) = place else {
            self.broken = true;
            self.counters.errors.add(u64::from(wc.status != CqeStatus::WR_FLUSH_ERR));
            return None;
        };
        if wc.byte_len > longest {
            self.counters.errors.add(1);
            return None;
        }
        // The card has the place again only after the frame has been copied.
        let packet = self.packet(place, wc.byte_len, wc);
        match packet {
            Some(_) => {
                self.counters.packets.add(1);
                self.counters.bytes.add(u64::from(wc.byte_len.saturating_sub(self.fcs)));
            }
            None => self.counters.no_mbuf.add(1),
        }
        packet
    }

    /// The first bytes of a slot in as many mbufs as they need.
    #[inline]
    fn packet(&mut self, place: u32, length: u32, wc: &Wc) -> Option<*mut Mbuf> {
        let first = self.mbuf()?;
        let (mut last, mut done, mut pieces) = (first, 0, 0);
        loop {
            let here = (length - done).min(self.room);
            // SAFETY: fresh mbufs, which are ours, and bytes of the slot, which the card does not write any more.
            unsafe {
                let from = self.slots.at(place).add(done as usize);
                std::ptr::copy_nonoverlapping(from, Mbuf::start(last), here as usize);
                let mbuf = &mut *last;
                mbuf.data_off = HEADROOM;
                mbuf.data_len = here as u16;
                mbuf.next = null_mut();
                mbuf.port = self.port;
                mbuf.ol_flags &= EXTERNAL;
                mbuf.packet_type = 0;
            }
            pieces += 1;
            done += here;
            if done == length {
                break;
            }
            let Some(next) = self.mbuf() else {
                // SAFETY: a packet that nobody else has.
                unsafe { Mbuf::free(&[first]) };
                return None;
            };
            // SAFETY: as above.
            unsafe { (*last).next = next };
            last = next;
        }
        // SAFETY: as above.
        unsafe {
            (*first).pkt_len = length;
            (*first).ol_flags |= offloads(wc.flags) | if wc.mark.is_some() { RX_MARKED } else { 0 };
            (*first).packet_type = packet_type(wc.frame_kind);
            (*first).rss_hash = wc.imm;
            (*first).mark = wc.mark.unwrap_or_default();
            (*first).vlan_tci = wc.vlan_tci;
            (*first).nb_segs = pieces;
        }
        Some(first)
    }

    #[inline]
    fn mbuf(&mut self) -> Option<*mut Mbuf> {
        if self.left == 0 {
            // Of a pool that has fewer, each that is left.
            let wanted = [BATCH, 1].into_iter().find(|&count| {
                // SAFETY: the queue's pool is alive, and holds mbufs.
                unsafe { Mempool::take(self.pool, &mut self.fresh[..count]) }
            });
            self.left = wanted?;
        }
        self.left -= 1;
        Some(self.fresh[self.left])
    }
}

impl<C: Card> Drop for RxQueue<C> {
    fn drop(&mut self) {
        let places = self.places.get_mut();
        // SAFETY: mbufs that are in no packet.
        unsafe { Mbuf::free(&places.fresh[..places.left]) };
    }
}

/// What the card found out about a frame.
#[inline]
fn offloads(flags: WcFlags) -> u64 {
    let flag = |ours, theirs: u64| if flags.contains(ours) { theirs } else { 0 };
    flag(WcFlags::HASHED, RX_RSS_HASH)
        | flag(WcFlags::VLAN, RX_VLAN_STRIPPED)
        | flag(WcFlags::IP_CSUM_OK, RX_IP_CKSUM_GOOD)
        | flag(WcFlags::L4_CSUM_OK, RX_L4_CKSUM_GOOD)
}

/// `rx_pkt_burst`.
///
/// # Safety
/// Called by ethdev with a receive queue and room for `count` packets, by one thread at a time.
pub unsafe extern "C" fn burst<C: Card>(queue: *mut c_void, packets: *mut *mut Mbuf, count: u16) -> u16 {
    // SAFETY: as the caller promises.
    unsafe {
        if count == 0 {
            return 0;
        }
        let packets = std::slice::from_raw_parts_mut(packets, usize::from(count));
        (*queue.cast::<RxQueue<C>>()).burst(packets) as u16
    }
}
