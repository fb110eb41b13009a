//! TCP ports on which the programs shake hands.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use super::Program;
use crate::wait::{LIMIT, PAUSE};

/// Below the range that the kernel gives to outgoing connections, which would take them away.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A free port, a different one each time.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test binaries that run at once start at different places.
    let start = (std::process::id() % 120) as u16 * 100;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start + step % COUNT) % COUNT;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
    panic!("no free TCP port between {FIRST} and {}", FIRST + COUNT);
}

/// Waits until `server` listens on `port`; false when it ends or takes too long.
///
/// Read from the kernel's table: to connect would take the one connection that it accepts.
pub fn wait_until_listening(server: &mut Program, port: u16, limit: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if listens(server.pid(), port) {
            return true;
        }
        if server.has_ended() {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    false
}

impl Program {
    /// Waits until it listens on a TCP port; panics when it ends or takes too long.
    #[track_caller]
    pub fn expect_listening(&mut self, port: u16) {
        let listens = wait_until_listening(self, port, LIMIT);
        assert!(listens, "`{}` does not listen; it said:\n{}", self.line(), self.said());
    }
}

/// In the network namespace of process `pid`.
fn listens(pid: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let local = format!(":{port:04X}");
    let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{pid}/net/{table}"));
    tables.iter().filter_map(|path| fs::read_to_string(path).ok()).any(|table| {
        table.lines().skip(1).any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let address = fields.next().unwrap_or("");
            address.ends_with(&local) && fields.nth(1) == Some(LISTEN)
        })
    })
}
