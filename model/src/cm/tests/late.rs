//! Messages that are lost, or come late.

use super::super::mad::{answered, attribute, both, rej, Mad, GSI_QKEY};
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
    let server = world.establish([a, b], client);
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
    let server = world.establish([a, b], client);
    let (client, server) = (client as u16, server as u16);
    let names = (world.manager().name(client), world.manager().name(server));
    let reject = |world: &mut World, own, answered: u8| {
        let mut mad = Mad::new(attribute::REJ, 1);
        mad.set(both::LOCAL_ID, own);
        mad.set(both::REMOTE_ID, names.0.into());
        mad.set(rej::ANSWERED, answered.into());
        let payload = world.env.stash(mad.bytes());
        let (src, dst) = (PortId { card: 0, port: 0 }, PortId { card: 1, port: 0 });
        let p = Packet { payload, src, dst, qkey: GSI_QKEY, ..Packet::BLANK };
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
