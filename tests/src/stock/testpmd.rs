//! DPDK's own `dpdk-testpmd` on ports of a net's cards.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Ended, HugePages, Program, StockNet};
use crate::wait::LIMIT;

/// A running `dpdk-testpmd`. It and its files go when this is dropped.
pub struct Testpmd {
    program: Program,
    keyboard: UnixStream,
    // After the program. Secondary processes have the primary one's.
    files: Arc<EalFiles>,
}

/// The directory of EAL's runtime files of a program, which goes when this is dropped: after the program, which writes there.
pub struct EalFiles {
    /// For EAL's `--file-prefix`.
    pub prefix: String,
    /// The core of the two on which the program polls. Programs take turns, so that neither core has all of them.
    pub core: usize,
}

impl EalFiles {
    /// Those of a program that is to start.
    #[allow(clippy::new_without_default)]
    pub fn new() -> EalFiles {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        EalFiles { prefix: format!("verbena-test-{}-{n}", std::process::id()), core: n as usize % 2 }
    }
}

impl Drop for EalFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new("/var/run/dpdk").join(&self.prefix));
    }
}

impl Testpmd {
    /// Starts one with these devices (`--vdev`) and these options of its own, behind EAL's.
    pub fn start(net: &StockNet, devices: &[&str], options: &[&str]) -> Testpmd {
        Testpmd::start_by(net, &[], devices, options)
    }

    /// Runs an interactive one that does these lines of a file, and ends at the end of its input. Gives what it said.
    pub fn doing(net: &StockNet, devices: &[&str], options: &[&str], lines: &str) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        let commands = directory.path().join("commands");
        fs::write(&commands, lines).expect("a file");
        let file = format!("--cmdline-file={}", commands.display());
        Testpmd::start(net, devices, &[&["-i", &file], options].concat()).end()
    }

    /// As [`Testpmd::start`], by a program with these words that starts it.
    pub fn start_by(net: &StockNet, by: &[&str], devices: &[&str], options: &[&str]) -> Testpmd {
        // Ordinary memory, enough for a bond of two ports.
        Testpmd::start_in(net, by, (&["--no-huge", "-m", "192"], EalFiles::new().into()), devices, options)
    }

    /// As [`Testpmd::start`], in memory that programs with its [prefix](Testpmd::prefix) share.
    pub fn start_shared(net: &StockNet, pages: &HugePages, devices: &[&str], options: &[&str]) -> Testpmd {
        let memory = ["--huge-dir", &pages.path(), "--no-pci"];
        Testpmd::start_in(net, &[], (&memory, EalFiles::new().into()), devices, options)
    }

    /// An interactive secondary process of it, which has its ports.
    pub fn secondary(&self, net: &StockNet) -> Testpmd {
        let memory = ["--proc-type=secondary", "--no-pci"];
        let options = ["-i", "--num-procs=2", "--proc-id=1"];
        Testpmd::start_in(net, &[], (&memory, self.files.clone()), &[], &options)
    }

    fn start_in(
        net: &StockNet,
        by: &[&str],
        (memory, files): (&[&str], Arc<EalFiles>),
        devices: &[&str],
        options: &[&str],
    ) -> Testpmd {
        let testpmd = net.dpdk().program("dpdk-testpmd");
        // Lines as they come; which release it is; no lock on what is mapped, which is all of the cards' memory; what a file
        // has is not thrown away at the start.
        let mut words = [by, &["stdbuf", "-oL"]].concat();
        words.extend(testpmd.iter().map(String::as_str));
        // The main core waits for commands, the other one polls.
        let main_core = ["1", "0"][files.core];
        words.extend(["-v", "-l", "0,1", "--main-lcore", main_core]);
        words.extend(memory);
        words.extend(["--file-prefix", &files.prefix]);
        words.extend(devices.iter().flat_map(|device| ["--vdev", *device]));
        words.extend(["--", "--no-mlockall", "--total-num-mbufs=4096", "--no-flush-rx"]);
        words.extend(options);
        // The end of its input would end it, where it reads any.
        let (input, keyboard) = UnixStream::pair().expect("a socket");
        let command = net.command(&[], words[0], &words[1..]);
        let program = Program::start_reading(command, OwnedFd::from(input).into());
        Testpmd { program, keyboard, files }
    }

    /// The prefix of its files, by which secondary processes find it.
    pub fn prefix(&self) -> &str {
        &self.files.prefix
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Sends it a signal.
    pub fn signal(&self, number: i32) {
        self.program.signal(number);
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        self.program.said()
    }

    /// Waits until it has said `text`; panics when it ends or stays silent.
    pub fn expect(&mut self, text: &str) {
        self.program.expect(text, LIMIT);
    }

    /// Waits until `is` is true of what it has said.
    #[track_caller]
    pub fn expect_that(&mut self, instead: &str, is: impl FnMut(&str) -> bool) {
        self.program.expect_that(instead, is);
    }

    /// Types lines, which an interactive one reads.
    pub fn types(&mut self, lines: &str) {
        self.keyboard.write_all(format!("{lines}\n").as_bytes()).expect("it reads");
    }

    /// Types lines, and waits until it has done them. Gives what it said meanwhile.
    pub fn does(&mut self, lines: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // It repeats a word that is no command.
        let mark = format!("done-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let before = self.said().len();
        self.types(&format!("{lines}\n{mark}"));
        let end = format!("{mark}\nCommand not found");
        self.expect_that("it does not do what it is told", |said| said.replace('\r', "").contains(&end));
        self.said()[before..].to_owned()
    }

    /// Types lines, and expects that it says each of these texts meanwhile. Gives all that it said.
    #[track_caller]
    pub fn does_saying(&mut self, lines: &str, texts: &[&str]) -> String {
        let said = self.does(lines);
        texts.iter().for_each(|text| assert!(said.contains(text), "no {text:?} of {lines:?}: {said}"));
        said
    }

    /// Asks again and again until it says `text`.
    pub fn asks(&mut self, question: &str, text: &str) {
        let (start, before) = (Instant::now(), self.said().len());
        while !self.said().get(before..).is_some_and(|said| said.contains(text)) {
            assert!(start.elapsed() < LIMIT, "no {text:?}: {}", self.said());
            self.types(question);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Interrupts it, as Ctrl-C does, and expects that it ends well. Gives what it said.
    pub fn interrupt(self) -> String {
        self.signal(libc::SIGINT);
        self.end()
    }

    /// Ends an interactive one, and expects that it ends well. Gives what it said.
    pub fn quit(mut self) -> String {
        self.types("stop\nquit");
        self.end()
    }

    /// Waits for its end, which the end of its input brings, and expects that it is good. Gives what it said.
    pub fn end(self) -> String {
        self.close().expect_good()
    }

    /// Waits for its end, as [`Testpmd::end`], however it ends.
    pub fn close(self) -> Ended {
        let Testpmd { program, keyboard, files } = self;
        drop(keyboard);
        let ended = program.wait(LIMIT);
        drop(files);
        ended
    }
}
