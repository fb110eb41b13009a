//! What programs see of the cards through stock verbs: C programs of `tests/c`, with both clocks.

use std::time::Duration;

use tests::stock::{compile_c, need, Pair, Program, StockNet};

/// Longer than the programs themselves wait, so that they say for what.
const LIMIT: Duration = Duration::from_secs(60);
const CLOCKS: [&[&str]; 3] = [&[], &["--wire", "exact"], &["--clock", "virtual"]];

/// Runs a program of `tests/c` on each kind of net; what it said on each.
fn on_each_net(name: &str, arguments: &[&str]) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let program = compile_c(name, directory.path());
    CLOCKS
        .iter()
        .map(|options| {
            let net = StockNet::new();
            let ended = Program::start(net.command(options, &program, arguments)).wait(LIMIT);
            assert!(ended.good(), "{name} {options:?}: {}; it said:\n{}", ended.how(), ended.said);
            ended.said
        })
        .collect()
}

/// Four threads post to and poll queues that they share.
#[test]
fn queue_pairs_with_one_cq_keep_their_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let order = compile_c("order", directory.path());
    for (options, messages) in CLOCKS.iter().zip(["300000", "100000", "4000"]) {
        for card in ["verbena1", "verbena0"] {
            let net = StockNet::new();
            let arguments = ["verbena0", card, messages];
            let ended = Program::start(net.command(options, &order, &arguments)).wait(2 * LIMIT);
            assert!(ended.good(), "{options:?} {card}: {}; it said:\n{}", ended.how(), ended.said);
            assert!(ended.said.contains("in order"), "{}", ended.said);
        }
    }
}

#[test]
fn what_every_card_takes_is_taken() {
    for said in on_each_net("accepts", &[]) {
        assert!(said.contains("all taken"), "{said}");
    }
}

#[test]
fn completions_have_the_time_in_both_clocks() {
    let first = on_each_net("stamps", &[]);
    let second = on_each_net("stamps", &[]);
    for said in &first {
        assert!(said.contains("all stamped"), "{said}");
    }
    assert_eq!(first.last(), second.last(), "in simulated time");
}

/// Null regions, regions whose memory is found on demand, and `ibv_rereg_mr`.
#[test]
fn regions_of_all_kinds_do_what_their_man_pages_say() {
    for said in on_each_net("kinds", &[]) {
        assert!(said.contains("all kinds"), "{said}");
    }
}

#[test]
fn windows_of_type_1_open_what_they_were_bound_to() {
    for said in on_each_net("windows", &[]) {
        assert!(said.contains("all bound"), "{said}");
    }
}

/// `ibv_alloc_dm` and what belongs to it.
#[test]
fn memory_of_the_card_is_one_end_of_every_operation() {
    for said in on_each_net("oncard", &[]) {
        assert!(said.contains("all on the card"), "{said}");
    }
}

/// Raw packet queue pairs.
#[test]
fn frames_have_right_checksums_and_no_tags() {
    for said in on_each_net("frames", &[]) {
        assert!(said.contains("all frames"), "{said}");
    }
}

/// Tags, drops and counters of flow rules.
#[test]
fn flow_rules_mark_drop_and_count_frames() {
    for said in on_each_net("actions", &[]) {
        assert!(said.contains("all actions"), "{said}");
    }
}

/// `IBV_WR_TSO` and `ibv_wr_send_tso`.
#[test]
fn tcp_is_cut_into_frames() {
    for said in on_each_net("segments", &[]) {
        assert!(said.contains("all segments"), "{said}");
    }
}

/// Thread domains and parent domains, with memory of the program's for the rings.
#[test]
fn domains_of_all_kinds_hold_what_is_in_them() {
    for said in on_each_net("domains", &[]) {
        assert!(said.contains("all domains"), "{said}");
    }
}

/// Of completion queues in use, of queue pairs in a multicast group, and without a descriptor left.
#[test]
fn who_destroys_loses_no_event_and_waits_for_none_that_was_not_read() {
    for said in on_each_net("destroys", &[]) {
        assert!(said.contains("all destroyed"), "{said}");
    }
}

#[test]
fn events_are_held_back_as_asked_in_both_clocks() {
    let first = on_each_net("moderate", &[]);
    let second = on_each_net("moderate", &[]);
    for said in &first {
        assert!(said.contains("all moderated"), "{said}");
    }
    assert_eq!(first.last(), second.last(), "in simulated time");
}

/// `ibv_rc_pingpong -t` prints the longest, shortest and mean time between two completions.
#[test]
fn a_ping_pong_with_time_stamps_prints_times() {
    let arguments = ["-g", "1", "-n", "300", "-t"];
    for options in CLOCKS {
        let run = || {
            let net = StockNet::new();
            let mut pair = Pair::new(&net, "ibv_rc_pingpong", &arguments);
            pair.launcher = options;
            let said = pair.run().unwrap_or_else(|error| panic!("{}: {error}", pair.line())).client.said;
            let times: Vec<String> =
                said.lines().filter(|line| line.contains("clock cycles")).map(str::to_owned).collect();
            assert!(!times.is_empty() && times.iter().all(|line| number(line) > 0.0), "{said}");
            times
        };
        let times = run();
        if options == ["--clock", "virtual"] {
            assert_eq!(times, run());
        }
    }
}

/// The last number of a line.
fn number(line: &str) -> f64 {
    let digits = |c: char| !(c.is_ascii_digit() || c == '.');
    line.split(digits).rfind(|word| !word.is_empty()).and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// A profile's limits are those of the model, whichever clock it runs by. Only raw packet queue pairs there are none in
/// simulated time.
#[test]
fn limits_do_not_depend_on_the_clock() {
    need("ibv_devinfo");
    let limits = |options: &[&str]| {
        let net = StockNet::new();
        let ended =
            Program::start(net.command(options, "ibv_devinfo", &["-v", "-d", "verbena0"])).wait(LIMIT);
        assert!(ended.good(), "{}: {}", ended.how(), ended.said);
        let lines = ended.said.lines().filter(|line| line.trim_start().starts_with("max_"));
        // Raw packet queue pairs and work queues are there by the wall clock only.
        let differing = ["mtu", "max_raw_ethy_qp", "max_rwq", "max_wq_type_rq"];
        let differs = |line: &&str| differing.iter().any(|name| line.contains(name));
        lines.filter(|line| !differs(line)).map(str::to_owned).collect::<Vec<_>>()
    };
    let wall = limits(&[]);
    assert!(wall.len() > 20, "{wall:?}");
    assert_eq!(wall, limits(&["--clock", "virtual"]));
}

/// Datagrams with a wrong Q_Key are counted where `ibv_query_port` and `ibv_devinfo` show them.
#[test]
fn wrong_q_keys_are_counted() {
    for said in on_each_net("qkeys", &[]) {
        assert!(said.contains("5 violations"), "{said}");
    }
}
