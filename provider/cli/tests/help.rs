//! The help of commands.

use std::process::Command;

/// The help of a command.
fn help(command: &str) -> String {
    let mut verbena = Command::new(env!("CARGO_BIN_EXE_verbena"));
    let output = verbena.args([command, "--help"]).env_remove("VERBENA_NET").output().unwrap();
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a command cannot do is not in its help, and what it says holds for this command.
#[test]
fn the_help_is_of_this_command() {
    let serve = help("serve");
    assert!(serve.contains("--cards"));
    for option in ["--clock", "--trace", "--switch", "--cc"] {
        assert!(!serve.contains(option), "{option} in {serve}");
    }
    assert!(!help("perftest").contains("the running net"));
    assert!(!help("probe").contains("top"));
    assert!(help("top").contains("all cards of a net"));
    assert_eq!(help("trace").matches("verbena-trace").count(), 1);
    let run = help("run");
    assert!(run.contains("loss=P") && run.contains("from=CARD") && !run.contains("docs/"), "{run}");
}
