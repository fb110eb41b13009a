//! The two ports of a card: each with its own addresses, traffic and counters.

use fpga_regs::{CqeStatus, QpState, QpType, WqeOpcode};
use tests::{counter, join, Cards, Net, Options, Peer, Side};

fn on(port: u8) -> Options {
    Options { port, depth: 16, bytes: 1 << 16, cqes: 64, timeout: 8, retry_cnt: 1, ..Default::default() }
}

fn counters(peer: &Side) -> [u64; 2] {
    [1, 2].map(|port| counter(&peer.device, port, "TX_PACKETS"))
}

#[test]
fn ports_have_addresses_of_their_own() {
    let net = Net::new(2);
    let mut gids = Vec::new();
    for card in 0..2 {
        let device = net.open(card);
        assert_eq!(device.limits().ports(), 2);
        for port in 1..=2 {
            let info = device.query_port(port).expect("a port");
            assert!(info.link_up && info.mtu_active == 4096);
            assert_eq!(info.mac, [2, 0x56, 0x42, 0, card as u8, port - 1]);
            for index in 0..2 {
                gids.push(device.gid(port, index).expect("a GID"));
            }
            assert_eq!(device.gid(port, 2).expect("an entry"), [0; 16]);
            assert!(device.gid(port, 16).is_err());
        }
        assert!(device.query_port(0).is_err() && device.query_port(3).is_err());
    }
    gids.sort_unstable();
    gids.dedup();
    assert_eq!(gids.len(), 8, "every GID is unique");
}

#[test]
fn connections_over_every_pair_of_ports() {
    let cards = Cards::new();
    for (from, to) in [(2, 2), (1, 2), (2, 1)] {
        for qp_type in [QpType::RC, QpType::UC] {
            let of = |port| Options { qp_type, ..on(port) };
            cards.each_of(of(from), of(to), |x, y| {
                let before = counters(x);
                x.buffer.pattern(from);
                x.completes(x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 5000)], y, 0));
                assert!(x.buffer[..5000] == y.buffer[..5000]);
                y.recv(2, &[y.sge(0, 100)]);
                x.completes(x.wr(2, WqeOpcode::SEND, &[x.sge(0, 100)]));
                y.expect(2);
                let after = counters(x);
                let own = usize::from(from) - 1;
                assert!(after[own] - before[own] >= 6, "five packets of the WRITE and one of the SEND");
            });
        }
    }
}

#[test]
fn a_packet_for_the_other_port_is_not_for_this_qp() {
    let (_net, a, b) = Net::new(2).both();
    let (x, y) = (Peer::new(&a, on(1)), Peer::new(&b, on(2)));
    join(&x, &y);
    x.to(QpState::RESET);
    x.init();
    // The peer's QP is at its second port; x is told the address of the first.
    x.rtr(y.qp.qpn(), b.gid(1, 1).expect("a GID"), x.options.psn);
    x.rts();
    x.post(&[x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 8)], &y, 0)]);
    x.expect_status(1, CqeStatus::RETRY_EXC_ERR);
}
