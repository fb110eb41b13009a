//! Shells on a terminal: completion, and `verbena run --shell`.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

/// A command on a terminal, which util-linux' `script` makes.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
    read: usize,
    _home: tempfile::TempDir,
}

impl Terminal {
    /// `line` is for /bin/sh; `shell` is the value of SHELL.
    fn start(line: &str, shell: &str, home: tempfile::TempDir) -> Terminal {
        let verbena = std::path::Path::new(env!("CARGO_BIN_EXE_verbena"));
        let path = std::env::var("PATH").unwrap();
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", line, "/dev/null"])
            .env("PATH", format!("{}:{path}", verbena.parent().unwrap().display()))
            .env("HOME", home.path())
            .env("XDG_RUNTIME_DIR", home.path())
            .env("SHELL", shell)
            .env("TERM", "dumb")
            .env_remove("PS1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`script`, which tests/setup installs");
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut screen, copy) = (child.stdout.take().unwrap(), shown.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                copy.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        let keys = child.stdin.take().unwrap();
        Terminal { child, keys, shown, read: 0, _home: home }
    }

    /// Waits for `text` after what was waited for before.
    fn expect(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            let shown = self.shown.lock().unwrap();
            if let Some(place) = shown[self.read..].find(text) {
                self.read += place + text.len();
                return;
            }
            assert!(start.elapsed() < LIMIT, "no `{text}` in {:?}", &shown[self.read..]);
            drop(shown);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn exit_code(mut self) -> Option<i32> {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() && start.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.child.try_wait().unwrap().expect("the shell ends").code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Completes words with the script that the command prints for the shell.
fn completes(line: &str, set_up: &str) {
    let mut terminal = Terminal::start(line, "/bin/sh", tempfile::tempdir().unwrap());
    terminal
        .types(&format!("PS1='> '; {set_up}; verbena() {{ echo got \"$@\" end; }}; echo ready $((1 + 1))\n"));
    terminal.expect("ready 2");
    for (typed, completed) in [
        ("verbena selft\t", "got selftest end"),
        ("verbena run --no-n\t", "got run --no-namespace end"),
        ("verbena run --clock v\t", "got run --clock virtual end"),
        ("verbena card ch\t", "got card check end"),
    ] {
        terminal.expect("> ");
        terminal.types(typed);
        // The completed word is on the screen before the line is entered.
        terminal.expect(
            completed.trim_start_matches("got ").trim_end_matches(" end").rsplit(' ').next().unwrap(),
        );
        terminal.types("\n");
        terminal.expect(completed);
    }
}

#[test]
fn bash_completes() {
    completes("bash --norc --noprofile", "source <(verbena completions bash)");
}

#[test]
fn zsh_completes() {
    completes("zsh -f", "autoload -U compinit; compinit -u -D; source <(verbena completions zsh)");
}

#[test]
fn a_shell_sees_the_cards_and_its_status_is_returned() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".bashrc"), "PS1='mine> '\nalias cards='ls /sys/class/infiniband'\n")
        .unwrap();
    let mut terminal = Terminal::start("verbena run --net lab --shell", "/bin/bash", home);
    terminal.expect("(verbena lab) mine> ");
    terminal.types("cards\n");
    terminal.expect("verbena0");
    terminal.expect("verbena1");
    terminal.types("readlink /proc/self/fd/* | grep -c bashrc\n");
    terminal.expect("\n0");
    terminal.types("exit 7\n");
    assert_eq!(terminal.exit_code(), Some(7));
}

#[test]
fn other_shells_take_the_prompt_from_the_environment() {
    let mut terminal = Terminal::start("verbena run -q --shell", "/bin/sh", tempfile::tempdir().unwrap());
    terminal.expect("(verbena default) $ ");
    terminal.types("exit 3\n");
    assert_eq!(terminal.exit_code(), Some(3));
}

#[test]
fn a_shell_or_a_program_is_named() {
    for line in [vec!["run"], vec!["run", "--shell", "--", "true"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_verbena")).args(&line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line:?}");
    }
}
