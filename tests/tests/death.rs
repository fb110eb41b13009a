//! Programs and keepers that are killed, and what is left of them.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use tests::stock::{compile_c, free_port, keepers, verbena, wait_until_listening, StockNet};
use tests::Random;

const LIMIT: Duration = Duration::from_secs(60);

const STOP: i32 = 19;
const CONTINUE: i32 = 18;
const TERMINATE: i32 = 15;

/// Others are killed, stopped and continued at random while a witness works beside them.
fn witnessed(kills: u32, seed: u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let (witness, duel) = (compile_c("witness", directory.path()), compile_c("duel", directory.path()));
    let net = StockNet::new();
    let mut random = Random::repeated(seed);
    let mut watching = net.start(&witness, &["verbena0", "verbena1"]);
    watching.expect("at work", LIMIT);
    let mut killed = 0;
    while killed < kills {
        let port = free_port();
        let mut server = net.start(&duel, &["verbena0", &port.to_string(), "-", "0"]);
        assert!(wait_until_listening(&mut server, port, LIMIT), "{}", server.said());
        let mut client = net.start(&duel, &["verbena1", &port.to_string(), "localhost", "0"]);
        client.expect("connected", LIMIT);
        std::thread::sleep(Duration::from_millis(random.below(40)));
        let victims = [&server, &client];
        let stopped = random.below(4);
        if let Some(victim) = victims.get(stopped as usize) {
            victim.signal(STOP);
            std::thread::sleep(Duration::from_millis(random.below(50)));
            if random.below(2) == 0 {
                victim.signal(CONTINUE);
            }
        }
        // Dropped, they are killed.
        if random.below(2) == 0 {
            drop(server);
            std::thread::sleep(Duration::from_millis(random.below(10)));
            drop(client);
        } else {
            drop(client);
            std::thread::sleep(Duration::from_millis(random.below(10)));
            drop(server);
        }
        killed += 2;
        assert!(!watching.has_ended(), "after {killed} kills: {}", watching.said());
    }
    watching.signal(TERMINATE);
    let ended = watching.wait(LIMIT);
    println!("{killed} kills beside: {}", ended.said.trim());
    assert!(ended.good(), "{}: {}", ended.how(), ended.said);
    net.expect_gone();
}

/// `tests/check --guest` runs it.
#[test]
#[ignore = "takes a minute"]
fn a_witness_sees_nothing_wrong_beside_a_hundred_kills() {
    witnessed(100, 4);
}

#[test]
#[ignore = "takes half an hour"]
fn a_witness_sees_nothing_wrong_beside_ten_thousand_kills() {
    witnessed(10_000, 5);
}

/// A keeper that is killed: the programs go on, nobody new can join them, and what it leaves is swept up by the next
/// keeper, of whatever name.
#[test]
fn a_killed_keeper_leaves_nothing_for_long() {
    let directory = tempfile::tempdir().expect("a directory");
    let witness = compile_c("witness", directory.path());
    let net = StockNet::new();
    let mut working = net.start(&witness, &["verbena0", "verbena1"]);
    working.expect("at work", LIMIT);
    let keeper = net.keeper();
    let status = Command::new("kill").args(["-9", &keeper.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()));
    let until = Instant::now() + LIMIT;
    while !keepers(net.name()).is_empty() {
        assert!(Instant::now() < until, "the keeper is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (socket, note) = (net.socket(), net.socket().with_extension("json"));
    assert!(socket.exists() && note.exists());
    // The program works on with what it has mapped.
    std::thread::sleep(Duration::from_millis(200));
    assert!(!working.has_ended(), "{}", working.said());
    // A net of another name sweeps up.
    let runtime = socket.parent().and_then(|nets| nets.parent()).expect("the runtime directory");
    let mut other = Command::new(verbena());
    other.args(["run", "--quiet", "--net", "another", "--", "true"]).env("XDG_RUNTIME_DIR", runtime);
    let output = other.process_group(0).output().expect("verbena runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!socket.exists() && !note.exists(), "left behind");
    // A net of that name is a new one.
    net.run("true", &[], LIMIT);
    working.signal(TERMINATE);
    let ended = working.wait(LIMIT);
    assert!(ended.good(), "{}: {}", ended.how(), ended.said);
}
