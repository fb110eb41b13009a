//! The TCP port on which perftest's two sides meet.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

pub fn free() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("finding a TCP port")?;
    Ok(listener.local_addr().context("finding a TCP port")?.port())
}

/// True once a process listens there in the network namespace of process `pid`. Read from the table: a connection
/// would take the one connection that perftest's server accepts.
pub fn is_listening(pid: u32, port: u16) -> bool {
    ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
        .any(|table| listens(&table, port))
}

fn listens(table: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let address = fields.next().unwrap_or("");
        address.ends_with(&local) && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_seen_without_connecting() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listening(std::process::id(), port));
        assert_ne!(free().unwrap(), 0);
    }

    #[test]
    fn connections_are_not_listeners() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000\n   \
            1: 0100007F:1F91 0100007F:B2C4 01 00000000\n";
        assert!(listens(table, 0x1f90));
        assert!(!listens(table, 0x1f91));
        assert!(!listens(table, 0xb2c4));
    }
}
