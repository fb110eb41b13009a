//! Multicast groups of UD queue pairs, over two cards.

use fpga_regs::{LacpRate, LagMode, LagSelect, QpState, QpType, WqeOpcode};
use model::attach::plug;
use model::packet::PortId;
use tests::{counter, datagram, Net, Options, Peer, Side};

fn ud() -> Options {
    Options { qp_type: QpType::UD, depth: 32, bytes: 1 << 16, cqes: 128, ..Default::default() }
}

fn peer(net: &Net, card: u32, options: Options) -> Side {
    let peer = Peer::new(&net.open(card), options);
    peer.ready();
    peer
}

/// An IPv6 group, and an IPv4 one as a GID.
const GROUPS: [[u8; 16]; 2] = [
    [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34],
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 1, 2, 3],
];

/// Sends to a group.
fn send(x: &Side, group: [u8; 16], id: u64, size: usize) {
    let ah = x.pd.create_ah(&x.av(group)).expect("an address handle");
    x.post(&[datagram(&ah, 0xff_ffff, x.wr(id, WqeOpcode::SEND, &[x.sge(0, size)]))]);
}

#[test]
fn members_on_all_cards_get_a_copy_and_nobody_else() {
    let net = Net::new(2);
    for (gid, group) in [0, 1].into_iter().zip(GROUPS) {
        let mut x = peer(&net, 0, Options { gid, ..ud() });
        let members: Vec<Side> = [0, 0, 1, 1, 1].into_iter().map(|card| peer(&net, card, ud())).collect();
        let others: Vec<Side> = [0, 1].into_iter().map(|card| peer(&net, card, ud())).collect();
        x.qp.attach_mcast(&group).expect("joined");
        members.iter().for_each(|m| m.qp.attach_mcast(&group).expect("joined"));
        let mut foreign = group;
        foreign[15] ^= 1;
        others.iter().for_each(|m| m.qp.attach_mcast(&foreign).expect("joined"));
        x.buffer.pattern(1);
        for round in 0..10 {
            let size = 100 * round as usize;
            for m in members.iter().chain(&others).chain([&x]) {
                m.recv(round, &[m.sge(4096, 2000)]);
            }
            send(&x, group, 1000, size);
            // A sender that is a member hears itself.
            let mut both = [x.wait(), x.wait()];
            both.sort_by_key(|wc| wc.wr_id);
            assert_eq!((both[0].wr_id, both[0].src_qp, both[1].wr_id), (round, x.qp.qpn(), 1000));
            for m in &members {
                let wc = m.expect(round);
                assert_eq!((wc.byte_len as usize, wc.src_qp), (40 + size, x.qp.qpn()));
                assert!(m.buffer[4096 + 40..][..size] == x.buffer[..size]);
                // The GRH names the group.
                let (at, len) = if gid == 0 { (24, 16) } else { (36, 4) };
                assert_eq!(m.buffer[4096 + at..][..len], group[16 - len..]);
            }
            others.iter().chain([&x]).for_each(|m| m.quiet());
        }
        // Another member speaks: the first sender hears it.
        members.iter().chain([&x]).for_each(|m| m.recv(77, &[m.sge(0, 100)]));
        send(&members[3], group, 1001, 8);
        for _ in 0..2 {
            assert!([77, 1001].contains(&members[3].wait().wr_id));
        }
        assert_eq!(x.expect(77).src_qp, members[3].qp.qpn());
        assert_eq!(members[0].expect(77).byte_len, 48);
    }
}

#[test]
fn who_leaves_or_cannot_receive_does_not_disturb_the_others() {
    let net = Net::new(2);
    let group = GROUPS[0];
    let x = peer(&net, 0, ud());
    let members: Vec<Side> = [0, 1, 1, 1, 0].into_iter().map(|card| peer(&net, card, ud())).collect();
    members.iter().for_each(|m| m.qp.attach_mcast(&group).expect("joined"));
    // Twice is once.
    members[0].qp.attach_mcast(&group).expect("joined already");
    // The sender is not a member; one member has left, one is gone, one has no receive.
    members[1].qp.detach_mcast(&group).expect("left");
    assert!(members[1].qp.detach_mcast(&group).is_err(), "left already");
    members[2].qp.destroy().expect("destroyed");
    for n in [0, 1, 4] {
        members[n].recv(5, &[members[n].sge(0, 100)]);
        members[n].recv(6, &[members[n].sge(0, 100)]);
    }
    send(&x, group, 1, 10);
    x.expect(1);
    members[0].expect(5);
    members[4].expect(5);
    for n in [0, 1, 3, 4] {
        members[n].quiet();
        assert_eq!(members[n].state(), QpState::RTS);
    }
    // A receive that is too short puts one member in error; the next ones are served.
    members[0].to(QpState::RESET);
    members[0].init();
    members[0].recv(1, &[members[0].sge(0, 20)]);
    members[0].rtr(0, [0; 16], 0);
    send(&x, group, 2, 10);
    x.expect(2);
    assert_eq!(members[0].wait().status, fpga_regs::CqeStatus::LOC_LEN_ERR);
    members[4].expect(6);
    members[4].qp.detach_mcast(&group).expect("left");
    members[0].qp.detach_mcast(&group).expect("left");
    assert!(members[0].qp.attach_mcast(&x.gid()).is_err(), "not a group");
}

/// Counters of a bond's ports are about what passes their cables.
#[test]
fn groups_are_counted_where_they_pass() {
    let net = Net::new(2);
    let devices = [0, 1].map(|card| {
        let device = net.open(card);
        device.set_lag(LagMode::XOR, LagSelect::AFFINITY, LacpRate::FAST).expect("no queue pairs yet");
        device
    });
    assert!(plug(&net.socket(), PortId { card: 0, port: 0 }, true).expect("a cable"), "the bond has a link");
    let [x, y] = [0, 1].map(|card| peer(&net, card, ud()));
    y.qp.attach_mcast(&GROUPS[0]).expect("joined");
    y.recv(1, &[y.sge(0, 100)]);
    send(&x, GROUPS[0], 2, 8);
    x.expect(2);
    y.expect(1);
    let counted =
        |n: usize, names: [&str; 2]| [1, 2].map(|port| names.map(|name| counter(&devices[n], port, name)));
    assert_eq!(counted(0, ["TX_PACKETS", "TX_MULTICAST"]), [[0, 0], [1, 1]]);
    // sysfs has their difference.
    let came = counted(1, ["RX_PACKETS", "RX_MULTICAST"]);
    assert!(came.iter().all(|[all, multicast]| all == multicast) && came.concat().contains(&1), "{came:?}");
}

#[test]
fn only_datagram_queues_join() {
    let net = Net::new(1);
    let rc = Peer::new(&net.open(0), Options::default());
    assert!(rc.qp.attach_mcast(&GROUPS[0]).is_err());
}
