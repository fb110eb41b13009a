//! Programs and keepers that are killed, and what is left of them.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use tests::stock::{compile_c, free_port, keepers, verbena, wait_for, Program, StockNet, LIMIT};
use tests::Random;

const ASK: i32 = 10;
const STOP: i32 = 19;
const CONTINUE: i32 = 18;
const TERMINATE: i32 = 15;

/// Stops one of the victims, or none, and continues it, or not.
fn stops(victims: &[&Program], random: &mut Random) {
    let stopped = random.below(2 * victims.len());
    if let Some(victim) = victims.get(stopped) {
        victim.signal(STOP);
        std::thread::sleep(Duration::from_millis(random.below(50)));
        if random.below(2) == 0 {
            victim.signal(CONTINUE);
        }
    }
}

/// Others are killed, stopped and continued at random while a witness works beside them, on the same cards. It ends
/// when one of its connections breaks or an unreliable message is lost.
fn witnessed(kills: u32, seed: u64) {
    let (witness, duel) = (compile_c("witness"), compile_c("duel"));
    let net = StockNet::new();
    let mut random = Random::repeated(seed);
    let mut watching = net.start(&witness, &["verbena0", "verbena1", "strict"]);
    watching.expect("at work", LIMIT);
    let mut killed = 0;
    while killed < kills {
        // Two duels at once: more threads compete for the cards.
        let ports = [free_port(), free_port()];
        let mut victims: Vec<Program> = Vec::new();
        for port in ports {
            victims.push(net.start(&duel, &["verbena0", &port.to_string(), "-", "0"]));
        }
        for (n, port) in ports.into_iter().enumerate() {
            victims[n].expect_listening(port);
            victims.push(net.start(&duel, &["verbena1", &port.to_string(), "localhost", "0"]));
        }
        victims[2..].iter_mut().for_each(|client| client.expect("connected", LIMIT));
        std::thread::sleep(Duration::from_millis(random.below(40)));
        stops(&victims.iter().collect::<Vec<_>>(), &mut random);
        while !victims.is_empty() {
            // Dropped, it is killed.
            drop(victims.swap_remove(random.below(victims.len())));
            std::thread::sleep(Duration::from_millis(random.below(10)));
            killed += 1;
        }
        assert!(!watching.has_ended(), "after {killed} kills: {}", watching.said());
    }
    watching.signal(TERMINATE);
    let ended = watching.wait(LIMIT);
    println!("{killed} kills beside: {}", ended.said.trim());
    ended.expect_good();
    net.expect_gone();
}

/// `tests/check --guest` runs it.
#[test]
#[ignore = "takes a minute"]
fn a_witness_loses_nothing_beside_two_hundred_kills() {
    witnessed(200, 6);
}

#[test]
#[ignore = "takes ten minutes"]
fn a_witness_loses_nothing_beside_ten_thousand_kills() {
    witnessed(10_000, 5);
}

/// A server has one CQ for all its clients, and one SRQ (`srq`) or none (`queues`), one UD queue pair, or one for frames, and one client
/// is killed again and again; another one loses neither a message nor its connection.
fn beside_a_client_that_dies((program, side): (&str, &str), kills: u32, seed: u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = compile_c(program);
    // A socket, or the file that they share.
    let place = directory.path().join("place");
    let place = place.to_str().expect("a path of ASCII");
    let net = StockNet::new();
    let mut random = Random::repeated(seed);
    let start = |side: &str, device: &str| {
        let mut program = net.start(&hub, &[side, device, place]);
        program.expect("at work", LIMIT);
        program
    };
    let mut server = start(side, "verbena0");
    let mut witness = start("client", "verbena1");
    let mut killed = 0;
    let over = |program: &mut Program| program.has_ended().then(|| program.said());
    while killed < kills {
        // On the witness's card, or on the server's.
        let victim = start("client", random.of(&["verbena0", "verbena1"]));
        std::thread::sleep(Duration::from_millis(random.below(20)));
        stops(&[&victim], &mut random);
        drop(victim);
        killed += 1;
        let over = over(&mut server).or_else(|| over(&mut witness));
        assert!(over.is_none(), "after {killed} kills: {}{}", server.said(), witness.said());
    }
    witness.signal(TERMINATE);
    let [witness, server] = [witness, server].map(|program| program.wait(LIMIT));
    println!("{killed} kills beside: {}", witness.said.trim());
    witness.expect_good();
    server.expect_good();
    net.expect_gone();
}

#[test]
#[ignore = "takes a minute"]
fn a_client_of_the_same_cq_and_srq_loses_nothing_beside_two_hundred_kills() {
    beside_a_client_that_dies(("hub", "srq"), 200, 7);
}

#[test]
fn a_client_of_the_same_cq_loses_nothing_beside_kills() {
    beside_a_client_that_dies(("hub", "queues"), 15, 11);
}

#[test]
#[ignore = "takes a minute"]
fn a_client_of_the_same_cq_loses_nothing_beside_two_hundred_kills() {
    beside_a_client_that_dies(("hub", "queues"), 200, 12);
}

#[test]
fn a_client_of_the_same_ud_queue_pair_loses_nothing_beside_kills() {
    beside_a_client_that_dies(("datagrams", "hub"), 15, 8);
}

#[test]
#[ignore = "takes a minute"]
fn a_client_of_the_same_ud_queue_pair_loses_nothing_beside_two_hundred_kills() {
    beside_a_client_that_dies(("datagrams", "hub"), 200, 9);
}

#[test]
fn a_sender_of_frames_loses_nothing_beside_kills() {
    beside_a_client_that_dies(("framed", "hub"), 15, 13);
}

#[test]
#[ignore = "takes a minute"]
fn a_sender_of_frames_loses_nothing_beside_two_hundred_kills() {
    beside_a_client_that_dies(("framed", "hub"), 200, 14);
}

/// Pairs of UD queue pairs have nothing to do with each other: where one thread is stopped, in the middle of a datagram as
/// often as not, the datagrams of others come and go.
#[test]
fn datagrams_do_not_wait_for_those_of_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = compile_c("datagrams");
    let net = StockNet::new();
    let mut random = Random::repeated(10);
    let mut pairs = ["a", "b"].map(|name| {
        let socket = directory.path().join(name);
        ["hub", "client"].map(|side| {
            let device = if side == "hub" { "verbena0" } else { "verbena1" };
            let mut program = net.start(&program, &[side, device, socket.to_str().expect("a path of ASCII")]);
            program.expect("at work", LIMIT);
            program
        })
    });
    let [[_, other], [_, witness]] = &mut pairs;
    for look in 1..=20 {
        std::thread::sleep(Duration::from_micros(random.below(3_000)));
        other.signal(STOP);
        witness.signal(ASK);
        witness.expect(&format!("look {look}\n"), LIMIT);
        other.signal(CONTINUE);
    }
    for [hub, client] in pairs {
        client.signal(TERMINATE);
        for program in [client, hub] {
            program.wait(LIMIT).expect_good();
        }
    }
    net.expect_gone();
}

/// A keeper that is killed: the programs go on, nobody new can join them, and what it leaves is swept up by the next
/// keeper, of whatever name.
#[test]
fn a_killed_keeper_leaves_nothing_for_long() {
    let witness = compile_c("witness");
    let net = StockNet::new();
    let mut working = net.start(&witness, &["verbena0", "verbena1"]);
    working.expect("at work", LIMIT);
    net.signal_keeper(libc::SIGKILL);
    wait_for("the keeper is still there", || keepers(net.name()).is_empty());
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
    working.wait(LIMIT).expect_good();
}
