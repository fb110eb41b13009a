//! `verbena capture`: the packets of nets that stock programs are using.
#![allow(unsafe_code)]

mod reading;
pub mod tshark;

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use fpga_regs::regs::port;
use model::wire::frame;
use tests::loopback_address;
use tests::pcap::records;
use tests::stock::{
    alone, free_port, need, number_before, signal, until_answered, wait_for, wrapped, Both, Pair, Program,
    StockNet, LIMIT,
};

use self::reading::{packets, Packet};
use crate::raw_ethernet::posted;

/// A capture that has begun. As many as there may be at a time may just have been killed.
fn begin(net: &StockNet, words: &[&str]) -> Program {
    let [begins, refused] = ["Ctrl-C ends it", "captures already"];
    let mut begun = None;
    wait_for("too many captures", || {
        let mut capture = Program::start(net.verbena(&[&["capture"], words].concat()));
        capture.expect_that("it does not begin", |said| said.contains(begins) || said.contains(refused));
        begun = capture.said().contains(begins).then_some(capture);
        begun.is_some()
    });
    begun.expect("a capture")
}

/// One that writes this file.
fn begin_file(net: &StockNet, file: &Path, words: &[&str]) -> Program {
    begin(net, &[&["-w", file.to_str().unwrap()], words].concat())
}

/// How many packets a capture has taken and lost, by its last words.
fn numbers(said: &str) -> (u64, u64) {
    let last = said.lines().last().expect("the last line");
    let count = |word| number_before(last, word) as u64;
    (count(" packet"), count(" dropped"))
}

/// Waits for a good end. Gives what it said.
fn good(program: Program) -> String {
    program.wait(LIMIT).expect_good()
}

/// Waits for the end of a capture.
fn ended(capture: Program) -> (u64, u64) {
    numbers(&good(capture))
}

/// As Ctrl-C.
fn interrupted(capture: Program) -> (u64, u64) {
    capture.signal(libc::SIGINT);
    ended(capture)
}

/// Waits until the first card has received `bytes` more. By the wall clock: in simulated time whoever asks takes part.
fn flow(net: &StockNet, bytes: u64) {
    let received = || net.register(0, 0, port::RX_BYTES);
    let before = received();
    wait_for("nothing comes", || received() >= before + bytes);
}

/// Starts a server and a client.
fn started(net: &StockNet, program: &str, options: &[&str]) -> [Program; 2] {
    let (server, client) = Pair::new(net, program, options).start().unwrap_or_else(|error| panic!("{error}"));
    [server, client]
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Every frame is whole and right, and later than the one before.
fn check(all: &[Packet]) {
    assert!(all.windows(2).all(|pair| pair[0].time <= pair[1].time), "the clock goes back");
    for (n, packet) in all.iter().enumerate() {
        assert_eq!(packet.len, packet.kept.len());
        let frame = frame::decode(&packet.kept);
        frame.unwrap_or_else(|reason| panic!("frame {}: {reason}: {:x?}", n + 1, packet.kept));
    }
}

/// The packets of a capture that is ended now: it has missed none.
fn whole(capture: Program, file: &Path) -> Vec<Packet> {
    let (taken, dropped) = interrupted(capture);
    let all = packets(file);
    assert_eq!((all.len() as u64, dropped), (taken, 0), "{}", file.display());
    check(&all);
    all
}

fn count(all: &[Packet], opcode: u8) -> usize {
    all.iter().filter(|packet| packet.opcode() == opcode).count()
}

/// Each packet of a whole run, once as it is sent, and once at each of its ends.
#[test]
fn all_packets_of_a_run_are_captured() {
    let _alone = alone();
    for wire in ["fast", "exact"] {
        let (net, holder) = StockNet::held(&["--wire", wire]);
        let files = Files::new();
        let views: [(&str, &[&str]); 4] =
            [("all", &[]), ("left", &["verbena0/1"]), ("right", &["verbena1/1"]), ("none", &["verbena1/2"])];
        let captures = views.map(|(name, words)| (name, begin_file(&net, &files.path(name), words)));
        let arguments = ["-g", "1", "-c", "-n", "300", "-s", "5000"];
        if let Err(error) = Pair::new(&net, "ibv_rc_pingpong", &arguments).run() {
            panic!("{wire}: {error}");
        }
        let seen = captures.map(|(name, capture)| whole(capture, &files.path(name)));
        let [all, left, right, none] = &seen;
        assert!(none.is_empty(), "{wire}: {none:?}");
        // Five packets of 1024 bytes a message, six hundred messages.
        for (opcode, times) in [(0x00, 600), (0x01, 1800), (0x02, 600), (0x11, 600)] {
            assert_eq!(count(all, opcode), times, "{wire}: opcode {opcode:#x}");
        }
        assert!(all.iter().all(|packet| !packet.inbound), "{wire}: all are seen as they are sent");
        let frames = |all: &[Packet]| all.iter().map(|packet| packet.kept.clone()).collect::<Vec<_>>();
        for (at, end) in [(0, left), (1, right)] {
            assert_eq!(frames(end), frames(all), "{wire}: card {at}");
            for packet in end {
                let name = format!("verbena{at}/1");
                assert_eq!((&packet.port, packet.inbound), (&name, packet.way().0 != at), "{wire}");
            }
        }
        net.expect_gone_after(holder);
    }
}

/// Captures begin and end in the middle of a run, which goes on: no message is lost, and none is wrong.
#[test]
fn captures_come_and_go_while_a_program_runs() {
    let _alone = alone();
    for clock in ["wall", "virtual"] {
        let (net, holder) = StockNet::held(&["--clock", clock]);
        let files = Files::new();
        // Each message is compared.
        let arguments = ["-g", "1", "-c", "-s", "5000", "-n", "12000"];
        let (mut rounds, begin) = (0, Instant::now());
        while rounds < 10 {
            assert!(begin.elapsed() < 3 * LIMIT, "{clock}: too few captures: {rounds}");
            let [server, mut client] = started(&net, "ibv_rc_pingpong", &arguments);
            while !client.has_ended() {
                let file = files.path("packets");
                let mut capture = begin_file(&net, &file, &["-c", "200"]);
                let start = Instant::now();
                while !capture.has_ended() && !client.has_ended() {
                    assert!(
                        start.elapsed() < LIMIT,
                        "{clock}: no packets; the client said: {}",
                        client.said()
                    );
                    std::thread::sleep(Duration::from_millis(1));
                }
                let whole = capture.has_ended();
                capture.signal(libc::SIGINT);
                let (taken, _) = ended(capture);
                let all = packets(&file);
                assert_eq!(all.len() as u64, taken, "{clock}: round {rounds}");
                check(&all);
                if whole {
                    assert_eq!(taken, 200, "{clock}: round {rounds}");
                    rounds += 1;
                }
                // For a while nobody looks.
                std::thread::sleep(Duration::from_millis(20));
            }
            [server, client].into_iter().for_each(|program| drop(good(program)));
        }
        net.expect_gone_after(holder);
    }
}

/// With a filter, packets of one connection of several, in both directions.
#[test]
fn a_filter_by_queue_pair_shows_one_connection() {
    let (net, holder) = StockNet::held_alone(&[]);
    let files = Files::new();
    let programs = started(&net, "ib_write_bw", &["-D", "20", "-q", "3", "-s", "3000", "-m", "1024"]);
    let (all, one) = (files.path("all"), files.path("one"));
    ended(begin_file(&net, &all, &["-c", "3000"]));
    let all = packets(&all);
    check(&all);
    let queue_pairs = |all: &[Packet], to| -> BTreeSet<u32> {
        all.iter().filter(|packet| packet.way().1 == to).map(Packet::dest_qpn).collect()
    };
    assert_eq!((queue_pairs(&all, 0).len(), queue_pairs(&all, 1).len()), (3, 3), "three connections");
    let chosen = *queue_pairs(&all, 0).last().unwrap();
    for text in [format!("{chosen}"), format!("{chosen:#x}")] {
        let capture = begin_file(&net, &one, &["-c", "1000", "--qp", &text, "verbena0/1"]);
        assert!(capture.said().contains(&format!("verbena0/1 of net `{}`, QP {chosen:#08x}", net.name())));
        ended(capture);
        let one = packets(&one);
        check(&one);
        assert_eq!(queue_pairs(&one, 0), BTreeSet::from([chosen]));
        assert_eq!(queue_pairs(&one, 1).len(), 1, "its peer: {:?}", queue_pairs(&one, 1));
        // A WRITE of three packets has one answer.
        assert!(count(&one, 0x06) > 100 && count(&one, 0x08) > 100 && count(&one, 0x11) > 100);
    }
    // A number that nobody has.
    let capture = begin_file(&net, &files.path("none"), &["--qp", "0xabcdef"]);
    flow(&net, 1 << 20);
    assert_eq!(interrupted(capture), (0, 0));
    net.expect_gone_after((programs, holder));
}

/// A capturer that is killed, at any moment, harms neither the programs nor other captures.
#[test]
fn a_killed_capturer_harms_nobody() {
    let (net, holder) = StockNet::held_alone(&[]);
    let files = Files::new();
    let witness = begin_file(&net, &files.path("witness"), &["-s", "64"]);
    let start = || started(&net, "ibv_rc_pingpong", &["-g", "1", "-c", "-s", "5000", "-n", "2000"]);
    let mut programs = start();
    // More than there may be at a time: the keeper ends them.
    for round in 0..8u64 {
        if programs[1].has_ended() {
            programs.into_iter().for_each(|program| drop(good(program)));
            programs = start();
        }
        let victim = begin_file(&net, &files.path("victim"), &[]);
        std::thread::sleep(Duration::from_millis(3 * round));
        victim.signal(libc::SIGKILL);
        let killed = victim.wait(LIMIT);
        assert!(killed.how().contains("signal 9"), "{killed}");
    }
    programs.into_iter().for_each(|program| drop(good(program)));
    let (taken, dropped) = interrupted(witness);
    let all = packets(&files.path("witness"));
    assert_eq!(all.len() as u64, taken);
    assert!(taken > 1000 && all.iter().all(|packet| packet.kept.len() <= 64), "{taken} {dropped}");
    net.expect_gone_after(holder);
}

/// The cards do not wait for a reader: what it has no room for is counted.
#[test]
fn a_slow_reader_is_told_what_it_missed() {
    let (net, holder) = StockNet::held_alone(&[]);
    let files = Files::new();
    let [server, client] = started(&net, "ib_write_bw", &["-D", "20", "-s", "65536"]);
    let capture = begin_file(&net, &files.path("packets"), &[]);
    capture.signal(libc::SIGSTOP);
    // Three times what there is room for.
    flow(&net, 100 << 20);
    capture.signal(libc::SIGCONT);
    capture.signal(libc::SIGINT);
    let text = good(capture);
    let (taken, dropped) = numbers(&text);
    assert!(taken > 1000 && dropped > 1000, "{text}");
    assert!(
        text.contains("dropped: they came faster than they were read (-s 128 writes less of each)"),
        "{text}"
    );
    let all = packets(&files.path("packets"));
    check(&all);
    assert_eq!(all.len() as u64, taken);
    net.expect_gone_after((server, client, holder));
}

/// In simulated time a capture costs none, and shows what the record of the whole net does, at the same times.
#[test]
fn simulated_time_is_not_changed_by_a_capture() {
    let _alone = alone();
    for switch in [&[][..], &["--switch", "default"]] {
        let run = |captured: bool| {
            let files = Files::new();
            let record = files.path("record");
            let options = [&["--clock", "virtual"], switch].concat();
            let recorded = ["--pcap", record.to_str().unwrap()];
            let options = if captured { options } else { [options, recorded.to_vec()].concat() };
            let (net, holder) = StockNet::held(&options);
            let captures = captured.then(|| {
                let views: [(&str, &[&str]); 2] = [("all", &[]), ("one", &["verbena0/1"])];
                views.map(|(name, words)| (name, begin_file(&net, &files.path(name), words)))
            });
            let arguments = ["-n", "200", "-s", "3000", "-m", "1024"];
            let said = Pair::new(&net, "ib_write_bw", &arguments).good().client.said;
            let captures =
                captures.map(|captures| captures.map(|(name, capture)| whole(capture, &files.path(name))));
            net.expect_gone_after(holder);
            (said, captures, if captured { Vec::new() } else { records(&record, 65_535) })
        };
        let (said, captures, _) = run(true);
        let (expected, _, record) = run(false);
        let results = |said: &str| said.lines().filter(|line| line.starts_with(" 3000")).collect::<String>();
        assert!(!results(&said).is_empty() && results(&said) == results(&expected), "{said}\n{expected}");
        let [all, one] = captures.expect("it was captured");
        let frames: Vec<_> = all.into_iter().map(|packet| (packet.time, packet.kept)).collect();
        assert!(
            frames.len() > 600 && frames == record.into_iter().map(|r| (r.time, r.kept)).collect::<Vec<_>>()
        );
        // What arrives comes later than it was sent.
        assert_eq!(one.len(), frames.len());
        let sent: Vec<_> = frames.iter().filter(|(_, frame)| frame[10] == 1).collect();
        let came: Vec<_> = one.iter().filter(|packet| packet.inbound).collect();
        assert_eq!(came.len(), sent.len());
        assert!(came.iter().zip(&sent).all(|(came, (time, frame))| came.kept == *frame && came.time > *time));
    }
}

/// In simulated time packets are on their way for a while: those that were when a capture began have no frame yet.
#[test]
fn a_capture_begins_among_packets_on_their_way() {
    let (net, holder) = StockNet::held_alone(&["--clock", "virtual", "--switch", "default"]);
    let files = Files::new();
    let [server, client] = started(&net, "ib_write_bw", &["-n", "100000", "-s", "30000", "-m", "1024"]);
    for round in 0..12 {
        let file = files.path("packets");
        let name = ["verbena0/1", "verbena1/1"][round % 2];
        ended(begin_file(&net, &file, &["-c", "300", name]));
        let all = packets(&file);
        check(&all);
        assert!(all.len() == 300 && all.iter().any(|packet| packet.inbound), "round {round}");
    }
    net.expect_gone_after((server, client, holder));
}

/// The last program of a net takes the net with it, and the capture has the last packet.
#[test]
fn a_capture_ends_with_its_net() {
    let (net, holder) = StockNet::held_alone(&[]);
    let files = Files::new();
    let captures = [begin_file(&net, &files.path("all"), &[]), begin(&net, &["verbena1/1"])];
    Pair::new(&net, "ibv_rc_pingpong", &["-g", "1", "-n", "10", "-s", "100"]).good();
    net.expect_gone_after(holder);
    let [file, lines] = captures.map(good);
    assert_eq!((numbers(&file), numbers(&lines)), ((40, 0), (40, 0)), "{file}{lines}");
    assert_eq!(packets(&files.path("all")).len(), 40);
    assert_eq!(lines.matches("RC Send Only QP=0x").count(), 20, "{lines}");
}

/// Without a file there is a line for each packet.
#[test]
fn packets_are_shown_as_lines() {
    let (net, holder) = StockNet::held_alone(&[]);
    let programs = started(&net, "ib_read_bw", &["-D", "20", "-s", "3000", "-m", "1024"]);
    let said = good(begin(&net, &["-c", "500"]));
    let lines: Vec<_> = said.lines().filter(|line| line.contains(" RRoCE ")).collect();
    assert_eq!(lines.len(), 500, "{said}");
    assert!(lines[0].starts_with("    1 0.000000000   198.18.0."), "{}", lines[0]);
    for (length, what) in [
        (" → 198.18.0.1   RRoCE 74 RC RDMA Read Request QP=0x", " DMALen=3000"),
        (" → 198.18.0.2   RRoCE 1086 RC RDMA Read Response First QP=0x", " ACK MSN="),
        (" → 198.18.0.2   RRoCE 1082 RC RDMA Read Response Middle QP=0x", " PSN="),
        (" → 198.18.0.2   RRoCE 1014 RC RDMA Read Response Last QP=0x", " ACK MSN="),
    ] {
        let found = lines.iter().filter(|line| line.contains(length) && line.contains(what)).count();
        assert!(found > 50, "{length} {what}: {said}");
    }
    // A reader that has enough leaves, and that is no failure.
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", "\"$0\" \"$@\" | head -n 3; echo ${PIPESTATUS[0]}"]);
    let said = good(Program::start(wrapped(shell, &net.verbena(&["capture"]))));
    assert!(said.lines().any(|line| line == "0") && said.contains("    3 0.0"), "{said}");
    net.expect_gone_after((programs, holder));
}

/// Nobody reads what it says, so it cannot end in order; but it ends.
#[test]
fn a_second_interrupt_ends_a_capture_that_waits_for_its_reader() {
    let (net, holder) = StockNet::held_alone(&[]);
    let programs = started(&net, "ib_send_bw", &["-D", "20", "-s", "100"]);
    let mut command = net.verbena(&["capture"]);
    let mut capture = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let out = capture.stdout.take().expect("a pipe");
    let start = Instant::now();
    // The pipe is full when nothing is added, while packets come all the time. Its pages need not be.
    let (mut waiting, mut looks) = (0, 0);
    while waiting < 30_000 || looks < 50 {
        assert!(start.elapsed() < LIMIT, "{waiting} bytes");
        std::thread::sleep(Duration::from_millis(10));
        let before = waiting;
        // SAFETY: writes an integer.
        unsafe { libc::ioctl(out.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
        looks = if waiting == before { looks + 1 } else { 0 };
    }
    while capture.try_wait().expect("our own child").is_none() {
        assert!(start.elapsed() < LIMIT, "it does not end");
        // It is not reaped yet.
        signal(capture.id(), libc::SIGINT);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(capture.wait().expect("its end").signal(), Some(libc::SIGINT));
    net.expect_gone_after((programs, holder));
}

/// As for `verbena capture -w - | wireshark -k -i -`.
#[test]
fn a_file_may_be_standard_output() {
    let (net, holder) = StockNet::held_alone(&[]);
    let files = Files::new();
    let programs = started(&net, "ib_send_bw", &["-D", "20", "-s", "100"]);
    let output = net.verbena(&["capture", "-w", "-", "-c", "77", "-s", "60"]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(files.path("out"), output.stdout).unwrap();
    let all = packets(&files.path("out"));
    assert_eq!(all.len(), 77);
    assert!(all.iter().all(|packet| packet.kept.len() == packet.len.min(60)));
    net.expect_gone_after((programs, holder));
}

/// What comes from another net is shown, too.
#[test]
fn a_port_that_leads_outside_is_captured() {
    let _alone = alone();
    let (files, addresses, nets, captures) = until_answered(|| {
        let files = Files::new();
        let record = files.path("record");
        let addresses = [(); 2].map(|()| loopback_address());
        let nets = [0, 1].map(|side| {
            let port = format!("--port=0=udp:{}", addresses[side]);
            let recorded = ["--pcap-at", "0", "--pcap", record.to_str().unwrap()];
            StockNet::held(&[&[&*port][..], if side == 0 { &recorded[..] } else { &[] }].concat())
        });
        let views: [(&str, &[&str]); 2] = [("all", &[]), ("one", &["verbena0/1"])];
        let captures = views.map(|(name, words)| (name, begin_file(&nets[0].0, &files.path(name), words)));
        let tcp = free_port();
        let number = tcp.to_string();
        let side = |side: usize, host: &[&str]| {
            let arguments = ["-d", "verbena0", "-g", "0", "-c", "-n", "100", "-s", "3000", "-p", &number];
            nets[side].0.start("ibv_rc_pingpong", &[&arguments, host].concat())
        };
        let mut server = side(0, &[]);
        server.expect_listening(tcp);
        let client = side(1, &["localhost"]);
        Both::of([client, server], 2 * LIMIT)?;
        Ok((files, addresses, nets, captures))
    });
    for (name, capture) in captures {
        let all = whole(capture, &files.path(name));
        for inbound in [false, true] {
            let some: Vec<_> = all.iter().filter(|packet| packet.inbound == inbound).cloned().collect();
            assert!(some.iter().all(|packet| packet.port == "verbena0/1"), "{name}");
            let [from, to] = [usize::from(inbound), usize::from(!inbound)].map(|side| addresses[side]);
            let ip = |packet: &Packet| packet.kept[26..34].to_vec();
            assert!(some.iter().all(|packet| ip(packet) == [from.octets(), to.octets()].concat()), "{name}");
            // What was late came again.
            let psns = |opcode| {
                let some = some.iter().filter(|packet| packet.opcode() == opcode);
                some.map(|packet| packet.bth()[9..12].to_vec()).collect::<BTreeSet<_>>().len()
            };
            assert_eq!((psns(0x00), psns(0x02)), (100, 100), "{name}: inbound {inbound}");
        }
    }
    for (net, holder) in nets {
        net.expect_gone_after(holder);
    }
    // The card's view is the same in the record of a net.
    let frames: Vec<_> =
        packets(&files.path("one")).into_iter().map(|packet| (packet.time, packet.kept)).collect();
    let record = records(&files.path("record"), 65_535).into_iter();
    assert!(frames == record.map(|record| (record.time, record.kept)).collect::<Vec<_>>());
}

/// Frames that programs make are captured as they are, and found by the queue pair that sends them.
#[test]
fn whole_frames_are_captured() {
    need("raw_ethernet_bw");
    let macs = ["02:56:42:00:00:00", "02:56:42:00:01:00"];
    let (net, holder) = StockNet::held_alone(&[]);
    let files = Files::new();
    let side = |device: &str, role: &str, own: usize| {
        let line = format!("-F -d {device} {role} -B {} -E {} -n 300 -s 200", macs[own], macs[1 - own]);
        net.start("raw_ethernet_bw", &line.split_whitespace().collect::<Vec<_>>())
    };
    let captures = [begin_file(&net, &files.path("packets"), &["verbena0/1"]), begin(&net, &[])];
    let mut server = side("verbena0", "--server", 0);
    posted(&net, &mut server);
    let client = side("verbena1", "--client", 1);
    [client, server].into_iter().for_each(|program| drop(good(program)));
    captures.iter().for_each(|capture| capture.signal(libc::SIGINT));
    let [_, lines] = captures.map(good);
    let all = packets(&files.path("packets"));
    // perftest's size counts the check sequence, which no frame here has.
    let whole =
        all.iter().filter(|packet| packet.inbound && packet.kept.len() == 196 && packet.way() == (1, 0));
    assert_eq!(whole.count(), 300, "{:?}", all.first());
    assert_eq!(numbers(&lines).0 as usize, all.len());
    let line = format!("{} → {} Ethernet 196 type 0x", macs[1], macs[0]);
    assert_eq!(lines.matches(&line).count(), 300, "{}", lines.lines().nth(1).unwrap_or_default());
    net.expect_gone_after(holder);
}

#[test]
fn what_cannot_be_captured_is_refused() {
    let net = StockNet::new();
    let refused = |words: &[&str], why: &str| net.refuses(&[&["capture"], words].concat(), why);
    let files = Files::new();
    let file = files.path("kept");
    std::fs::write(&file, "of another net").unwrap();
    refused(&["-w", file.to_str().unwrap()], &format!("verbena run --net {} PROGRAM", net.name()));
    assert_eq!(std::fs::read(&file).unwrap(), b"of another net", "a file is written only if there is a net");
    let holder = net.hold(&[]);
    refused(&["verbena2/1"], "the net has 2 cards: there is no verbena2");
    refused(&["verbena0/3"], "a card has the ports 1 to 2: there is no port 3");
    refused(&["mlx5_0/1"], "a port is verbena0/1");
    refused(&["--qp", "0x1000000"], "a QP number is 1 to 16777215");
    refused(&["-c", "0"], "--count");
    refused(&["-s", "100"], "--write");
    refused(&["-w", "/nowhere/at/all"], "-w /nowhere/at/all: No such file");
    refused(&["-w", "/dev/full"], "writing /dev/full: ");
    let captures = [0, 1, 2, 3].map(|_| begin(&net, &[]));
    refused(&[], "the net has 4 captures already: end one of them first");
    captures.into_iter().for_each(|capture| assert_eq!(interrupted(capture), (0, 0)));
    interrupted(begin(&net, &[]));
    net.expect_gone_after(holder);
}
