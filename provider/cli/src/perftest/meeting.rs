//! Where the two sides meet: at a TCP port, or by the connection manager (`-R`, `-z`).

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use model::address::{gid, ip_of};
use model::attach::listeners;
use model::link::MediumSpec;
use model::packet::PortId;

use super::options::Options;
use super::port;
use super::side::Side;
use crate::net::keeper::NetInfo;
use crate::net::runtime::Net;

/// What a client of `-R` says whom the server tells to connect before it listens (perftest issue 93). It may work when tried
/// again: first the answer to a client of connections (reason 8 of a REJ), then of datagrams (status 1 of a SIDR_REP).
pub const EARLY: &[&str] =
    &["Event: RDMA_CM_EVENT_REJECTED; error: 8.", "Event: RDMA_CM_EVENT_UNREACHABLE; error: 1."];

/// Where they meet.
#[derive(Clone, Copy, Debug)]
pub struct Meeting {
    /// By the connection manager: the server's address.
    address: Option<IpAddr>,
}

impl Meeting {
    /// How sides with these options meet; refused where they cannot.
    pub fn new(info: &NetInfo, options: &Options, loopback: bool) -> Result<Meeting> {
        let port = |card| PortId { card, port: options.ib_port.unwrap_or(1).saturating_sub(1) };
        let (server, client) = (info.wire.outside(port(0)), info.wire.outside(port(1)));
        if !loopback && server.is_some() != client.is_some() {
            bail!(
                "the two sides cannot reach each other: only the port of verbena{} leads outside; use --loopback, or start \
                 each side by `verbena run`",
                if server.is_some() { 0 } else { 1 }
            );
        }
        if !options.by_address {
            return Ok(Meeting { address: None });
        }
        if loopback && info.cards > 1 {
            bail!(
                "--loopback: who connects by address takes another card than the other side's, whatever -d says; \
                 add --cards 1"
            );
        }
        ensure!(
            loopback || client.is_none(),
            "who connects to the address of a port that leads outside does so by that port itself: use --loopback --cards 1 \
             to measure that, or start each side by `verbena run` in a net of its own"
        );
        let address = match server {
            Some(MediumSpec::Udp(address)) => *address,
            _ => ip_of(gid(port(0), 1)),
        };
        Ok(Meeting { address: Some(address) })
    }

    /// Whether the server takes the client. `number` is the port.
    pub fn is_ready(&self, net: &Net, server: &Side, number: u16) -> Result<bool> {
        Ok(match self.address {
            None => port::is_listening(server.pid(), number),
            Some(_) => listeners(&net.socket()).context("asking the net for listeners")?.contains(&number),
        })
    }

    /// What the server does then.
    pub fn what(&self, number: u16) -> String {
        match self.address {
            None => format!("listen on TCP port {number}"),
            Some(_) => format!("listen on port {number} of the connection manager"),
        }
    }

    /// Tells the client where the server is.
    pub fn tell(&self, client: &mut Command) {
        client.arg(self.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)).to_string());
    }

    /// Whether a client that said this came too early, and may try again.
    pub fn was_early(&self, said: &str) -> bool {
        self.address.is_some() && EARLY.iter().any(|early| said.contains(early))
    }
}
