//! A net, and pairs of processes on it that send in windows of time.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a program may take to listen.
const LIMIT: Duration = Duration::from_secs(60);
/// From the commands to the start of a window, from there to the counted part, and that.
const SOON: Duration = Duration::from_millis(15);
const WARM: Duration = Duration::from_millis(25);
const COUNTED: Duration = Duration::from_millis(125);

/// A net, and the build that runs it.
pub struct Net {
    verbena: PathBuf,
    name: String,
    cards: u32,
    directory: tempfile::TempDir,
}

/// What is sent.
#[derive(Clone, Copy)]
pub struct Stream {
    /// `write` or `send`.
    pub kind: &'static str,
    pub size: usize,
}

/// A client and its server. They end with the benchmark.
pub struct Pair {
    server: Child,
    client: Child,
    commands: ChildStdin,
    rates: BufReader<ChildStdout>,
}

impl Net {
    /// A net of so many cards.
    pub fn new(verbena: &Path, cards: u32) -> Net {
        static NETS: AtomicU32 = AtomicU32::new(0);
        let name = format!("scaling-{}-{}", std::process::id(), NETS.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::tempdir().expect("a directory");
        Net { verbena: verbena.to_owned(), name, cards, directory }
    }

    /// Starts `tests/c/scale.c` as server on card `first` and as client on the next one, with so many queue pairs. `cores`
    /// of the two are a core or `spread`; `more` may say `shared`.
    pub fn pair(&self, scale: &Path, first: u32, qps: usize, cores: [&str; 2], more: &[&str]) -> Pair {
        static PAIRS: AtomicU32 = AtomicU32::new(0);
        let number = PAIRS.fetch_add(1, Ordering::Relaxed);
        let socket = self.directory.path().join(format!("pair-{number}"));
        let start = |side: &str, card: u32, cores: &str| {
            let mut command = Command::new(&self.verbena);
            command.args(["run", "--quiet", "--net", &self.name, "--cards", &self.cards.to_string()]);
            command.args(["--with-parent", &std::process::id().to_string(), "--"]).arg(scale);
            command.args([side, &format!("verbena{card}")]).arg(&socket);
            command.args([&qps.to_string(), cores]).args(more);
            command.env("XDG_RUNTIME_DIR", self.directory.path());
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command.spawn().expect("verbena runs")
        };
        let server = start("server", first, cores[0]);
        let begun = Instant::now();
        while !socket.exists() {
            assert!(begun.elapsed() < LIMIT, "the server of a pair does not listen");
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut client = start("client", first + 1, cores[1]);
        let commands = client.stdin.take().expect("piped");
        let rates = BufReader::new(client.stdout.take().expect("piped"));
        let mut pair = Pair { server, client, commands, rates };
        assert_eq!(pair.line(), "ready");
        pair
    }
}

impl Pair {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.rates.read_line(&mut line).expect("a pipe");
        line.trim_end().to_owned()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in [&mut self.client, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Messages a second of these pairs together, each with so many threads, in one window.
pub fn window(pairs: &mut [&mut Pair], stream: Stream, threads: usize) -> f64 {
    let [start, from, end] =
        [SOON, SOON + WARM, SOON + WARM + COUNTED].map(|after| (now() + after).as_nanos());
    let Stream { kind, size } = stream;
    for pair in pairs.iter_mut() {
        writeln!(pair.commands, "{start} {from} {end} {kind} {size} {threads}").expect("the client reads");
    }
    let rate = |pair: &mut &mut Pair| {
        let line = pair.line();
        line.parse::<f64>().unwrap_or_else(|_| panic!("a client ended or said `{line}`, see above"))
    };
    pairs.iter_mut().map(rate).sum()
}

/// The monotonic clock.
fn now() -> Duration {
    // SAFETY: a timespec is plain data; the call fills it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time), 0);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
