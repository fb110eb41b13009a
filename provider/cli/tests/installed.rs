//! The command as it was installed, with the libraries beside it or without.

use std::process::Command;

/// A copy of the command with files of these names beside it.
fn installed(libraries: &[&str]) -> (tempfile::TempDir, Command) {
    let dir = tempfile::tempdir().unwrap();
    let verbena = dir.path().join("verbena");
    std::fs::copy(env!("CARGO_BIN_EXE_verbena"), &verbena).unwrap();
    for library in libraries {
        std::fs::write(dir.path().join(library), "").unwrap();
    }
    let mut command = Command::new(verbena);
    command.env("XDG_RUNTIME_DIR", dir.path()).env_remove("VERBENA_PROVIDER");
    (dir, command)
}

/// A library that is missing is named with where it was looked for, and nothing that needs it is called good.
#[test]
fn the_doctor_misses_each_library() {
    const ALL: [&str; 3] = ["libverbena.so", "libverbena_clock.so", "librte_net_verbena.so"];
    for (missing, state, time) in [
        (None, "OK", None),
        (Some(0), "FAIL", None),
        (Some(1), "WARN", Some("WARN")),
        (Some(2), "WARN", None),
    ] {
        let there: Vec<&str> =
            ALL.iter().enumerate().filter(|(at, _)| Some(*at) != missing).map(|(_, name)| *name).collect();
        let (dir, mut command) = installed(&there);
        let output = command.args(["doctor", "--json"]).output().unwrap();
        let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        let finding = |name: &str| findings.iter().find(|finding| finding["name"] == name);
        let libraries = finding("libraries").expect("a check of the libraries");
        assert_eq!(libraries["state"], state, "{libraries}");
        let said = libraries["found"].as_str().unwrap();
        for name in &there {
            let path = dir.path().canonicalize().unwrap().join(name);
            assert!(said.contains(path.to_str().unwrap()), "no {name} in {said}");
        }
        if let Some(missing) = missing {
            let text = format!("{} is neither beside {}", ALL[missing], dir.path().display());
            assert!(said.contains(&text), "no `{text}` in {said}");
        }
        if let Some(time) = time {
            assert_eq!(finding("simulated time").unwrap()["state"], time);
        }
    }
}

/// Where no file may grow (`ulimit -f`) commands say so, and are not killed by SIGXFSZ.
#[test]
fn a_limit_on_files_is_an_error() {
    for line in ["doctor", "run -- true"] {
        let runtime = tempfile::tempdir().unwrap();
        let output = Command::new("bash")
            .args(["-c", &format!("ulimit -f 0; exec \"$0\" {line}"), env!("CARGO_BIN_EXE_verbena")])
            .env("XDG_RUNTIME_DIR", runtime.path())
            .output()
            .unwrap();
        let said =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        assert!(output.status.code().is_some_and(|code| code != 0), "{line}: {:?}: {said}", output.status);
        assert!(["ulimit -f", "File too large"].iter().any(|words| said.contains(words)), "{line}: {said}");
    }
}
