//! Raw packet queue pairs: who gets a frame, how long it waits, and what is refused.

use std::time::{Duration, Instant};

use driver::{Data, Flow, SendFlags, SendWr, WcFlags};
use fpga_regs::{CqeOpcode, CqeStatus, FlowContext, FlowKind, QpState, QpType, WqeOpcode};
use tests::{
    connect, join, on_one_and_two_cards, until_frames_wait, where_frames_wait, Drops, Options, Side, TestCard,
};

/// Longer than a receiver without receives holds the wire.
const LONG: Duration = Duration::from_millis(150);
/// Bytes of the longest frame.
const MAX_FRAME: usize = 9600;
const GROUP: [u8; 6] = [1, 0x50, 0x56, 0x19, 0x20, 0xa7];

fn raw() -> Options {
    Options { qp_type: QpType::RAW_PACKET, depth: 32, bytes: 1 << 17, cqes: 128, ..Default::default() }
}

/// A frame for an address, in the sender's buffer.
fn frame(x: &mut Side, dmac: [u8; 6], len: usize) {
    x.buffer.pattern(5);
    x.buffer[..6].copy_from_slice(&dmac);
    x.buffer[6..14].copy_from_slice(&[2, 9, 9, 9, 9, 9, 0x88, 0xb5]);
    assert!(len >= 14);
}

/// Sends the first bytes of the buffer.
fn send(x: &Side, wr_id: u64, len: usize) {
    x.post(&[x.wr(wr_id, WqeOpcode::RAW_ETH, &[x.sge(0, len)])]);
}

fn rule(dmac: [u8; 6]) -> FlowContext {
    FlowContext::new().with_port(1).with_dmac(dmac).with_dmac_mask([0xff; 6])
}

fn flow(y: &Side, rule: &FlowContext) -> Flow<TestCard> {
    y.qp.create_flow(rule).expect("a rule")
}

/// A counter of all ports.
fn counter(x: &Side, y: &Side, name: &str) -> u64 {
    let ports = [(x, 1), (x, 2), (y, 1), (y, 2)];
    ports.into_iter().map(|(side, port)| tests::counter(&side.device, port, name)).sum()
}

#[test]
fn a_frame_comes_as_it_was_sent() {
    on_one_and_two_cards(raw(), |x, y| {
        let _flow = flow(y, &rule(GROUP));
        for (n, len) in [60, 61, 1514, 9600].into_iter().enumerate() {
            frame(x, GROUP, len);
            y.buffer.fill(0xee);
            let n = n as u64;
            y.recv(n, &[y.sge(0, 17), y.sge(100, 20000)]);
            send(x, n, len);
            assert_eq!(x.expect(n).opcode, CqeOpcode::SEND);
            let wc = y.expect(n);
            assert_eq!((wc.opcode, wc.byte_len as usize), (CqeOpcode::RECV, len));
            let got: Vec<u8> = [&y.buffer[..17], &y.buffer[100..20000]].concat();
            assert!(got[..len] == x.buffer[..len] && got[len..].iter().all(|&byte| byte == 0xee));
        }
    });
}

#[test]
fn short_and_inline_frames_are_padded() {
    on_one_and_two_cards(raw(), |x, y| {
        let _flow = flow(y, &rule(GROUP));
        frame(x, GROUP, 20);
        y.buffer.fill(0xee);
        y.recv(0, &[y.sge(0, 2000)]);
        y.recv(1, &[y.sge(2000, 2000)]);
        let bytes = x.buffer[..20].to_vec();
        send(x, 0, 20);
        let inline = SendWr { data: Data::Bytes(&bytes), ..x.wr(1, WqeOpcode::RAW_ETH, &[]) };
        x.post(&[inline]);
        for n in 0..2 {
            x.expect(n);
            assert_eq!(y.expect(n).byte_len, 60);
            let got = &y.buffer[n as usize * 2000..][..61];
            assert!(got[..20] == bytes[..] && got[20..60].iter().all(|&byte| byte == 0) && got[60] == 0xee);
        }
    });
}

#[test]
fn a_frame_waits_for_a_receive() {
    where_frames_wait(raw(), |x, y| {
        let _flow = flow(y, &rule(GROUP));
        frame(x, GROUP, 64);
        let drops = Drops::new(x, y);
        for n in 0..3 {
            send(x, n, 64);
        }
        drops.waits(x)?;
        for n in 0..3 {
            y.recv(n, &[y.sge(0, 2000)]);
            x.expect(n);
            drops.come(y, n)?;
        }
        drops.still_whole()
    });
}

#[test]
fn a_receiver_that_stops_does_not_hold_the_wire_for_long() {
    where_frames_wait(raw(), |x, y| {
        let _flow = flow(y, &rule(GROUP));
        frame(x, GROUP, 64);
        let before = counter(x, y, "RX_NO_RECV");
        let start = Instant::now();
        for n in 0..8 {
            send(x, n, 64);
        }
        for n in 0..8 {
            x.expect(n);
        }
        assert!(start.elapsed() >= Duration::from_millis(100), "it was waited for");
        assert!(counter(x, y, "RX_NO_RECV") - before >= 8, "what was not taken is counted");
        // With a receive it is waited for again.
        let drops = Drops::new(x, y);
        y.recv(1, &[y.sge(0, 2000)]);
        for n in 8..10 {
            send(x, n, 64);
        }
        x.expect(8);
        drops.come(y, 1)?;
        drops.waits(x)?;
        y.recv(2, &[y.sge(0, 2000)]);
        x.expect(9);
        drops.come(y, 2).map(drop)
    });
}

/// A port that does not ask to be waited for, and one that does not wait: then what comes without receives is lost at once.
#[test]
fn who_does_not_pause_loses_frames_at_once() {
    on_one_and_two_cards(raw(), |x, y| {
        let taken = flow(y, &rule(GROUP));
        frame(x, GROUP, 64);
        let same = x.device.query_port(1).expect("a port").mac == y.device.query_port(1).expect("a port").mac;
        for (n, (stops, asks)) in [(true, false), (false, true), (false, false)].into_iter().enumerate() {
            x.device.set_pause(1, stops, asks || !same).expect("pause");
            y.device.set_pause(1, stops || !same, asks).expect("pause");
            let link = y.device.query_port(1).expect("a port").link;
            assert_eq!((link.rx_pause(), link.tx_pause()), (stops || !same, asks));
            let names = ["RX_NO_RECV", "TX_PAUSE", "RX_PAUSE"];
            let before = names.map(|name| counter(x, y, name));
            for id in 0..8 {
                send(x, id, 64);
                x.expect(id);
            }
            let after = names.map(|name| counter(x, y, name));
            assert!(after[0] - before[0] >= 8, "round {n}: what was not taken is counted");
            assert_eq!(after[1..], before[1..], "round {n}: nobody is asked to stop");
            // What has a receive comes.
            y.recv(9, &[y.sge(0, 2000)]);
            send(x, 9, 64);
            x.expect(9);
            y.expect(9);
        }
        for side in [&*x, &*y] {
            side.device.set_pause(1, true, true).expect("pause");
        }
        taken.destroy().expect("it ends");
        until_frames_wait(x, y, |x, y| {
            let _flow = flow(y, &rule(GROUP));
            frame(x, GROUP, 64);
            let drops = Drops::new(x, y);
            let before = ["TX_PAUSE", "RX_PAUSE"].map(|name| counter(x, y, name));
            send(x, 1, 64);
            y.recv(1, &[y.sge(0, 2000)]);
            x.expect(1);
            drops.come(y, 1)?;
            send(x, 2, 64);
            x.expect(2);
            let after = ["TX_PAUSE", "RX_PAUSE"].map(|name| counter(x, y, name));
            assert!(after[0] > before[0] && after[1] > before[1], "the second waited: {before:?} {after:?}");
            Some(())
        });
        assert!(x.device.set_pause(3, true, true).is_err(), "there are two ports");
    });
}

/// One that posts now and then is waited for each time, whoever gets its receives. On a busy machine this test itself or
/// the process that serves the card may stop for so long that it is not waited for, but not each time.
#[test]
fn a_slow_receiver_loses_nothing_of_two_senders() {
    on_one_and_two_cards(raw(), |x, y| {
        let (mut other, _idle) = connect(&x.device, &y.device, raw());
        let _flow = flow(y, &rule(GROUP));
        frame(x, GROUP, 64);
        frame(&mut other, GROUP, 64);
        let nothing_is_lost = |_| {
            let before = counter(x, y, "RX_NO_RECV");
            let dropped = || counter(x, y, "RX_NO_RECV") - before;
            (0..24).for_each(|n| send(x, n, 64));
            (0..4).for_each(|n| send(&other, n, 64));
            for received in 0..28 {
                std::thread::sleep(LONG / 15);
                y.recv(received, &[y.sge(0, 2000)]);
                // To read a counter takes long on a busy machine.
                let since = Instant::now();
                if y.wait_unless(|| since.elapsed() > LONG && received + dropped() >= 28).is_none() {
                    break;
                }
            }
            for (sender, count) in [(&*x, 24), (&other, 4)] {
                (0..count).for_each(|n| assert_eq!(sender.expect(n).opcode, CqeOpcode::SEND));
            }
            dropped() == 0
        };
        assert!((0..20).any(nothing_is_lost), "each time some are dropped");
    });
}

#[test]
fn what_no_rule_takes_is_counted() {
    on_one_and_two_cards(raw(), |x, y| {
        // A frame for a group comes to the other end of the cable, where a third card may be.
        let mac = y.device.query_port(1).expect("a port").mac;
        frame(x, mac, 64);
        y.recv(0, &[y.sge(0, 2000)]);
        let before = counter(x, y, "RX_NO_RULE");
        send(x, 0, 64);
        x.expect(0);
        y.quiet();
        assert!(counter(x, y, "RX_NO_RULE") > before);
        let rule = flow(y, &rule(mac));
        send(x, 1, 64);
        x.expect(1);
        y.expect(0);
        y.recv(1, &[y.sge(0, 2000)]);
        rule.destroy().expect("it ends");
        send(x, 2, 64);
        x.expect(2);
        y.quiet_for(Duration::from_millis(5));
    });
}

#[test]
fn a_sender_gets_no_copy_of_its_own() {
    on_one_and_two_cards(raw(), |x, y| {
        let all = FlowContext::new().with_port(1).with_kind(FlowKind::ALL_DEFAULT);
        let _flows = [flow(x, &all), flow(y, &all)];
        frame(x, GROUP, 64);
        x.recv(7, &[x.sge(4096, 2000)]);
        y.recv(0, &[y.sge(0, 2000)]);
        send(x, 0, 64);
        x.expect(0);
        y.expect(0);
        x.quiet_for(Duration::from_millis(5));
    });
}

/// The counters of a port are of frames, not of copies.
#[test]
fn a_port_receives_a_frame_once_whoever_gets_copies() {
    on_one_and_two_cards(raw(), |x, y| {
        let (_idle, other) = connect(&x.device, &y.device, raw());
        let _flows = [flow(y, &rule(GROUP)), flow(&other, &rule(GROUP))];
        frame(x, GROUP, 64);
        let count = |name| y.counter(name);
        let before = ["RX_PACKETS", "RX_BYTES"].map(count);
        y.recv(0, &[y.sge(0, 2000)]);
        other.recv(0, &[other.sge(0, 2000)]);
        send(x, 0, 64);
        x.expect(0);
        y.expect(0);
        other.expect(0);
        assert_eq!(["RX_PACKETS", "RX_BYTES"].map(count), [before[0] + 1, before[1] + 64]);
    });
}

/// A frame to a group comes back to its sender's port: that is no frame for a rule of the sender to count.
#[test]
fn what_a_queue_sends_is_no_frame_that_came() {
    on_one_and_two_cards(raw(), |x, y| {
        frame(x, GROUP, 64);
        let own = flow(x, &rule(GROUP).with_counted(true));
        let other = flow(y, &rule(GROUP).with_counted(true));
        for n in 0..3 {
            y.recv(n, &[y.sge(0, 2000)]);
            send(x, n, 64);
            x.expect(n);
            y.expect(n);
        }
        let counts = [own, other].map(|rule| rule.count().expect("a count").frames);
        assert_eq!(counts, [0, 3]);
    });
}

#[test]
fn members_of_an_address_get_a_copy() {
    on_one_and_two_cards(raw(), |x, y| {
        let mut gid = [0; 16];
        assert!(y.qp.attach_mcast(&gid).is_err(), "no multicast address");
        gid[10..].copy_from_slice(&GROUP);
        y.qp.attach_mcast(&gid).expect("it joins");
        frame(x, GROUP, 64);
        y.recv(0, &[y.sge(0, 2000)]);
        send(x, 0, 64);
        x.expect(0);
        y.expect(0);
        y.qp.detach_mcast(&gid).expect("it leaves");
    });
}

#[test]
fn a_frame_that_does_not_fit_ends_the_receiver() {
    on_one_and_two_cards(raw(), |x, y| {
        let _flow = flow(y, &rule(GROUP));
        frame(x, GROUP, 500);
        y.recv(0, &[y.sge(0, 499)]);
        y.recv(1, &[y.sge(0, 499)]);
        send(x, 0, 500);
        x.expect(0);
        y.expect_status(0, CqeStatus::LOC_LEN_ERR);
        y.expect_flushed([1]);
        assert_eq!(y.state(), QpState::ERR);
        // Nobody waits for it.
        send(x, 1, 500);
        x.expect(1);
    });
}

#[test]
fn what_is_no_frame_is_refused() {
    on_one_and_two_cards(raw(), |x, _| {
        frame(x, GROUP, 64);
        for (n, len) in [(0, 13), (1, 9601)] {
            send(x, n, len);
            x.expect_status(n, CqeStatus::LOC_LEN_ERR);
            assert_eq!(x.state(), QpState::SQE);
            x.to(QpState::RTS);
        }
        let sge = [x.sge(0, 64)];
        assert!(x.qp.send().push(&x.wr(2, WqeOpcode::SEND, &sge)).is_err(), "no message");
        assert!(x.qp.send().push(&x.wr(2, WqeOpcode::WRITE, &sge)).is_err());
        x.completes(x.wr(3, WqeOpcode::NOP, &[]));
    });
}

#[test]
fn rules_that_make_no_sense_are_refused_and_hold_their_queue_pair() {
    on_one_and_two_cards(raw(), |x, _| {
        let refused = |rule: &FlowContext| x.qp.create_flow(rule).is_err();
        assert!(refused(&rule(GROUP).with_port(0)) && refused(&rule(GROUP).with_port(3)));
        assert!(refused(&rule(GROUP).with_kind(FlowKind(5))));
        assert!(refused(&rule(GROUP).with_ip_version(5)));
        let flow = flow(x, &rule(GROUP));
        let error = x.qp.destroy().expect_err("it has a rule");
        assert_eq!(error.errno(), libc::EBUSY);
        flow.destroy().expect("it ends");
        assert!(flow.destroy().is_err(), "once");
        x.qp.destroy().expect("it ends");
    });
}

#[test]
fn an_error_ends_a_wait() {
    where_frames_wait(raw(), |x, y| {
        let _flow = flow(y, &rule(GROUP));
        frame(x, GROUP, 64);
        let drops = Drops::new(x, y);
        send(x, 0, 64);
        send(x, 1, 64);
        x.to(QpState::ERR);
        drops.still_whole()?;
        x.expect_flushed([0, 1]);
        y.recv(0, &[y.sge(0, 2000)]);
        y.quiet_for(LONG);
        Some(())
    });
}

/// A tag that the card inserts is in the frame of who does not strip it, and in the CQE of who does.
#[test]
fn tags_are_inserted_and_stripped() {
    const TCI: u16 = 0x6123;
    on_one_and_two_cards(raw(), |x, y| {
        let strips = Side::tuned(&y.device, raw(), None, |init| init.offloads.strip_vlan = true);
        let idle = Side::new(&y.device, raw());
        join(&strips, &idle);
        let _flows = [flow(y, &rule(GROUP)), flow(&strips, &rule(GROUP))];
        frame(x, GROUP, MAX_FRAME);
        for (n, len) in [14, 56, 59, 60, 64, 1500, 2000, MAX_FRAME - 4].into_iter().enumerate() {
            let n = n as u64;
            for asked in [SendFlags::VLAN_INSERT, SendFlags::empty()] {
                y.recv(n, &[y.sge(0, 4), y.sge(4, MAX_FRAME)]);
                strips.recv(n, &[strips.sge(0, 13), strips.sge(13, MAX_FRAME)]);
                let sges = [x.sge(0, len)];
                let wr = x.wr(n, WqeOpcode::RAW_ETH, &sges);
                x.completes(SendWr { flags: wr.flags | asked, vlan_tci: TCI, ..wr });
                let (whole, stripped) = (y.expect(n), strips.expect(n));
                let tagged = !asked.is_empty();
                let mut sent = x.buffer[..len].to_vec();
                if tagged {
                    sent.splice(12..12, [0x81, 0, 0x61, 0x23]);
                }
                sent.resize(sent.len().max(60), 0);
                assert_eq!(
                    (whole.byte_len as usize, whole.flags.contains(WcFlags::VLAN)),
                    (sent.len(), false)
                );
                assert!(y.buffer[..sent.len()] == sent, "{len} bytes, as they are on the wire");
                if tagged {
                    drop(sent.drain(12..16));
                }
                let tag = stripped.flags.contains(WcFlags::VLAN).then_some(stripped.vlan_tci);
                assert_eq!((stripped.byte_len as usize, tag), (sent.len(), tagged.then_some(TCI)));
                assert!(strips.buffer[..sent.len()] == sent, "{len} bytes, without the tag");
            }
        }
        // With its tag it would be too long.
        let sges = [x.sge(0, MAX_FRAME - 3)];
        let wr = x.wr(9, WqeOpcode::RAW_ETH, &sges);
        x.post(&[SendWr { flags: wr.flags | SendFlags::VLAN_INSERT, ..wr }]);
        assert_eq!(x.wait().status, CqeStatus::LOC_LEN_ERR);
    });
}

#[test]
fn checksums_are_filled_in_and_checked() {
    on_one_and_two_cards(raw(), |x, y| {
        let _flow = flow(y, &rule(GROUP));
        frame(x, GROUP, 64);
        // 45 bytes of UDP from 198.18.0.1 to 198.18.0.2, with checksums that are wrong.
        x.buffer[12..42].copy_from_slice(&[
            8, 0, 0x45, 0, 0, 45, 0, 0, 0, 0, 64, 17, 1, 1, 198, 18, 0, 1, 198, 18, 0, 2, 0, 1, 0, 2, 0, 25,
            1, 1,
        ]);
        let wrong = (false, false);
        let asked = [
            (SendFlags::empty(), wrong),
            (SendFlags::IP_CSUM, (true, false)),
            (SendFlags::L4_CSUM, (false, true)),
            (SendFlags::IP_CSUM | SendFlags::L4_CSUM, (true, true)),
        ];
        for (n, (flags, right)) in asked.into_iter().enumerate() {
            let n = n as u64;
            y.recv(n, &[y.sge(0, 2000)]);
            let sges = [x.sge(0, 64)];
            let wr = x.wr(n, WqeOpcode::RAW_ETH, &sges);
            x.completes(SendWr { flags: wr.flags | flags, ..wr });
            let wc = y.expect(n);
            let found = (wc.flags.contains(WcFlags::IP_CSUM_OK), wc.flags.contains(WcFlags::L4_CSUM_OK));
            assert_eq!(found, right, "{flags:?}");
            let sum =
                |bytes: &[u8]| bytes.chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum::<u32>();
            let is_right = sum(&y.buffer[14..34]) % 0xffff == 0;
            assert_eq!(is_right, right.0, "the sum of the header");
        }
    });
}
