//! Values that Linux gives to what programs leave open, and what it says to commands that few programs use.

use libc::{EAGAIN, EINVAL, ENODATA, ENOENT, ENOSPC, EOPNOTSUPP, ETIMEDOUT};

use super::super::address::Address;
use super::super::command::Command;
use super::super::ids::Result;
use super::super::mad::{attribute, both, header, req, Mad};
use super::super::query::EVENT;
use super::{words, World, TCP};
use crate::packet::PortId;

const USER: u32 = 18;
const INTERNAL: u32 = 19;

/// `RDMA_OPTION_ID_ACK_TIMEOUT`.
fn set_ack_timeout(world: &mut World, channel: u16, id: u32, value: u8) -> Result<Vec<u8>> {
    let input = words(&[0, 0, id, 0, 3, 1]);
    let command = Command { number: 14, input: &input, room: 0, option: &[value], from: None };
    world.manager().command(channel, &command)
}

/// The `timeout` that INIT_QP_ATTR gives for the step to RTS.
fn qp_timeout(world: &mut World, channel: u16, id: u32) -> u8 {
    world.command(channel, 11, &words(&[0, 0, id, 3]))[134]
}

/// The last datagram of this kind.
pub(super) fn sent(world: &World, attribute: u16) -> Mad {
    let found = world.env.stashes.iter().rev().filter_map(|bytes| Mad::read(bytes));
    found.into_iter().find(|mad| mad.attribute() == attribute).expect("a datagram of that kind")
}

#[test]
fn a_path_and_its_request() {
    let mut world = World::new();
    let ([a, b], [_, client]) = world.ready(TCP);
    let route = world.command(b, 5, &words(&[0, 0, client, 0]));
    let port = u16::from_be_bytes([route[138], route[139]]);
    let label = (u32::from(port) * 31 + 7174) & 0xf_ffff;
    assert_eq!(route[48..52], label.to_be_bytes());
    // Rate of the port, and 2^16 * 4.096 us.
    assert_eq!(route[8 + 58..8 + 63], [2, 2, 0, 2, 16]);
    world.connect(b, client);
    world.carry();
    let request = sent(&world, attribute::REQ);
    let fields = [req::FLOW_LABEL, req::RATE, req::ACK_TIMEOUT].map(|field| request.get(field));
    assert_eq!(fields, [label.into(), 0, 17]);
    // The name, in the other order of bytes.
    let name = request.get(both::LOCAL_ID) as u32;
    assert_eq!(request.get(header::TRANSACTION) as u32, name.swap_bytes());
    let (_, server) = world.event(a);
    // The other end's packets go the same way.
    let attributes = world.command(a, 11, &words(&[0, 0, server, 2]));
    assert_eq!(attributes[40 + 16..40 + 20], label.to_ne_bytes());
    // A program that does not want the connection says its name for it.
    world.command(a, 9, &[words(&[server, 0]), vec![0; 256]].concat());
    let rejection = sent(&world, attribute::REJ);
    let expected = world.manager().name(server as u16);
    assert_eq!(rejection.get(both::LOCAL_ID), u64::from(expected));
}

#[test]
fn the_time_out_of_acknowledgements() {
    for (asked, timeout, requested) in [(None, 17, 17), (Some(0), 0, 17), (Some(20), 20, 20)] {
        let mut world = World::new();
        let (channels, _) = world.ready(TCP);
        let [a, b] = channels;
        let client = world.create(b, TCP);
        if let Some(asked) = asked {
            assert_eq!(set_ack_timeout(&mut world, b, client, asked), Ok(vec![]));
        }
        world.find(b, client);
        let server = world.establish(channels, client, World::carry);
        assert_eq!(sent(&world, attribute::REQ).get(req::ACK_TIMEOUT), requested, "{asked:?}");
        let found = [qp_timeout(&mut world, b, client), qp_timeout(&mut world, a, server)];
        // The other end is told of the path, not of the wish.
        assert_eq!(found, [timeout, requested as u8], "{asked:?}");
    }
}

#[test]
fn events_of_ones_own() {
    let mut world = World::new();
    let ([a, b], [_, client]) = world.ready(TCP);
    let write = |world: &mut World, channel, id, kind| {
        world.try_command(channel, 24, &words(&[id, 0, kind, 5, 0x1234_5678, 0x9abc_def0]))
    };
    assert_eq!(write(&mut world, b, client, 9), Err(EINVAL));
    assert_eq!(write(&mut world, b, 99, 9), Err(EINVAL));
    assert_eq!(write(&mut world, b, 99, USER), Err(ENOENT));
    assert_eq!(write(&mut world, a, client, USER), Err(EINVAL));
    assert_eq!(world.try_command(b, 24, &words(&[client, 0, USER, 5])), Err(EINVAL));
    for kind in [USER, INTERNAL] {
        assert_eq!(write(&mut world, b, client, kind), Ok(vec![]));
        let bytes = world.command(b, 12, &[0; 8]);
        assert_eq!(bytes[8..28], words(&[client, kind, 5, 0x1234_5678, 0x9abc_def0])[..]);
    }
    assert_eq!(write(&mut world, b, client, USER), Ok(vec![]));
    // Its destruction tells how many events it had: the way, the route and two; the last one is gone.
    assert_eq!(world.command(b, 1, &words(&[0, 0, client, 0])), words(&[4]));
    assert_eq!(world.try_command(b, 12, &[0; 8]), Err(libc::EAGAIN));
}

#[test]
fn services_by_name() {
    let mut world = World::new();
    let ([_, b], [_, client]) = world.ready(TCP);
    let resolve = |world: &mut World, id| world.try_command(b, 23, &words(&[id, 0, 0, 0]));
    // It has an address, and a way already.
    assert_eq!(resolve(&mut world, client), Err(EINVAL));
    let bound = world.create(b, TCP);
    assert_eq!(resolve(&mut world, bound), Err(EINVAL));
    let mut bind = vec![0; 40];
    bind[8..24].copy_from_slice(World::listener().with_port(0).bytes());
    bind[36..].copy_from_slice(&bound.to_ne_bytes());
    world.command(b, 2, &bind);
    assert_eq!(resolve(&mut world, bound), Err(EOPNOTSUPP));
    for (room, errno) in [(0, ENOSPC), (EVENT, ENODATA)] {
        let input = words(&[0, 0, bound, 3]);
        let command = Command { number: 19, input: &input, room, option: &[], from: None };
        assert_eq!(world.manager().command(b, &command), Err(errno));
    }
}

/// Where there is a link to ask on, an address is resolved when its neighbour has answered, or fails after the program's
/// time-out, as often as the program tries.
#[test]
fn an_address_is_asked_for() {
    let mut world = World::new();
    world.env.asked = Some(Vec::new());
    let port = PortId { card: 0, port: 0 };
    world.outside.insert(port);
    let channel = world.channel(1);
    let id = world.create(channel, TCP);
    let stranger = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 100];
    let mut resolve = vec![0; 64];
    resolve[28..44].copy_from_slice(Address::of_gid(&stranger, 7174).bytes());
    resolve[56..].copy_from_slice(&words(&[id, 2000]));
    for answers in [false, true] {
        world.command(channel, 3, &resolve);
        assert_eq!(world.try_command(channel, 12, &[0; 8]), Err(EAGAIN));
        assert_eq!(world.try_command(channel, 3, &resolve), Err(EINVAL), "it is being resolved");
        world.manager().found(PortId { card: 1, port: 0 }, &stranger);
        world.env.now += 1_999_000_000;
        world.manager().run_timers();
        assert_eq!(world.try_command(channel, 12, &[0; 8]), Err(EAGAIN));
        if answers {
            world.manager().found(port, &stranger);
        }
        world.env.now += 2_000_000;
        world.manager().run_timers();
        let event = world.command(channel, 12, &[0; 8]);
        let (kind, status) = if answers { (0, 0) } else { (1, -ETIMEDOUT) };
        assert_eq!(event[8..20], [id, kind, status as u32].map(u32::to_ne_bytes).concat()[..]);
    }
    assert_eq!(world.env.asked, Some(vec![stranger; 2]));
    world.command(channel, 4, &words(&[id, 1000]));
    assert_eq!(world.event(channel), (2, id));
}
