//! The commands of librdmacm, as Linux' `ucma` takes them: version 4 of the interface in `rdma_user_cm.h`.
//!
//! Any bytes may come. What is no command is refused with the errno value that Linux gives.

use libc::*;

use super::address::{size, Address};
use super::bind::space;
use super::ids::{event, Result};
use super::mad::reason;
use super::param::{self, Connection};
use super::query;
use super::tables::*;
use crate::env::Env;

/// Numbers of commands that are special to whom they are given.
pub mod number {
    /// Answers with a number of an identifier, and says where in its third word.
    pub const CREATE_ID: u32 = 0;
    /// Takes the identifier's events away.
    pub const DESTROY_ID: u32 = 1;
    /// Takes an event, and waits for one.
    pub const GET_EVENT: u32 = 12;
    /// Is given a value by reference.
    pub const SET_OPTION: u32 = 14;
    /// Takes the membership's events away.
    pub const LEAVE: u32 = 17;
    /// Names another channel, whose events move.
    pub const MIGRATE_ID: u32 = 18;
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// `RDMA_USER_CM_CMD_...`.
    pub number: u32,
    /// Its structure.
    pub input: &'a [u8],
    /// Bytes that the program has for the answer.
    pub room: usize,
    /// The value that SET_OPTION points to.
    pub option: &'a [u8],
    /// The channel that MIGRATE_ID names, if it is one.
    pub from: Option<u16>,
}

/// Where in a command's structure the address for its answer is.
pub fn response_at(number: u32) -> usize {
    if number == number::CREATE_ID {
        8
    } else {
        0
    }
}

/// Where in the structure of SET_OPTION the address of the value and its length are.
pub const OPTION_AT: (usize, usize) = (0, 20);
/// Where in the structure of MIGRATE_ID the descriptor is.
pub const FD_AT: usize = 12;

/// The structure of a command.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&self, at: usize, len: usize) -> Result<&'a [u8]> {
        self.0.get(at..at + len).ok_or(EINVAL)
    }

    fn u8(&self, at: usize) -> Result<u8> {
        Ok(self.bytes(at, 1)?[0])
    }

    fn u16(&self, at: usize) -> Result<u16> {
        self.bytes(at, 2)?.try_into().map(u16::from_ne_bytes).map_err(|_| EINVAL)
    }

    fn u32(&self, at: usize) -> Result<u32> {
        self.bytes(at, 4)?.try_into().map(u32::from_ne_bytes).map_err(|_| EINVAL)
    }

    fn u64(&self, at: usize) -> Result<u64> {
        self.bytes(at, 8)?.try_into().map(u64::from_ne_bytes).map_err(|_| EINVAL)
    }

    /// A `sockaddr_in6` that holds an address of its size.
    fn ip(&self, at: usize) -> Result<Address> {
        self.sized(at, 28, None)
    }

    /// A `sockaddr_storage` that is said to hold `len` bytes.
    fn any(&self, at: usize, len: u16) -> Result<Address> {
        self.sized(at, 128, Some(len))
    }

    fn sized(&self, at: usize, room: usize, len: Option<u16>) -> Result<Address> {
        let address = Address::read(self.bytes(at, room)?);
        let found = size(address.family());
        let right = found != 0 && found <= room && len.is_none_or(|len| usize::from(len) == found);
        right.then_some(address).ok_or(EINVAL)
    }

    /// An `rdma_ucm_conn_param`; the last one says whether it is valid.
    fn wishes(&self, at: usize) -> Result<(Connection<'a>, bool)> {
        let len = self.u8(at + 264)?.into();
        let wishes = Connection {
            qpn: self.u32(at)?,
            private: self.bytes(at + 8, len)?,
            srq: self.u8(at + 265)? != 0,
            responder_resources: self.u8(at + 266)?,
            initiator_depth: self.u8(at + 267)?,
            flow_control: self.u8(at + 268)? != 0,
            retry_count: self.u8(at + 269)?,
            rnr_retry_count: self.u8(at + 270)?,
        };
        Ok((wishes, self.u8(at + 271)? != 0))
    }
}

/// Where in each command's structure the identifier is.
const ID_AT: [usize; 25] = [
    NO_ID, 8, 36, 56, 0, 8, 272, 0, 280, 0, 0, 8, NO_ID, NO_ID, 8, 0, 44, NO_ID, NO_ID, 8, 0, 0, 16, 0, NO_ID,
];
/// The command has none of its own channel's.
const NO_ID: usize = usize::MAX;

/// Nothing to answer.
const DONE: Result<Vec<u8>> = Ok(Vec::new());

fn answer(value: u32, room: usize) -> Result<Vec<u8>> {
    let bytes = value.to_ne_bytes();
    (room >= bytes.len()).then(|| bytes.into()).ok_or(ENOSPC)
}

impl<E: Env> Manager<'_, E> {
    /// A new channel of a process, whose events raise the interrupt of this function of card 0.
    pub fn open_channel(&mut self, member: u16, function: u16, privileged: bool) -> Result<u16> {
        let channels = &self.cm.channels;
        let at = self.cm.slots.channels.take(0..CHANNELS, |i| channels[i].used.get()).ok_or(ENOMEM)?;
        self.cm.channels[at] = Channel { used: true.into(), privileged: privileged.into(), member, function };
        Ok(at as u16)
    }

    /// Whether a process has a channel with events.
    pub fn has_events(&self, channel: u16) -> bool {
        self.first_event(channel).is_some()
    }

    /// Executes a command of a channel; returns the bytes of the answer.
    pub fn command(&mut self, channel: u16, command: &Command<'_>) -> Result<Vec<u8>> {
        if !self.cm.channels.get(usize::from(channel)).is_some_and(|it| it.used.get()) {
            return Err(EIO);
        }
        let (input, room) = (Input(command.input), command.room);
        let slot = match ID_AT.get(command.number as usize) {
            None => return Err(EINVAL),
            Some(&NO_ID) => 0,
            Some(&at) => self.owned(channel, input.u32(at)?)?,
        };
        match command.number {
            number::CREATE_ID => self.create_id(channel, &input, room),
            number::DESTROY_ID => {
                room_for(4, room)?;
                self.close(slot);
                answer(self.free(slot), room)
            }
            2 => self.bind_to(slot, input.ip(8)?),
            3 => {
                let source = if input.u16(0)? == 0 { Address::NONE } else { input.ip(0)? };
                self.resolve(slot, source, input.ip(28)?, input.u32(60)?)?;
                DONE
            }
            4 => self.route(slot).and(DONE),
            5 => self.query_route(slot, room),
            6 => {
                let (wishes, valid) = input.wishes(0)?;
                if !valid {
                    return Err(EINVAL);
                }
                self.connect(slot, &wishes).and(DONE)
            }
            7 => self.listen(slot, input.u32(4)?).and(DONE),
            8 => {
                let (wishes, valid) = input.wishes(8)?;
                match valid {
                    true => self.accept(slot, input.u64(0)?, &wishes).and(DONE),
                    false => self.ready(slot).and(DONE),
                }
            }
            9 => {
                let why = match input.u8(5)?.into() {
                    0 | reason::CONSUMER_DEFINED => reason::CONSUMER_DEFINED,
                    reason::VENDOR_OPTION_NOT_SUPPORTED => reason::VENDOR_OPTION_NOT_SUPPORTED,
                    _ => return Err(EINVAL),
                };
                let private = input.bytes(8, input.u8(4)?.into())?;
                self.reject(slot, why, private).and(DONE)
            }
            10 => self.disconnect(slot).and(DONE),
            11 => {
                room_for(query::QP_ATTR, room)?;
                self.init_qp_attr(slot, input.u32(12)?)
            }
            number::GET_EVENT => self.get_event(channel, room),
            // GET_OPTION was never made.
            13 => Err(ENOSYS),
            number::SET_OPTION => {
                self.set_option(slot, (input.u32(12)?, input.u32(16)?), command.option).and(DONE)
            }
            15 => {
                /// `IB_EVENT_COMM_EST`.
                const ESTABLISHED: u32 = 4;
                match input.u32(4)? {
                    ESTABLISHED => self.communicates(slot).and(DONE),
                    _ => Err(EINVAL),
                }
            }
            16 => self.join(slot, input.u64(8)?, input.ip(16)?, room),
            number::LEAVE => self.leave(channel, input.u32(8)?, room),
            number::MIGRATE_ID => self.migrate(channel, command.from, input.u32(8)?, room),
            19 => self.query(slot, input.u32(12)?, room),
            20 => {
                if input.u16(6)? != 0 {
                    return Err(EINVAL);
                }
                self.bind_to(slot, input.any(8, input.u16(4)?)?)
            }
            21 => {
                let (sources, destinations, reserved) = (input.u16(8)?, input.u16(10)?, input.u32(12)?);
                let source = if sources == 0 { Address::NONE } else { input.any(16, sources)? };
                let destination = input.any(144, destinations)?;
                if reserved != 0 {
                    return Err(EINVAL);
                }
                self.resolve(slot, source, destination, input.u32(4)?).and(DONE)
            }
            22 => {
                if input.u16(22)? > 1 {
                    return Err(EINVAL);
                }
                self.join(slot, input.u64(8)?, input.any(24, input.u16(20)?)?, room)
            }
            23 => self.resolve_service(slot).and(DONE),
            24 => {
                let (kind, status, argument) = (input.u32(8)?, input.u32(12)?, input.bytes(16, 8)?);
                self.write_event(channel, input.u32(0)?, (kind, status), argument).and(DONE)
            }
            _ => Err(EINVAL),
        }
    }

    fn bind_to(&mut self, slot: u16, address: Address) -> Result<Vec<u8>> {
        self.bind(slot, address).and(DONE)
    }

    fn create_id(&mut self, channel: u16, input: &Input<'_>, room: usize) -> Result<Vec<u8>> {
        room_for(4, room)?;
        let (uid, space, asked) = (input.u64(0)?, input.u16(16)?, input.u8(18)?);
        let qp_type = match space {
            space::TCP => qp_type::RC,
            space::UDP | space::IPOIB => qp_type::UD,
            space::IB => asked,
            _ => return Err(EINVAL),
        };
        let slot = self.create(channel, space, qp_type, uid)?;
        answer(slot.into(), room)
    }

    fn get_event(&mut self, channel: u16, room: usize) -> Result<Vec<u8>> {
        // Older programs know nothing of the last twelve bytes.
        room_for(query::EVENT - 12, room)?;
        let at = self.first_event(channel).ok_or(EAGAIN)?;
        let Queued { id, new, group, kind, status, .. } = self.cm.queue[at];
        let (mut uid, mut name) = (self.id(id).uid, u32::from(id));
        if new != 0 {
            self.id(new).unseen = false.into();
            self.id(new).channel = channel;
            self.id(id).backlog = self.id(id).backlog.saturating_add(1);
            name = new.into();
        }
        if group != 0 {
            let group_of = &mut self.cm.groups[usize::from(group) % GROUPS];
            group_of.reported = group_of.reported.wrapping_add(1);
            (uid, name) = (group_of.uid, group.into());
        }
        self.cm.queue[at].turn = 0;
        self.id(id).reported = self.id(id).reported.wrapping_add(1);
        let mut bytes = Vec::with_capacity(query::EVENT);
        bytes.extend(uid.to_ne_bytes());
        bytes.extend(name.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(status.to_ne_bytes());
        bytes.extend(self.cm.params[at]);
        bytes.resize(query::EVENT.min(room), 0);
        Ok(bytes)
    }

    fn join(&mut self, slot: u16, uid: u64, address: Address, room: usize) -> Result<Vec<u8>> {
        room_for(4, room)?;
        let id = self.id(slot);
        if !matches!(id.state, state::BOUND | state::RESOLVED) || !id.way.known.get() || address.is_any() {
            return Err(EINVAL);
        }
        let space = id.space;
        let groups = &self.cm.groups;
        let group = self.cm.slots.groups.take(1..GROUPS, |i| groups[i].used.get()).ok_or(ENOMEM)?;
        self.cm.groups[group] = Group { used: true.into(), id: slot, reported: 0, uid };
        let way = param::group_way(&self.id(slot).way, address.ip());
        let qkey = if space == space::UDP { self.qkey(slot) } else { 0 };
        let joined = param::datagrams(Some(&way), ALL_QPS, qkey, &[]);
        let kind = event::MULTICAST_JOIN;
        if let Err(errno) = self.queue((slot, 0, group as u16), kind, 0, &joined) {
            self.cm.groups[group].used = false.into();
            return Err(errno);
        }
        answer(group as u32, room)
    }

    fn leave(&mut self, channel: u16, group: u32, room: usize) -> Result<Vec<u8>> {
        room_for(4, room)?;
        let found = self.cm.groups.get(group as usize).filter(|it| group != 0 && it.used.get());
        let Group { id, reported, .. } = *found.ok_or(ENOENT)?;
        self.owned(channel, id.into())?;
        self.cm.groups[group as usize].used = false.into();
        for queued in &mut self.cm.queue[self.cm.slots.events.range()] {
            if u32::from(queued.group) == group {
                queued.turn = 0;
            }
        }
        answer(reported, room)
    }

    fn migrate(&mut self, to: u16, from: Option<u16>, id: u32, room: usize) -> Result<Vec<u8>> {
        let slot = self.owned(from.ok_or(ENOENT)?, id)?;
        self.id(slot).channel = to;
        for at in self.cm.slots.events.range() {
            let queued = &mut self.cm.queue[at];
            if queued.turn != 0 && queued.id == slot {
                queued.channel = to;
                if let Some(new) = self.cm.ids.get_mut(usize::from(queued.new)).filter(|_| queued.new != 0) {
                    new.channel = to;
                }
            }
        }
        self.wake(to);
        let reported = self.id(slot).reported;
        answer(reported, room.max(4))
    }
}

/// The QPN of datagrams for a group.
const ALL_QPS: u32 = 0xff_ffff;

fn room_for(bytes: usize, room: usize) -> Result<()> {
    (room >= bytes).then_some(()).ok_or(ENOSPC)
}
