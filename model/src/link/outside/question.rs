//! Whether a RoCE port elsewhere answers: a question of the connection manager, as every RoCE stack answers it.
//!
//! It asks by a SIDR_REQ for a service that nobody has (volume 1, 12.11), from a UDP source port of its own. The answer goes to
//! UDP port 4791, as all packets of RoCEv2 do: a firewall that only lets answers in does not take it for one.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::arrivals::ROOM;
use super::message::{self, set};
use super::udp::{bound, prepare_receiver, prepare_sender, HOP_LIMIT};
use super::udp_reader::{way, Checker};
use crate::address::gid_of;
use crate::cm::mad::{attribute, header, sidr_req, Mad, GSI_QKEY, GSI_QPN};
use crate::wire::udp::ROCE_PORT;
use crate::wire::{frame, Bth, BthOpcode, Deth, DropReason, Ethernet, Headers, Network, Path, Udp};

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is a RoCE port: packets from here arrive there, and those from there arrive here.
    Right,
    /// A packet came whose ICRC is wrong: something on the way has changed it.
    Changed,
    /// The machine there, or a firewall, said that nobody has that UDP port.
    Nobody,
    /// Nothing came in time.
    Silence,
}

/// Times that it is asked, since packets may be lost.
const TIMES: u32 = 4;
/// How long it is waited each time. All together is longer than the kernel looks for an Ethernet address.
const PATIENCE: Duration = Duration::from_millis(900);
/// The packet: headers and a datagram of 256 bytes.
const LONGEST: usize = 512;

/// Asks the RoCE port at an address from an address of this machine, whose UDP port 4791 must be free.
///
/// # Errors
/// A socket cannot be had, or there is no way to that address.
pub fn ask(from: IpAddr, to: IpAddr) -> io::Result<Answer> {
    let receiver = bound(SocketAddr::new(from, ROCE_PORT))?;
    prepare_receiver(&receiver, from)?;
    let sender = UdpSocket::bind((from, 0))?;
    let sport = sender.local_addr()?.port();
    let sender = OwnedFd::from(sender);
    prepare_sender(&sender, from)?;
    // What the network says of a packet that does not arrive.
    match from {
        IpAddr::V4(_) => set(&sender, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?,
        IpAddr::V6(_) => set(&sender, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?,
    }
    let transaction = u64::from(std::process::id()) << 16 | u64::from(sport);
    let packet = question((from, sport), to, transaction);
    let mut ear = Ear { receiver, from, to, transaction, checker: Checker::default(), bytes: vec![0; ROOM] };
    let mut changed = false;
    for _ in 0..TIMES {
        let (parts, length) = ([IoSlice::new(&packet)], packet.len() as u16);
        let mut failed = message::send(sender.as_fd(), (to, ROCE_PORT).into(), &parts, length, 0).err();
        let until = Instant::now() + PATIENCE;
        while failed.is_none() {
            match ear.listen(until) {
                Some(Answer::Right) => return Ok(Answer::Right),
                answer => changed |= answer.is_some(),
            }
            let Some(rest) = until.checked_duration_since(Instant::now()) else { break };
            let rest = Timespec { tv_sec: 0, tv_nsec: i64::from(rest.subsec_nanos()) };
            let mut polled = [
                PollFd::new(&ear.receiver, PollFlags::IN),
                // An error is told unasked.
                PollFd::new(&sender, PollFlags::empty()),
            ];
            // Interrupted at most.
            let _ = rustix::event::poll(&mut polled, Some(&rest));
            failed = rustix::net::sockopt::socket_error(&sender)?.err().map(io::Error::from);
        }
        match failed.map(|error| (error.kind(), error)) {
            None => {}
            Some((io::ErrorKind::ConnectionRefused, _)) => return Ok(Answer::Nobody),
            Some((_, error)) => return Err(error),
        }
    }
    Ok(if changed { Answer::Changed } else { Answer::Silence })
}

/// The packet from the BTH on.
fn question((from, sport): (IpAddr, u16), to: IpAddr, transaction: u64) -> Vec<u8> {
    let network = Network::from_gids(&gid_of(from), &gid_of(to), 0, 0, HOP_LIMIT);
    let path = Path { network, udp_sport: sport, ..Path::default() };
    let mut headers = Headers::default();
    let opcode = BthOpcode::UD_SEND_ONLY;
    headers.bth = Bth { opcode, pkey: 0xffff, dest_qp: GSI_QPN, ..Bth::default() };
    headers.deth = Deth { qkey: GSI_QKEY, src_qp: GSI_QPN };
    let mut mad = Mad::new(attribute::SIDR_REQ, transaction);
    mad.set(sidr_req::REQUEST_ID, transaction);
    mad.set(sidr_req::PKEY, 0xffff);
    let mut bytes = [0; LONGEST];
    let length = frame::encode(&path, &headers, mad.bytes(), &mut bytes).expect("it has room");
    bytes[Ethernet::BYTES + network.header_len() + Udp::BYTES..length].to_vec()
}

/// What comes to the port.
struct Ear {
    receiver: OwnedFd,
    /// The own address, and the one that is asked.
    from: IpAddr,
    to: IpAddr,
    transaction: u64,
    checker: Checker,
    bytes: Vec<u8>,
}

impl Ear {
    /// Takes what has come: whether the answer is among it, or at least something that was changed. Packets for
    /// others that use this address are nothing. They may come faster than they are looked at.
    fn listen(&mut self, until: Instant) -> Option<Answer> {
        let mut found = None;
        while Instant::now() < until {
            let received = message::receive(self.receiver.as_fd(), &mut self.bytes);
            let Ok(message::Received { bytes, segment, from: Some(from), tos }) = received else { break };
            let path = way(from, self.from, tos);
            for packet in self.bytes[..bytes].chunks(segment.max(1)) {
                match self.checker.decode(&path, packet) {
                    Ok(frame) if is_answer(frame.payload, self.transaction) => return Some(Answer::Right),
                    Err(DropReason::Icrc) if from.ip() == self.to => found = Some(Answer::Changed),
                    _ => {}
                }
            }
        }
        found
    }
}

fn is_answer(payload: &[u8], transaction: u64) -> bool {
    Mad::read(payload).is_some_and(|mad| {
        mad.attribute() == attribute::SIDR_REP && mad.get(header::TRANSACTION) == transaction
    })
}
