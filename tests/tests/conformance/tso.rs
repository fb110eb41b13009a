//! TCP that the card cuts into frames: where it waits, ends and fails.

use driver::{AttrMask, Data, Flow, QpAttr, Segmented, SendFlags, SendWr, Sge};
use fpga_regs::{CqeOpcode, CqeStatus, FlowContext, QpState, QpType, WqeOpcode};
use tests::{join, on_one_and_two_cards, where_frames_wait, Drops, Options, Side, TestCard};

const GROUP: [u8; 6] = [1, 0x50, 0x56, 0x19, 0x20, 0xa7];
/// Bytes of the headers.
const HEAD: usize = 54;
/// Bytes of data in a frame.
const MSS: usize = 500;

fn raw() -> Options {
    Options { qp_type: QpType::RAW_PACKET, depth: 32, bytes: 1 << 18, cqes: 128, ..Default::default() }
}

/// A sender whose queue pair may have its TCP cut.
fn sender(x: &Side) -> Side {
    let made = Side::tuned(&x.device, raw(), None, |init| init.offloads.tso = true);
    let idle = Side::new(&x.device, raw());
    join(&made, &idle);
    made
}

fn flow(y: &Side) -> Flow<TestCard> {
    let rule = FlowContext::new().with_port(1).with_dmac(GROUP).with_dmac_mask([0xff; 6]);
    y.qp.create_flow(&rule).expect("a rule")
}

/// Headers of IPv4 and TCP, from sequence number 0 on.
fn header() -> [u8; HEAD] {
    let mut header = [0; HEAD];
    header[..6].copy_from_slice(&GROUP);
    header[6..12].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    header[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6]);
    header[26..34].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
    (header[35], header[37], header[46], header[47]) = (1, 2, 0x50, 0x18);
    header
}

fn post(x: &Side, wr_id: u64, header: &[u8], mss: usize, data: &[Sge]) {
    let message = Segmented { header, mss: mss as u16, data };
    let wr = x.wr(wr_id, WqeOpcode::RAW_TSO, &[]);
    x.post(&[SendWr { data: Data::Segmented(&message), ..wr }]);
}

#[test]
fn each_frame_waits_for_a_receive() {
    where_frames_wait(raw(), |x, y| {
        let mut x = sender(x);
        x.buffer.pattern(3);
        let _flow = flow(y);
        let drops = Drops::new(&x, y);
        let length = 5 * MSS + 1;
        // In pieces that are not those of the frames.
        post(&x, 7, &header(), MSS, &[x.sge(0, 3), x.sge(3, MSS + 1), x.sge(MSS + 4, length - MSS - 4)]);
        let mut came = Vec::new();
        for n in 0..6 {
            drops.waits(&x)?;
            y.recv(n, &[y.sge(0, 2000)]);
            let wc = drops.come(y, n)?;
            let data = (length - n as usize * MSS).min(MSS);
            let bytes = (wc.byte_len as usize).max(HEAD + data);
            assert_eq!(bytes, (HEAD + data).max(60));
            let sequence = u32::from_be_bytes(y.buffer[38..42].try_into().expect("4 bytes"));
            assert_eq!(sequence as usize, came.len());
            came.extend_from_slice(&y.buffer[HEAD..HEAD + data]);
        }
        let wc = x.expect(7);
        assert_eq!((wc.opcode, wc.byte_len as usize), (CqeOpcode::TSO, length));
        assert!(came == x.buffer[..length]);
        let cut = x.counter("TX_SEGMENTED");
        assert!(cut >= 6, "{cut} are counted");
        Some(())
    });
}

/// SQD ends what was begun, and nothing else.
#[test]
fn what_was_begun_ends_in_sqd() {
    where_frames_wait(raw(), |x, y| {
        let x = sender(x);
        let _flow = flow(y);
        let drops = Drops::new(&x, y);
        for id in 0..2 {
            post(&x, id, &header(), MSS, &[x.sge(0, 3 * MSS)]);
        }
        y.recv(0, &[y.sge(0, 2000)]);
        drops.come(y, 0)?;
        let to = |state| QpAttr { state, ..QpAttr::default() };
        x.qp.modify(&to(QpState::SQD), AttrMask::STATE).expect("SQD");
        for n in 1..6 {
            y.recv(n, &[y.sge(0, 2000)]);
        }
        drops.come(y, 1)?;
        drops.come(y, 2)?;
        x.expect(0);
        assert!(y.poll().is_none() && x.poll().is_none(), "the second was not begun");
        x.qp.modify(&to(QpState::RTS), AttrMask::STATE).expect("RTS");
        for n in 3..6 {
            y.expect(n);
        }
        x.expect(1);
        Some(())
    });
}

/// A tag is in each frame.
#[test]
fn tags_are_inserted_into_all() {
    on_one_and_two_cards(raw(), |x, y| {
        let x = sender(x);
        let _flow = flow(y);
        for n in 0..2 {
            y.recv(n, &[y.sge(0, 2000)]);
        }
        let (header, data) = (header(), [x.sge(0, 2 * MSS)]);
        let message = Segmented { header: &header, mss: MSS as u16, data: &data };
        let wr = x.wr(1, WqeOpcode::RAW_TSO, &[]);
        let flags = wr.flags | SendFlags::VLAN_INSERT;
        x.post(&[SendWr { flags, vlan_tci: 0x6123, data: Data::Segmented(&message), ..wr }]);
        for n in 0..2 {
            assert_eq!(y.expect(n).byte_len as usize, HEAD + MSS + 4);
            assert_eq!(y.buffer[12..18], [0x81, 0, 0x61, 0x23, 8, 0]);
        }
        x.expect(1);
    });
}

/// What the driver does not look at, the card does: then the queue pair is in error, and nothing was sent.
#[test]
fn what_cannot_be_cut_ends_the_sender() {
    on_one_and_two_cards(raw(), |x, y| {
        let _flow = flow(y);
        y.recv(0, &[y.sge(0, 20000)]);
        let good = header();
        let mut udp = good;
        udp[23] = 17;
        let mut fragment = good;
        fragment[20] = 0x20;
        for (header, mss, length, status) in [
            (&udp[..], MSS, 2000, CqeStatus::LOC_QP_OP_ERR),
            (&fragment[..], MSS, 2000, CqeStatus::LOC_QP_OP_ERR),
            (&good[..HEAD - 1], MSS, 2000, CqeStatus::LOC_QP_OP_ERR),
            (&[], MSS, 2000, CqeStatus::LOC_QP_OP_ERR),
            (&good[..], 9600, 9600, CqeStatus::LOC_LEN_ERR),
        ] {
            let x = sender(x);
            post(&x, 1, header, mss, &[x.sge(0, length)]);
            assert_eq!(x.wait().status, status);
            assert!(y.poll().is_none());
        }
        let x = sender(x);
        let bad = [Sge { lkey: 0x7777, ..x.sge(0, 2000) }];
        post(&x, 1, &good, MSS, &bad);
        assert_eq!(x.wait().status, CqeStatus::LOC_PROT_ERR);
        assert!(y.poll().is_none());
    });
}

/// Without room for headers, or for no TCP at all.
#[test]
fn the_driver_refuses_what_makes_no_sense() {
    on_one_and_two_cards(raw(), |x, _| {
        let cuts = sender(x);
        let good = header();
        let data = [cuts.sge(0, 1 << 17)];
        let fits = [cuts.sge(0, 100)];
        let long = [0; 129];
        for (side, header, mss, data, opcode) in [
            (&cuts, &good[..], 0, &fits, WqeOpcode::RAW_TSO),
            (&cuts, &long[..], 100, &fits, WqeOpcode::RAW_TSO),
            (&cuts, &good[..], 100, &data, WqeOpcode::RAW_TSO),
            (&cuts, &good[..], 100, &fits, WqeOpcode::RAW_ETH),
            (x, &good[..], 100, &fits, WqeOpcode::RAW_TSO),
        ] {
            let message = Segmented { header, mss, data };
            let mut post = side.qp.send();
            let wr = SendWr { opcode, data: Data::Segmented(&message), ..side.wr(1, opcode, &[]) };
            assert!(post.push(&wr).is_err(), "{header:?} {mss} {data:?}");
        }
        let plain = cuts.wr(1, WqeOpcode::RAW_TSO, &fits);
        assert!(cuts.qp.send().push(&plain).is_err(), "without headers");
    });
}
