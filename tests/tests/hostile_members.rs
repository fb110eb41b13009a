//! A member that writes over everything that it can map of its net. There is no isolation between the programs of a
//! net: the others may lose their cards, with an error. They do not crash, and the keeper neither dies nor spins.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tests::stock::{compile_c, cpu_time, free_port, keepers, wait_until_listening, Program, StockNet, LIMIT};

/// How the members of a net fared.
#[derive(Default, Debug)]
struct Fates {
    /// Ended well, or were still at work.
    well: u32,
    /// Ended with an error.
    failed: u32,
}

fn scribbled(rounds: u64, first: u64, options: &[&str]) {
    let scribble = compile_c("scribble");
    let duel = compile_c("duel");
    let mut fates = Fates::default();
    for seed in first..first + rounds {
        let place = ["all", "tables", "world", "lock"][seed as usize % 4];
        let net = StockNet::new();
        // The keeper goes with its last member: this one stays, whatever the clock of its net.
        let start = |program: &Path, arguments: &[&str], patience: &str| {
            let mut command = net.command(options, program, arguments);
            command.env("VERBENA_PATIENCE", patience);
            Program::start(command)
        };
        let mut holder = start(Path::new("sh"), &["-c", "echo held; exec env -u LD_PRELOAD sleep 1000"], "2");
        holder.expect("held", LIMIT);
        let port = free_port().to_string();
        let mut server = start(&duel, &["verbena0", &port, "-", "0"], "2");
        let listens = wait_until_listening(&mut server, port.parse().expect("a port"), LIMIT);
        assert!(listens, "seed {seed}: {}", server.said());
        let client = start(&duel, &["verbena1", &port, "localhost", "0"], "2");
        let keeper = net.keeper();
        std::thread::sleep(Duration::from_millis(150));
        let writes = if place == "lock" { "3" } else { "3000" };
        // In simulated time it needs what it writes over.
        let scribbler = start(&scribble, &["verbena0", &seed.to_string(), writes, place], "50").wait(LIMIT);
        let signal = scribbler.status.and_then(|status| status.signal());
        assert!(signal.is_none() && scribbler.said.starts_with("over "), "seed {seed}: {}", scribbler.said);
        assert!(scribbler.good() || !options.is_empty(), "seed {seed}: {}", scribbler.said);
        // Whatever was done to the cards, they are looked at: by the keeper, as a member has gone.
        std::thread::sleep(Duration::from_millis(600));
        let (before, begin) = (cpu_time(keeper), Instant::now());
        std::thread::sleep(Duration::from_millis(400));
        let (used, took) = (cpu_time(keeper) - before, begin.elapsed());
        assert!(used < took / 2, "seed {seed}, {place}: the keeper used {used:?} of {took:?}");
        assert!(keepers(net.name()).contains(&keeper), "seed {seed}, {place}: the keeper has gone");
        for mut program in [server, client] {
            if !program.has_ended() {
                // Dropped, it is killed.
                fates.well += 1;
                continue;
            }
            let ended = program.wait(LIMIT);
            let crashed = ended.status.and_then(|status| status.signal());
            assert!(crashed.is_none(), "seed {seed}, {place}: a member crashed: {ended}");
            fates.failed += u32::from(!ended.good());
            fates.well += u32::from(ended.good());
        }
        assert!(
            keepers(net.name()).contains(&keeper),
            "seed {seed}, {place}: the keeper has gone with the members"
        );
        net.expect_gone_after(holder);
    }
    println!("{fates:?} of {rounds} rounds");
}

#[test]
fn a_member_that_writes_over_everything_crashes_nobody() {
    scribbled(8, 1, &[]);
}

#[test]
fn a_member_that_writes_over_simulated_time_crashes_nobody() {
    scribbled(4, 1, &["--clock", "virtual"]);
}

#[test]
fn who_sleeps_is_told_that_the_cards_are_lost() {
    let (fatal, scribble) = (compile_c("fatal"), compile_c("scribble"));
    let net = StockNet::new();
    let mut sleeper = net.start(&fatal, &[]);
    sleeper.expect("ready", LIMIT);
    net.run(&scribble, &["verbena0", "1", "0", "condemn"], LIMIT);
    let said = sleeper.wait(LIMIT).expect_good();
    assert_eq!(said.matches("is lost").count(), 2, "{said}");
}

#[test]
#[ignore = "takes twenty minutes"]
fn many_members_that_write_over_everything_crash_nobody() {
    scribbled(400, 1000, &[]);
    scribbled(400, 1000, &["--clock", "virtual"]);
}
