//! A net of modelled cards that no other test uses.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use driver::Registers;
use fpga_regs::regs::port;
use model::attach::{listeners, SegmentCard};

use super::{alone, keepers, signal, verbena, Dpdk, Program};
use crate::is_root;
use crate::wait::{wait_for, LIMIT};

/// User and group of programs without privilege, if the tests run as root.
const NOBODY: u32 = 12345;

/// A net with a name and a runtime directory of its own.
pub struct StockNet {
    name: String,
    runtime: tempfile::TempDir,
    /// Copies that an ordinary user can read, if the programs are an ordinary user's.
    binaries: Option<tempfile::TempDir>,
    /// The DPDK of its programs.
    dpdk: Dpdk,
    /// The last to go, where the net's test runs alone.
    _alone: Option<MutexGuard<'static, ()>>,
}

impl StockNet {
    /// A net that starts with its first program.
    #[allow(clippy::new_without_default)]
    pub fn new() -> StockNet {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // All as long: where a program's buffers lie depends on what it has allocated before, the names of its files
        // too, and addresses are in frames, which some tests compare.
        let name = format!("test-{}-{:04}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let runtime = tempfile::tempdir().expect("a runtime directory");
        StockNet { name, runtime, binaries: None, dpdk: Dpdk::of_this_test(), _alone: None }
    }

    /// The net of a test that runs [`alone`] as long as it has the net.
    pub fn alone() -> StockNet {
        let alone = alone();
        let mut net = StockNet::new();
        net._alone = Some(alone);
        net
    }

    /// A net whose programs run without privilege, even where the tests run as root.
    pub fn unprivileged() -> StockNet {
        let mut net = StockNet::new();
        if !is_root() {
            return net;
        }
        std::os::unix::fs::chown(net.runtime.path(), Some(NOBODY), Some(NOBODY)).expect("chown");
        let binaries = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(binaries.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
        for name in ["verbena", "libverbena.so"] {
            let to = binaries.path().join(name);
            std::fs::copy(verbena().with_file_name(name), &to).expect("a copy");
            std::fs::set_permissions(to, PermissionsExt::from_mode(0o755)).expect("chmod");
        }
        net.binaries = Some(binaries);
        net
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The keeper's socket.
    pub fn socket(&self) -> PathBuf {
        self.runtime.path().join(format!("verbena/{}.sock", self.name))
    }

    /// The DPDK of its programs.
    pub fn dpdk(&self) -> &Dpdk {
        &self.dpdk
    }

    /// `verbena run --net ... OPTIONS -- PROGRAM ARGUMENTS`, not yet started.
    pub fn command(&self, options: &[&str], program: impl AsRef<Path>, arguments: &[&str]) -> Command {
        let mut command = match &self.binaries {
            Some(directory) => self.user(directory.path().join("verbena")),
            None => self.dpdk.start(verbena()),
        };
        command
            .args(["run", "--quiet", "--net", &self.name])
            // Ctrl-C ends the tests; what they started must not stay.
            .args(["--with-parent", &std::process::id().to_string()])
            .args(options)
            .arg("--")
            .arg(program.as_ref())
            .args(arguments)
            .env("XDG_RUNTIME_DIR", self.runtime.path())
            .env_remove("VERBENA_PART_ID");
        command
    }

    /// `verbena WORDS --net ...`, not yet started: another command than `run`.
    pub fn verbena(&self, words: &[&str]) -> Command {
        let own = self.binaries.as_ref().map(|directory| directory.path().join("verbena"));
        let mut command = self.user(own.as_deref().unwrap_or(verbena()));
        command.args(words).args(["--net", &self.name]).env("XDG_RUNTIME_DIR", self.runtime.path());
        command
    }

    /// A program of the net's user, not yet started, that has nothing to do with the net.
    pub fn user(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        if self.binaries.is_some() {
            command.uid(NOBODY).gid(NOBODY).current_dir("/");
        }
        command
    }

    /// Serves cards of this net over vfio-user, from card `first` on, one for each socket name; gives the
    /// server, which listens, and the sockets' paths.
    pub fn serve(&self, first: u32, names: &[&str], options: &[&str]) -> (Program, Vec<PathBuf>) {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.runtime.path().join(name)).collect();
        let mut command = Command::new(verbena());
        command.args(["serve", "--net", &self.name, "--device", &format!("verbena{first}")]);
        paths.iter().for_each(|path| {
            command.arg("--socket").arg(path);
        });
        command.args(options).env("XDG_RUNTIME_DIR", self.runtime.path());
        let mut program = Program::start(command);
        for path in &paths {
            program.expect(&format!("at {}", path.display()), LIMIT);
        }
        (program, paths)
    }

    /// Starts a program on this net.
    pub fn start(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Program {
        Program::start(self.command(&[], program, arguments))
    }

    /// A net that runs with these options until the program is dropped, which does nothing.
    pub fn held(options: &[&str]) -> (StockNet, Program) {
        let net = StockNet::new();
        let holder = net.hold(options);
        (net, holder)
    }

    /// As [`StockNet::held`], of a test that runs [`alone`] as long as it has the net.
    pub fn held_alone(options: &[&str]) -> (StockNet, Program) {
        let net = StockNet::alone();
        let holder = net.hold(options);
        (net, holder)
    }

    /// Keeps the net running, started with these options, until what this gives is dropped.
    pub fn hold(&self, options: &[&str]) -> Program {
        // By the machine's clock, whatever that of the net is.
        let idle = ["-c", "echo held; exec env -u LD_PRELOAD sleep 3600"];
        let mut holder = Program::start(self.command(options, "sh", &idle));
        holder.expect("held", LIMIT);
        holder
    }

    /// Waits until a program of the net listens for connections by address at this port.
    #[track_caller]
    pub fn expect_listener(&self, server: &mut Program, port: u16) {
        let listens = || listeners(&self.socket()).expect("the net").contains(&port);
        server.expect_that(&format!("nobody listens at port {port}"), |_| listens());
    }

    /// Runs a program to its end; panics unless it ends well. Gives what it said.
    #[track_caller]
    pub fn run(&self, program: impl AsRef<Path>, arguments: &[&str], limit: Duration) -> String {
        self.start(program, arguments).wait(limit).expect_good()
    }

    /// Runs another command of `verbena` to its good end. Gives what it said.
    #[track_caller]
    pub fn does(&self, words: &[&str]) -> String {
        Program::start(self.verbena(words)).wait(LIMIT).expect_good()
    }

    /// Expects that another command of `verbena` is refused, and says why.
    #[track_caller]
    pub fn refuses(&self, words: &[&str], why: &str) {
        Program::start(self.verbena(words)).wait(LIMIT).expect_refusal(why);
    }

    /// A register of a card's port, from 0.
    pub fn register(&self, card: u32, number: u32, offset: u32) -> u64 {
        SegmentCard::open(&self.socket(), card).expect("a card").read64(port::base(number) + offset)
    }

    /// The keeper's process id; panics unless there is exactly one.
    #[track_caller]
    pub fn keeper(&self) -> u32 {
        let found = keepers(&self.name);
        assert_eq!(found.len(), 1, "net {} has keepers {found:?}", self.name);
        found[0]
    }

    /// Sends the keeper a signal.
    #[track_caller]
    pub fn signal_keeper(&self, number: i32) {
        signal(self.keeper(), number);
    }

    /// What is in `/dev/shm` of this net, where other nets may come and go.
    fn in_memory(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        let end = format!("-{}", self.name);
        entries.map(|entry| entry.path()).filter(move |path| path.to_string_lossy().ends_with(&end))
    }

    /// Drops the last programs of the net, and waits until nothing of it is left.
    #[track_caller]
    pub fn expect_gone_after<T>(&self, last: T) {
        drop(last);
        self.expect_gone();
    }

    /// Waits until nothing of the net is left: no keeper, no socket, no shared memory; panics with what is.
    #[track_caller]
    pub fn expect_gone(&self) {
        let left = || {
            let mut left: Vec<String> =
                keepers(&self.name).iter().map(|pid| format!("keeper process {pid}")).collect();
            if self.socket().exists() {
                left.push(format!("socket {}", self.socket().display()));
            }
            left.extend(self.in_memory().map(|path| format!("directory {}", path.display())));
            left
        };
        wait_for(|| format!("after the last program there is still: {:?}", left()), || left().is_empty());
    }
}

impl Drop for StockNet {
    fn drop(&mut self) {
        // The keeper goes with its programs; the directory must not go before it.
        let start = Instant::now();
        while !keepers(&self.name).is_empty() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A killed keeper's files are removed by the next one in this directory; there is none.
        self.in_memory().for_each(|path| {
            let _ = std::fs::remove_dir_all(path);
        });
    }
}
