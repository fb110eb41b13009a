//! Stock programs in pairs: perftest on two modelled cards, and UCX's own benchmark beside it.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use tests::stock::{compile_c, free_port, wrapped, Program, StockNet};
use tests::{is_root, loopback_address};

use crate::pin::pin;

/// How long one pair may run.
const LIMIT: Duration = Duration::from_secs(120);

/// Option of `verbena run` for programs without privileges, in the namespaces that they have: root could open the files of
/// other processes' mappings, so these run without the right to.
pub const UNPRIVILEGED: &str = "--no-namespace";

/// Starts a program on a core.
pub fn start(core: usize, mut command: Command) -> Program {
    let on_core = move || {
        pin(core);
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(on_core) };
    Program::start(command)
}

/// Asks a program to end (SIGINT); its output.
pub fn stop(running: Program) -> String {
    running.signal(libc::SIGINT);
    running.wait(Duration::from_secs(10)).said
}

/// Runs a server on core 1, and when it listens its client on core 0; the client's output.
fn both(server: Command, client: Command, port: u16) -> String {
    let mut server = start(1, server);
    server.expect_listening(port);
    let said = start(0, client).wait(LIMIT).expect_good();
    server.wait(LIMIT).expect_good();
    said
}

/// Runs a perftest pair with the same options; the client's output.
pub fn perftest(test: &str, options: &str) -> String {
    pair(&[], test, options, options)
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
    let nets = [StockNet::new(), StockNet::new()];
    let port = free_port();
    let side = |net: &StockNet, (card, at): (u32, String), host: &str| {
        // Who is not run for half a second has lost nothing yet.
        let line = format!("-d verbena{card} -u 17 -p {port} {options} {host}");
        net.command(&["--port", &at], test, &line.split_whitespace().collect::<Vec<_>>())
    };
    both(side(&nets[1], server, ""), side(&nets[0], client, "127.0.0.1"), port)
}

/// Runs a perftest pair, client on core 0 and server on core 1, on a net made with these options; the client's output.
pub fn pair(made: &[&str], test: &str, server: &str, client: &str) -> String {
    let net = StockNet::new();
    let port = free_port();
    let side = |card: u32, options: &str, host: &str| {
        let line = format!("-d verbena{card} -p {port} {options} {host}");
        let command = net.command(made, test, &line.split_whitespace().collect::<Vec<_>>());
        if !(made.contains(&UNPRIVILEGED) && is_root()) {
            return command;
        }
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--bounding-set", "-sys_admin,-checkpoint_restore"]);
        wrapped(setpriv, &command)
    };
    both(side(1, server, ""), side(0, client, "127.0.0.1"), port)
}

/// Runs `tests/c/reader.c`: GB/s of messages that the receiver reads.
pub fn reader(size: usize, messages: usize) -> f64 {
    let program = compile_c("reader");
    let net = StockNet::new();
    let arguments = ["verbena0", "verbena1", &size.to_string(), &messages.to_string()];
    let said = start(0, net.command(&[], program, &arguments)).wait(LIMIT).expect_good();
    let figure = said.split_whitespace().find_map(|word| word.parse().ok());
    figure.unwrap_or_else(|| panic!("no figure in:\n{said}"))
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
    let port = free_port();
    let side = |more: &[&str]| {
        let mut command = Command::new("ucx_perftest");
        command.args(["-p", &port.to_string()]).args(more);
        command.env("UCX_TLS", transports).env("UCX_WARN_UNUSED_ENV_VARS", "n");
        command
    };
    // It does not end by itself.
    let mut server = start(1, side(&[]));
    server.expect_listening(port);
    let (size, iterations) = (size.to_string(), iterations.to_string());
    let client = [&["127.0.0.1", "-s", &size, "-n", &iterations, "-f"], test].concat();
    start(0, side(&client)).wait(LIMIT).expect_good()
}

/// The numbers of the last table row of an output.
pub fn last_row(text: &str) -> Vec<f64> {
    text.lines()
        .rev()
        .map(|line| line.split_whitespace().map_while(|w| w.parse().ok()).collect::<Vec<f64>>())
        .find(|numbers| numbers.len() >= 4)
        .unwrap_or_else(|| panic!("no table row in:\n{text}"))
}
