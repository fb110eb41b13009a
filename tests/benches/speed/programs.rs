//! Stock programs in pairs: perftest on two modelled cards, and UCX's own benchmark beside it.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tests::loopback_address;

use crate::command::verbena;
use crate::pin::pin;

/// How long one pair may run.
const LIMIT: Duration = Duration::from_secs(120);

/// Option of `verbena run` for programs without privileges, in the namespaces that they have: root could open the files of
/// other processes' mappings, so these run without the right to.
pub const UNPRIVILEGED: &str = "--no-namespace";

/// Kills what it holds when it is dropped.
pub struct Running(Child, Option<Reader>, Option<Reader>);

/// Reads one output of a program from the start: a full pipe would stop it.
type Reader = std::thread::JoinHandle<String>;

fn read_all(mut from: impl Read + Send + 'static) -> Reader {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = from.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program on a core.
pub fn start(core: usize, words: &[String], environment: &[(&str, &str)]) -> Running {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            pin(core);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    };
    let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot start {}: {e}", words[0]));
    let output = read_all(child.stdout.take().expect("piped"));
    let errors = read_all(child.stderr.take().expect("piped"));
    Running(child, Some(output), Some(errors))
}

impl Running {
    /// How it ended, if it does in time.
    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            match self.0.try_wait().expect("our child") {
                None if Instant::now() <= until => std::thread::sleep(Duration::from_millis(10)),
                ended => return ended,
            }
        }
    }
}

/// All that a reader has read.
fn whole(reader: &mut Option<Reader>) -> String {
    reader.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
}

fn finish(mut running: Running, what: &str) -> String {
    let status = running.wait(LIMIT).unwrap_or_else(|| panic!("{what} did not end within {LIMIT:?}"));
    let (text, said) = (whole(&mut running.1), whole(&mut running.2));
    assert!(status.success(), "{what} failed ({status}):\n{text}\n{said}");
    text
}

/// Asks a program to end (SIGINT); its output.
pub fn stop(mut running: Running) -> String {
    let pid = i32::try_from(running.0.id()).expect("a process");
    // SAFETY: our child, which has not been waited for.
    unsafe { libc::kill(pid, libc::SIGINT) };
    if running.wait(Duration::from_secs(10)).is_none() {
        let _ = running.0.kill();
    }
    whole(&mut running.1)
}

/// A TCP port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port()
}

/// Runs a perftest pair with the same options; the client's output.
pub fn perftest(test: &str, options: &str) -> String {
    pair(&[], test, options, options)
}

/// A name that no other net has: another pair may run at the same time.
pub fn new_net() -> String {
    static NETS: AtomicU32 = AtomicU32::new(0);
    format!("bench-{}-{}", std::process::id(), NETS.fetch_add(1, Ordering::Relaxed))
}

/// Runs a perftest pair by UDP: client on core 0 and server on core 1, each on a net of its own, whose keeper is on that
/// core too. The client's output.
pub fn by_udp(test: &str, options: &str) -> String {
    let [client, server] = [0, 1].map(|_| format!("0=udp:{}", loopback_address()));
    outside(test, &format!("-x 0 {options}"), [(0, client), (0, server)])
}

/// The same by the packet sockets of two interfaces. Different cards, whose IPv4 addresses differ.
pub fn by_packet(test: &str, options: &str, [client, server]: [&str; 2]) -> String {
    let [client, server] = [format!("0=packet:{client}"), format!("1=packet:{server}")];
    outside(test, &format!("-x 1 {options}"), [(0, client), (1, server)])
}

fn outside(test: &str, options: &str, [client, server]: [(u32, String); 2]) -> String {
    let port = free_port().to_string();
    let side = |(card, at): (u32, String), last: &[&str]| {
        let mut words: Vec<String> = vec![verbena().display().to_string(), "run".into(), "--quiet".into()];
        words.extend(["--net", &new_net(), "--port", &at, "--", test].map(String::from));
        // Who is not run for half a second has lost nothing yet.
        words.extend(["-d", &format!("verbena{card}"), "-u", "17", "-p", &port].map(String::from));
        words.extend(options.split_whitespace().chain(last.iter().copied()).map(String::from));
        words
    };
    let running = start(1, &side(server, &[]), &[]);
    std::thread::sleep(Duration::from_millis(700));
    let text = finish(start(0, &side(client, &["127.0.0.1"]), &[]), &format!("{test} {options} outside"));
    finish(running, &format!("the server of {test} {options} outside"));
    text
}

/// Runs a perftest pair, client on core 0 and server on core 1, on a net made with these options; the client's output.
pub fn pair(made: &[&str], test: &str, server: &str, client: &str) -> String {
    let net = new_net();
    let port = free_port().to_string();
    let side = |card: &str, options: &str| {
        let mut words: Vec<String> = Vec::new();
        // SAFETY: takes nothing and cannot fail.
        if made.contains(&UNPRIVILEGED) && unsafe { libc::geteuid() } == 0 {
            words.extend(["setpriv", "--bounding-set", "-sys_admin,-checkpoint_restore"].map(String::from));
        }
        words.extend([verbena().display().to_string(), "run".into(), "--net".into(), net.clone()]);
        words.extend(made.iter().map(|word| word.to_string()));
        words.extend(["--".into(), test.into()]);
        words.extend(["-d", card, "-p", &port].map(String::from));
        words.extend(options.split_whitespace().map(String::from));
        words
    };
    let running = start(1, &side("verbena1", server), &[]);
    std::thread::sleep(Duration::from_millis(700));
    let mut words = side("verbena0", client);
    words.push("127.0.0.1".into());
    let text = finish(start(0, &words, &[]), &format!("{test} {client}"));
    finish(running, &format!("the server of {test} {server}"));
    text
}

/// Runs `tests/c/reader.c`: GB/s of messages that the receiver reads.
pub fn reader(size: usize, messages: usize) -> f64 {
    let directory = tempfile::tempdir().expect("a directory");
    let program = tests::stock::compile_c("reader", directory.path());
    let net = format!("bench-{}-reader", std::process::id());
    let mut words: Vec<String> = vec![verbena().display().to_string()];
    words.extend(["run", "--net", &net, "--"].map(String::from));
    words.push(program.display().to_string());
    words.extend(["verbena0", "verbena1", &size.to_string(), &messages.to_string()].map(String::from));
    let text = finish(start(0, &words, &[]), "reader");
    let figure = text.split_whitespace().next().and_then(|figure| figure.parse().ok());
    figure.unwrap_or_else(|| panic!("no figure in:\n{text}"))
}

/// Runs `ucx_perftest` with these transports; the client's output.
pub fn ucx(test: &str, transports: &str, size: usize, iterations: usize) -> String {
    ucx_with(&["-t", test], transports, size, iterations)
}

/// Puts by UCX's transport `cma`, which is process_vm_writev; the client's output.
pub fn cma(size: usize, iterations: usize) -> String {
    ucx_with(&["-t", "put_bw", "-x", "cma", "-d", "memory", "-D", "zcopy"], "all", size, iterations)
}

fn ucx_with(test: &[&str], transports: &str, size: usize, iterations: usize) -> String {
    let port = free_port().to_string();
    let words = |more: &[&str]| {
        let mut words: Vec<String> = ["ucx_perftest", "-p", &port].map(String::from).into();
        words.extend(more.iter().map(|w| w.to_string()));
        words
    };
    let environment = [("UCX_TLS", transports), ("UCX_WARN_UNUSED_ENV_VARS", "n")];
    let server = start(1, &words(&[]), &environment);
    std::thread::sleep(Duration::from_millis(700));
    let (size, iterations) = (size.to_string(), iterations.to_string());
    let client = [&["127.0.0.1", "-s", &size, "-n", &iterations, "-f"], test].concat();
    let text = finish(start(0, &words(&client), &environment), &format!("ucx_perftest {test:?} -s {size}"));
    drop(server);
    text
}

/// The numbers of the last table row of an output.
pub fn last_row(text: &str) -> Vec<f64> {
    text.lines()
        .rev()
        .map(|line| line.split_whitespace().map_while(|w| w.parse().ok()).collect::<Vec<f64>>())
        .find(|numbers| numbers.len() >= 4)
        .unwrap_or_else(|| panic!("no table row in:\n{text}"))
}
