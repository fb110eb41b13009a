//! Unreliable datagrams: the GRH, the Q_Key, address handles, what is lost and what is refused.

use driver::{Ah, AhAttr, AttrMask, Card, QpAttr, SendWr, Sge, SrqAttr, WcFlags};
use fpga_regs::{CqeOpcode, CqeStatus, QpState, QpType, WqeOpcode};
use tests::{datagram, on_one_and_two_cards, Cards, Options, Peer, Side, QKEY};

use super::srq::post;

fn ud() -> Options {
    Options { qp_type: QpType::UD, depth: 32, bytes: 1 << 18, cqes: 128, ..Default::default() }
}

fn ah(x: &Side, y: &Side) -> Ah {
    x.pd.create_ah(&x.av(y.gid())).expect("an address handle")
}

/// A datagram to a peer.
fn to<'a, C: Card>(y: &Peer<C>, ah: &'a Ah, wr: SendWr<'a>) -> SendWr<'a> {
    datagram(ah, y.qp.qpn(), wr)
}

#[test]
fn a_datagram_brings_its_sender_and_its_grh() {
    let cards = Cards::new();
    // IPv6, IPv4, and one of each, which is IPv6.
    for (gid, theirs) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
        let ipv4 = (gid, theirs) == (1, 1);
        cards.each(Options { gid, ..ud() }, |x, y| {
            let dgid = y.device.gid(y.options.port, theirs).expect("a GID");
            let attr = AhAttr { traffic_class: 0x54, hop_limit: 33, ..x.av(dgid) };
            let ah = x.pd.create_ah(&attr).expect("an address handle");
            x.buffer.pattern(3);
            for (n, size) in [0usize, 1, 2, 3, 4, 100, 1024, 4095, 4096].into_iter().enumerate() {
                let n = n as u64;
                y.buffer.fill(0xee);
                y.recv(n, &[y.sge(0, 17), y.sge(100, 23 + 50), y.sge(1000, 5000)]);
                x.post(&[to(
                    y,
                    &ah,
                    SendWr { imm: 0x1234_5678, ..x.wr(n, WqeOpcode::SEND_WITH_IMM, &[x.sge(1, size)]) },
                )]);
                assert_eq!(x.expect(n).opcode, CqeOpcode::SEND);
                let wc = y.expect(n);
                assert_eq!(
                    (wc.opcode, wc.byte_len as usize, wc.src_qp, wc.imm),
                    (CqeOpcode::RECV, 40 + size, x.qp.qpn(), 0x1234_5678)
                );
                assert_eq!(wc.flags, WcFlags::GRH | WcFlags::WITH_IMM | WcFlags::RECV);
                assert_eq!(wc.sl, if ipv4 { 10 } else { 9 }, "UDP over IPv4 or IPv6");
                let got: Vec<u8> = [&y.buffer[..17], &y.buffer[100..173], &y.buffer[1000..6000]].concat();
                assert!(got[40..40 + size] == x.buffer[1..1 + size]);
                assert!(got[40 + size..].iter().all(|&b| b == 0xee), "nothing is written after the datagram");
                grh_is_right(&got[..40], ipv4, (x.gid(), dgid), size);
            }
        });
    }
}

/// The 40 bytes (RoCEv2 annex A17.4.5.2): the IPv6 header, or 20 bytes of no meaning and the IPv4 header.
fn grh_is_right(grh: &[u8], ipv4: bool, (from, to): ([u8; 16], [u8; 16]), size: usize) {
    // UDP 8, BTH 12, DETH 8, immediate data 4, payload with padding, ICRC 4.
    let udp = 8 + 12 + 8 + 4 + size.next_multiple_of(4) + 4;
    let word = |at: usize| u16::from_be_bytes([grh[at], grh[at + 1]]) as usize;
    if ipv4 {
        assert_eq!((grh[20], grh[21], grh[28], grh[29]), (0x45, 0x54, 33, 17), "version, TOS, TTL, UDP");
        assert_eq!(word(22), 20 + udp, "total length");
        assert_eq!((&grh[32..36], &grh[36..40]), (&from[12..], &to[12..]), "addresses");
        let sum: u32 = (20..40).step_by(2).map(|at| word(at) as u32).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "header checksum");
    } else {
        assert_eq!((grh[0] >> 4, grh[0] << 4 | grh[1] >> 4), (6, 0x54), "version, traffic class");
        assert_eq!((word(4), grh[6], grh[7]), (udp, 17, 33), "length, UDP, hop limit");
        assert_eq!((&grh[8..24], &grh[24..40]), (&from[..], &to[..]), "addresses");
    }
}

#[test]
fn one_queue_talks_to_many() {
    on_one_and_two_cards(ud(), |x, y| {
        let more: Vec<_> = (0..4)
            .map(|_| {
                let peer = Peer::new(&y.device, ud());
                peer.ready();
                peer
            })
            .collect();
        let way = ah(x, y);
        for round in 0..20 {
            for peer in more.iter().chain([&*y]) {
                peer.recv(round, &[peer.sge(0, 200)]);
                let size = peer.qp.qpn() as usize % 100 + round as usize;
                x.completes(to(peer, &way, x.wr(round, WqeOpcode::SEND, &[x.sge(0, size)])));
                let wc = peer.expect(round);
                assert_eq!((wc.byte_len as usize, wc.src_qp), (40 + size, x.qp.qpn()));
                // And the answer, to the sender that the completion names.
                let back = peer.pd.create_ah(&peer.av(x.gid())).expect("an address handle");
                x.recv(round + 500, &[x.sge(1000, 200)]);
                peer.completes(datagram(&back, wc.src_qp, peer.wr(round, WqeOpcode::SEND, &[])));
                assert_eq!(x.expect(round + 500).src_qp, peer.qp.qpn());
            }
        }
    });
}

#[test]
fn another_qkey_is_dropped() {
    on_one_and_two_cards(ud(), |x, y| {
        let way = ah(x, y);
        y.recv(1, &[y.sge(0, 100)]);
        for qkey in [0, QKEY + 1, 0x7fff_ffff] {
            x.completes(SendWr { remote_qkey: qkey, ..to(y, &way, x.wr(1, WqeOpcode::SEND, &[])) });
        }
        y.quiet_for(std::time::Duration::from_millis(2));
        // With the high bit the sender's own Q_Key counts (IB spec 10.2.5).
        x.completes(SendWr { remote_qkey: 0x8000_0000, ..to(y, &way, x.wr(2, WqeOpcode::SEND, &[])) });
        y.expect(1);
        // The receiver's Q_Key can be changed.
        y.qp.modify(
            &QpAttr { state: QpState::RTS, qkey: 5, ..Default::default() },
            AttrMask::STATE | AttrMask::QKEY,
        )
        .expect("a Q_Key");
        y.recv(2, &[y.sge(0, 100)]);
        x.post(&[
            to(y, &way, x.wr(3, WqeOpcode::SEND, &[])),
            SendWr { remote_qkey: 5, ..to(y, &way, x.wr(4, WqeOpcode::SEND, &[x.sge(0, 9)])) },
        ]);
        x.expect(3);
        x.expect(4);
        assert_eq!(y.expect(2).byte_len, 49);
        y.quiet();
    });
}

#[test]
fn without_a_receive_or_a_receiver_a_datagram_is_lost() {
    on_one_and_two_cards(ud(), |x, y| {
        let way = ah(x, y);
        x.completes(to(y, &way, x.wr(1, WqeOpcode::SEND, &[x.sge(0, 10)])));
        y.recv(1, &[y.sge(0, 100)]);
        y.quiet_for(std::time::Duration::from_millis(2));
        x.completes(SendWr { remote_qpn: 0x12_3456, ..to(y, &way, x.wr(2, WqeOpcode::SEND, &[])) });
        y.to(QpState::RESET);
        x.completes(to(y, &way, x.wr(3, WqeOpcode::SEND, &[])));
        y.init();
        y.recv(7, &[y.sge(0, 100)]);
        x.completes(to(y, &way, x.wr(4, WqeOpcode::SEND, &[])));
        y.quiet();
        y.rtr(0, [0; 16], 0);
        x.completes(to(y, &way, x.wr(5, WqeOpcode::SEND, &[x.sge(0, 3)])));
        assert_eq!(y.expect(7).byte_len, 43);
        assert_eq!(x.state(), QpState::RTS);
    });
}

#[test]
fn a_datagram_longer_than_the_mtu_is_refused_and_the_send_queue_recovers() {
    on_one_and_two_cards(ud(), |x, y| {
        let way = ah(x, y);
        y.recv(1, &[y.sge(0, 8000)]);
        x.recv(9, &[x.sge(0, 8000)]);
        x.post(&[
            to(y, &way, x.wr(1, WqeOpcode::SEND, &[x.sge(0, 4097)])),
            to(y, &way, x.wr(2, WqeOpcode::SEND, &[])),
        ]);
        x.expect_status(1, CqeStatus::LOC_LEN_ERR);
        x.expect_flushed([2]);
        assert_eq!(x.state(), QpState::SQE);
        // Its receive queue continues.
        let back = ah(y, x);
        y.completes(to(x, &back, y.wr(5, WqeOpcode::SEND, &[y.sge(0, 7)])));
        assert_eq!(x.expect(9).byte_len, 47);
        x.post(&[to(y, &way, x.wr(3, WqeOpcode::SEND, &[]))]);
        x.expect_flushed([3]);
        x.to(QpState::RTS);
        x.completes(to(y, &way, x.wr(4, WqeOpcode::SEND, &[x.sge(0, 4096)])));
        assert_eq!(y.expect(1).byte_len, 4136);
    });
}

#[test]
fn a_bad_local_key_is_an_error_of_the_send_queue() {
    on_one_and_two_cards(ud(), |x, y| {
        let way = ah(x, y);
        let bad = [Sge { lkey: x.mr.lkey() ^ 1, ..x.sge(0, 10) }];
        x.post(&[to(y, &way, x.wr(1, WqeOpcode::SEND, &bad)), to(y, &way, x.wr(2, WqeOpcode::SEND, &[]))]);
        x.expect_status(1, CqeStatus::LOC_PROT_ERR);
        x.expect_flushed([2]);
        assert_eq!(x.state(), QpState::SQE);
        x.to(QpState::RTS);
        y.recv(1, &[y.sge(0, 100)]);
        x.completes(to(y, &way, x.wr(3, WqeOpcode::SEND, &[])));
        y.expect(1);
    });
}

#[test]
fn a_receive_too_short_for_datagram_and_grh_fails() {
    for short in [39, 40, 49] {
        on_one_and_two_cards(ud(), |x, y| {
            let way = ah(x, y);
            y.recv(1, &[y.sge(0, short)]);
            y.recv(2, &[y.sge(0, 100)]);
            x.completes(to(y, &way, x.wr(1, WqeOpcode::SEND, &[x.sge(0, 10)])));
            y.expect_status(1, CqeStatus::LOC_LEN_ERR);
            y.expect_flushed([2]);
            assert_eq!((x.state(), y.state()), (QpState::RTS, QpState::ERR));
        });
    }
}

#[test]
fn other_opcodes_and_missing_addresses_are_refused() {
    on_one_and_two_cards(ud(), |x, y| {
        let way = ah(x, y);
        for opcode in [
            WqeOpcode::WRITE,
            WqeOpcode::WRITE_WITH_IMM,
            WqeOpcode::READ,
            WqeOpcode::FETCH_ADD,
            WqeOpcode::SEND_WITH_INV,
            WqeOpcode::LOCAL_INV,
            WqeOpcode::BIND_MW,
        ] {
            assert!(x.qp.send().push(&to(y, &way, x.wr(1, opcode, &[]))).is_err(), "{opcode}");
        }
        assert!(x.qp.send().push(&x.wr(1, WqeOpcode::SEND, &[])).is_err(), "no address handle");
        let good = x.av(y.gid());
        let wrong = [
            AhAttr { grh: false, ..good },
            AhAttr { port: 0, ..good },
            AhAttr { port: 3, ..good },
            AhAttr { sgid_index: 16, ..good },
            AhAttr { flow_label: 1 << 20, ..good },
            AhAttr { sl: 8, ..good },
            AhAttr { dgid: [0; 16], ..good },
            AhAttr { dgid: [0x20; 16], ..good },
        ];
        for (n, attr) in wrong.iter().enumerate() {
            assert!(x.pd.create_ah(attr).is_err(), "address handle {n}");
        }
    });
}

#[test]
fn inline_datagrams_and_shared_receives() {
    on_one_and_two_cards(Options { inline: 400, ..ud() }, |x, y| {
        let way = ah(x, y);
        let srq = y.pd.create_srq(&SrqAttr { max_wr: 8, max_sge: 2, limit: 0 }).expect("an SRQ");
        let peers: Vec<_> = (0..3)
            .map(|_| {
                let peer = Peer::with_srq(&y.device, ud(), Some(srq.clone()));
                peer.init();
                peer.rtr(0, [0; 16], 0);
                peer
            })
            .collect();
        for n in 0..60usize {
            let peer = &peers[n % 3];
            post(&srq, n as u64, &[y.sge(n * 600, 40), y.sge(n * 600 + 40, 500)]);
            let bytes: Vec<u8> = (0..n * 6).map(|i| (i ^ n) as u8).collect();
            x.completes(to(
                peer,
                &way,
                SendWr { data: driver::Data::Bytes(&bytes), ..x.wr(n as u64, WqeOpcode::SEND, &[]) },
            ));
            assert_eq!(peer.expect(n as u64).byte_len as usize, 40 + bytes.len());
            assert!(y.buffer[n * 600 + 40..][..bytes.len()] == bytes[..]);
        }
    });
}
