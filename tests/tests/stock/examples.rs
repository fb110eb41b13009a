//! The C++ examples of the book: compile without a warning, run as two processes.

use std::path::PathBuf;
use std::time::Duration;

use tests::stock::{compile, free_port, repository, Both, Program, StockNet};

const LIMIT: Duration = Duration::from_secs(30);

struct Examples {
    _directory: tempfile::TempDir,
    server: PathBuf,
    client: PathBuf,
}

fn built() -> Examples {
    let sources = repository().join("docs/examples");
    let directory = tempfile::tempdir().expect("a directory");
    let build = |name: &str| {
        let program = directory.path().join(name);
        compile("g++", &["-std=c++17", "-O1"], &sources.join(format!("{name}.cpp")), &program);
        program
    };
    let (server, client) = (build("rc_server"), build("rc_client"));
    Examples { server, client, _directory: directory }
}

/// Runs both to their good ends.
fn both(net: &StockNet, launcher: &[&str], examples: &Examples, card: &str, more: &[&str]) -> Both {
    let (server, port) = listening(net, launcher, examples, more);
    let mut arguments = vec!["localhost", "-d", card, "-p", &port];
    arguments.extend(more);
    let client = net.start(&examples.client, &arguments);
    Both::of([client, server], LIMIT).unwrap_or_else(|error| panic!("{launcher:?}: {error}"))
}

/// The server, started with options of `verbena run`, and its TCP port.
fn listening(net: &StockNet, launcher: &[&str], examples: &Examples, more: &[&str]) -> (Program, String) {
    let port = free_port();
    let text = port.to_string();
    let mut arguments = vec!["-d", "verbena0", "-p", &text];
    arguments.extend(more);
    let mut server = Program::start(net.command(launcher, &examples.server, &arguments));
    server.expect_listening(port);
    (server, text)
}

#[test]
fn the_examples_run_on_two_cards_and_on_one() {
    let (net, examples) = (StockNet::new(), built());
    for (card, more) in [("verbena1", vec![]), ("verbena0", vec![]), ("verbena1", vec!["-g", "0", "-i", "2"])]
    {
        let both = both(&net, &[], &examples, card, &more);
        let report = both.report();
        for line in
            ["WRITE, READ back: equal", "in one post, one completion: equal", "as expected", "client: OK"]
        {
            assert!(both.client.said.contains(line), "no `{line}`:\n{report}");
        }
        assert!(both.server.said.contains("answered 1000 messages"), "{report}");
        println!("{}", both.client.said);
    }
    net.expect_gone();
}

/// The client's next message is there before its ACK of the last answer, which was lost; then of three answers in a row.
#[test]
fn the_server_takes_completions_in_any_order() {
    let examples = built();
    for nth in ["40", "40..42"] {
        let net = StockNet::new();
        let fault = format!("drop ack from=verbena1 nth={nth}");
        let both = both(&net, &["--fault", &fault], &examples, "verbena1", &[]);
        assert!(both.server.said.contains("answered 1000 messages"), "{fault}: {}", both.report());
    }
}

#[test]
fn the_examples_say_what_is_wrong() {
    let (net, examples) = (StockNet::new(), built());
    let client = |arguments: &[&str]| {
        let ended = net.start(&examples.client, arguments).wait(LIMIT);
        assert_eq!(ended.status.and_then(|status| status.code()), Some(1), "{ended}");
        ended.said
    };
    assert!(client(&[]).contains("usage:"));
    assert!(client(&["localhost", "-d", "nothing"]).contains("there are: verbena0 verbena1"));
    assert!(client(&["localhost", "-i", "9"]).contains("port 9"));
    assert!(client(&["localhost", "-g", "99"]).contains("GID 99"));
    let unused = free_port().to_string();
    assert!(client(&["localhost", "-p", &unused]).contains("start rc_server there first"));
}

/// A server whose client is killed ends by itself, and says why.
#[test]
fn a_server_notices_that_its_client_is_gone() {
    let (net, examples) = (StockNet::new(), built());
    let (server, port) = listening(&net, &[], &examples, &[]);
    // Half of a client: connects, and is gone.
    net.run("bash", &["-c", &format!("exec 3<>/dev/tcp/localhost/{port}")], LIMIT);
    let ended = server.wait(LIMIT);
    assert!(ended.said.contains("closed the TCP connection early"), "{ended}");
}

/// The benchmark's program whose receiver sums what it gets: it checks the sum.
#[test]
fn a_receiver_reads_what_was_sent() {
    let program = tests::stock::compile_c("reader");
    let net = StockNet::new();
    net.run(&program, &["verbena0", "verbena1", "65536", "200"], LIMIT);
}
