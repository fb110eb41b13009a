//! Which object an event of the card is about, and which pipe it goes to.

use std::collections::{HashMap, HashSet};
use std::os::fd::RawFd;

use fpga_regs::EventKind;
use rdma_sys::ibv_event_type;

use super::errno::{Errno, Result};
use super::event_pipe::{Aside, EventPipe};

/// What kind of object an asynchronous event is about. First those that have objects: see [`State`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Completion queue.
    Cq,
    /// Queue pair.
    Qp,
    /// Shared receive queue.
    Srq,
    /// Receive work queue.
    Wq,
    /// Port: the object is its number.
    Port,
    /// The device itself.
    Device,
}

/// The verbs name of an event of the card, and what it is about.
fn verbs_event(kind: EventKind) -> Option<(u32, Kind)> {
    use ibv_event_type::*;
    let (event, about) = match kind {
        EventKind::CQ_ERR => (IBV_EVENT_CQ_ERR, Kind::Cq),
        EventKind::QP_FATAL => (IBV_EVENT_QP_FATAL, Kind::Qp),
        EventKind::QP_REQ_ERR => (IBV_EVENT_QP_REQ_ERR, Kind::Qp),
        EventKind::QP_ACCESS_ERR => (IBV_EVENT_QP_ACCESS_ERR, Kind::Qp),
        EventKind::COMM_EST => (IBV_EVENT_COMM_EST, Kind::Qp),
        EventKind::SQ_DRAINED => (IBV_EVENT_SQ_DRAINED, Kind::Qp),
        EventKind::QP_LAST_WQE => (IBV_EVENT_QP_LAST_WQE_REACHED, Kind::Qp),
        EventKind::SRQ_ERR => (IBV_EVENT_SRQ_ERR, Kind::Srq),
        EventKind::SRQ_LIMIT => (IBV_EVENT_SRQ_LIMIT_REACHED, Kind::Srq),
        EventKind::WQ_FATAL => (IBV_EVENT_WQ_FATAL, Kind::Wq),
        EventKind::PORT_ACTIVE => (IBV_EVENT_PORT_ACTIVE, Kind::Port),
        EventKind::PORT_ERR => (IBV_EVENT_PORT_ERR, Kind::Port),
        EventKind::DEVICE_FATAL => (IBV_EVENT_DEVICE_FATAL, Kind::Device),
        EventKind::GID_CHANGE => (IBV_EVENT_GID_CHANGE, Kind::Port),
        _ => return None,
    };
    Some((event as u32, about))
}

/// An object that may have events.
pub struct Object {
    /// Address of the verbs object.
    pub handle: u64,
    /// Its completion channel.
    pub channel: Option<RawFd>,
    /// Events written so far.
    pub sent: Sent,
    /// What has come since somebody began to destroy it, to be sent if that fails: numbers of asynchronous events, and
    /// nothing for a completion.
    pub held: Option<Vec<Option<u32>>>,
}

impl Object {
    /// Sends an event of it, unless it is being destroyed.
    fn raise(&mut self, event: Option<u32>, channels: &mut Channels, asyncs: &mut EventPipe<16>) {
        if let Some(held) = &mut self.held {
            return held.push(event);
        }
        if let Some(event) = event {
            self.sent.asyncs = self.sent.asyncs.wrapping_add(1);
            asyncs.send(record(self.handle, event));
        } else if let Some(pipe) = self.channel.and_then(|fd| channels.get_mut(&fd)) {
            self.sent.completions = self.sent.completions.wrapping_add(1);
            pipe.send(self.handle.to_ne_bytes());
        }
    }
}

/// An asynchronous event as libibverbs reads it.
fn record(element: u64, event: u32) -> [u8; 16] {
    let mut record = [0; 16];
    record[..8].copy_from_slice(&element.to_ne_bytes());
    record[8..12].copy_from_slice(&event.to_ne_bytes());
    record
}

/// Events that were sent for an object, and not forgotten since.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Sent {
    /// To the completion channel.
    pub completions: u32,
    /// To `async_fd`.
    pub asyncs: u32,
}

/// Objects by their numbers. An XRC queue pair that is opened twice is two objects.
pub type Objects = HashMap<u32, Vec<Object>>;

/// Completion channels by the program's descriptor.
type Channels = HashMap<RawFd, EventPipe<8>>;

/// The objects of a context that have events, and the pipes.
pub struct State {
    /// The pipes of completion channels.
    pub channels: Channels,
    /// The card is lost, and no channel is of use any more.
    lost: bool,
    /// At this number of channels those that the program has closed are looked for.
    many_channels: usize,
    asyncs: EventPipe<16>,
    aside: Aside,
    /// Of each kind that has objects.
    objects: [Objects; 4],
}

/// A number of channels that is not worth a check.
const FEW_CHANNELS: usize = 16;

impl State {
    /// No channel and no object yet.
    pub fn new(asyncs: EventPipe<16>, aside: Aside) -> State {
        State {
            channels: HashMap::new(),
            lost: false,
            many_channels: FEW_CHANNELS,
            asyncs,
            aside,
            objects: Default::default(),
        }
    }

    /// The inodes of all pipes.
    pub fn pipes(&self) -> Vec<u64> {
        let channels = self.channels.values().filter_map(EventPipe::inode);
        channels.chain(self.asyncs.inode()).collect()
    }

    /// The card is lost: as in the kernel, nobody waits for completions any more.
    pub fn lose(&mut self) {
        self.lost = true;
        self.channels.clear();
        self.asynchronous(EventKind::DEVICE_FATAL, 0);
    }

    /// A new completion channel; EIO after the card was lost.
    pub fn add_channel(&mut self, pipe: EventPipe<8>) -> Result<()> {
        Errno::EIO.when(self.lost)?;
        if self.channels.len() >= self.many_channels {
            self.forget_closed_channels();
        }
        self.channels.insert(pipe.rx(), pipe);
        Ok(())
    }

    /// Programs close channels without the provider's knowledge. A check is one system call for each of them, so the
    /// next one is when there are twice as many.
    pub fn forget_closed_channels(&mut self) {
        let used: HashSet<RawFd> =
            self.objects[Kind::Cq as usize].values().flatten().filter_map(|cq| cq.channel).collect();
        self.channels.retain(|fd, pipe| used.contains(fd) || !pipe.closed());
        self.many_channels = FEW_CHANNELS.max(2 * self.channels.len());
    }

    /// Adds an object, or one whose destruction has failed: it gets the events that it has missed.
    pub fn attach(&mut self, kind: Kind, number: u32, mut object: Object) {
        for event in object.held.take().into_iter().flatten() {
            object.raise(event, &mut self.channels, &mut self.asyncs);
        }
        if let Some(objects) = self.objects.get_mut(kind as usize) {
            objects.entry(number).or_default().push(object);
        }
    }

    /// Somebody begins to destroy an object.
    pub fn hold(&mut self, kind: Kind, number: u32, handle: u64) {
        let same = self.objects.get_mut(kind as usize).and_then(|objects| objects.get_mut(&number));
        if let Some(object) = same.into_iter().flatten().find(|object| object.handle == handle) {
            object.held.get_or_insert_default();
        }
    }

    /// Takes an object out: it gets no more events.
    pub fn detach(&mut self, kind: Kind, number: u32, handle: u64) -> Option<Object> {
        let objects = self.objects.get_mut(kind as usize)?;
        let same = objects.get_mut(&number)?;
        let object = same.iter().position(|object| object.handle == handle).map(|at| same.swap_remove(at));
        if same.is_empty() {
            objects.remove(&number);
        }
        object
    }

    /// Forgets the unread events of an object; returns the others.
    pub fn forget(&mut self, kind: Kind, object: &Object) -> Sent {
        let mut sent = object.sent;
        if sent.completions != 0 {
            if let Some(pipe) = object.channel.and_then(|fd| self.channels.get_mut(&fd)) {
                let unread = pipe.forget(&mut self.aside, |record| *record == object.handle.to_ne_bytes());
                sent.completions = sent.completions.wrapping_sub(unread as u32);
            }
        }
        if sent.asyncs != 0 {
            let unread = self.asyncs.forget(&mut self.aside, |record| {
                let event = u32::from_ne_bytes([record[8], record[9], record[10], record[11]]);
                record[..8] == object.handle.to_ne_bytes() && concerns(event) == Some(kind)
            });
            sent.asyncs = sent.asyncs.wrapping_sub(unread as u32);
        }
        sent
    }

    /// A completion event of a CQ.
    pub fn completion(&mut self, cqn: u32) {
        // The CQ may have been destroyed meanwhile. While it is, its number may already be that of another, the last.
        if let Some(cq) = self.objects[Kind::Cq as usize].get_mut(&cqn).and_then(|same| same.last_mut()) {
            cq.raise(None, &mut self.channels, &mut self.asyncs);
        }
    }

    /// An asynchronous event about object `number`.
    pub fn asynchronous(&mut self, kind: EventKind, number: u32) {
        let Some((event, about)) = verbs_event(kind) else {
            model::tell!("verbena: the card sent an unknown event {kind} about {number:#x}");
            return;
        };
        let Some(objects) = self.objects.get_mut(about as usize) else {
            return self.asyncs.send(record(number.into(), event));
        };
        for object in objects.get_mut(&number).into_iter().flatten() {
            object.raise(Some(event), &mut self.channels, &mut self.asyncs);
        }
    }

    /// Sends what found no room before; true when nothing waits.
    pub fn flush(&mut self) -> bool {
        let mut done = self.asyncs.flush();
        for pipe in self.channels.values_mut() {
            done &= pipe.flush();
        }
        done
    }
}

fn concerns(event: u32) -> Option<Kind> {
    EventKind::VALUES
        .iter()
        .filter_map(|named| verbs_event(EventKind(named.value as u8)))
        .find(|(number, _)| *number == event)
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_of_the_card_has_a_verbs_name() {
        for named in EventKind::VALUES {
            let kind = EventKind(named.value as u8);
            assert_eq!(verbs_event(kind).is_none(), kind == EventKind::COMPLETION, "{kind}");
        }
        assert_eq!(verbs_event(EventKind::SRQ_LIMIT), Some((15, Kind::Srq)));
        assert_eq!(verbs_event(EventKind::QP_LAST_WQE), Some((16, Kind::Qp)));
        assert_eq!(verbs_event(EventKind(200)), None);
    }
}
