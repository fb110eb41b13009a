//! The man pages that the command makes from its definition.

use std::process::Command;

/// Standard output of a command that succeeds.
fn verbena(line: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_verbena")).args(line).env_remove("VERBENA_NET").output().unwrap();
    assert!(output.status.success(), "{line:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// All pages, in a directory.
fn pages() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    verbena(&["man", dir.path().to_str().unwrap()]);
    dir
}

/// A page as text without the escapes of roff.
fn page(dir: &tempfile::TempDir, name: &str) -> String {
    let path = dir.path().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
}

/// Each command that `--help` lists has a page.
#[test]
fn every_command_has_a_man_page() {
    let dir = pages();
    let help = verbena(&["--help"]);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<_> =
        commands.filter_map(|line| line.split_whitespace().next()).filter(|c| *c != "help").collect();
    assert!(commands.contains(&"run") && commands.len() > 20, "{commands:?}");
    for command in commands {
        assert!(page(&dir, &format!("verbena-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(!dir.path().join("verbena-keeper.1").exists(), "a hidden command has a page");
    assert!(page(&dir, "verbena.1").contains("verbena-run(1)"));
}

#[test]
fn a_page_says_what_is_not_in_the_help() {
    let dir = pages();
    let version = verbena(&["--version"]);
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = page(&dir, &name);
        let title = text.lines().find(|line| line.starts_with(".TH ")).unwrap();
        assert!(title.contains(&format!("\"{}\"", version.trim())), "{name}: {title}");
        assert!(text.contains(".SH \"EXIT STATUS\""), "{name}");
        assert_eq!(text.contains(".SH \"SEE ALSO\""), name != "verbena.1", "{name}");
    }
    assert!(page(&dir, "verbena-port-down.1").contains("verbena-port(1)"));
    let run = page(&dir, "verbena-run.1");
    assert!(["\n125\n", "\n126\n", "\n127\n"].iter().all(|status| run.contains(status)), "{run}");
    let main = page(&dir, "verbena.1");
    assert!(main.contains(".SH FILES"), "{main}");
    let documented =
        include_str!("../../../docs/running.md").split("## Environment variables").nth(1).unwrap();
    let documented = documented.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: Vec<&str> = documented.collect();
    assert!(documented.contains(&"VERBENA_NET"), "{documented:?}");
    for text in [&main, &run] {
        let variables = text.split(".SH ENVIRONMENT").nth(1).unwrap().split(".SH").next().unwrap();
        for variable in &documented {
            assert!(variables.contains(&format!("\n{variable}\n")), "no {variable} in {variables}");
        }
    }
}
