//! The queues by which the kernel sends and receives the frames of a port.
#![allow(unsafe_code)]

use std::sync::Arc;

use anyhow::{bail, Result};
use driver::{
    Cq, Data, Device, Offloads, Pd, Qp, QpAttr, QpCaps, QpInit, Segmented, SendFlags, SendWr, Sge, Slots,
    WcFlags,
};
use fpga_regs::regs::FeatureSet;
use fpga_regs::{CqeStatus, QpState, QpType, WqeOpcode, MAX_FRAME, SUITE_KEY};
use model::attach::SegmentCard;
use model::wire::checksum::Checksums;

use super::merge::Frame;
use super::tap::{Cut, Sent};

/// Bytes of a tag.
const TAG: usize = 4;
/// Bytes of a slot for what comes: whole lines.
const STRIDE: usize = (MAX_FRAME as usize).next_multiple_of(64);
/// The same for what is sent: the most that the kernel leaves to be cut into frames, with headers.
const LONG_STRIDE: usize = (1 << 16) + 256;
/// Frames that wait to be taken by the kernel.
const RECEIVES: u32 = 512;
/// Frames on their way to the card.
pub const SENDS: u32 = 64;
/// Entries of the table that spreads frames over queues, as DPDK's drivers have.
const TABLE_ENTRIES: usize = 128;
/// Frames that are taken in one go.
pub const BATCH: usize = 64;

/// Whether a card cuts TCP into frames.
pub fn cuts(device: &Device<SegmentCard>) -> bool {
    device.features().contains(FeatureSet::TSO)
}

/// What sends frames and what receives them.
type Pair = (Sender, Receiver);

/// Those of an interface, and the queue pair that spreads frames over what receives them.
type Queues = (Vec<Pair>, Arc<Qp<SegmentCard>>);

/// Opens `count` queues of each direction at a port (from 1), for frames of a VLAN or without. The frames of a flow come to the
/// same queue of them, by rules for the queue pair that is given, too.
pub fn open(device: &Arc<Device<SegmentCard>>, port: u8, vlan: Option<u16>, count: u16) -> Result<Queues> {
    let pd = device.alloc_pd()?;
    let pairs = (0..count).map(|_| Ok((Sender::open(&pd, port, vlan)?, Receiver::open(&pd, vlan)?)));
    let pairs = pairs.collect::<Result<Vec<Pair>>>()?;
    let entries: Vec<_> =
        pairs.iter().map(|(_, receiver)| receiver.wq.clone()).cycle().take(TABLE_ENTRIES).collect();
    let table = device.create_table(&entries)?;
    let spread = pd.create_hash_qp(&table, device.ethernet().hash_fields(), &SUITE_KEY)?;
    Ok((pairs, spread))
}

/// Sends frames. They are in a ring of slots: read, then posted, then sent.
pub struct Sender {
    qp: Arc<Qp<SegmentCard>>,
    cq: Arc<Cq<SegmentCard>>,
    slots: Slots<SegmentCard, LONG_STRIDE>,
    /// What is in them.
    frames: [Sent; SENDS as usize],
    /// The next free one.
    head: u32,
    /// The first that is not posted.
    ready: u32,
    /// The oldest that is not sent.
    tail: u32,
    vlan: Option<u16>,
}

impl Sender {
    fn open(pd: &Arc<Pd<SegmentCard>>, port: u8, vlan: Option<u16>) -> Result<Self> {
        let cq = pd.device().create_cq(SENDS + 1, 0)?;
        let caps = QpCaps { max_send_wr: SENDS, max_send_sge: 1, ..QpCaps::default() };
        let qp = pd.create_qp(&QpInit {
            sq_sig_all: true,
            offloads: Offloads { tso: cuts(pd.device()), ..Offloads::default() },
            ..QpInit::new(QpType::RAW_PACKET, &cq, caps)
        })?;
        qp.bring_up(&QpAttr { port, ..QpAttr::default() })?;
        let slots = Slots::new(pd, SENDS)?;
        let frames = [Sent::default(); SENDS as usize];
        Ok(Sender { qp, cq, slots, frames, head: 0, ready: 0, tail: 0, vlan })
    }

    /// Room for a frame, if there is any. What is put there is sent after it is [taken](Self::take).
    pub fn room(&mut self) -> Result<Option<&mut [u8]>> {
        if self.head.wrapping_sub(self.tail) == SENDS {
            self.reap()?;
        }
        let free = self.head.wrapping_sub(self.tail) < SENDS;
        // SAFETY: a slot whose frame was sent.
        Ok(free.then(|| unsafe { self.slots.bytes_mut(self.head % SENDS) }))
    }

    /// The room has a frame, or what is to be cut into frames. What is longer with its tag than any frame is dropped.
    pub fn take(&mut self, frame: Sent) {
        let tag = self.vlan.map_or(0, |_| TAG);
        let longest = frame.cut.map_or(frame.length, |cut| cut.header + usize::from(cut.mss));
        if longest + tag <= MAX_FRAME as usize {
            self.frames[(self.head % SENDS) as usize] = frame;
            self.head = self.head.wrapping_add(1);
        }
    }

    /// Sends all that were taken.
    pub fn send(&mut self) -> Result<()> {
        let mut post = self.qp.send();
        while self.ready != self.head {
            let slot = self.ready % SENDS;
            let Sent { length, cut } = self.frames[slot as usize];
            let flags = self.vlan.map_or(SendFlags::empty(), |_| SendFlags::VLAN_INSERT);
            let wr = SendWr { flags, vlan_tci: self.vlan.unwrap_or(0), ..SendWr::default() };
            let whole = self.slots.sge(slot, length as u32);
            match cut {
                None => {
                    let data = Data::Sges(&[whole]);
                    post.push(&SendWr { opcode: WqeOpcode::RAW_ETH, data, ..wr })?;
                }
                Some(Cut { header, mss }) => {
                    let behind = header as u32;
                    let (addr, length) = (whole.addr + u64::from(behind), whole.length - behind);
                    // SAFETY: the card only reads it.
                    let header = unsafe { &self.slots.bytes(slot)[..header] };
                    let message = Segmented { header, mss, data: &[Sge { addr, length, ..whole }] };
                    let data = Data::Segmented(&message);
                    post.push(&SendWr { opcode: WqeOpcode::RAW_TSO, data, ..wr })?;
                }
            }
            self.ready = self.ready.wrapping_add(1);
        }
        post.ring();
        Ok(())
    }

    fn reap(&mut self) -> Result<()> {
        let mut failed = None;
        let sent = self.cq.poll(SENDS as usize, |wc| {
            if wc.status != CqeStatus::SUCCESS {
                failed.get_or_insert(wc.status);
            }
        })?;
        if let Some(status) = failed {
            bail!("a frame could not be sent: {status}");
        }
        self.tail = self.tail.wrapping_add(sent as u32);
        Ok(())
    }
}

pub struct Receiver {
    wq: Arc<Qp<SegmentCard>>,
    cq: Arc<Cq<SegmentCard>>,
    slots: Slots<SegmentCard, STRIDE>,
}

impl Receiver {
    fn open(pd: &Arc<Pd<SegmentCard>>, vlan: Option<u16>) -> Result<Self> {
        let cq = pd.device().create_cq(RECEIVES + 1, 0)?;
        let offloads = Offloads { strip_vlan: vlan.is_some(), ..Offloads::default() };
        let wq = pd.create_wq(&cq, (RECEIVES, 1), offloads)?;
        wq.step(&QpAttr { state: QpState::RTR, ..QpAttr::default() })?;
        let mut receiver = Receiver { wq, cq, slots: Slots::new(pd, RECEIVES)? };
        receiver.post(0..RECEIVES)?;
        Ok(receiver)
    }

    fn post(&mut self, slots: impl IntoIterator<Item = u32>) -> Result<()> {
        let mut post = self.wq.recv();
        for slot in slots {
            post.push(slot.into(), &[self.slots.sge(slot, MAX_FRAME)])?;
        }
        post.ring();
        Ok(())
    }

    /// Gives what has come, if there is anything; returns how many frames.
    pub fn receive(&mut self, give: impl FnOnce(&[Frame<'_>]) -> Result<()>) -> Result<usize> {
        let (mut came, mut failed) = ([(0, 0, Checksums::default()); BATCH], None);
        let mut count = 0;
        self.cq.poll(BATCH, |wc| {
            if wc.status != CqeStatus::SUCCESS || wc.wr_id >= u64::from(RECEIVES) {
                failed.get_or_insert(wc.status);
                return;
            }
            let right = |flag| wc.flags.contains(flag);
            let right = Checksums { ip: right(WcFlags::IP_CSUM_OK), l4: right(WcFlags::L4_CSUM_OK) };
            came[count] = (wc.wr_id as u32, wc.byte_len.min(MAX_FRAME) as usize, right);
            count += 1;
        })?;
        if let Some(status) = failed {
            bail!("a frame could not be received: {status}");
        }
        if count != 0 {
            let mut frames = [Frame::default(); BATCH];
            for (frame, &(slot, length, right)) in frames.iter_mut().zip(&came[..count]) {
                // SAFETY: the card has it again only below.
                *frame = Frame { bytes: unsafe { &self.slots.bytes(slot)[..length] }, right };
            }
            give(&frames[..count])?;
            self.post(came[..count].iter().map(|&(slot, ..)| slot))?;
        }
        Ok(count)
    }

    /// The number that events of its frames name.
    pub fn cqn(&self) -> u32 {
        self.cq.cqn()
    }

    /// Asks for an event when the next frame comes.
    pub fn arm(&self) {
        self.cq.arm(false);
    }
}
