//! Who takes a packet that came from outside: it must be known before anybody waits for the card.
//!
//! Anybody can send packets. Those that nobody takes cost their receiver little and others nothing: whether somebody does
//! is looked at without a lock. What is seen then is of some moment, so whoever has the lock looks again.
#![allow(unsafe_code)]

use core::ptr;

use fpga_regs::LagMode;

use super::qp::{receives_in, transport_of};
use super::tables::MAX_FUNCTIONS;
use super::ud::MULTICAST_QPN;
use super::Device;
use crate::address::Gid;
use crate::cm::mad::{Mad, GSI_QKEY, GSI_QPN};
use crate::link::outside::Drop;
use crate::packet::{Packet, PortId};
use crate::wire::path::multicast_mac;
use crate::wire::Transport;

/// A word of the card, as others may be changing it.
macro_rules! seen {
    ($card:ident $($place:tt)*) => {
        // SAFETY: within the card, as the caller of the function promises; every pattern of bytes is a value (`plain`).
        unsafe { ptr::read_volatile(&raw const (*$card) $($place)*) }
    };
}

impl Device {
    /// Whether somebody takes a packet with this payload that came to its port from the address `from`, for the address
    /// `to`; if not, why it is dropped. Only the address that a queue pair is connected to may touch it.
    ///
    /// # Safety
    /// There is a card, which others may be changing.
    pub unsafe fn admits(
        card: *const Device,
        (p, payload): (&Packet, &[u8]),
        (from, to): (&Gid, &Gid),
    ) -> Result<(), Drop> {
        match (p.transport, p.dest_qpn) {
            (Transport::UD, GSI_QPN) if p.qkey != GSI_QKEY => Err(Drop::Qkey),
            (Transport::UD, GSI_QPN) => Mad::read(payload).map(drop).ok_or(Drop::Malformed),
            (Transport::UD, MULTICAST_QPN) => {
                let groups = (0..super::tables::MAX_MCAST).map(|n| seen!(card.mcast[n]));
                let mut groups = groups.filter(|group| group.count != 0);
                let known = multicast_mac(to).is_some() && groups.any(|group| group.gid == *to);
                known.then_some(()).ok_or(Drop::NotHere)
            }
            // SAFETY: as the caller promises.
            _ => unsafe { Device::has_addressee(card, p, from) },
        }
    }

    /// Whether somebody asks for whole frames, the card itself perhaps, which speaks LACP.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn asks_for_frames(card: *const Device) -> bool {
        let grouped = || (0..super::tables::MAX_MCAST).any(|n| seen!(card.mcast[n].count) != 0);
        seen!(card.rules.count) != 0 || grouped() || seen!(card.lag.mode) == LagMode::LACP.0
    }

    /// Whether no other function of the card is in use.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn is_alone(card: *const Device, function: u16) -> bool {
        let known = (seen!(card.tables.function.top) as usize).min(MAX_FUNCTIONS);
        (0..known).all(|f| f == usize::from(function) || !seen!(card.functions[f].used).get())
    }

    /// The same of a packet for a queue pair.
    ///
    /// # Safety
    /// As above.
    unsafe fn has_addressee(card: *const Device, p: &Packet, from: &Gid) -> Result<(), Drop> {
        let q = (p.dest_qpn & 0xffff) as usize;
        // What was never used is not touched: it takes no memory.
        let known = q < (seen!(card.tables.qp.top) as usize).min(super::MAX_QPS);
        if !known || !seen!(card.qps[q].used).get() || seen!(card.qps[q].qpn) != p.dest_qpn {
            return Err(Drop::NoQp);
        }
        // A notification is for any connection.
        let transport = transport_of(seen!(card.qps[q].qp_type));
        let is_for = match p.transport {
            Transport::CNP => !matches!(transport, Transport::UD | Transport::RD),
            other => transport == other,
        };
        let takes = is_for
            && seen!(card.qps[q].port) == p.dst
            && (p.transport == Transport::UD
                || seen!(card.qps[q].encapsulation).link() == p.encapsulation.link())
            && receives_in(seen!(card.qps[q].state));
        if !takes {
            return Err(Drop::NoQp);
        }
        if p.transport == Transport::UD {
            return Ok(());
        }
        // SAFETY: bytes that others may be changing, of which nothing else is made.
        let peer = unsafe { &(*card).qps[q].attributes }.dgid();
        match seen!(card.qps[q].dest) == PortId::NOBODY && peer == *from {
            true => Ok(()),
            false => Err(Drop::Stranger),
        }
    }
}
