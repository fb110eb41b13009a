//! Two machines, as far as programs can see: namespaces with networks, host names and directories of their own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::MutexGuard;
use std::time::Duration;

use tests::stock::{alone, need, verbena, wait_for, Program};
use tests::{is_root, unshare};

const LIMIT: Duration = Duration::from_secs(30);

/// Makes the machine `two` from within the machine `one`, a veth pair between them, and then stays.
const MAKE: &str = r#"
    set -e
    hostname one
    unshare --net --mount --uts sh -c 'hostname two && exec sleep 3600' &
    two=$!
    on_two() { nsenter --target $two --net --uts "$@"; }
    until [ "$(on_two hostname)" = two ]; do sleep 0.01; done
    ip link add eth0 type veth peer name eth0 netns $two
    for side in '' on_two; do
        number=1; [ -z "$side" ] || number=2
        $side ip link set lo up
        $side ip addr add 192.0.2.$number/24 dev eth0
        # At once: nobody else can have it.
        $side ip addr add 2001:db8::$number/64 dev eth0 nodad
        $side ip link set eth0 up
    done
    echo "up: $$ $two"
    wait $two
"#;

/// `ssh HOST COMMAND`, between these machines.
const SSH: &str = r#"#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1
shift
case $host in
    192.0.2.1) exec "$(dirname "$0")/on-one" "$*" ;;
    192.0.2.2) exec "$(dirname "$0")/on-two" "$*" ;;
    *) echo "ssh: $host is not one of the two machines" >&2; exit 255 ;;
esac
"#;

/// A machine.
pub struct Machine {
    pid: String,
    /// Where its nets have their sockets.
    runtime: PathBuf,
    /// Programs that it has besides those of this system.
    programs: PathBuf,
}

impl Machine {
    /// The start of a program in it. Without privilege this needs the user namespace that the machines are in.
    fn enter(&self) -> Vec<String> {
        let mut words = vec!["nsenter".to_owned(), "--target".to_owned(), self.pid.clone()];
        if !is_root() {
            words.extend(["--user", "--preserve-credentials"].map(str::to_owned));
        }
        let path = std::env::var("PATH").unwrap_or_default();
        // Ours before, and the system's Python before any other.
        let path = format!("{}:/usr/bin:{path}", self.programs.display());
        words.extend(["--net", "--mount", "--uts", "env"].map(str::to_owned));
        words.extend([format!("XDG_RUNTIME_DIR={}", self.runtime.display()), format!("PATH={path}")]);
        // mpirun does not want to be root's; these are for it.
        words.extend(["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"].map(str::to_owned));
        words.extend(["bash", "-c"].map(str::to_owned));
        words
    }

    /// A line of a shell on it.
    pub fn command(&self, line: &str) -> Command {
        let words = self.enter();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(line).current_dir(&self.runtime);
        command
    }

    /// The socket of its usual net.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join("verbena/default.sock")
    }

    /// Writes a program that runs a line on it.
    fn write_entry(&self, path: &Path) {
        let words: Vec<String> = self.enter().iter().map(|word| format!("'{word}'")).collect();
        write_program(path, &format!("#!/bin/bash\nexec {} \"$*\"\n", words.join(" ")));
    }
}

fn write_program(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("chmod");
}

/// Both machines. What runs on them ends with this.
pub struct Two {
    machines: [Machine; 2],
    _made: Program,
    _directory: tempfile::TempDir,
    /// Two spinning programs fill two cores: one pair at a time.
    _alone: MutexGuard<'static, ()>,
}

impl Two {
    /// The machines `one` and `two`, connected.
    pub fn new() -> Two {
        need("ip");
        let alone = alone();
        let directory = tempfile::tempdir().expect("a directory");
        let mut made = Program::start(unshare(&["--net", "--mount", "--uts", "bash", "-c", MAKE]));
        made.expect("up: ", LIMIT);
        made.expect("\n", LIMIT);
        let said = made.said();
        let pids = said.split("up: ").nth(1).and_then(|rest| rest.lines().next()).expect("two numbers");
        let programs = directory.path().join("programs");
        std::fs::create_dir(&programs).expect("a directory");
        std::os::unix::fs::symlink(verbena(), programs.join("verbena")).expect("a link");
        write_program(&programs.join("ssh"), SSH);
        let mut pids = pids.split(' ').map(str::to_owned);
        let machines = ["one", "two"].map(|name| {
            let runtime = directory.path().join(name);
            std::fs::create_dir(&runtime).expect("a directory");
            let machine =
                Machine { pid: pids.next().expect("a number"), runtime, programs: programs.clone() };
            machine.write_entry(&programs.join(format!("on-{name}")));
            machine
        });
        Two { machines, _made: made, _directory: directory, _alone: alone }
    }

    /// The machine of this name.
    pub fn machine(&self, name: &str) -> &Machine {
        &self.machines[usize::from(name == "two")]
    }

    /// Waits until no net is up: its keeper ends with the last program.
    pub fn expect_gone(&self) {
        for machine in &self.machines {
            wait_for(
                || format!("{} is still there", machine.socket().display()),
                || !machine.socket().exists(),
            );
        }
    }
}
