//! Stock programs behind a switch, and options that are refused.

use std::time::Duration;

use tests::stock::{first_row, free_port, need, Pair, Program, StockNet};

const LIMIT: Duration = Duration::from_secs(120);

/// All of verbs goes through the switch: the same programs, with and without frames, with little room in the queues.
#[test]
fn perftest_goes_through_the_switch() {
    let cases = [
        ("ib_write_bw", "-s 65536 -n 100 -b", "pfc", "dcqcn", "fast"),
        ("ib_read_bw", "-s 65536 -n 50 -q 4", "kmin=0,kmax=20KB,pmax=1", "dcqcn-mlx", "exact"),
        ("ib_send_lat", "-c UD -s 512 -n 50", "default", "dcqcn", "fast"),
    ];
    for (program, arguments, switch, cc, wire) in cases {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let launcher = ["--clock", "virtual", "--switch", switch, "--cc", cc, "--wire", wire];
        let net = StockNet::new();
        let pair = Pair { launcher: &launcher, limit: LIMIT, ..Pair::new(&net, program, &arguments) };
        let both = pair.good();
        assert!(both.client.said.contains("#bytes"), "{}", both.report());
    }
}

/// What clients of `ib_write_bw` with a card each say, then their servers, which all have card 0. One script starts them; if
/// `reversed`, those that it starts first come last.
fn incast_of(clients: usize, options: &[&str], reversed: bool) -> Vec<String> {
    need("ib_write_bw");
    let (net, directory) = (StockNet::new(), tempfile::tempdir().expect("a directory"));
    let ports: Vec<u16> = (0..clients).map(|_| free_port()).collect();
    let side = |card: usize, client: usize, who: &str, to: &str| {
        let (port, tenths) = (ports[client], if reversed { 2 * (clients - client) } else { 0 });
        let pause = format!("env -u LD_PRELOAD sleep 0.{tenths}");
        format!("{{ {pause}; exec ib_write_bw -d verbena{card} -p {port} -n 200 {to}; }} > {who}{client} 2>&1 &\n")
    };
    let mut script: String = (0..clients).map(|client| side(0, client, "server", "")).collect();
    script.extend((0..clients).map(|client| side(client + 1, client, "client", "localhost")));
    script += "wait";
    let (cards, programs) = ((clients + 1).to_string(), (2 * clients).to_string());
    let launcher = [&["--clock", "virtual", "--cards", &cards, "--programs", &programs], options].concat();
    let mut command = net.command(&launcher, "sh", &["-c", &script]);
    command.current_dir(directory.path());
    Program::start(command).wait(LIMIT).expect_good();
    let files = ["client", "server"].map(|who| (0..clients).map(move |client| format!("{who}{client}")));
    let read = |file| std::fs::read_to_string(directory.path().join(file)).expect("what it said");
    files.into_iter().flatten().map(read).collect()
}

/// However fast the machine starts each of them.
#[test]
fn programs_that_begin_together_share_a_port_in_the_same_way_each_time() {
    let rate = |said: &String| first_row(said)[3];
    // DCQCN has its ups and downs in so short a time.
    let cases = [(["--switch", "pfc"].as_slice(), 0.02), (&["--switch", "default", "--cc", "dcqcn"], 0.15)];
    for (options, off) in cases {
        let alone = rate(&incast_of(1, options, false)[0]);
        for clients in [2, 4] {
            let said = incast_of(clients, options, false);
            let shares: Vec<f64> = said[..clients].iter().map(|said| rate(said) / alone).collect();
            let fair = 1.0 / clients as f64;
            assert!(shares.iter().all(|share| (share / fair - 1.0).abs() < off), "{options:?}: {shares:?}");
            assert_eq!(incast_of(clients, options, true), said, "{options:?}");
        }
    }
}

/// A program waits for the others no longer than simulated time may stand still.
#[test]
fn who_begins_with_others_says_who_is_missing() {
    let net = StockNet::new();
    let mut command = net.command(&["--clock", "virtual", "--programs", "3"], "ibv_devinfo", &[]);
    command.env("VERBENA_PATIENCE", "2");
    let ended = Program::start(command).wait(LIMIT);
    assert_eq!(ended.status.and_then(|status| status.code()), Some(124), "{ended}");
    assert!(ended.said.contains("1 of 3 programs (--programs) have opened a card: process "), "{ended}");
    assert!(ended.said.contains("(ibv_devinfo)"), "{ended}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let said = |options: &[&str]| {
        let net = StockNet::new();
        let ended = Program::start(net.command(options, "true", &[])).wait(LIMIT);
        assert!(!ended.good(), "{options:?}: {}", ended.said);
        ended.said
    };
    assert!(said(&["--switch", "default"])
        .contains("--switch needs --clock virtual: by the wall clock packets have no rate"));
    assert!(said(&["--programs", "2"]).contains("--programs needs --clock virtual"));
    assert!(said(&["--clock", "virtual", "--cc", "dcqcn"]).contains("add --switch default"));
    assert!(said(&["--switch", "kmin=5"]).contains("kmin=`5`: a number with its unit, as 200KB or 2MiB"));
    assert!(said(&["--cc", "timely"]).contains("`timely`: begins with dcqcn or dcqcn-mlx"));
}
