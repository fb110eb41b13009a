//! Stock programs behind a switch, and options that are refused.

use std::time::Duration;

use tests::stock::{Pair, Program, StockNet};

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
    assert!(said(&["--clock", "virtual", "--cc", "dcqcn"]).contains("add --switch default"));
    assert!(said(&["--switch", "kmin=5"]).contains("kmin=`5`: a number with its unit, as 200KB or 2MiB"));
    assert!(said(&["--cc", "timely"]).contains("`timely`: begins with dcqcn or dcqcn-mlx"));
}
