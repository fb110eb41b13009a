//! What programs see of the cards through stock verbs: C programs of `tests/c`, with both clocks.

use std::time::Duration;

use tests::stock::{compile_c, need, Pair, Program, StockNet};

/// Longer than the programs themselves wait, so that they say for what.
const LIMIT: Duration = Duration::from_secs(60);
const CLOCKS: [&[&str]; 3] = [&[], &["--wire", "exact"], &["--clock", "virtual"]];

/// Runs a program of `tests/c` on each kind of net. It ends well and says `text`; all that it said on each.
fn on_each_net(name: &str, text: &str) -> Vec<String> {
    let program = compile_c(name);
    let run = |options: &&[&str]| {
        let net = StockNet::new();
        Program::start(net.command(options, &program, &[])).wait(LIMIT).expect_good_saying(text)
    };
    CLOCKS.iter().map(run).collect()
}

/// Four threads post to and poll queues that they share.
#[test]
fn queue_pairs_with_one_cq_keep_their_order() {
    let order = compile_c("order");
    for (options, messages) in CLOCKS.iter().zip(["300000", "100000", "4000"]) {
        for card in ["verbena1", "verbena0"] {
            let net = StockNet::new();
            let arguments = ["verbena0", card, messages];
            let ended = Program::start(net.command(options, &order, &arguments)).wait(2 * LIMIT);
            ended.expect_good_saying("in order");
        }
    }
}

#[test]
fn what_every_card_takes_is_taken() {
    on_each_net("accepts", "all taken");
}

#[test]
fn completions_have_the_time_in_both_clocks() {
    let [first, second] = [0, 1].map(|_| on_each_net("stamps", "all stamped"));
    assert_eq!(first.last(), second.last(), "in simulated time");
}

/// Null regions, regions whose memory is found on demand, and `ibv_rereg_mr`.
#[test]
fn regions_of_all_kinds_do_what_their_man_pages_say() {
    on_each_net("kinds", "all kinds");
}

#[test]
fn windows_of_type_1_open_what_they_were_bound_to() {
    on_each_net("windows", "all bound");
}

/// `ibv_alloc_dm` and what belongs to it.
#[test]
fn memory_of_the_card_is_one_end_of_every_operation() {
    on_each_net("oncard", "all on the card");
}

/// Raw packet queue pairs.
#[test]
fn frames_have_right_checksums_and_no_tags() {
    on_each_net("frames", "all frames");
}

/// Tags, drops and counters of flow rules.
#[test]
fn flow_rules_mark_drop_and_count_frames() {
    on_each_net("actions", "all actions");
}

/// `IBV_WR_TSO` and `ibv_wr_send_tso`.
#[test]
fn tcp_is_cut_into_frames() {
    on_each_net("segments", "all segments");
}

/// `ibv_modify_qp_rate_limit`, and `ibv_modify_qp` with `IBV_QP_RATE_LIMIT`.
#[test]
fn a_rate_limit_is_kept_while_the_program_sleeps() {
    on_each_net("pacing", "all paced");
}

/// Thread domains and parent domains, with memory of the program's for the rings.
#[test]
fn domains_of_all_kinds_hold_what_is_in_them() {
    on_each_net("domains", "all domains");
}

/// Of completion queues in use, of queue pairs in a multicast group, and without a descriptor left.
#[test]
fn who_destroys_loses_no_event_and_waits_for_none_that_was_not_read() {
    on_each_net("destroys", "all destroyed");
}

/// More often than the card has functions and queue pairs; what the program still has pointers to refuses.
#[test]
fn what_is_not_destroyed_ends_with_its_device() {
    on_each_net("closes", "all closed");
}

#[test]
fn events_are_held_back_as_asked_in_both_clocks() {
    let [first, second] = [0, 1].map(|_| on_each_net("moderate", "all moderated"));
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
            let said = pair.good().client.said;
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
        let devinfo = net.command(options, "ibv_devinfo", &["-v", "-d", "verbena0"]);
        let said = Program::start(devinfo).wait(LIMIT).expect_good();
        let lines = said.lines().filter(|line| line.trim_start().starts_with("max_"));
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
    on_each_net("qkeys", "5 violations");
}
