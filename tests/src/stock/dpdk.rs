//! Which DPDK the programs of a test are of.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{need, repository};
use crate::unshare;

/// Where Debian's DPDK looks for drivers.
const DRIVERS: &str = "usr/lib/x86_64-linux-gnu/dpdk";

thread_local! {
    static OF_THIS_TEST: RefCell<Dpdk> = const { RefCell::new(Dpdk { root: None }) };
}

/// The installed DPDK, or one that is unpacked into a directory.
#[derive(Clone, Default)]
pub struct Dpdk {
    root: Option<PathBuf>,
}

impl Dpdk {
    /// Runs a test whose nets have programs of Debian 13's DPDK.
    pub fn of_debian_13(test: impl FnOnce()) {
        let root = repository().join("target/releases/dpdk");
        let root = root.canonicalize().ok().filter(|root| root.join("stamp").is_file());
        let root = root.expect("DPDK 24.11 is not there; get it with: tests/releases/fetch --dpdk");
        OF_THIS_TEST.replace(Dpdk { root: Some(root) });
        test();
        OF_THIS_TEST.take();
    }

    /// That of the test which this thread runs.
    pub(super) fn of_this_test() -> Dpdk {
        OF_THIS_TEST.with_borrow(Dpdk::clone)
    }

    /// How `rte_version()` begins.
    pub fn version(&self) -> &'static str {
        match self.root {
            None => "DPDK 22.11.",
            Some(_) => "DPDK 24.11.",
        }
    }

    /// What it calls a port of a bond: as an argument of the bond's device, and where it says which are active; and how it is
    /// asked for the members of port 2, and for their LACP.
    pub fn bond(&self) -> [&'static str; 4] {
        match self.root {
            None => ["slave", "Slaves", "show bonding config 2", "show bonding lacp info 2"],
            Some(_) => ["member", "Members", "show port info 2", "show port info 2"],
        }
    }

    /// The words that start one of its programs: one that is unpacked with its own loader and libraries.
    pub fn program(&self, name: &str) -> Vec<String> {
        let Some(root) = &self.root else {
            need(name);
            return vec![name.to_owned()];
        };
        self.words(&root.join("usr/bin").join(name))
    }

    /// Compiles `tests/c/<name>.c`, a program of it, into a directory. Gives the words that start it.
    pub fn compiled(&self, into: &Path, name: &str) -> Vec<String> {
        let of = |path: &str| self.root.as_deref().unwrap_or(Path::new("/")).join("usr").join(path);
        let program = into.join(name);
        let mut cc = Command::new("cc");
        cc.args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O2",
            "-pthread",
            "-march=corei7",
            "-include",
            "rte_config.h",
        ]);
        for headers in ["include/dpdk", "include/x86_64-linux-gnu/dpdk"] {
            cc.arg("-isystem").arg(of(headers));
        }
        cc.arg("-o").arg(&program).arg(repository().join("tests/c").join(format!("{name}.c")));
        // An unpacked one has a C library of its own.
        cc.arg("-Wl,--allow-shlib-undefined").arg("-L").arg(of("lib/x86_64-linux-gnu"));
        let output = cc.args(["-lrte_ethdev", "-lrte_mempool", "-lrte_mbuf", "-lrte_eal"]).output();
        let output = output.expect("a C compiler");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "apt-get install libdpdk-dev, or: tests/setup: {said}");
        self.words(&program)
    }

    /// The words that start a program of it.
    fn words(&self, program: &Path) -> Vec<String> {
        let program = program.display().to_string();
        let Some(root) = &self.root else { return vec![program] };
        let [loader, libraries] = ["lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu"]
            .map(|path| root.join("usr").join(path).display().to_string());
        // Drivers that the program is linked with, from where EAL loads them, too: as two files they would be two.
        let libraries = format!("/{DRIVERS}/pmds-25.0:{libraries}");
        vec![loader, "--library-path".to_owned(), libraries, program]
    }

    /// The start of a command, which sees an unpacked DPDK's drivers where they would be installed.
    pub(super) fn start(&self, command: &Path) -> Command {
        let Some(root) = &self.root else { return Command::new(command) };
        let line = format!("mount --bind \"$0/{DRIVERS}\" /{DRIVERS} && exec \"$@\"");
        let mut start = unshare(&["--mount", "sh", "-c", &line]);
        start.arg(root).arg(command);
        start
    }
}
