//! Two programs and the manager, without cards: whole connections, and bytes that nobody should send.

mod late;
mod linux;
mod strangers;

use proptest::prelude::*;

use super::address::Address;
use super::command::Command;
use super::ids::Result;
use super::mad::{attribute, both, header, Mad, BYTES, GSI_QKEY};
use super::query::EVENT;
use super::tables::{Cm, Manager, OutsidePorts};
use crate::address::{gid, Gid, Guids};
use crate::cells::Bells;
use crate::device::PortSetting;
use crate::dma::{Addr, Atomic, DmaFault, Pieces, Undelivered};
use crate::env::Env;
use crate::gids::{GidEntry, GidTables};
use crate::packet::{Packet, Payload, PortId};
use crate::zeroed::Zeroed;

/// Surroundings that carry datagrams only.
#[derive(Default)]
struct Surroundings {
    now: u64,
    due: Option<u64>,
    stashes: Vec<Vec<u8>>,
    sent: Vec<Packet>,
    /// Addresses that were asked for; `None`: there are no links to ask on.
    asked: Option<Vec<Gid>>,
}

impl Env for Surroundings {
    const GATHER_BYTES: u32 = 0;
    fn note(&mut self, _word: u64) {}

    fn now(&mut self) -> u64 {
        self.now
    }
    fn stash(&mut self, bytes: &[u8]) -> Payload {
        self.stashes.push(bytes.to_vec());
        Payload::Stash(self.stashes.len() as u32 - 1, bytes.len() as u32)
    }
    fn payload(&mut self, payload: &Payload, to: &mut [u8]) -> core::result::Result<(), DmaFault> {
        let Payload::Stash(n, _) = *payload else { return Err(DmaFault) };
        to.copy_from_slice(&self.stashes[n as usize]);
        Ok(())
    }
    fn send(&mut self) -> &mut Packet {
        self.sent.push(Packet::BLANK);
        self.sent.last_mut().unwrap()
    }
    fn ask(&mut self, _: PortId, _: &GidEntry, ip: &Gid) -> bool {
        self.asked.as_mut().map(|asked| asked.push(*ip)).is_some()
    }
    fn timer(&mut self, at: u64) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
    fn interrupt(&mut self, _: u16, _: u16, _: u8) {}
    fn read(&mut self, _: Addr, _: &mut [u8]) -> core::result::Result<(), DmaFault> {
        unreachable!()
    }
    fn words<const N: usize>(&mut self, _: Addr) -> core::result::Result<[u64; N], DmaFault> {
        unreachable!()
    }
    fn write(&mut self, _: Addr, _: &[u8]) -> core::result::Result<(), DmaFault> {
        unreachable!()
    }
    fn publish<const N: usize>(&mut self, _: Addr, _: [u64; N]) -> core::result::Result<(), DmaFault> {
        unreachable!()
    }
    fn atomic(&mut self, _: Addr, _: Atomic) -> core::result::Result<u64, DmaFault> {
        unreachable!()
    }
    fn gather(&mut self, _: &Pieces) -> core::result::Result<Payload, DmaFault> {
        unreachable!()
    }
    fn hold(&mut self, _: &[u8]) -> Payload {
        unreachable!()
    }
    fn deliver(&mut self, _: Addr, _: &Payload, _: usize, _: usize) -> core::result::Result<(), Undelivered> {
        unreachable!()
    }
    fn send_later(&mut self, _: u16, _: u16) {}
    fn ends_turn(&self, _: u32) -> bool {
        true
    }
    fn watch(&mut self, _: u16, _: u16) {}
    fn bells(&self, _: u16) -> &Bells {
        unreachable!()
    }
    fn exists(&mut self, _: u16) -> bool {
        true
    }
}

struct World {
    cm: Zeroed<Cm>,
    gids: GidTables,
    env: Surroundings,
    /// Ports that lead outside.
    outside: OutsidePorts,
    /// Attributes of all datagrams.
    seen: Vec<u16>,
    port: PortSetting,
}

impl World {
    fn new() -> World {
        let cm = Zeroed::new().unwrap();
        let (gids, env, outside) = (GidTables::at_start(2), Surroundings::default(), OutsidePorts::default());
        World { cm, gids, env, outside, seen: Vec::new(), port: PortSetting::default() }
    }

    fn manager(&mut self) -> Manager<'_, Surroundings> {
        Manager {
            cm: &mut self.cm,
            cards: 2,
            devices: &[],
            guids: Guids::INSIDE,
            gids: &self.gids,
            port: self.port,
            outside: self.outside,
            env: &mut self.env,
        }
    }

    fn channel(&mut self, member: u16) -> u16 {
        self.manager().open_channel(member, member, false).unwrap()
    }

    fn try_command(&mut self, channel: u16, number: u32, input: &[u8]) -> Result<Vec<u8>> {
        let command = Command { number, input, room: EVENT, option: &[0; 4], from: Some(channel) };
        self.manager().command(channel, &command)
    }

    fn command(&mut self, channel: u16, number: u32, input: &[u8]) -> Vec<u8> {
        self.try_command(channel, number, input).unwrap_or_else(|errno| panic!("{number}: {errno}"))
    }

    /// Delivers all that is on its way.
    fn carry(&mut self) {
        for _ in 0..64 {
            for p in std::mem::take(&mut self.env.sent) {
                let Payload::Stash(n, _) = p.payload else { panic!("no payload") };
                self.seen.push(Mad::read(&self.env.stashes[n as usize]).unwrap().attribute());
                self.manager().datagram(&p).unwrap();
            }
        }
    }

    /// The event and the identifier of the next one.
    fn event(&mut self, channel: u16) -> (u32, u32) {
        let bytes = self.command(channel, 12, &[0; 8]);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        (word(12), word(8))
    }

    fn create(&mut self, channel: u16, space: u16) -> u32 {
        let mut input = [0; 24];
        input[0] = 7;
        input[16..18].copy_from_slice(&space.to_ne_bytes());
        u32::from_ne_bytes(self.command(channel, 0, &input).try_into().unwrap())
    }

    /// A listener at port 7174 of card 0, and a program at card 1 that knows its way there.
    fn ready(&mut self, space: u16) -> ([u16; 2], [u32; 2]) {
        let channels = [self.channel(1), self.channel(2)];
        let listener = self.create(channels[0], space);
        let mut bind = vec![0; 40];
        bind[8..24].copy_from_slice(World::listener().bytes());
        bind[36..].copy_from_slice(&listener.to_ne_bytes());
        self.command(channels[0], 2, &bind);
        self.command(channels[0], 7, &words(&[listener, 5]));
        (channels, [listener, self.client(channels[1], space)])
    }

    fn listener() -> Address {
        Address::of_gid(&gid(PortId { card: 0, port: 0 }, 1), 7174)
    }

    /// An identifier that knows its way to the listener.
    fn client(&mut self, channel: u16, space: u16) -> u32 {
        let id = self.create(channel, space);
        self.find(channel, id);
        id
    }

    /// Makes an identifier know it.
    fn find(&mut self, channel: u16, id: u32) {
        let mut resolve = vec![0; 64];
        resolve[28..44].copy_from_slice(World::listener().bytes());
        resolve[56..60].copy_from_slice(&id.to_ne_bytes());
        self.command(channel, 3, &resolve);
        assert_eq!(self.event(channel), (0, id));
        self.command(channel, 4, &words(&[id, 1000]));
        assert_eq!(self.event(channel), (2, id));
    }

    /// A client asks, and the listener's program accepts; returns its side. `carry` delivers what is on its way.
    fn accepted(&mut self, [a, b]: [u16; 2], client: u32, carry: impl Fn(&mut World)) -> u32 {
        self.connect(b, client);
        carry(self);
        let (kind, server) = self.event(a);
        assert_eq!(kind, 4);
        self.accept(a, server, true);
        carry(self);
        server
    }

    /// Connects a client; returns the listener's side.
    fn establish(&mut self, [a, b]: [u16; 2], client: u32, carry: impl Fn(&mut World)) -> u32 {
        let server = self.accepted([a, b], client, &carry);
        assert_eq!(self.event(b), (5, client));
        self.accept(b, client, false);
        carry(self);
        assert_eq!(self.event(a), (9, server));
        server
    }

    /// A whole connection, which the client ends; returns the listener's side.
    fn come_and_go(&mut self, [a, b]: [u16; 2], client: u32, carry: impl Fn(&mut World)) -> u32 {
        let server = self.establish([a, b], client, &carry);
        self.command(b, 10, &words(&[client]));
        carry(self);
        assert_eq!(self.event(a), (10, server));
        self.command(a, 10, &words(&[server]));
        carry(self);
        assert_eq!(self.event(b), (10, client));
        use attribute::*;
        assert_eq!(self.seen, [REQ, REP, RTU, DREQ, DREP]);
        server
    }

    fn connect(&mut self, channel: u16, id: u32) {
        self.command(channel, 6, &[wishes().to_vec(), words(&[id, 0, 0, 0])].concat());
    }

    fn accept(&mut self, channel: u16, id: u32, valid: bool) {
        let mut wishes = wishes();
        wishes[271] = valid.into();
        let input = [9u64.to_ne_bytes().to_vec(), wishes.to_vec(), words(&[id, 0, 0, 0])].concat();
        self.command(channel, 8, &input);
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// An `rdma_ucm_conn_param` of QP 7, with retry counts that are too large.
fn wishes() -> [u8; 272] {
    let mut wishes = [0; 272];
    wishes[0] = 7;
    wishes[264] = 56;
    (wishes[269], wishes[270], wishes[271]) = (10, 10, 1);
    wishes
}

const TCP: u16 = 0x0106;
const UDP: u16 = 0x0111;

#[test]
fn a_connection() {
    let mut world = World::new();
    let ([a, b], [listener, client]) = world.ready(TCP);
    let server = world.come_and_go([a, b], client, World::carry);
    // Each end is told when nothing of the connection can be left.
    world.env.now = u64::MAX / 2;
    assert_eq!(world.manager().run_timers(), None);
    assert_eq!((world.event(a), world.event(b)), ((15, server), (15, client)));
    assert_eq!(world.try_command(a, 12, &[0; 8]), Err(libc::EAGAIN));
    // What is over may be ended again; what has never begun may not.
    assert_eq!(world.try_command(b, 10, &words(&[client])), Ok(vec![]));
    assert_eq!(world.try_command(a, 10, &words(&[listener])), Err(libc::EINVAL));
}

#[test]
fn each_message_may_be_lost_once() {
    for lost in 0..5 {
        let mut world = World::new();
        let ([a, b], [_, client]) = world.ready(TCP);
        let mut sent = 0;
        let mut settle = |world: &mut World| {
            for _ in 0..4 {
                let packets = std::mem::take(&mut world.env.sent);
                for p in packets {
                    sent += 1;
                    if sent != lost + 1 {
                        world.manager().datagram(&p).unwrap();
                    }
                }
                world.env.now += 5_000_000_000;
                world.manager().run_timers();
            }
        };
        world.connect(b, client);
        settle(&mut world);
        let (_, server) = world.event(a);
        world.accept(a, server, true);
        settle(&mut world);
        assert_eq!(world.event(b).0, 5, "message {lost}");
        world.accept(b, client, false);
        settle(&mut world);
        assert_eq!(world.event(a).0, 9, "message {lost}");
        // The death of a process says so to its peer.
        world.manager().member_gone(1);
        settle(&mut world);
        if lost != 3 {
            assert_eq!(world.event(b).0, 10, "message {lost}");
        }
    }
}

#[test]
fn datagrams_by_sidr_and_no_listener() {
    let mut world = World::new();
    let (channels, [_, client]) = world.ready(UDP);
    world.accepted(channels, client, World::carry);
    assert_eq!(world.event(channels[1]), (9, client));
    let mut world = World::new();
    let ([a, b], [listener, client]) = world.ready(TCP);
    assert_eq!(world.command(a, 1, &[[0; 8].to_vec(), words(&[listener, 0])].concat()), [0; 4]);
    world.connect(b, client);
    world.carry();
    let bytes = world.command(b, 12, &[0; 8]);
    assert_eq!((bytes[12], bytes[16]), (8, 8), "rejected: invalid service");
}

proptest! {
    #[test]
    fn any_commands_and_datagrams(
        commands in prop::collection::vec((0u32..25, 0u32..6, prop::collection::vec(any::<u8>(), 0..300), 0usize..300), 0..40),
        datagrams in prop::collection::vec((0x10u16..0x1d, any::<[u8; 32]>(), any::<u8>(), 0u32..8), 0..40),
    ) {
        let mut world = World::new();
        let (channels, ids) = world.ready(TCP);
        world.connect(channels[1], ids[1]);
        world.carry();
        let (mut commands, mut datagrams) = (commands.into_iter(), datagrams.into_iter());
        loop {
            let (command, datagram) = (commands.next(), datagrams.next());
            if command.is_none() && datagram.is_none() {
                break;
            }
            if let Some((number, id, mut input, room)) = command {
                // Often an identifier that there is.
                let at = [0usize, 8, 36, 56, 0, 8, 272, 0, 280, 0, 0, 8, 0, 0, 8, 0, 44, 8, 8, 8, 0, 0, 16, 0, 0];
                let at = at[number as usize];
                if input.len() >= at + 4 {
                    input[at..at + 4].copy_from_slice(&id.to_ne_bytes());
                }
                let channel = channels[(id % 2) as usize];
                let command = Command { number, input: &input, room, option: &input, from: Some(channels[0]) };
                if let Ok(answer) = world.manager().command(channel, &command) {
                    prop_assert!(answer.len() <= room.max(4));
                }
            }
            if let Some((attribute, start, fill, name)) = datagram {
                let mut mad = Mad::new(attribute, 5);
                mad.part_mut(24..BYTES).fill(fill);
                mad.part_mut(24..56).copy_from_slice(&start);
                if name != 0 {
                    // A name that there may be.
                    mad.set(both::REMOTE_ID, (1 << 16 | name).into());
                }
                mad.set(header::TRANSACTION, 1);
                let payload = world.env.stash(mad.bytes());
                let (src, dst) = (PortId { card: 1, port: 0 }, PortId { card: 0, port: 0 });
                let p = Packet { payload, src, dst, qkey: GSI_QKEY, dest_qpn: 1, src_qpn: 1, dgid: gid(dst, 1), sgid: gid(src, 1), ..Packet::BLANK };
                world.manager().datagram(&p).unwrap();
            }
            world.env.now += 1_000_000_000;
            world.manager().run_timers();
            for _ in 0..4 {
                for p in std::mem::take(&mut world.env.sent) {
                    world.manager().datagram(&p).unwrap();
                }
            }
        }
        // Nothing is left when all channels are closed.
        channels.into_iter().for_each(|channel| world.manager().close_channel(channel));
        prop_assert!(world.cm.ids.iter().all(|id| !id.used.get()));
        prop_assert!(world.cm.queue.iter().all(|queued| queued.turn == 0));
        prop_assert!(world.cm.deadline.iter().all(|&at| at == 0));
        world.ready(TCP);
    }
}
