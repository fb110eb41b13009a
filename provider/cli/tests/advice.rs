//! What a command that fails says to do instead can be done.

use std::process::Command;

/// Standard error of a command that ends with this status, in a directory of its own without nets.
fn said(code: i32, line: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_verbena"));
    command.args(line).current_dir(home.path()).env("XDG_RUNTIME_DIR", home.path()).env_remove("VERBENA_NET");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{line:?}: {said}");
    said
}

/// Its clients are no programs of the net: they do not wait for its time.
#[test]
fn a_served_card_has_the_machines_clock() {
    for option in ["--clock=virtual", "--trace=t", "--switch=default", "--cc=dcqcn"] {
        let said = said(2, &["serve", "--socket", "s", option]);
        assert!(
            said.contains("cannot include the clients of a served card: leave it out"),
            "{option}: {said}"
        );
    }
    let said = said(1, &["serve", "--socket", "s", "--card", "cx4lx"]);
    assert!(said.contains("leave out --card"), "{said}");
}

#[test]
fn a_net_that_does_not_run_is_started_by_a_short_command() {
    assert!(said(1, &["link"]).contains("(verbena run PROGRAM)"));
    assert!(said(1, &["link", "--net", "lab"]).contains("(verbena run --net lab PROGRAM)"));
}

#[test]
fn a_number_out_of_range_is_a_value_that_the_option_refuses() {
    for line in [
        &["top", "--count", "-1"][..],
        &["top", "--interval", "-0.5"],
        &["regs", "--watch", "-1"],
        &["bench", "--seconds", "-1"],
        &["selftest", "--stress", "-1"],
        &["run", "--cards", "-1"],
        &["compare", "--check", "golden.json", "--tolerance", "-1"],
        &["compare", "--check", "golden.json", "--tolerance", "inf"],
    ] {
        let said = said(2, line);
        let [.., option, value] = line else { unreachable!() };
        assert!(said.contains(&format!("invalid value '{value}' for '{option} ")), "{line:?}: {said}");
    }
}

/// No card can send faster than its ports.
#[test]
fn the_least_rate_is_one_that_the_ports_have() {
    let run = ["run", "--clock=virtual", "--card=f10a", "--switch=default", "--cc=dcqcn,min=20Gb/s", "true"];
    assert!(said(125, &run).contains("--cc: min=20Gb/s: the ports have 10Gb/s"));
    let sim = ["sim", "--card=f10a", "--pattern=incast", "--cc=dcqcn,min=20Gb/s"];
    assert!(said(1, &sim).contains("--cc: min=20Gb/s: the ports have 10Gb/s"));
}
