//! A card with its queue pairs, as the actor on it uses them: through the driver.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use driver::{AhAttr, Cq, Data, Device, Mr, Pd, Qp, QpAttr, QpCaps, QpInit, SendFlags, SendWr, Sge, WcFlags};
use fpga_regs::{Access, CqeStatus, QpType, WqeOpcode};
use model::attach::{Buffer, Stage, StageCard};

use super::pattern::Message;
use super::retries::Retries;

/// Longest WRITE: a longer message is several, all to the same place, of which the last has immediate data.
pub const CHUNK: u64 = 64 << 10;
/// WRITEs of a queue pair that are posted at a time, at most; if a card sends to many others at a time, at least.
const AHEAD: (u32, u32) = (16, 2);
/// WRITEs of a card that are posted at a time, roughly.
const AHEAD_OF_CARD: u32 = 4096;
/// Receives of a queue pair.
const RECEIVES: u32 = 2;

pub struct Host {
    pub device: Arc<Device<StageCard>>,
    pd: Arc<Pd<StageCard>>,
    cq: Arc<Cq<StageCard>>,
    landing: Buffer,
    landing_mr: Arc<Mr<StageCard>>,
    source: (u64, Arc<Mr<StageCard>>),
    links: Vec<Link>,
    /// By the peer's card.
    by_peer: HashMap<u16, usize>,
    /// What is not sent yet, as messages to so many others are on their way already.
    waiting: VecDeque<Message>,
    busy: usize,
    window: usize,
    ahead: u32,
}

/// A queue pair that is connected to another card.
struct Link {
    peer: u16,
    qp: Arc<Qp<StageCard>>,
    /// The peer's landing buffer: address and key.
    remote: (u64, u32),
    queue: VecDeque<Sending>,
    flying: u32,
    /// Its retries have ended: it sends nothing any more.
    gave_up: bool,
}

struct Sending {
    step: u32,
    left: u64,
}

/// What a card learns from its completions.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// A message has arrived.
    Arrived { from: u16, step: u32 },
    /// The queue pair to a card has no retries left: what it still had to send is dropped.
    GaveUp { to: u16 },
}

impl Host {
    /// Opens a card; its landing buffer has `landing` bytes, it will have `links` queue pairs, and it sends to at most
    /// `window` cards at a time.
    pub fn open(
        stage: &Stage,
        card: u16,
        landing: usize,
        source: &Buffer,
        (links, window): (usize, usize),
    ) -> Result<Host> {
        let device = Device::open(stage.open(card)?)?;
        let pd = device.alloc_pd()?;
        let links = links.max(1) as u32;
        let sends = links.min(window as u32);
        let ahead = (AHEAD_OF_CARD / sends).clamp(AHEAD.1, AHEAD.0);
        let cq = device.create_cq(ahead * sends + RECEIVES * links, 0)?;
        let landing = stage.buffer(landing).context("there is no more memory for buffers")?;
        let landing_mr = landing.register(&pd, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let source = (source.addr(), source.register(&pd, Access::LOCAL_WRITE)?);
        let (links, by_peer, waiting) = (Vec::new(), HashMap::new(), VecDeque::new());
        Ok(Host {
            device,
            pd,
            cq,
            landing,
            landing_mr,
            source,
            links,
            by_peer,
            waiting,
            busy: 0,
            window,
            ahead,
        })
    }

    /// A queue pair for a peer, not connected yet.
    fn add(&mut self, peer: u16) -> Result<&mut Link> {
        let caps = QpCaps {
            max_send_wr: self.ahead,
            max_recv_wr: RECEIVES,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let link = Link {
            peer,
            qp: self.pd.create_qp(&QpInit::new(QpType::RC, &self.cq, caps))?,
            remote: (0, 0),
            queue: VecDeque::new(),
            flying: 0,
            gave_up: false,
        };
        self.by_peer.insert(peer, self.links.len());
        self.links.push(link);
        Ok(self.links.last_mut().expect("just pushed"))
    }

    fn gid(&self) -> Result<[u8; 16]> {
        Ok(self.device.gid(1, 1)?)
    }

    pub fn knows(&self, peer: u16) -> bool {
        self.by_peer.contains_key(&peer)
    }

    pub fn connect(hosts: &mut [Host], (a, b): (u16, u16), mtu: u32, retries: Retries) -> Result<()> {
        let ends = [(a, b), (b, a)];
        let mut qpns = [0; 2];
        for (qpn, (own, peer)) in qpns.iter_mut().zip(ends) {
            *qpn = hosts[usize::from(own)].add(peer)?.qp.qpn();
        }
        for ((own, peer), qpn) in ends.into_iter().zip([qpns[1], qpns[0]]) {
            let other = &hosts[usize::from(peer)];
            let (gid, remote) = (other.gid()?, (other.landing.addr(), other.landing_mr.rkey()));
            let link = hosts[usize::from(own)].links.last_mut().expect("added above");
            link.remote = remote;
            link.bring_up(qpn, gid, mtu, retries)?;
        }
        Ok(())
    }

    /// Queues a message, and posts as much of it as may be.
    pub fn send(&mut self, message: Message) -> Result<()> {
        self.waiting.push_back(message);
        self.begin()
    }

    /// Begins the messages that wait, as far as the window lets them.
    fn begin(&mut self) -> Result<()> {
        while let Some(message) = self.waiting.front() {
            let index = *self.by_peer.get(&message.to).context("no queue pair leads there")?;
            let link = &mut self.links[index];
            if link.gave_up {
                // It would come back at once.
                self.waiting.pop_front();
                continue;
            }
            if !link.is_busy() {
                if self.busy == self.window {
                    break;
                }
                self.busy += 1;
            }
            link.queue.push_back(Sending { step: message.step, left: message.bytes });
            self.waiting.pop_front();
            self.post(index)?;
        }
        Ok(())
    }

    fn post(&mut self, index: usize) -> Result<()> {
        let (addr, lkey) = (self.source.0, self.source.1.lkey());
        let (ahead, link) = (self.ahead, &mut self.links[index]);
        if link.flying == ahead || link.queue.is_empty() {
            return Ok(());
        }
        let mut post = link.qp.send();
        while link.flying < ahead {
            let Some(sending) = link.queue.front_mut() else { break };
            let len = sending.left.min(CHUNK);
            let sges = [Sge { addr, length: len as u32, lkey }];
            sending.left -= len;
            let (last, imm) = (sending.left == 0, sending.step);
            let opcode = if last { WqeOpcode::WRITE_WITH_IMM } else { WqeOpcode::WRITE };
            post.push(&SendWr {
                wr_id: index as u64,
                opcode,
                flags: SendFlags::SIGNALED,
                imm,
                remote_addr: link.remote.0,
                rkey: link.remote.1,
                data: Data::Sges(&sges),
                ..SendWr::default()
            })?;
            link.flying += 1;
            if last {
                link.queue.pop_front();
            }
        }
        post.ring();
        Ok(())
    }

    /// What has completed: posts more, and tells what has arrived, and which queue pairs gave up.
    pub fn poll(&mut self) -> Result<Vec<Told>> {
        let mut completions = Vec::new();
        while self.cq.poll(64, |wc| completions.push(wc))? == 64 {}
        let mut told = Vec::new();
        for wc in completions {
            let index = wc.wr_id as usize;
            let link = &mut self.links[index];
            let peer = link.peer;
            match wc.status {
                // What was posted to it, and comes back.
                _ if link.gave_up => continue,
                CqeStatus::SUCCESS => {}
                CqeStatus::RETRY_EXC_ERR => {
                    (link.gave_up, link.flying) = (true, 0);
                    link.queue.clear();
                    told.push(Told::GaveUp { to: peer });
                    self.busy -= 1;
                    self.begin()?;
                    continue;
                }
                status => bail!("a work request of the queue pair to card {peer} failed: {status:?}"),
            }
            match wc.flags.contains(WcFlags::RECV) {
                true => {
                    told.push(Told::Arrived { from: peer, step: wc.imm });
                    self.links[index].receive(index, 1)?;
                }
                false => {
                    self.links[index].flying -= 1;
                    self.post(index)?;
                    if !self.links[index].is_busy() {
                        self.busy -= 1;
                        self.begin()?;
                    }
                }
            }
        }
        Ok(told)
    }

    /// Posts the receives of all queue pairs.
    pub fn receive(&mut self) -> Result<()> {
        let mut links = self.links.iter().enumerate();
        links.try_for_each(|(index, link)| link.receive(index, RECEIVES))
    }

    /// The cards that a message is still on its way to.
    pub fn waits(&self) -> impl Iterator<Item = u16> + '_ {
        self.links.iter().filter(|link| link.is_busy()).map(|link| link.peer)
    }

    /// What has been written to its landing buffer.
    pub fn landed(&self, len: usize) -> Vec<u8> {
        self.landing.read(len)
    }
}

impl Link {
    /// Whether a message is on its way.
    fn is_busy(&self) -> bool {
        self.flying > 0 || !self.queue.is_empty()
    }

    fn receive(&self, index: usize, count: u32) -> Result<()> {
        let mut post = self.qp.recv();
        (0..count).try_for_each(|_| post.push(index as u64, &[]))?;
        post.ring();
        Ok(())
    }

    /// From RESET to RTS.
    fn bring_up(&self, dest_qpn: u32, dgid: [u8; 16], mtu: u32, retries: Retries) -> Result<()> {
        Ok(self.qp.bring_up(&QpAttr {
            port: 1,
            access: Access::REMOTE_WRITE,
            ah: AhAttr { grh: true, dgid, sgid_index: 1, hop_limit: 64, port: 1, ..AhAttr::default() },
            path_mtu: (mtu.trailing_zeros() - 7) as u8,
            dest_qpn,
            min_rnr_timer: 1,
            timeout: retries.timeout,
            retry_cnt: retries.count,
            rnr_retry: 7,
            ..QpAttr::default()
        })?)
    }
}
