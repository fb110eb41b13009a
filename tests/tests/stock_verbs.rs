//! What programs see of the cards through stock verbs: C programs of `tests/c`, with both clocks.

use std::time::Duration;

use tests::stock::{compile_c, Program, StockNet};

const LIMIT: Duration = Duration::from_secs(30);
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

#[test]
fn what_every_card_takes_is_taken() {
    for said in on_each_net("accepts", &[]) {
        assert!(said.contains("all taken"), "{said}");
    }
}
