//! Sending: packets are copied into slots, from where the card sends them; their mbufs are free at once.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{Card, Data, Device, Pd, QpCaps, Result, Segmented, SendFlags, SendPost, SendWr};
use fpga_regs::{CqeStatus, WqeOpcode, MAX_FRAME};

use crate::abi::info::TX_TCP_TSO;
use crate::abi::mbuf::{set_errno, Mbuf, TX_IP_CKSUM, TX_L4_MASK, TX_TCP_SEG, TX_VLAN};
use crate::counters::{Counters, Posted};
use crate::cut::{Cut, TAG};
use crate::headers;
use crate::raw::RawQp;
use crate::slots::{Slots, SLOT};

/// Every so many packets one asks for a completion, and those that others wait for.
const SIGNAL_EVERY: u32 = 16;
/// How long a queue that stops waits for its frames: a receiver that posts nothing holds them up for 100 ms.
pub const DRAIN: Duration = Duration::from_secs(1);
/// Bytes of an Ethernet header: the shortest frame that can be sent.
const HEADER: u32 = 14;
/// Completions that are looked at in one go.
const REAPED: usize = 64;

/// What a packet asks for that has checksums.
const CHECKSUMS: u64 = TX_IP_CKSUM | TX_L4_MASK;

/// A transmit queue. What was sent is of the thread that sends; everybody may look at the counters.
pub struct TxQueue<C: Card> {
    raw: RawQp<C>,
    sent: UnsafeCell<Sent<C>>,
    /// What went through it.
    pub counters: Arc<Counters>,
    /// Slots.
    pub size: u32,
    /// What is asked of it: bits of `RTE_ETH_TX_OFFLOAD_*`.
    pub offloads: u64,
    /// It starts apart from its port.
    pub deferred: bool,
    /// Head and tail of [`Sent`] after the last burst, for everybody.
    span: AtomicU64,
}

/// The frames of a transmit queue, in a ring of slots.
struct Sent<C: Card> {
    slots: Slots<C>,
    /// Slots, a power of two.
    size: u32,
    /// Most bytes of TCP that are cut into frames, if any are.
    most: Option<u32>,
    /// Where the next frame goes.
    head: u32,
    /// The oldest frame under way.
    tail: u32,
    /// Something failed that only a restart mends.
    broken: bool,
    counters: Arc<Counters>,
    /// All that was posted, and what of it was sent.
    posted: Posted,
    done: Posted,
    /// What was posted with each packet under way, by the slot behind it.
    marks: Box<[Posted]>,
}

impl<C: Card> TxQueue<C> {
    /// Makes one for so many frames at the card's port, with what was asked for, bits of `RTE_ETH_TX_OFFLOAD_*`. It sends from
    /// its [start](Self::start) on, which is that of the port unless it is `deferred`.
    pub fn new(
        device: &Arc<Device<C>>,
        pd: &Arc<Pd<C>>,
        card_port: u8,
        size: u16,
        (offloads, deferred): (u64, bool),
    ) -> Result<Self> {
        let tso = offloads & TX_TCP_TSO != 0;
        let size = u32::from(size).next_power_of_two();
        let caps =
            QpCaps { max_send_wr: size, max_recv_wr: 1, max_send_sge: 2, max_recv_sge: 1, max_inline: 0 };
        let raw = RawQp::new(device, pd, card_port, caps, tso)?;
        let slots = Slots::new(pd, size)?;
        let counters = Arc::<Counters>::default();
        let most = tso.then(|| device.ethernet().max_tso().min((size - 1) * SLOT));
        let sent = Sent {
            slots,
            size,
            most,
            head: 0,
            tail: 0,
            broken: false,
            counters: counters.clone(),
            posted: Posted::default(),
            done: Posted::default(),
            marks: vec![Posted::default(); size as usize].into(),
        };
        let (sent, span) = (UnsafeCell::new(sent), AtomicU64::new(0));
        Ok(TxQueue { raw, sent, counters, size, offloads, deferred, span })
    }

    /// How many slots the card has not sent yet, as of the last burst.
    pub fn under_way(&self) -> u32 {
        let span = self.span.load(Ordering::Relaxed);
        let (head, tail) = ((span >> 32) as u32, span as u32);
        let sent = self.raw.cq.latest_send().map_or(tail, |done| done as u32);
        // What was posted since then may be sent already.
        Some(head.wrapping_sub(sent)).filter(|&count| count <= self.size).unwrap_or(0)
    }

    /// Sends packets; returns how many. Their mbufs are free at once.
    ///
    /// # Safety
    /// One thread sends at a time.
    unsafe fn burst(&self, packets: &[*mut Mbuf]) -> usize {
        // SAFETY: as the caller promises.
        let (raw, sent) = unsafe { (&self.raw, &mut *self.sent.get()) };
        if sent.under_way() != 0 {
            sent.reap(raw);
        }
        let mut post = raw.qp.send();
        let (mut taken, before) = (0, sent.posted);
        // SAFETY: the program's packets.
        let is_frame_at = |at: usize| packets.get(at).is_some_and(|&packet| unsafe { is_frame(packet) });
        let mut is_frame = is_frame_at(0);
        while taken < packets.len() {
            // A message takes many slots, and waits for those before it; what is refused completes none of them.
            let next_is_frame = is_frame_at(taken + 1);
            if !sent.push(packets[taken], is_frame, !next_is_frame, &mut post) {
                break;
            }
            (taken, is_frame) = (taken + 1, next_is_frame);
        }
        self.counters.packets.add(sent.posted.packets - before.packets);
        self.counters.bytes.add(sent.posted.bytes - before.bytes);
        post.ring();
        self.note(sent);
        // SAFETY: packets that the program has given to us, and whose bytes are in slots.
        unsafe { Mbuf::free(&packets[..taken]) };
        taken
    }

    /// For those who ask how far it is.
    fn note(&self, sent: &Sent<C>) {
        self.span.store(u64::from(sent.head) << 32 | u64::from(sent.tail), Ordering::Relaxed);
    }

    /// From now on it sends.
    pub fn start(&self) -> Result<()> {
        self.raw.restart()
    }

    /// Waits until what was posted is sent. What has not left by then is dropped and counted. Then it sends no more.
    ///
    /// # Safety
    /// No thread sends.
    pub unsafe fn stop(&self, until: Instant) -> Result<()> {
        // SAFETY: as the caller promises.
        let sent = unsafe { &mut *self.sent.get() };
        sent.reap(&self.raw);
        while sent.under_way() != 0 && !sent.broken {
            if Instant::now() > until {
                sent.restart(&self.raw);
                break;
            }
            std::thread::sleep(Duration::from_micros(100));
            sent.reap(&self.raw);
        }
        self.note(sent);
        self.raw.stop()
    }
}

impl<C: Card> Sent<C> {
    #[inline]
    fn under_way(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    /// Looks for what was sent.
    fn reap(&mut self, raw: &RawQp<C>) {
        let polled = raw.cq.poll(REAPED, |wc| {
            let done = wc.wr_id as u32;
            let ours = (1..=self.under_way()).contains(&done.wrapping_sub(self.tail));
            let mark = &self.marks[(done & (self.size - 1)) as usize];
            match (wc.status, ours) {
                (CqeStatus::SUCCESS, true) => (self.tail, self.done) = (done, *mark),
                // Those before it were sent.
                (_, true) if !self.broken => (self.broken, self.done) = (true, mark.before()),
                _ => self.broken = true,
            }
        });
        if polled.is_err() || self.broken {
            self.broken = true;
            self.restart(raw);
        }
    }

    /// Drops what is under way, after an error.
    #[cold]
    fn restart(&mut self, raw: &RawQp<C>) {
        if let Err(error) = raw.restart() {
            return crate::abi::log(&format!("a transmit queue does not restart: {error}"));
        }
        let lost = self.posted.packets.saturating_sub(self.done.packets);
        self.counters.packets.take(lost);
        self.counters.bytes.take(self.posted.bytes.saturating_sub(self.done.bytes));
        self.counters.errors.add(lost);
        self.broken = false;
        (self.tail, self.done) = (self.head, self.posted);
    }

    /// Posts a packet, which [is a frame](is_frame) or is not, or drops one that the card cannot send; false if it has to wait,
    /// for one that completes: the last that there is room for, and those that are `waited_for`.
    #[inline]
    fn push(
        &mut self,
        packet: *mut Mbuf,
        is_frame: bool,
        waited_for: bool,
        post: &mut SendPost<'_, C>,
    ) -> bool {
        // SAFETY: the program's packet.
        let (length, asked, vlan_tci) =
            unsafe { ((*packet).pkt_len, (*packet).ol_flags, (*packet).vlan_tci) };
        if !is_frame {
            return if asked & TX_TCP_SEG != 0 { self.push_cut(packet, post) } else { self.refuse() };
        }
        let free = self.size - self.under_way();
        if free == 0 {
            return false;
        }
        let slot = self.head & (self.size - 1);
        // SAFETY: a whole packet, and a free slot with room for it.
        unsafe { Mbuf::copy(packet, 0, self.slots.at(slot), length) };
        let next = self.head.wrapping_add(1);
        let signaled = waited_for || free == 1 || next % SIGNAL_EVERY == 0;
        let asked = if asked & CHECKSUMS == 0 { asked } else { self.left_to_card(packet, slot, length) };
        let flags = offloads(asked) | if signaled { SendFlags::SIGNALED } else { SendFlags::empty() };
        let pushed = post.push_frame(next.into(), self.slots.sge(slot, length), flags, vlan_tci);
        self.posted(pushed.is_ok(), next, length)
    }

    /// What a packet asks the card for, after the checksums are filled in that the card does not find in the slot.
    #[inline]
    fn left_to_card(&self, packet: *const Mbuf, slot: u32, length: u32) -> u64 {
        // SAFETY: the program's packet, and bytes of a slot that the card does not read yet.
        let (asked, lengths, frame) = unsafe {
            let frame = std::slice::from_raw_parts_mut(self.slots.at(slot), length as usize);
            ((*packet).ol_flags, (*packet).lengths(), frame)
        };
        if headers::card_fills(frame, asked, &lengths) {
            return asked;
        }
        // What is not there stays as it is, as it does in the card.
        let _ = headers::fill(frame, asked, &lengths);
        asked & !CHECKSUMS
    }

    /// As [`push`](Self::push), of TCP that the card cuts into frames. Its data takes as many slots as it needs.
    #[cold]
    fn push_cut(&mut self, packet: *mut Mbuf, post: &mut SendPost<'_, C>) -> bool {
        // SAFETY: the program's packet.
        let cut = unsafe { self.most.and_then(|most| Cut::of(packet, most)) };
        let Some(cut) = cut else { return self.refuse() };
        let taken = cut.data.div_ceil(SLOT).max(1);
        if taken > self.size - self.under_way() {
            return false;
        }
        let slot = self.head & (self.size - 1);
        let first = cut.data.min((self.size - slot) * SLOT);
        let header = cut.header();
        // SAFETY: a whole packet, and free slots with room for its data.
        let vlan_tci = unsafe {
            let behind = header.len() as u32;
            Mbuf::copy(packet, behind, self.slots.at(slot), first);
            Mbuf::copy(packet, behind + first, self.slots.at(0), cut.data - first);
            (*packet).vlan_tci
        };
        let pieces = [self.slots.sge(slot, first), self.slots.sge(0, cut.data - first)];
        let data = if first == cut.data { &pieces[..1] } else { &pieces };
        let next = self.head.wrapping_add(taken);
        // SAFETY: as above.
        let tag = unsafe { (*packet).ol_flags } & TX_VLAN;
        let wr = SendWr {
            wr_id: u64::from(next),
            opcode: WqeOpcode::RAW_TSO,
            // Who waits for room waits for this one.
            flags: offloads(tag) | SendFlags::SIGNALED,
            vlan_tci,
            data: Data::Segmented(&Segmented { header, mss: cut.mss, data }),
            ..SendWr::default()
        };
        self.posted(post.push(&wr).is_ok(), next, header.len() as u32 + cut.data)
    }

    /// A packet of so many bytes is posted, or has to wait.
    #[inline]
    fn posted(&mut self, pushed: bool, next: u32, length: u32) -> bool {
        if pushed {
            self.head = next;
            self.posted.add(length);
            self.marks[(next & (self.size - 1)) as usize] = self.posted;
        }
        pushed
    }

    /// Drops a packet that the card cannot send.
    #[cold]
    fn refuse(&mut self) -> bool {
        self.counters.errors.add(1);
        true
    }
}

/// Whether the card can send a packet as one frame.
///
/// # Safety
/// It must be a live mbuf.
#[inline]
unsafe fn is_frame(packet: *const Mbuf) -> bool {
    // SAFETY: as the caller promises.
    let (length, asked, whole) = unsafe { ((*packet).pkt_len, (*packet).ol_flags, Mbuf::is_whole(packet)) };
    let longest = if asked & TX_VLAN == 0 { MAX_FRAME } else { MAX_FRAME - TAG };
    asked & TX_TCP_SEG == 0 && (HEADER..=longest).contains(&length) && whole
}

/// What a packet asks the card for.
#[inline]
fn offloads(asked: u64) -> SendFlags {
    let flag = |theirs, ours| if asked & theirs == 0 { SendFlags::empty() } else { ours };
    flag(TX_IP_CKSUM, SendFlags::IP_CSUM)
        | flag(TX_L4_MASK, SendFlags::L4_CSUM)
        | flag(TX_VLAN, SendFlags::VLAN_INSERT)
}

/// `tx_pkt_burst`.
///
/// # Safety
/// Called by ethdev with a transmit queue and `count` packets, by one thread at a time.
pub unsafe extern "C" fn burst<C: Card>(queue: *mut c_void, packets: *mut *mut Mbuf, count: u16) -> u16 {
    // SAFETY: as the caller promises.
    unsafe {
        if count == 0 {
            return 0;
        }
        let packets = std::slice::from_raw_parts(packets, usize::from(count));
        (*queue.cast::<TxQueue<C>>()).burst(packets) as u16
    }
}

/// `tx_pkt_prepare`: the number of packets that the card can send, up to the first that it cannot. It fills in checksums
/// whatever is in their places, so packets stay as they are.
///
/// # Safety
/// As [`burst`].
pub unsafe extern "C" fn prepare<C: Card>(queue: *mut c_void, packets: *mut *mut Mbuf, count: u16) -> u16 {
    // SAFETY: as the caller promises: only the thread that sends looks at what was sent.
    let most = unsafe { (*(*queue.cast::<TxQueue<C>>()).sent.get()).most };
    let can = |packet: *mut Mbuf| {
        // SAFETY: as above.
        unsafe {
            match (*packet).ol_flags & TX_TCP_SEG {
                0 => is_frame(packet),
                _ => most.is_some_and(|most| Cut::of(packet, most).is_some()),
            }
        }
    };
    // SAFETY: as above.
    let good = (0..count).find(|&n| !can(unsafe { *packets.add(usize::from(n)) }));
    if good.is_some() {
        set_errno(libc::EINVAL);
    }
    good.unwrap_or(count)
}

/// `tx_done_cleanup`: mbufs are free already.
///
/// # Safety
/// As [`burst`].
pub unsafe extern "C" fn cleanup(_queue: *mut c_void, _count: u32) -> c_int {
    0
}
