//! Packets from outside for whom nobody waits.

use std::sync::Arc;
use std::time::Duration;

use fpga_regs::{Access, QpState, QpType};

use super::super::panic_tests::with_net;
use super::*;
use crate::address::Gid;
use crate::cm::mad::{GSI_QKEY, GSI_QPN};
use crate::device::Outside;
use crate::gids::GidEntry;
use crate::link::outside::{Kind, Setting};
use crate::link::LinkOptions;
use crate::wire::path::ipv4_to_gid;
use crate::wire::{frame, BthOpcode, Headers, Network, Path, Position};

const PORT: PortId = PortId { card: 0, port: 0 };
/// Queue pairs that are connected to [`peer`].
const RC: u32 = 7;
const UC: u32 = 8;

fn here() -> Gid {
    ipv4_to_gid([192, 0, 2, 1])
}

fn peer() -> Gid {
    ipv4_to_gid([192, 0, 2, 2])
}

fn stranger() -> Gid {
    ipv4_to_gid([192, 0, 2, 3])
}

/// Two members of a net of a card whose first port leads outside, with two queue pairs.
fn with_port(work: impl FnOnce(&Arc<Runner>, &Arc<Runner>)) {
    with_net(1, |a, b| {
        let setting = Setting { kind: Kind::Udp, mac: [2; 6], sports: Vec::new(), window: 1 << 20 };
        a.net().link.outside().set(PORT, &setting, 0..1, None);
        let make = |world: &mut World, env: &mut WallEnv<'_>| {
            world.connect_outside(
                PORT,
                Outside {
                    on: true.into(),
                    frames: false.into(),
                    no_link: false.into(),
                    mac: setting.mac,
                    window: setting.window,
                },
                &[GidEntry::new(here())],
            );
            for (q, qp_type) in [(RC, QpType::RC), (UC, QpType::UC)] {
                world.cards[0].take_qp(q as usize);
                let qp = &mut world.cards[0].qps[q as usize];
                (qp.used, qp.qpn, qp.qp_type, qp.state) = (true.into(), q, qp_type, QpState::RTS);
                (qp.port, qp.dest, qp.mtu_log, qp.access) =
                    (PORT, PortId::NOBODY, 10, Access::REMOTE_WRITE.0);
                qp.attributes.set_dgid(peer());
                // Each has an island of its own.
                let ends = world.connection((0, q as usize));
                env.join(world, ends);
            }
        };
        a.control(make).unwrap();
        work(&a, &b);
        a.control(|world, _| [RC, UC].map(|q| world.cards[0].qps[q as usize].used = false.into())).unwrap();
    });
}

/// What a packet has, but for its addresses.
fn headers(transport: Transport, operation: Operation, extra: Extra, to: u32) -> Headers {
    let mut headers = Headers::default();
    headers.bth.opcode = BthOpcode::new(transport, operation, Position::Only, extra);
    (headers.bth.pkey, headers.bth.dest_qp) = (0xffff, to);
    headers
}

/// What a packet has for a UC queue pair: it writes nothing.
fn write(to: u32) -> Headers {
    headers(Transport::UC, Operation::Write, Extra::None, to)
}

/// Packets that came together.
fn arrived(packets: &[(Gid, Gid, Headers, &[u8])]) -> Arrivals {
    let (mut arrivals, mut at) = (Arrivals::default(), 0);
    for (from, to, headers, payload) in packets {
        let path = Path { network: Network::from_gids(from, to, 0, 0, 64), ..Path::default() };
        let len = frame::encode(&path, headers, payload, &mut arrivals.bytes[at..]).expect("a frame");
        arrivals.take(PORT, at..at + len, frame::decode);
        at += len;
    }
    assert_eq!(arrivals.packets().0.len(), packets.len());
    arrivals
}

fn port(runner: &Runner) -> (PortId, &OutsidePort) {
    (PORT, runner.net().link.outside().port(PORT).expect("it leads outside"))
}

fn arrive(runner: &Runner, packets: &Arrivals) {
    runner.arrive(port(runner), packets, &mut Stuck::default(), &mut || {});
}

fn requests(runner: &Runner, q: u32) -> u64 {
    runner.control(|world, _| world.cards[0].qps[q as usize].resp.packets).unwrap()
}

#[test]
fn what_nobody_takes_waits_for_nobody() {
    with_port(|a, b| {
        let group = ipv4_to_gid([239, 1, 2, 3]);
        let extended = |to| headers(Transport::XRC, Operation::Send, Extra::None, to);
        let datagram = |to, qkey| {
            let mut headers = headers(Transport::UD, Operation::Send, Extra::None, to);
            headers.deth.qkey = qkey;
            headers
        };
        let invalidate = headers(Transport::RC, Operation::Send, Extra::Invalidate, RC);
        let noise = [7; crate::cm::mad::BYTES];
        let packets = arrived(&[
            (stranger(), here(), extended(0x1234), &[]),
            (stranger(), here(), extended(RC), &[]),
            (stranger(), here(), extended(0xff_3fff), &[]),
            (stranger(), here(), invalidate, &[]),
            (stranger(), here(), write(UC), &[]),
            (stranger(), here(), datagram(GSI_QPN, 5), &noise),
            (stranger(), here(), datagram(GSI_QPN, GSI_QKEY), &noise),
            (stranger(), here(), datagram(GSI_QPN, GSI_QKEY), &noise[..8]),
            (stranger(), group, datagram(0xff_ffff, 5), &noise),
        ]);
        let guard = b.segment().lock(Duration::from_secs(5)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| arrive(a, &packets));
        });
        drop(guard);
        let drops = Drop::ALL.map(|why| (why, port(a).1.drops(why)));
        let drops: Vec<_> = drops.into_iter().filter(|&(_, count)| count != 0).collect();
        let expected =
            [(Drop::Malformed, 2), (Drop::NoQp, 3), (Drop::Qkey, 1), (Drop::Stranger, 2), (Drop::NotHere, 1)];
        assert_eq!(drops, expected);
        // The peer's is taken.
        arrive(a, &arrived(&[(peer(), here(), write(UC), &[])]));
        assert_eq!((requests(a, RC), requests(a, UC)), (0, 1));
    });
}

#[test]
fn a_stopped_program_holds_up_its_own_packets_only() {
    const MANY: u64 = 50;
    with_port(|a, b| {
        let Entry::Entered(island) = b.segment().enter(a.bells(0, RC as u16).label()) else {
            panic!("nobody is in it")
        };
        let write_rc = headers(Transport::RC, Operation::Write, Extra::None, RC);
        let (mut stuck, mut meanwhile) = (Stuck::default(), 0);
        let begin = Instant::now();
        for _ in 0..MANY {
            let packets = arrived(&[(peer(), here(), write_rc, &[]), (peer(), here(), write(UC), &[])]);
            a.arrive(port(a), &packets, &mut stuck, &mut || meanwhile += 1);
        }
        assert!(begin.elapsed() < Duration::from_millis(2500), "{:?}", begin.elapsed());
        assert!(meanwhile > 0, "nothing else was done");
        drop(island);
        assert_eq!((requests(a, RC), requests(a, UC)), (0, MANY));
        assert_eq!(port(a).1.drops(Drop::Busy), MANY);
        // It goes on.
        a.arrive(port(a), &arrived(&[(peer(), here(), write_rc, &[])]), &mut stuck, &mut || {});
        assert_eq!(requests(a, RC), 1);
    });
}

/// By whoever finds that out: the thread that sends it, which has no socket here, or the keeper's.
#[test]
fn what_does_not_leave_is_counted() {
    with_port(|a, _| {
        // The wire knows of the port.
        a.net().link.init(&LinkOptions::default(), None);
        let discards = || a.net().counters(PORT.card)[usize::from(PORT.port)].get(registers::TX_DISCARDS);
        let mut write_rc = headers(Transport::RC, Operation::Write, Extra::None, RC);
        write_rc.bth.ack_request = true;
        arrive(a, &arrived(&[(peer(), here(), write_rc, &[])]));
        assert_eq!((requests(a, RC), discards()), (1, 1), "its acknowledgement");
        let mut unsent = Arrivals::default();
        unsent.drop(Drop::Unsent, 5);
        arrive(a, &unsent);
        assert_eq!(discards(), 6);
    });
}
