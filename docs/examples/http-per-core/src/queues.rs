//! The queues of one core, as a network device of smoltcp.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{anyhow, bail, Result};
use driver::{Data, Offloads, QpAttr, QpCaps, QpInit, SendFlags, SendWr, Slots, Wc, WcFlags};
use fpga_regs::{CqeStatus, QpState, QpType, WqeOpcode, MAX_FRAME};
use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use verbena::verbs::card::{Card, Cq, Device, Pd, Qp};

/// Receives that a queue has posted. Few of them stay in the cache.
const RECEIVES: u32 = 256;
/// Frames that may be on their way out.
const SENDS: u32 = 256;
/// Completions that are reaped in one go.
const REAPED: usize = 64;
/// Bytes of a frame without jumbo: the header, and what Ethernet carries.
const FRAME: usize = 1514;
/// Bytes of a slot for a frame that leaves, in whole cache lines.
const SEND_SLOT: usize = FRAME.next_multiple_of(64);
/// Bytes of a slot for a frame that comes: the longest that the card receives. With less room for it, the receive would
/// fail, and the queue with it: whoever is on the net could end the server.
const RECEIVE_SLOT: usize = MAX_FRAME as usize;

/// A receive queue and its memory.
struct Receiving {
    qp: Arc<Qp>,
    cq: Arc<Cq>,
    slots: Slots<Card, RECEIVE_SLOT>,
    free: Vec<u32>,
    /// Frames that have come: slot and bytes.
    arrived: VecDeque<(u32, u32)>,
}

impl Receiving {
    fn new(pd: &Arc<Pd>, qp: Arc<Qp>, cq: Arc<Cq>) -> Result<Self> {
        let slots = Slots::new(pd, RECEIVES)?;
        let mut new = Receiving { qp, cq, slots, free: (0..RECEIVES).collect(), arrived: VecDeque::new() };
        new.post()?;
        Ok(new)
    }

    fn post(&mut self) -> Result<()> {
        let mut post = self.qp.recv();
        while let Some(slot) = self.free.pop() {
            post.push(slot.into(), &[self.slots.sge(slot, MAX_FRAME)])
                .map_err(|error| anyhow!("a receive: {error}"))?;
        }
        post.ring();
        Ok(())
    }

    /// Looks for frames.
    fn poll(&mut self) -> Result<()> {
        if !self.free.is_empty() {
            self.post()?;
        }
        let mut failed = None;
        let (slots, free, arrived) = (&self.slots, &mut self.free, &mut self.arrived);
        self.cq.poll(REAPED, |wc| {
            let slot = wc.wr_id as u32;
            // SAFETY: the receive has ended.
            let frame = unsafe { slots.bytes(slot) };
            match wc.status {
                CqeStatus::SUCCESS if whole(&wc, frame) => arrived.push_back((slot, wc.byte_len)),
                CqeStatus::SUCCESS => free.push(slot),
                status => failed = Some(status),
            }
        })?;
        match failed {
            Some(status) => bail!("a receive ended with {status:?}"),
            None => Ok(()),
        }
    }
}

/// Whether a frame is for the stack: no longer than its own and, if it is of TCP over IPv4, with checksums that the card
/// found right.
fn whole(wc: &Wc, frame: &[u8]) -> bool {
    let short = wc.byte_len as usize <= FRAME;
    let tcp = frame[12..14] == [0x08, 0x00] && frame[23] == 6;
    short && (!tcp || wc.flags.contains(WcFlags::IP_CSUM_OK | WcFlags::L4_CSUM_OK))
}

/// A send queue and its memory.
struct Sending {
    qp: Arc<Qp>,
    cq: Arc<Cq>,
    slots: Slots<Card, SEND_SLOT>,
    free: Vec<u32>,
    /// Frames to be posted: slot and bytes.
    ready: Vec<(u32, u32)>,
    /// Answers to ARP are for one core to send.
    mute: bool,
}

impl Sending {
    /// Posts what is ready, with one doorbell, and reaps what has left.
    fn flush(&mut self) -> Result<()> {
        if !self.ready.is_empty() {
            let mut post = self.qp.send();
            for &(slot, length) in &self.ready {
                let wr = SendWr {
                    wr_id: slot.into(),
                    opcode: WqeOpcode::RAW_ETH,
                    flags: SendFlags::SIGNALED | SendFlags::IP_CSUM | SendFlags::L4_CSUM,
                    data: Data::Sges(&[self.slots.sge(slot, length)]),
                    ..SendWr::default()
                };
                post.push(&wr).map_err(|error| anyhow!("a send: {error}"))?;
            }
            post.ring();
            self.ready.clear();
        }
        if self.free.len() == SENDS as usize {
            return Ok(());
        }
        let (free, mut failed) = (&mut self.free, None);
        self.cq.poll(REAPED, |wc| match wc.status {
            CqeStatus::SUCCESS => free.push(wc.wr_id as u32),
            status => failed = Some(status),
        })?;
        match failed {
            Some(status) => bail!("a send ended with {status:?}"),
            None => Ok(()),
        }
    }
}

/// An answer to ARP: operation 2 (RFC 826).
fn answers_arp(frame: &[u8]) -> bool {
    frame.len() >= 22 && frame[12..14] == [0x08, 0x06] && frame[20..22] == [0, 2]
}

/// The queues of a core: a receive work queue, to which its share of the connections comes, and a raw packet queue pair,
/// which sends and gets ARP.
pub struct Queues {
    spread: Receiving,
    own: Receiving,
    sending: Sending,
    /// The port's address.
    pub mac: [u8; 6],
}

impl Queues {
    /// Makes those of a core at a port (from 1).
    pub fn new(device: &Arc<Device>, pd: &Arc<Pd>, port: u8, mac: [u8; 6], core: u16) -> Result<Self> {
        let cq = || device.create_cq(RECEIVES.max(SENDS) + 1, 0);
        let (spread_cq, own_cq, send_cq) = (cq()?, cq()?, cq()?);
        let wq = pd.create_wq(&spread_cq, (RECEIVES, 1), Offloads::default())?;
        wq.step(&QpAttr { state: QpState::RTR, ..QpAttr::default() })?;
        let caps = QpCaps {
            max_send_wr: SENDS,
            max_recv_wr: RECEIVES,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let (recv_cq, both) = (own_cq.clone(), QpInit::new(QpType::RAW_PACKET, &send_cq, caps));
        let raw = pd.create_qp(&QpInit { recv_cq, ..both })?;
        raw.bring_up(&QpAttr { port, ..QpAttr::default() })?;
        let sending = Sending {
            qp: raw.clone(),
            cq: send_cq,
            slots: Slots::new(pd, SENDS)?,
            free: (0..SENDS).collect(),
            ready: Vec::new(),
            mute: core != 0,
        };
        let spread = Receiving::new(pd, wq, spread_cq)?;
        let own = Receiving::new(pd, raw, own_cq)?;
        Ok(Queues { spread, own, sending, mac })
    }

    /// The queue that an indirection table names.
    pub fn spread(&self) -> &Arc<Qp> {
        &self.spread.qp
    }

    /// The queue pair that rules can name for this core alone.
    pub fn own(&self) -> &Arc<Qp> {
        &self.own.qp
    }

    /// Whether all that was to be sent has left.
    pub fn are_idle(&self) -> bool {
        self.sending.free.len() == SENDS as usize
    }

    /// Takes what has come, gives what is ready. An error means that a queue is broken.
    pub fn poll(&mut self) -> Result<()> {
        self.sending.flush()?;
        self.own.poll()?;
        self.spread.poll()
    }
}

/// A frame that has come: the first that has.
pub struct Arrived<'a>(&'a mut Receiving);

impl phy::RxToken for Arrived<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        let Receiving { slots, free, arrived, .. } = self.0;
        let (slot, length) = arrived.pop_front().unwrap_or_default();
        // SAFETY: the card has it again only when it is free.
        let answer = read(unsafe { &slots.bytes(slot)[..length as usize] });
        free.push(slot);
        answer
    }
}

/// Room for a frame: a slot is free.
pub struct Room<'a>(&'a mut Sending);

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let Sending { slots, free, ready, mute, .. } = self.0;
        let slot = free.pop().unwrap_or_default();
        // SAFETY: a free slot, posted only later.
        let frame = unsafe { &mut slots.bytes_mut(slot)[..length] };
        let answer = write(frame);
        match *mute && answers_arp(frame) {
            true => free.push(slot),
            false => ready.push((slot, length as u32)),
        }
        answer
    }
}

impl phy::Device for Queues {
    type RxToken<'a> = Arrived<'a>;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived<'_>, Room<'_>)> {
        let queue = match self.own.arrived.is_empty() {
            true => &mut self.spread,
            false => &mut self.own,
        };
        let both = !queue.arrived.is_empty() && !self.sending.free.is_empty();
        both.then_some((Arrived(queue), Room(&mut self.sending)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        (!self.sending.free.is_empty()).then_some(Room(&mut self.sending))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME;
        // The card fills them in, and `whole` has looked at what it found.
        capabilities.checksum.ipv4 = Checksum::None;
        capabilities.checksum.tcp = Checksum::None;
        capabilities
    }
}
