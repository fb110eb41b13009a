//! Ordinary programs in simulated time: they wait for nothing to come, poll with deadlines of their own, use clocks,
//! timers, threads and event loops. None hangs, and each says the same in every run.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use tests::stock::{compile_c, free_port, need, Both, Compiled, Ended, Program, StockNet, LIMIT};

const VIRTUAL: &[&str] = &["--clock", "virtual"];

/// `tests/c/ordinary.c`, compiled once.
fn ordinary() -> &'static Path {
    static PROGRAM: OnceLock<Compiled> = OnceLock::new();
    PROGRAM.get_or_init(|| compile_c("ordinary"))
}

fn run(program: &Path, arguments: &[&str]) -> String {
    let net = StockNet::new();
    let said = Program::start(net.command(VIRTUAL, program, arguments)).wait(LIMIT).expect_good_saying("OK");
    net.expect_gone();
    said
}

/// Each of them twice.
macro_rules! programs {
    ($($(#[$doc:meta])* $test:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $test() {
            assert_eq!(run(ordinary(), &[$what]), run(ordinary(), &[$what]));
        }
    )*};
}

programs! {
    polls_with_a_deadline_by_clock_gettime = "clock";
    polls_with_a_deadline_by_rdtsc = "tsc";
    polls_with_a_deadline_by_gettimeofday = "gettimeofday";
    polls_with_a_deadline_by_time = "time";
    looks_at_the_clock_now_and_then = "now-and-then";
    counts_its_polls = "counted";
    drains_an_empty_cq = "drained";
    polls_a_cq_and_a_socket = "cq-and-socket";
    polls_two_cqs = "two-cqs";
    an_event_loop_by_epoll = "epoll";
    select_with_a_time_out = "select";
    conditions_with_time_outs = "condition";
    signals_and_timers = "timers";
    timers_that_are_descriptors = "timerfd";
    signals_that_are_awaited = "sigwait";
    signals_that_never_come_interrupt_nothing = "uninterrupted";
    clocks_never_go_back = "monotonic";
    a_child_with_a_card_of_its_own = "fork";
    a_resized_cq_keeps_what_is_on_its_way = "resize";
    events_that_went_with_their_object = "forgotten";
}

/// Doorbells are posted writes, which no later write of the program overtakes: the card knows of all that was posted
/// before a control operation.
#[test]
fn control_operations_overtake_no_doorbells() {
    let program = compile_c("overtakes");
    run(&program, &[]);
}

/// A thread that only yields waits for time to pass, as one does that only polls.
#[test]
fn yields_take_time() {
    let program = compile_c("yields");
    for what in ["thread", "card", "clock"] {
        assert_eq!(run(&program, &[what]), run(&program, &[what]));
    }
}

/// Debian's, for which pyverbs is installed.
const PYTHON: &str = "/usr/bin/python3";

/// A script of `tests/python`.
fn script(name: &str) -> String {
    need("python3");
    format!("{}/python/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn python_with_threads_and_select() {
    let (python, script) = (Path::new(PYTHON), script("ordinary.py"));
    assert_eq!(run(python, &[&script]), run(python, &[&script]));
}

/// How long two programs with a card each waited for the last of many connections between them, while `passing` others
/// came and went.
fn waits_for_the_last(how: &str, count: u32, passing: u32) -> String {
    let (net, script, port) = (StockNet::new(), script("many.py"), free_port());
    let start = |role: &str| {
        let words = [port.to_string(), how.to_owned(), count.to_string(), passing.to_string()];
        let words = [script.as_str(), role].into_iter().chain(words.iter().map(String::as_str));
        Program::start(net.command(VIRTUAL, PYTHON, &words.collect::<Vec<_>>()))
    };
    let mut server = start("serve");
    server.expect_listening(port);
    let both = Both::of([start("connect"), server], LIMIT).unwrap_or_else(|error| panic!("{error}"));
    net.expect_gone();
    both.server.said + &both.client.said
}

/// A write ends the wait for any number of connections, and at the same time.
#[test]
fn many_connections_are_waited_for_like_one() {
    let one = waits_for_the_last("poll", 1, 0);
    assert!(one.contains("the server: 50") && one.contains("the client: 50"), "{one}");
    for how in ["poll", "epoll"] {
        for count in [17, 17, 17, 64, 300] {
            assert_eq!(waits_for_the_last(how, count, 0), one, "{how} of {count}");
        }
    }
}

/// How far a connection was read and written is not lost among others that a program opens and closes.
#[test]
fn connections_that_come_and_go_change_no_wait() {
    let alone = waits_for_the_last("poll", 1, 0);
    for count in [1, 300] {
        assert_eq!(waits_for_the_last("poll", count, 4000), alone, "{count}");
    }
}

/// What simulated time has no room for ends the program, which says why, and is never done in part.
fn has_room(program: &Path, arguments: &[&str], most: u32, why: &str) {
    for count in [most, most + 1] {
        let (net, number) = (StockNet::new(), count.to_string());
        let command = net.command(VIRTUAL, program, &[arguments, &[&number]].concat());
        let ended = Program::start(command).wait(LIMIT);
        let code = ended.status.and_then(|status| status.code());
        let (expected, says) = if count == most { (0, "OK") } else { (124, why) };
        assert!(code == Some(expected) && ended.said.contains(says), "{ended}");
        net.expect_gone();
    }
}

#[test]
fn a_thread_waits_for_so_many_descriptors() {
    let why = "a thread waits for 1025 descriptors at a time, and in simulated time 1024 is the most";
    has_room(Path::new(PYTHON), &[&script("many.py"), "alone"], 1024, why);
}

/// One thread starts the others.
#[test]
fn a_net_has_so_many_threads() {
    let program = compile_c("crowd");
    let why = "256 threads of this net's programs take part in simulated time, and no more can";
    has_room(&program, &[], 255, why);
}

/// What the card can does not depend on the clock.
#[test]
fn the_limits_are_those_of_the_machines_clock() {
    let limits = |options: &[&str]| {
        let net = StockNet::new();
        let said = Program::start(net.command(options, "ibv_devinfo", &["-v"])).wait(LIMIT).expect_good();
        let of_queues =
            |line: &&str| line.contains("max_cqe") || line.contains("max_qp_wr") || line.contains("max_sge");
        said.lines().filter(of_queues).map(str::to_owned).collect::<Vec<_>>()
    };
    let by_machine = limits(&[]);
    assert_eq!(by_machine.len(), 8, "two cards");
    assert_eq!(limits(VIRTUAL), by_machine);
}

/// A process that waits for ever, started first; it stays until dropped.
fn waits_for_ever(net: &StockNet, what: &str) -> Program {
    let mut program = Program::start(net.command(VIRTUAL, ordinary(), &[what]));
    // It has a card when its net runs.
    program.expect_that("no net", |_| net.socket().exists());
    program
}

/// A thread that is woken gets a core late on a busy machine: time does not go on to the end of another's wait meanwhile.
#[test]
fn a_thread_that_is_woken_may_come_late() {
    let (net, program) = (StockNet::new(), compile_c("late"));
    let other = waits_for_ever(&net, "accepts");
    let ended = Program::start(net.command(VIRTUAL, &program, &[])).wait(LIMIT);
    assert!(ended.good(), "{ended}");
    net.expect_gone_after(other);
}

/// Others do not keep a program from its deadline.
#[test]
fn a_deadline_beside_one_who_waits_for_ever() {
    for other in ["for-ever", "spins"] {
        let net = StockNet::new();
        let other = waits_for_ever(&net, other);
        let ended = Program::start(net.command(VIRTUAL, ordinary(), &["tsc"])).wait(LIMIT);
        assert!(ended.good(), "{ended}\nthe other:\n{}", other.said());
        net.expect_gone_after(other);
    }
}

/// Nobody looks at silence: a program that cannot go on says why, within five seconds, and hears a signal.
#[test]
fn who_cannot_go_on_says_why() {
    for what in ["for-ever", "spins"] {
        let net = StockNet::new();
        let mut program = waits_for_ever(&net, what);
        program.expect("nothing has happened in simulated time for 4 s, nobody else is on this net", LIMIT);
        program.signal(libc::SIGTERM);
        let ended = program.wait(LIMIT);
        assert!(ended.status.is_some() && !ended.good(), "{ended}");
        net.expect_gone();
    }
}

/// The same of threads that wait in the kernel, where one waits for an event that nothing brings.
#[test]
fn who_waits_for_an_event_in_vain_says_so() {
    let net = StockNet::new();
    let mut program = waits_for_ever(&net, "joined");
    program.expect("nothing has happened in simulated time for 4 s, and nothing will", LIMIT);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(program.said().matches("nothing has happened").count(), 1, "{}", program.said());
}

/// A server's client may come late.
#[test]
fn a_server_that_waits_for_its_client_is_quiet() {
    let net = StockNet::new();
    let program = waits_for_ever(&net, "accepts");
    std::thread::sleep(Duration::from_secs(6));
    assert!(!program.said().contains("verbena: nothing"), "{}", program.said());
}

/// Two that wait for each other end.
#[test]
fn two_that_cannot_go_on_end() {
    let net = StockNet::new();
    let start = || {
        let mut command = net.command(VIRTUAL, ordinary(), &["for-ever"]);
        command.env("VERBENA_PATIENCE", "2");
        Program::start(command)
    };
    let (one, other) = (start(), start());
    let (one, other): (Ended, Ended) = (one.wait(LIMIT), other.wait(LIMIT));
    let gave_up = |ended: &Ended| {
        let code = ended.status.and_then(|status| status.code());
        code == Some(124) && ended.said.contains("simulated time stood still for 2 s")
    };
    // The one that is left is alone on its net.
    assert!(gave_up(&one) || gave_up(&other), "{one}\n{other}");
}
