//! Other processes: this test program, started again to run one function.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const ROLE: &str = "VERBENA_TEST_ROLE";
const SOCKET: &str = "VERBENA_TEST_SOCKET";

/// A child that plays a role from [`entry`].
pub(super) struct Other {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    pub(super) fn start(role: &str, socket: &Path) -> Other {
        Other::start_with(role, socket, &[])
    }

    pub(super) fn start_with(role: &str, socket: &Path, more: &[(&str, &str)]) -> Other {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .arg(format!("{}::entry", module_path!().split_once("::").unwrap().1))
            .env(ROLE, role)
            .env(SOCKET, socket)
            .envs(more.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Other {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next numbers that the child tells.
    pub(super) fn hear(&mut self) -> Vec<u64> {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "child ended");
            if let Some((_, numbers)) = line.split_once('@') {
                let numbers = numbers.split_whitespace();
                return numbers.map(|n| n.parse().unwrap()).collect();
            }
        }
    }

    pub(super) fn go_on(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        let status = self.process.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "it ended by itself");
    }

    pub(super) fn finish(mut self) {
        drop(self.input);
        assert!(self.process.wait().unwrap().success());
    }
}

/// In the child: tells the parent something.
pub(super) fn tell(numbers: &[u64]) {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    println!("@{}", numbers.join(" "));
}

/// In the child: waits for the parent; false when it will say no more.
pub(super) fn wait() -> bool {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap() > 0
}

/// Does nothing unless it is such a child.
#[test]
fn entry() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let socket = std::env::var_os(SOCKET).unwrap();
    let socket = Path::new(&socket);
    match role.as_str() {
        "die_with_lock" => super::deaths::die_with_lock(socket),
        "die_changing_extents" => super::deaths::keep_allocating(socket),
        "private_buffer" => super::reach::private_buffer(socket),
        "private_file" => super::files::private_file(socket),
        "shared_file" => super::files::shared_file(socket),
        "keep_copying" => super::files::keep_copying(socket),
        "fork_and_live" => super::forks::fork_and_live(socket),
        other => panic!("no role {other}"),
    }
}
