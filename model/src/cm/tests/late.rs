//! Messages that are lost, or come late.

use super::super::mad::{answered, attribute, both, mra, rej, Mad, GSI_QKEY, GSI_QPN};
use super::super::tables::comm;
use super::{words, World, TCP};
use crate::env::Env;
use crate::packet::{Packet, PortId};

#[test]
fn a_lost_rejection_is_said_again() {
    let mut world = World::new();
    let ([a, b], [_, client]) = world.ready(TCP);
    world.connect(b, client);
    for lost in [true, false] {
        world.carry();
        let (kind, server) = world.event(a);
        assert_eq!(kind, 4);
        world.command(a, 9, &[words(&[server, 0]), vec![0; 256]].concat());
        if lost {
            world.env.sent.clear();
            world.env.now += 5_000_000_000;
            world.manager().run_timers();
        }
    }
    world.carry();
    assert_eq!(world.event(b), (8, client));
}

#[test]
fn a_peer_that_has_forgotten_its_connection() {
    let mut world = World::new();
    let ([a, b], [_, client]) = world.ready(TCP);
    let server = world.establish([a, b], client, World::carry);
    world.manager().free(client as u16);
    let again = world.client(b, TCP);
    world.connect(b, again);
    world.carry();
    let bytes = world.command(b, 12, &[0; 8]);
    assert_eq!((bytes[12], bytes[16]), (8, 10), "rejected: stale connection");
    assert_eq!(world.event(a), (10, server));
}

#[test]
fn rejections_that_come_late() {
    let mut world = World::new();
    let ([a, b], [_, client]) = world.ready(TCP);
    let server = world.establish([a, b], client, World::carry);
    let (client, server) = (client as u16, server as u16);
    let names = (world.manager().name(client), world.manager().name(server));
    let reject = |world: &mut World, own, answered: u8| {
        let mut mad = Mad::new(attribute::REJ, 1);
        mad.set(both::LOCAL_ID, own);
        mad.set(both::REMOTE_ID, names.0.into());
        mad.set(rej::ANSWERED, answered.into());
        let payload = world.env.stash(mad.bytes());
        let (src, dst) = (PortId { card: 0, port: 0 }, PortId { card: 1, port: 0 });
        let p = Packet { payload, src, dst, src_qpn: GSI_QPN, qkey: GSI_QKEY, ..Packet::BLANK };
        world.manager().datagram(&p).unwrap();
    };
    reject(&mut world, 0, answered::REQ);
    assert_eq!(world.cm.ids[usize::from(client)].comm, comm::ESTABLISHED);
    world.command(b, 10, &words(&[client.into()]));
    world.carry();
    world.command(a, 10, &words(&[server.into()]));
    world.carry();
    reject(&mut world, names.1.into(), answered::OTHER);
    assert_eq!(world.cm.ids[usize::from(client)].comm, comm::TIMEWAIT);
    assert_ne!(world.cm.deadline[usize::from(client)], 0);
}

#[test]
fn nobody_answers() {
    let mut world = World::new();
    let ([_, b], [_, client]) = world.ready(TCP);
    world.connect(b, client);
    let mut tries = 0;
    while world.cm.deadline.iter().any(|&at| at != 0) {
        tries += std::mem::take(&mut world.env.sent).len();
        world.env.now += 5_000_000_000;
        world.manager().run_timers();
    }
    assert_eq!((tries, world.event(b)), (16, (7, client)));
}

/// A program that thinks about a reply gets more time when the reply comes again.
#[test]
fn a_reply_that_comes_twice() {
    let mut world = World::new();
    let ([a, b], [_, client]) = world.ready(TCP);
    let server = world.accepted([a, b], client, World::carry);
    world.env.now += 5_000_000_000;
    world.manager().run_timers();
    world.carry();
    assert_eq!(world.seen, [attribute::REQ, attribute::REP, attribute::REP, attribute::MRA]);
    let found = world.env.stashes.iter().rev().find_map(|bytes| Mad::read(bytes)).expect("a datagram");
    assert_eq!((found.get(mra::ANSWERED), found.get(mra::SERVICE_TIMEOUT)), (answered::REP.into(), 24));
    assert_eq!(world.cm.ids[server as usize].comm, comm::MRA_REP_RCVD);
    world.event(b);
    world.accept(b, client, false);
    world.carry();
    assert_eq!(world.event(a), (9, server));
}

/// A net has other names than an earlier one with as many connections, and finds its own by them.
#[test]
fn names_of_another_net() {
    let mut names = Vec::new();
    for salt in [0, 0x1234_5678] {
        let mut world = World::new();
        world.cm.salt = salt;
        let (channels, [_, client]) = world.ready(TCP);
        let server = world.establish(channels, client, World::carry);
        let found = [client, server].map(|id| {
            let name = world.manager().name(id as u16);
            assert_eq!(world.manager().named(name), Some(id as u16));
            (name, world.cm.ids[id as usize].rq_psn)
        });
        names.push(found);
    }
    for (one, other) in names[0].iter().zip(&names[1]) {
        assert!(one.0 != other.0 && one.1 != other.1);
    }
}
