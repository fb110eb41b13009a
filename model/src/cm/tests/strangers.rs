//! Two ports that lead outside, and a third address that says things about their connections.

use super::super::mad::{answered, attribute, both, dreq, rej, sidr_rep, Mad, GSI_QKEY, GSI_QPN};
use super::super::tables::comm;
use super::linux::sent;
use super::{World, TCP, UDP};
use crate::address::gid;
use crate::env::Env;
use crate::packet::{Packet, Payload, PortId};
use crate::wire::path::ipv4_to_gid;

const A: PortId = PortId { card: 0, port: 0 };
const B: PortId = PortId { card: 1, port: 0 };
const STRANGER: [u8; 4] = [198, 18, 0, 77];

/// A listener at one port, a client at the other: what they send leaves the net.
fn ready(space: u16) -> (World, [u16; 2], u32) {
    let mut world = World::new();
    world.outside.insert(B);
    let (channels, [_, client]) = world.ready(space);
    world.outside.insert(A);
    (world, channels, client)
}

/// Lets a message arrive at a port, from an address.
fn arrive(world: &mut World, dst: PortId, from: [u8; 16], mad: &Mad) {
    let payload = world.env.stash(mad.bytes());
    let (src, sgid, dgid) = (PortId::NOBODY, from, gid(dst, 1));
    let p = Packet { payload, src, dst, sgid, dgid, src_qpn: GSI_QPN, qkey: GSI_QKEY, ..Packet::BLANK };
    world.manager().datagram(&p).unwrap();
}

/// Of an identifier: in use, `state`, `comm`, the peer's name, and when it stops waiting.
type Known = (bool, u8, u8, u32, u64);

/// What is known of all connections, and how much their programs are told.
fn known(world: &World) -> (Vec<Known>, usize) {
    let of = |slot: usize| {
        let id = &world.cm.ids[slot];
        (id.used.get(), id.state, id.comm, world.cm.remote[slot], world.cm.deadline[slot])
    };
    let ids = world.cm.slots.ids.range().map(of).collect();
    (ids, world.cm.queue.iter().filter(|queued| queued.turn != 0).count())
}

/// The stranger says everything that could be said of any connection.
fn slander(world: &mut World) {
    let (before, sent) = (known(world), std::mem::take(&mut world.env.sent));
    use attribute::*;
    for slot in world.cm.slots.ids.range().skip(1) {
        let (name, remote) = (world.manager().name(slot as u16), world.cm.remote[slot]);
        for kind in [REP, RTU, REJ, MRA, DREQ, DREP, SIDR_REP] {
            for answered in [answered::REQ, answered::REP, answered::OTHER] {
                for name in [name, 0] {
                    let mut mad = Mad::new(kind, world.cm.ids[slot].transaction);
                    if kind == SIDR_REP {
                        mad.set(sidr_rep::REQUEST_ID, name.into());
                    } else {
                        mad.set(both::LOCAL_ID, remote.into());
                        mad.set(both::REMOTE_ID, name.into());
                    }
                    match kind {
                        DREQ => mad.set(dreq::REMOTE_QPN, world.cm.ids[slot].qpn.into()),
                        REJ | MRA => mad.set(rej::ANSWERED, answered.into()),
                        _ => {}
                    }
                    if kind == REJ {
                        let guid = world.cm.ids[slot].remote_guid.to_be_bytes();
                        mad.part_mut(rej::INFO)[..8].copy_from_slice(&guid);
                    }
                    for port in [A, B] {
                        arrive(world, port, ipv4_to_gid(STRANGER), &mad);
                        assert_eq!(known(world), before, "{kind:#x} of {name:#x}");
                    }
                }
            }
        }
    }
    // Without the answers that it gets.
    world.env.sent = sent;
}

/// Delivers all that is on its way, as the network does, while the stranger talks.
fn carry(world: &mut World) {
    for _ in 0..64 {
        for p in std::mem::take(&mut world.env.sent) {
            slander(world);
            let Payload::Stash(n, _) = p.payload else { panic!("no payload") };
            let mad = Mad::read(&world.env.stashes[n as usize]).unwrap();
            world.seen.push(mad.attribute());
            assert_eq!(p.dst, PortId::NOBODY, "it leaves");
            let (to, _) = world.gids.find(&p.dgid).expect("one of the two");
            arrive(world, to, p.sgid, &mad);
        }
    }
    slander(world);
}

#[test]
fn a_stranger_touches_no_connection() {
    let (mut world, channels, client) = ready(TCP);
    world.come_and_go(channels, client, carry);
}

#[test]
fn a_stranger_answers_for_no_service() {
    let (mut world, channels, client) = ready(UDP);
    world.accepted(channels, client, carry);
    assert_eq!(world.event(channels[1]), (9, client));
}

/// Cards of different hosts may have the same numbers for everything.
#[test]
fn a_namesake_is_another_peer() {
    let (mut world, [a, b], client) = ready(TCP);
    let server = world.establish([a, b], client, carry);
    let request = sent(&world, attribute::REQ);
    // The same request from elsewhere, and one that would say that its sender has forgotten its connection.
    let mut other = request;
    other.set(both::LOCAL_ID, request.get(both::LOCAL_ID) + 0x1_0000);
    for request in [request, other] {
        arrive(&mut world, A, ipv4_to_gid(STRANGER), &request);
        assert_eq!(world.event(a).0, 4, "a connection of its own");
    }
    assert_eq!(world.cm.ids[server as usize].comm, comm::ESTABLISHED);
}

/// A server whose packets are shorter says so at once; a datagram of another queue pair than the peer's manager says nothing.
#[test]
fn a_path_mtu_is_refused_and_so_is_a_stranger() {
    let mut world = World::new();
    world.port.mtu = 4096;
    let ([_, b], [_, client]) = world.ready(TCP);
    world.connect(b, client);
    world.env.sent.iter_mut().for_each(|p| p.src_qpn = 77);
    world.carry();
    assert!(world.seen.len() == 1, "nobody answers: {:?}", world.seen);
    // It asks again.
    world.port.mtu = 1024;
    world.env.now += 60_000_000_000;
    world.manager().run_timers();
    world.carry();
    let bytes = world.command(b, 12, &[0; 8]);
    assert_eq!((bytes[12], bytes[16]), (8, 26), "rejected: invalid path MTU");
}
