//! Stock programs on two nets whose ports lead to each other, by UDP or by frames: who receives what comes, and what is lost.

use std::time::{Duration, Instant};

use tests::loopback_address;
use tests::stock::{
    first_row, free_port, until_answered, until_calibrated, wait_until_listening, Both, Program, StockNet,
    LIMIT,
};

/// Two nets, each with a port that leads to the other.
struct Two<'a> {
    nets: [StockNet; 2],
    ports: [String; 2],
    /// Further options of both nets.
    options: &'a [&'a str],
}

impl<'a> Two<'a> {
    fn new() -> Two<'static> {
        Two::with(&[])
    }

    fn with(options: &'a [&'a str]) -> Two<'a> {
        let ports = [(); 2].map(|()| format!("0=udp:{}", loopback_address()));
        Two::by(ports, options)
    }

    fn by(ports: [String; 2], options: &'a [&'a str]) -> Two<'a> {
        Two { nets: [StockNet::new(), StockNet::new()], ports, options }
    }

    fn options(&self, side: usize) -> Vec<&str> {
        [&["--port", &self.ports[side]], self.options].concat()
    }

    fn start(&self, side: usize, program: &str, arguments: &[&str]) -> Program {
        Program::start(self.nets[side].command(&self.options(side), program, arguments))
    }

    /// Client and server of a perftest test. What is not acknowledged is sent again eight times, once a second unless the options
    /// say otherwise: on a busy machine either may be off its core for long.
    fn perftest(&self, program: &str, options: &[&str]) -> [Program; 2] {
        self.pair(program, &[&["-x", "0", "-F", "-u", "18"], options].concat())
    }

    /// Client and server of a program.
    fn pair(&self, program: &str, options: &[&str]) -> [Program; 2] {
        let port = free_port();
        let number = port.to_string();
        let common = [&["-d", "verbena0", "-p", &number], options].concat();
        let mut server = self.start(0, program, &common);
        assert!(wait_until_listening(&mut server, port, LIMIT), "{}: {}", server.line(), server.said());
        let client = self.start(1, program, &[&common[..], &["127.0.0.1"]].concat());
        [client, server]
    }

    fn signal_keepers(&self, signal: i32) {
        self.nets.iter().for_each(|net| net.signal_keeper(signal));
    }

    fn expect_gone(&self) {
        self.nets.iter().for_each(StockNet::expect_gone);
    }
}

fn expect_good(programs: [Program; 2]) {
    if let Err(error) = Both::of(programs, 2 * LIMIT) {
        panic!("{error}");
    }
}

/// Waits until both poll: they write what they say at their end.
fn expect_busy(programs: &mut [Program; 2]) {
    programs.iter_mut().for_each(|program| program.expect_work(Duration::from_millis(500), LIMIT));
}

/// Both sides poll their completion queues, and so receive themselves: without a keeper for far longer than a message is sent
/// again (eight times 268 ms). It is back before one of them ends, which does not poll any more then.
#[test]
fn programs_that_poll_need_no_keeper() {
    let two = Two::new();
    let mut both = two.perftest("ib_send_lat", &["-D", "20", "-u", "16"]);
    expect_busy(&mut both);
    two.signal_keepers(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(4));
    two.signal_keepers(libc::SIGCONT);
    expect_good(both);
    two.expect_gone();
}

/// With events the programs sleep, and with a WRITE the server polls no completion queue: the keeper receives.
#[test]
fn programs_that_do_not_poll_are_reached_as_well() {
    let two = Two::new();
    for (program, options) in [
        ("ib_send_lat", &["-e", "-n", "200"][..]),
        ("ib_write_lat", &["-n", "500"]),
        ("ib_write_bw", &["-n", "2000"]),
        ("ib_read_bw", &["-n", "500"]),
    ] {
        expect_good(two.perftest(program, options));
    }
    two.expect_gone();
}

/// Programs die while they receive; others are reached by the same ports after that.
#[test]
fn a_program_that_dies_while_it_receives_is_followed_by_others() {
    let two = Two::new();
    let held = [0, 1].map(|side| two.nets[side].hold(&two.options(side)));
    for _ in 0..5 {
        let mut both = two.perftest("ib_send_bw", &["-D", "60", "-s", "4096"]);
        expect_busy(&mut both);
        for program in both {
            program.signal(libc::SIGKILL);
            assert!(!program.wait(LIMIT).good());
        }
        expect_good(two.perftest("ib_send_lat", &["-n", "100"]));
    }
    drop(held);
    two.expect_gone();
}

/// What leaves meets the same faults as what stays in a net. Both ends check the bytes. (No
/// acknowledgement is lost: who waits for the last one waits in vain when the other has ended.)
#[test]
fn faults_happen_to_what_leaves() {
    for fault in [
        "mark",
        "delay by=2ms every=3",
        "dup every=3",
        "reorder every=5",
        "corrupt data p=0.05",
        "drop data p=0.05",
    ] {
        let options = ["--fault", fault];
        until_answered(|| {
            let two = Two::with(&options);
            let options = ["-g", "0", "-c", "-n", "50", "-s", "9000", "-m", "1024"];
            Both::of(two.pair("ibv_rc_pingpong", &options), 2 * LIMIT)?;
            two.expect_gone();
            Ok(())
        });
    }
}

/// What comes out of order is sent again, and does not crowd out what follows: no test ends with too many retries.
#[test]
fn everything_arrives_in_whatever_order() {
    let two = Two::with(&["--fault", "reorder=0.02"]);
    for program in ["ib_read_bw", "ib_write_bw", "ib_send_bw", "ib_atomic_bw"] {
        expect_good(two.perftest(program, &["-n", "200"]));
    }
    two.expect_gone();
}

/// What is on its way arrives, though its sender and the sender's net have ended: here the last acknowledgement, which the
/// server waits for no longer than 8 times 67 ms.
#[test]
fn what_is_late_leaves_after_its_sender_has_ended() {
    let two = Two::new();
    let port = free_port().to_string();
    let common = ["-d", "verbena0", "-p", &port, "-g", "0", "-n", "3"];
    let mut server = two.start(0, "ibv_rc_pingpong", &common);
    assert!(wait_until_listening(&mut server, port.parse().unwrap(), LIMIT), "{}", server.said());
    let options = [&two.options(1)[..], &["--fault", "delay by=150ms ack"]].concat();
    let arguments = [&common[..], &["127.0.0.1"]].concat();
    let mut client = Program::start(two.nets[1].command(&options, "ibv_rc_pingpong", &arguments));
    // If either fails the other may wait for ever.
    let start = Instant::now();
    while !client.has_ended() && !server.failed() && start.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(2));
    }
    if client.failed() || !client.has_ended() {
        return expect_good([client, server]);
    }
    // A new net of that name is not the one that still sends.
    let options = [&two.options(1)[..], &["--fault", "mark"]].concat();
    let next = Program::start(two.nets[1].command(&options, "true", &[]));
    expect_good([next, server]);
    two.expect_gone();
}

/// Who receives counts the marks of what comes from outside, where Linux counts them, and notifies the sender.
#[test]
fn marks_are_counted_and_notified() {
    let options = ["--fault", "mark data"];
    let two = Two::with(&options);
    let held = [0, 1].map(|side| two.nets[side].hold(&two.options(side)));
    expect_good(two.perftest("ib_write_bw", &["-n", "50", "-s", "9000", "-m", "1024"]));
    let counter = |side: usize, name: &str| -> u64 {
        let file = format!("/sys/class/infiniband/verbena0/ports/1/hw_counters/{name}");
        two.nets[side].run("cat", &[&file], LIMIT).trim().parse().expect("a number")
    };
    // The files are as old as `lifespan` says.
    let until = Instant::now() + LIMIT;
    loop {
        let marked = counter(0, "np_ecn_marked_roce_packets");
        let (sent, handled) = (counter(0, "np_cnp_sent"), counter(1, "rp_cnp_handled"));
        // Not each mark is notified, and nobody sends a notification again.
        if marked >= 450 && (1..marked).contains(&sent) && (1..=sent).contains(&handled) {
            break;
        }
        assert!(
            Instant::now() < until,
            "{marked} of 450 packets marked; {sent} notifications, {handled} came"
        );
    }
    drop(held);
    two.expect_gone();
}

/// Messages are as late as the rule says, or later.
#[test]
fn what_leaves_is_late() {
    let two = Two::with(&["--fault", "delay by=2ms send"]);
    let run = || two.perftest("ib_send_lat", &["-n", "50", "-s", "64"]).map(|side| side.wait(LIMIT));
    let [client, server] = until_calibrated(run, |[client, _]| client.said.clone());
    let least = first_row(&client.said)[2];
    assert!(client.good() && least >= 2000.0, "{least} us:\n{}", client.said);
    assert!(server.good(), "{}", server.said);
    two.expect_gone();
}

/// They all wait for its answer: nobody sends a datagram again.
#[test]
fn many_packets_may_be_the_first_to_a_neighbour() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let [one, other] = [at("one"), at("other")];
    for connection in ["UD", "UC"] {
        let ports = [format!("0=dgram:{one},{other}"), format!("0=dgram:{other},{one}")];
        let two = Two::by(ports, &[]);
        expect_good(two.perftest("ib_send_bw", &["-c", connection, "-s", "1024", "-n", "200", "-t", "200"]));
        two.expect_gone();
    }
}
