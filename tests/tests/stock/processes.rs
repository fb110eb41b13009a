//! Processes that die, fork, have threads, share a net, or do nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use model::segment::Segment;
use tests::stock::{
    alone, compile_c, cpu_time, free_port, keepers, need, wait_for, wrapped, Ended, Pair, Program, StockNet,
};
use tests::Random;

/// Longer than the programs themselves wait, so that they say for what.
const LIMIT: Duration = Duration::from_secs(60);

/// Two duels: server on verbena0, client on `card`. For ever when `seconds` is 0.
fn duel(net: &StockNet, program: &Path, card: &str, seconds: &str) -> [Program; 2] {
    let port = free_port();
    let text = port.to_string();
    let mut server = net.start(program, &["verbena0", &text, "-", seconds]);
    server.expect_listening(port);
    let client = net.start(program, &[card, &text, "localhost", seconds]);
    [server, client]
}

/// Bytes of memory that the segment of the net occupies, and the file's identity.
fn segment(net: &StockNet) -> (u64, (u64, u64)) {
    let keeper = net.keeper();
    for entry in fs::read_dir(format!("/proc/{keeper}/fd")).expect("the keeper's descriptors").flatten() {
        let is_segment =
            fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:"));
        if let (true, Ok(meta)) = (is_segment, fs::metadata(entry.path())) {
            return (meta.blocks() * 512, (meta.dev(), meta.ino()));
        }
    }
    panic!("keeper {keeper} has no memfd");
}

/// What `duel` says when its peer is lost: first status, flushed requests, milliseconds.
fn lost(ended: &Ended) -> Option<(u32, u32, f64)> {
    let words = ended.said.split("peer lost: status ").nth(1)?;
    let mut numbers =
        words.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|word| !word.is_empty());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

const RETRY_EXCEEDED: u32 = 12;
const FLUSHED: u32 = 5;

/// kill -9 of either side at any moment: the other sees retry-exceeded or flush in time, and a
/// restart on the same net just works.
fn kill_rounds(card: &str, seed: u64) {
    // 4.096 us * 2^10, five tries; the specification lets a card take up to four times as long.
    let time_out = 4.096e-3 * f64::from(1 << 10) * 5.0 * 4.0;
    // A loaded machine may not run the keeper for a while. (How long the survivor was not run is left out.)
    let slack = 500.0;
    let program = compile_c("duel");
    let (net, _holder) = StockNet::held_alone(&[]);
    let mut random = Random::repeated(seed);
    for round in 0..10 {
        let mut sides = duel(&net, &program, card, "0");
        for side in &mut sides {
            side.expect("connected", LIMIT);
        }
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        let victim = random.below(2) as usize;
        let [server, client] = sides;
        let (victim, survivor) = if victim == 0 { (server, client) } else { (client, server) };
        victim.signal(libc::SIGKILL);
        let killed = Instant::now();
        let ended = survivor.wait(LIMIT);
        let (line, waited) = (victim.line().to_owned(), killed.elapsed());
        drop(victim);
        let Some((status, flushed, took)) = lost(&ended) else {
            panic!("round {round}, killed `{line}`: the other: {ended}");
        };
        println!("round {round}: status {status}, {flushed} flushed, {took:.1} ms after the last success, ended after {waited:?}");
        assert!(status == RETRY_EXCEEDED || status == FLUSHED, "round {round}: status {status}");
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3), "round {round}: {}", ended.how());
        assert!(waited < Duration::from_secs(10), "round {round}: the survivor ended after {waited:?}");
        assert!(took < time_out + slack, "round {round}: noticed after {took} ms, time-out is {time_out} ms");
    }
    // The same net still works, and the dead have left no memory behind.
    let mut used = Vec::new();
    for _ in 0..2 {
        for side in duel(&net, &program, card, "0.2") {
            side.wait(LIMIT).expect_good();
        }
        used.push(segment(&net).0);
    }
    println!("segment: {used:?} bytes");
}

#[test]
fn a_killed_peer_is_noticed_on_two_cards() {
    kill_rounds("verbena1", 0x5eed_0001);
}

#[test]
fn a_killed_peer_is_noticed_on_one_card() {
    kill_rounds("verbena0", 0x5eed_0002);
}

/// Killed at any moment from the first instruction on: opening, registering, connecting.
#[test]
fn a_kill_while_starting_harms_nobody() {
    let program = compile_c("duel");
    let (net, _holder) = StockNet::held_alone(&[]);
    let before = segment(&net).0;
    let mut random = Random::repeated(0x5eed_0003);
    for round in 0..20 {
        let port = free_port().to_string();
        let victims = [
            net.start(&program, &["verbena0", &port, "-", "0"]),
            net.start(&program, &["verbena1", &port, "localhost", "0"]),
            net.start("ibv_devinfo", &["-v"]),
        ];
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        drop(victims);
        let said = net.run("ibv_devinfo", &["-d", "verbena0"], LIMIT);
        assert!(said.contains("PORT_ACTIVE"), "round {round}: {said}");
    }
    for side in duel(&net, &program, "verbena1", "0.1") {
        side.wait(LIMIT).expect_good();
    }
    settle(&net, before);
}

/// The segment holds no more than before, within what its tables may keep.
fn settle(net: &StockNet, before: u64) {
    const TABLES: u64 = 8 << 20;
    let now = || segment(net).0;
    wait_for(|| format!("the segment grew from {before} to {} bytes", now()), || now() <= before + TABLES);
}

/// Group and session of a process.
fn group_and_session(pid: u32) -> (u32, u32) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let number = |n| rest.split(' ').nth(n).and_then(|field| field.parse().ok()).expect("a number");
    (number(2), number(3))
}

/// A terminal's signals do not reach the keeper; and the scheduler, which gives each session its share, runs it as it runs
/// the program that waits for it.
#[test]
fn the_keeper_has_a_group_in_the_session_of_who_started_it() {
    let (net, holder) = StockNet::held_alone(&[]);
    let (group, session) = group_and_session(holder.pid());
    let keepers = keepers(net.name());
    assert_eq!(keepers.len(), 1);
    let (its_group, its_session) = group_and_session(keepers[0]);
    assert!(its_group != group && its_session == session, "{its_group} {group} {its_session} {session}");
    net.expect_gone_after(holder);
}

/// Memory that a killed process had registered goes back.
#[test]
fn a_killed_process_leaves_no_memory_behind() {
    let program = compile_c("idle");
    let (net, _holder) = StockNet::held_alone(&[]);
    let before = segment(&net).0;
    for _ in 0..5 {
        let mut idle = net.start(&program, &["event"]);
        idle.expect("ready", LIMIT);
        idle.signal(libc::SIGKILL);
        idle.wait(LIMIT);
        settle(&net, before);
    }
}

/// Stock perftest: one side is killed, the other ends by itself with an error.
#[test]
fn perftest_survives_nothing_but_ends() {
    let net = StockNet::alone();
    let mut random = Random::repeated(0x5eed_0004);
    // In a one-way test only the sender notices (as with hardware); with -b both do.
    let cases =
        [("ib_write_bw", "", 0), ("ib_send_bw", "-b", 0), ("ib_send_bw", "-b", 1), ("ib_read_bw", "", 0)];
    for (program, option, victim) in cases {
        let arguments: Vec<&str> =
            ["-F", "-D", "20", "-u", "10"].into_iter().chain(option.split_whitespace()).collect();
        let pair = Pair::new(&net, program, &arguments);
        let (server, mut client) = pair.start().expect("both start");
        // It keeps what it prints until its end; but once it works it uses CPU time.
        client.expect_work(Duration::from_millis(500 + random.below(300)), LIMIT);
        let (dead, other) = if victim == 0 { (server, client) } else { (client, server) };
        dead.signal(libc::SIGKILL);
        let ended = other.wait(LIMIT);
        let noticed = ended.said.contains("error") && ended.status.is_some_and(|status| !status.success());
        assert!(noticed, "{}, victim {victim}: {ended}", pair.line());
    }
    let arguments = ["-F", "-n", "100"];
    let pair = Pair::new(&net, "ib_send_bw", &arguments);
    pair.run().unwrap_or_else(|error| panic!("{} after the kills: {error}", pair.line()));
    net.expect_gone();
}

/// After the last process nothing is left: no keeper, no socket, no shared memory.
#[test]
fn nothing_is_left() {
    let _alone = alone();
    let program = compile_c("duel");
    for kill in [false, true] {
        let net = StockNet::new();
        let mut sides = duel(&net, &program, "verbena1", if kill { "0" } else { "0.1" });
        sides[0].expect("connected", LIMIT);
        sides[1].expect("connected", LIMIT);
        let (_, identity) = segment(&net);
        assert!(net.socket().exists());
        if kill {
            // All at once, as when a container is stopped.
            sides.iter().for_each(|side| side.signal(libc::SIGKILL));
        }
        for side in sides {
            let ended = side.wait(LIMIT);
            assert!(kill || ended.good(), "{ended}");
        }
        net.expect_gone();
        let holders = holders(identity);
        assert!(holders.is_empty(), "the segment is still open in {holders:?}");
    }
}

/// Descriptors of any process that name this file.
fn holders(identity: (u64, u64)) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let descriptors =
        processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok()).flatten().flatten();
    let same = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == identity);
    descriptors.map(|entry| entry.path()).filter(same).collect()
}

/// A keeper that is killed takes its net with it; the next program starts a new one.
#[test]
fn a_killed_keeper_is_replaced() {
    let net = StockNet::alone();
    let program = compile_c("duel");
    let mut sides = duel(&net, &program, "verbena1", "0");
    for side in &mut sides {
        side.expect("connected", LIMIT);
    }
    net.signal_keeper(libc::SIGKILL);
    std::thread::sleep(Duration::from_millis(50));
    drop(sides);
    for side in duel(&net, &program, "verbena1", "0.1") {
        side.wait(LIMIT).expect_good();
    }
    net.expect_gone();
    assert!(keepers(net.name()).is_empty());
}

/// The time-outs of a program that polls are its own work: a keeper that gets no processor delays none of them.
#[test]
fn who_polls_does_not_wait_for_the_keeper() {
    let program = compile_c("rarely");
    let net = StockNet::new();
    let mut rarely = net.start(&program, &[]);
    rarely.expect("ready", LIMIT);
    net.signal_keeper(libc::SIGSTOP);
    rarely.signal(libc::SIGUSR1);
    let ended = rarely.wait(LIMIT);
    net.signal_keeper(libc::SIGCONT);
    ended.expect_good();
    net.expect_gone();
}

/// The same addresses on another net are other cards.
#[test]
fn nets_are_apart() {
    let _alone = alone();
    let (net, other) = (StockNet::new(), StockNet::new());
    let program = compile_c("duel");
    let port = free_port();
    let text = port.to_string();
    // One network, so that they meet by TCP.
    let start = |net: &StockNet, arguments: &[&str]| {
        Program::start(net.command(&["--network", "host"], &program, arguments))
    };
    let mut server = start(&net, &["verbena0", &text, "-", "0"]);
    server.expect_listening(port);
    let client = start(&other, &["verbena1", &text, "localhost", "0"]);
    let ended = client.wait(LIMIT);
    assert!(matches!(lost(&ended), Some((RETRY_EXCEEDED, 15, _))), "{ended}");
}

#[test]
fn forking_programs_do_not_break() {
    let net = StockNet::alone();
    let program = compile_c("forks");
    for way in ["fork", "vfork", "exec", "spawn", "system"] {
        for card in ["verbena1", "verbena0"] {
            net.run(&program, &[way, card], LIMIT);
            net.run(&program, &[way, card, "init"], LIMIT);
        }
    }
    net.expect_gone();
}

/// The death of a process is noticed although a child that it forked lives on.
#[test]
fn a_child_does_not_keep_its_dead_parent_alive() {
    let net = StockNet::alone();
    let program = compile_c("duel");
    let port = free_port();
    let text = port.to_string();
    let mut server = net.start(&program, &["verbena0", &text, "-", "0", "child"]);
    server.expect_listening(port);
    let mut client = net.start(&program, &["verbena1", &text, "localhost", "0"]);
    client.expect("connected", LIMIT);
    server.signal(libc::SIGKILL);
    let ended = client.wait(LIMIT);
    assert!(lost(&ended).is_some(), "{ended}");
}

#[test]
fn threads_share_and_do_not_share_queue_pairs() {
    let net = StockNet::alone();
    let program = compile_c("threads");
    for way in ["shared", "separate"] {
        for card in ["verbena1", "verbena0"] {
            let said = net.run(&program, &[way, card], Duration::from_secs(60));
            println!("{way} {card}: {}", said.trim());
        }
    }
}

/// More hold the net than the keeper may have descriptors: it neither spins nor ends, and goes on when one is free.
#[test]
fn a_keeper_without_descriptors_waits() {
    need("prlimit");
    let net = StockNet::alone();
    let mut prlimit = Command::new("prlimit");
    prlimit.arg("--nofile=200:");
    let _holder = Program::start(wrapped(prlimit, &net.command(&[], "sleep", &["3600"])));
    let mut held = Vec::new();
    wait_for("the net does not start", || {
        held.extend(Segment::hold(&net.socket()).ok());
        !held.is_empty()
    });
    let keeper = net.keeper();
    let limits = fs::read_to_string(format!("/proc/{keeper}/limits")).expect("the keeper's limits");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit of files");
    assert!(!files.contains(" 200 "), "the keeper may have more: {files}");

    let few = ["--nofile=64:64", "--pid", &keeper.to_string()];
    assert!(Command::new("prlimit").args(few).status().expect("prlimit").success());
    let before = cpu_time(keeper);
    // The one for which there is no descriptor gives up.
    let error = loop {
        match Segment::hold(&net.socket()) {
            Ok(hold) => held.push(hold),
            Err(error) => break error.to_string(),
        }
        assert!(held.len() < 64, "more than the keeper may have");
    };
    let used = cpu_time(keeper) - before;
    assert!(error.contains("waiting for the keeper") && used < LIMIT / 120, "{error}; it used {used:?}");
    held.truncate(held.len() / 2);
    net.run("true", &[], LIMIT);
}

/// A process whose card has no work uses no CPU, and neither does the keeper.
#[test]
fn idle_costs_nothing() {
    let _alone = alone();
    let program = compile_c("idle");
    for way in ["event", "away", "unconnected"] {
        let net = StockNet::new();
        let mut idle = net.start(&program, &[way]);
        idle.expect("ready", LIMIT);
        std::thread::sleep(Duration::from_millis(200));
        let pids = [idle.pid(), net.keeper()];
        // What still had to be done, as late as the machine let it, is done once.
        let at_rest = (0..3).any(|_| {
            let before = pids.map(cpu_time);
            std::thread::sleep(Duration::from_secs(2));
            let used = [0, 1].map(|which| cpu_time(pids[which]) - before[which]);
            println!("{way}: the program and the keeper used {used:?} in 2 s");
            used.iter().all(|&used| used < Duration::from_millis(1))
        });
        assert!(at_rest, "{way}: the idle program and its keeper always use CPU time");
    }
}
