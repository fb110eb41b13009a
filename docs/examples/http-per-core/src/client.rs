//! The client's part of a core: connections whose answers come to this core, each with one request on its way.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;

use crate::queues::Queues;
use crate::stack::Stack;
use crate::HTTP;

/// How long a connection or an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Local ports to choose from (RFC 6335: dynamic ports).
const PORTS: std::ops::RangeInclusive<u16> = 49152..=65535;
/// Every request.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: verbena\r\n\r\n";

/// What a core was answered.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    connections: usize,
    /// Answers, by what they say.
    said: BTreeMap<String, u64>,
}

impl Tally {
    /// How many came.
    pub fn answers(&self) -> u64 {
        self.said.values().sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connections, {} answers", self.connections, self.answers())?;
        self.said.iter().try_for_each(|(said, count)| write!(f, "; {count} from {said}"))
    }
}

struct Connection {
    socket: SocketHandle,
    asked: bool,
    /// What has come of the answer.
    input: Vec<u8>,
    /// Since when it waits.
    since: Instant,
}

/// A core's client.
pub struct Client {
    stack: Stack,
    connections: Vec<Connection>,
    server: Ipv4Addr,
    tally: Tally,
}

impl Client {
    /// On a core's queues, with so many connections to a server, from local ports that are `mine`.
    pub fn new(
        queues: Queues,
        address: Ipv4Addr,
        server: Ipv4Addr,
        connections: u16,
        mine: impl Fn(u16) -> bool,
    ) -> Result<Self> {
        // A server that was asked from the same port a moment ago may not have forgotten it.
        let seed = Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id());
        let mut stack = Stack::new(queues, address, seed);
        let from = (seed % 8192) as usize;
        let ports: Vec<u16> =
            PORTS.cycle().skip(from).take(PORTS.count()).filter(|&port| mine(port)).collect();
        ensure!(ports.len() >= connections.into(), "only {} local ports come to this core", ports.len());
        let mut all = Vec::new();
        for &port in ports.iter().take(connections.into()) {
            let socket = stack.add();
            stack.connect(socket, (server, HTTP), port)?;
            all.push(Connection { socket, asked: false, input: Vec::new(), since: Instant::now() });
        }
        let tally = Tally { connections: all.len(), said: BTreeMap::new() };
        Ok(Client { stack, connections: all, server, tally })
    }

    /// Takes the answers that have come, and asks again.
    pub fn poll(&mut self) -> Result<()> {
        self.stack.poll()?;
        let Client { stack, connections, server, tally } = self;
        for connection in connections {
            stack.take(connection.socket, &mut connection.input);
            if let Some((length, said)) = answer(&connection.input)? {
                connection.input.drain(..length);
                *tally.said.entry(said).or_default() += 1;
                connection.asked = false;
            }
            let socket = stack.socket(connection.socket);
            if socket.state() == State::Closed {
                bail!("{server} has ended a connection, or refused it");
            }
            if !connection.asked && socket.can_send() {
                socket.send_slice(REQUEST)?;
                (connection.asked, connection.since) = (true, Instant::now());
            }
            let waited = connection.since.elapsed();
            ensure!(
                waited < PATIENCE,
                "no answer from {server} for {} s: is the server there?",
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }

    /// Resets the connections, so that the server's sockets are free at once; what was answered.
    pub fn end(mut self) -> Result<Tally> {
        for connection in &self.connections {
            self.stack.socket(connection.socket).abort();
        }
        self.stack.drain()?;
        Ok(self.tally)
    }
}

/// The first answer of some bytes, once it is complete: its bytes and what it says.
fn answer(bytes: &[u8]) -> Result<Option<(usize, String)>> {
    let mut fields = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head) = response.parse(bytes).context("an answer")? else {
        return Ok(None);
    };
    ensure!(response.code == Some(200), "the server answers with {:?}", response.code);
    let length = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let length = length.context("an answer without its length")?.value;
    let length: usize = std::str::from_utf8(length)?.trim().parse().context("the length of an answer")?;
    let Some(body) = bytes.get(head..head + length) else { return Ok(None) };
    Ok(Some((head + length, std::str::from_utf8(body)?.trim().to_string())))
}
