//! The TCP/IP stack of one core: smoltcp on the core's queues.

use std::net::Ipv4Addr;

use anyhow::Result;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

use crate::queues::Queues;

/// Bytes that a socket can hold in each direction.
const BUFFER: usize = 4096;
/// How often a peer that says nothing is asked whether it is there, and how long it may leave that unanswered.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long the card may take to send the last frames.
const LAST: std::time::Duration = std::time::Duration::from_secs(1);
/// Bits of the network in all addresses.
const NETWORK: u8 = 24;

/// A stack.
pub struct Stack {
    queues: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    began: std::time::Instant,
}

impl Stack {
    /// On these queues, with this address. The first local ports and sequence numbers follow from `seed`.
    pub fn new(mut queues: Queues, address: Ipv4Addr, seed: u64) -> Self {
        let mut config = Config::new(EthernetAddress(queues.mac).into());
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queues, Instant::ZERO);
        interface.update_ip_addrs(|all| {
            // It has room for one.
            let _ = all.push(IpCidr::new(IpAddress::from(address), NETWORK));
        });
        Stack { queues, interface, sockets: SocketSet::new(Vec::new()), began: std::time::Instant::now() }
    }

    /// A new socket for TCP.
    pub fn add(&mut self) -> SocketHandle {
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        // Each message is one segment, so nothing is to be gathered.
        socket.set_nagle_enabled(false);
        // A peer that was killed, or pulled out, has no other end.
        socket.set_keep_alive(Some(KEEP_ALIVE));
        socket.set_timeout(Some(TIMEOUT));
        self.sockets.add(socket)
    }

    /// A socket.
    pub fn socket(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Connects a socket from a local port.
    pub fn connect(&mut self, handle: SocketHandle, to: (Ipv4Addr, u16), local: u16) -> Result<()> {
        let socket = self.sockets.get_mut::<Socket>(handle);
        let to = (IpAddress::from(to.0), to.1);
        socket.connect(self.interface.context(), to, local).map_err(|error| anyhow::anyhow!("{error:?}"))
    }

    /// Appends what a socket has received.
    pub fn take(&mut self, handle: SocketHandle, to: &mut Vec<u8>) {
        let socket = self.socket(handle);
        // Its buffer is a ring: what has come may be in two pieces.
        while socket.can_recv() {
            // It can.
            let _ = socket.recv(|bytes| {
                to.extend_from_slice(bytes);
                (bytes.len(), ())
            });
        }
    }

    /// Handles all that has come, and sends what is to be sent.
    pub fn poll(&mut self) -> Result<()> {
        self.queues.poll()?;
        let now = Instant::from_micros(self.began.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.queues, &mut self.sockets);
        Ok(())
    }

    /// As `poll`, until all of it has left.
    pub fn drain(&mut self) -> Result<()> {
        let begin = std::time::Instant::now();
        loop {
            self.poll()?;
            if self.queues.are_idle() || begin.elapsed() > LAST {
                return Ok(());
            }
        }
    }
}
