//! TCP that the card cuts into frames (TSO), beside DPDK's own software that does so (GSO), and beside what RFCs say.

use super::*;

/// Bytes of data in a frame.
const MSS: usize = 1460;

/// What a message begins with, and its bytes.
struct Message {
    frame: Vec<u8>,
    /// Where the header of IP begins, and that of TCP, and the data.
    ip: usize,
    tcp: usize,
    data: usize,
}

/// A message of so many bytes to the second card, with these flags of TCP; its checksums are wrong.
fn message(tagged: bool, ipv6: bool, options: usize, flags: u8, length: usize) -> Message {
    let mut frame = vec![2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9];
    if tagged {
        frame.extend([0x81, 0, 0, 7]);
    }
    let tcp_bytes = 20 + options + length;
    let ip = frame.len() + 2;
    if ipv6 {
        let length = (tcp_bytes as u16).to_be_bytes();
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, length[0], length[1], 6, 64]);
        frame.extend((0..32).map(|n| 0x20 + n / 16));
    } else {
        let length = (20 + tcp_bytes as u16).to_be_bytes();
        frame.extend([8, 0, 0x45, 0, length[0], length[1], 0xff, 0xf0, 0x40, 0, 64, 6, 1, 1]);
        frame.extend([198, 18, 0, 1, 198, 18, 0, 2]);
    }
    let tcp = frame.len();
    frame.extend([0x10, 1, 0x10, 2, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 2, 0x50 + (options as u8) * 4, flags]);
    frame.extend([16, 0, 1, 1, 0, 0]);
    frame.extend(std::iter::repeat_n(1, options));
    let data = frame.len();
    frame.extend((0..length).map(|n| (n * 7 + n / 256) as u8));
    Message { frame, ip, tcp, data }
}

/// The checksum of bytes (RFC 1071).
fn checksum(pieces: &[&[u8]]) -> [u8; 2] {
    let words = pieces.iter().flat_map(|piece| piece.chunks(2));
    let sum: u64 = words.map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into())).sum();
    // 2^16 counts as 1.
    (!((sum % 0xffff) as u16)).to_be_bytes()
}

impl Message {
    /// Its frames, by RFC 791, RFC 8200, RFC 9293 and RFC 3168.
    fn frames(&self) -> Vec<Vec<u8>> {
        let Message { frame, ip, tcp, data } = self;
        let (ip, tcp, ipv6) = (*ip, *tcp, tcp - ip == 40);
        let parts: Vec<_> = frame[*data..].chunks(MSS).collect();
        let cut = |(n, part): (usize, &&[u8])| {
            let mut frame = [&frame[..*data], part].concat();
            let length = frame.len() - ip - if ipv6 { 40 } else { 0 };
            let at = ip + if ipv6 { 4 } else { 2 };
            frame[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
            let sequence = 0xffff_f000u32.wrapping_add((n * MSS) as u32);
            frame[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
            if n != 0 {
                frame[tcp + 13] &= !0x80;
            }
            if n + 1 != parts.len() {
                frame[tcp + 13] &= !0x09;
            }
            if !ipv6 {
                frame[ip + 4..ip + 6].copy_from_slice(&0xfff0u16.wrapping_add(n as u16).to_be_bytes());
                frame[ip + 10..ip + 12].fill(0);
                let sum = checksum(&[&frame[ip..tcp]]);
                frame[ip + 10..ip + 12].copy_from_slice(&sum);
            }
            frame[tcp + 16..tcp + 18].fill(0);
            let addresses = &frame[tcp - if ipv6 { 32 } else { 8 }..tcp];
            let length = ((frame.len() - tcp) as u32).to_be_bytes();
            let sum = checksum(&[addresses, &length, &[0, 6], &frame[tcp..]]);
            frame[tcp + 16..tcp + 18].copy_from_slice(&sum);
            frame
        };
        parts.iter().enumerate().map(cut).collect()
    }
}

/// What comes to a second testpmd of messages that one sends with these settings of its port, one at a time.
fn cut(messages: &[Message], frames: usize, settings: &[&str]) -> Vec<Vec<u8>> {
    // Software cuts a burst into more frames than a queue takes.
    cut_in_bursts(messages, frames, settings, ["--burst=1", "--txd=512", "--rxd=512"])
}

/// The same, with these sizes of bursts and queues of the sender.
fn cut_in_bursts(
    messages: &[Message],
    frames: usize,
    settings: &[&str],
    sizes: [&'static str; 3],
) -> Vec<Vec<u8>> {
    let net = StockNet::new();
    let pcap = Pcap::new();
    let options = ["--stats-period=1", ROOM, ANY_LENGTH];
    let mut receiver = Testpmd::start(&net, &["net_verbena1", &pcap.writer()], &options);
    receiver.expect("NIC statistics");
    let reader = pcap.reader(&messages.iter().map(|message| message.frame.clone()).collect::<Vec<_>>());
    let mut sender = Testpmd::start(&net, &[&reader, "net_verbena0"], &[&["-i"][..], &sizes].concat());
    sender.types(&format!("port stop 1\n{}\nport start 1", settings.join("\n")));
    // What finds no room is sent again, as long as that takes.
    sender.types(
        "set eth-peer 1 02:56:42:00:01:00\nset fwd csum retry\nset burst tx delay 1000 retry 60000\nstart",
    );
    receiver.expect(&format!("RX-packets: {frames} "));
    let sent = sender.does("show port stats 1");
    assert_eq!(last(&sent, "TX-errors"), 0, "{sent}");
    sender.quit();
    receiver.interrupt();
    net.expect_gone();
    pcap.frames()
}

const BY_CARD: [&str; 3] = ["csum set ip hw 1", "csum set tcp hw 1", "tso set 1460 1"];

/// As RFCs say: tags, both versions of IP, options, every flag; data that fills mbufs, slots and frames, and some that does not.
#[test]
fn the_card_cuts_tcp_into_frames() {
    let _alone = alone();
    let messages = [
        message(false, false, 0, 0x18, 64_000),
        message(true, false, 12, 0xff, 3 * MSS),
        message(false, true, 0, 0x19, 3 * MSS + 1),
        message(true, true, 40, 0x98, 65_000),
        message(false, false, 40, 0x90, MSS + 1),
        // One frame, which testpmd does not ask to be cut.
        message(false, false, 0, 0x18, MSS),
        message(false, false, 0, 0x18, 9600),
        message(false, true, 12, 0x10, 19_200),
    ];
    let expected: Vec<_> = messages.iter().flat_map(Message::frames).collect();
    let came = cut(&messages, expected.len(), &BY_CARD);
    assert_eq!(came.len(), expected.len());
    let wrong = came.iter().zip(&expected).position(|(came, expected)| came[12..] != expected[12..]);
    assert_eq!(wrong, None, "the first frame that is not as RFCs say");
}

/// DPDK's library that cuts TCP by software is the oracle, which knows IPv4 and not CWR: the same messages leave with the same
/// bytes.
#[test]
fn the_card_cuts_tcp_as_dpdk_does() {
    let _alone = alone();
    let messages: Vec<_> = [64_000, 1, MSS, MSS + 1, 4 * MSS, 33_333]
        .into_iter()
        .flat_map(|length| [0x18, 0x11].map(|flags| message(false, false, 0, flags, length)))
        .collect();
    let frames = messages.iter().map(|message| message.frames().len()).sum();
    let by_card = cut(&messages, frames, &BY_CARD);
    let by_program = ["csum set ip hw 1", "csum set tcp hw 1", "set gso segsz 1514", "set port 1 gso on"];
    let by_program = cut(&messages, frames, &by_program);
    assert_eq!(by_program.len(), frames);
    let wrong = by_card.iter().zip(&by_program).position(|(card, program)| card != program);
    assert_eq!(wrong, None, "the first frame that is another");
}

/// A message takes more room than a frame of the same burst: what finds none waits, and overwrites nothing.
#[test]
fn messages_and_frames_in_bursts_that_fill_the_queue() {
    let _alone = alone();
    for first in [64_000, 100] {
        let lengths = (0..6 * 32usize).map(|n| match n % 32 {
            0 => first,
            20 => 25_000,
            n => 60 + n,
        });
        let messages: Vec<_> = lengths.map(|length| message(false, false, 0, 0x18, length)).collect();
        let expected: Vec<_> = messages.iter().flat_map(Message::frames).collect();
        let sizes = ["--burst=32", "--txd=32", "--rxd=512"];
        let came = cut_in_bursts(&messages, expected.len(), &BY_CARD, sizes);
        assert_eq!(came.len(), expected.len());
        let wrong = came.iter().zip(&expected).position(|(came, expected)| came[12..] != expected[12..]);
        assert_eq!(
            wrong, None,
            "the first frame that is not as it was sent, of bursts that begin with {first}"
        );
    }
}

/// What the card cannot cut is refused, and holds up nothing.
#[test]
fn what_cannot_be_cut_is_refused() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    // Segments that are longer than any frame, and one that is not.
    let sent = [20_000, 1000, 30_000, 500].map(|length| message(false, false, 0, 0x18, length).frame);
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i"]);
    receiver.does("set fwd rxonly\nstart");
    let reader = pcap.reader(&sent);
    let mut sender = Testpmd::start(&net, &[&reader, "net_verbena0"], &["-i", "--burst=1"]);
    sender.types("port stop 1\ncsum set ip hw 1\ncsum set tcp hw 1\ntso set 9590 1\nport start 1");
    sender.types("set eth-peer 1 02:56:42:00:01:00\nset fwd csum\nstart");
    receiver.asks("show port stats 0", "RX-packets: 2 ");
    // What testpmd says when `rte_eth_tx_prepare` refuses.
    let said = sender.quit();
    let refused = said.matches("Preparing packet burst to transmit failed: Invalid argument").count();
    assert_eq!(refused, 2, "{said}");
    receiver.quit();
    net.expect_gone();
}

/// Received in mbufs whose data is elsewhere (`rte_pktmbuf_pool_create_extbuf`): DPDK's own cutting refers to that data, and frees
/// what refers to it.
#[test]
fn what_came_into_buffers_of_the_program_is_cut_by_dpdk() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let options = ["-i", "--forward-mode=csum", "--mbuf-size=4352", "--mp-alloc=xbuf", ANY_LENGTH];
    let mut receiver = Testpmd::start(&net, &["net_verbena1", &pcap.writer()], &options);
    receiver.does(
        "port stop all\ncsum set tcp hw 1\nset gso segsz 1514\nset port 1 gso on\nport start all\nstart",
    );
    let message = message(false, false, 0, 0x18, 2 * MSS);
    // There are receives for all.
    let mut sender = Sender::of(&net, &vec![message.frame.clone(); 100]);
    sender.sends();
    receiver.asks("show port stats 1", "TX-packets: 200 ");
    sender.testpmd.quit();
    receiver.quit();
    let came = pcap.frames();
    assert_eq!(came.len(), 200);
    for (n, frame) in came.iter().enumerate() {
        let from = message.data + n % 2 * MSS;
        assert!(frame[message.data..] == message.frame[from..from + MSS], "frame {n}");
    }
    net.expect_gone();
}
