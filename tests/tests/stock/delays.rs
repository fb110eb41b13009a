//! Frames that a fault delays by the wall clock, with stock programs.
//!
//! A frame never arrives before its time; how much later it does depends on the machine, and is not looked at.

use tests::stock::{first_row, Pair, StockNet};

fn run(fault: &str, program: &str, arguments: &[&str]) -> String {
    let net = StockNet::new();
    let launcher = ["--fault", fault];
    let pair = Pair { launcher: &launcher, ..Pair::new(&net, program, arguments) };
    let both = pair.good();
    net.expect_gone();
    both.client.said
}

/// Half of the way there and back is at least what each message is late: bytes, iterations, least time, ...
#[test]
fn a_message_takes_at_least_its_delay() {
    let said = run("delay by=2ms send", "ib_send_lat", &["-n", "50", "-s", "64", "-F"]);
    let least = first_row(&said)[2];
    assert!(least >= 2000.0, "{least} us:\n{said}");
    // A request and its response: a READ takes both.
    let said = run("delay by=3ms", "ib_read_lat", &["-n", "30", "-s", "64", "-F"]);
    let least = first_row(&said)[2];
    assert!(least >= 6000.0, "{least} us:\n{said}");
}

/// The data is what was sent, however late the parts of a message are, with others lost, twice and damaged.
#[test]
fn late_packets_are_whole() {
    let said = run(
        "delay by=1ms every=3, drop nth=20, dup every=7, corrupt nth=31",
        "ibv_rc_pingpong",
        &["-g", "1", "-c", "-n", "40", "-s", "9000"],
    );
    assert!(said.contains("40 iters"), "{said}");
}

/// More frames than may wait at a time: those without a place are lost, and sent again.
#[test]
fn a_stream_of_late_packets_ends() {
    run("delay data by=500us", "ib_write_bw", &["-n", "200", "-s", "65536", "-m", "1024", "-F"]);
}
