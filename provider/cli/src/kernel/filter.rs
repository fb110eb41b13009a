//! Which frames come to an interface: those to its MAC and to groups, and all others while it is promiscuous. The kernel says
//! what it wants, as to any network card. Frames longer than the card's it cannot have.

use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Context, Result};
use driver::{Flow, Qp};
use fpga_regs::{FlowContext, FlowKind};
use model::attach::SegmentCard;
use netlink_packet_route::link::LinkAttribute;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::place::Place;
use super::tap::Tap;
use super::MAX_MTU;
use crate::launch::network::{get_link, set_link};
use crate::launch::rtnetlink::Route;

/// Changes of interfaces (RTMGRP_LINK, linux/rtnetlink.h).
const LINKS: u32 = 1;

/// How long a change may take to be seen that the kernel does not tell: another interface on top of this one, in a namespace of its
/// own, makes it promiscuous so (macvlan).
const UNTOLD: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// What an interface wants.
pub struct Wanted {
    /// Frames to this MAC.
    pub mac: [u8; 6],
    pub promiscuous: bool,
    /// What it sends at most.
    pub mtu: u32,
}

/// Tells what the kernel wants for an interface.
pub struct Wishes {
    news: Route,
    place: Place,
    tap: Arc<Tap>,
    index: u32,
}

impl Wishes {
    /// Of the interface of this TAP.
    pub fn of(tap: &Arc<Tap>, place: Place) -> Result<Wishes> {
        let (news, index) = (place.news(LINKS)?, place.visit(tap, || tap.index())?);
        Ok(Wishes { news, place, tap: Arc::clone(tap), index })
    }

    /// Does something where the interface is.
    pub fn visit<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.place.visit(&self.tap, act)
    }

    /// As it is now. `None`: it is not here.
    pub fn now(&self) -> Result<Option<Wanted>> {
        // Before the question: what comes during it is asked for again.
        self.news.drain();
        let Some(link) = self.visit(|| get_link(&Route::open(0)?, self.index()?))? else { return Ok(None) };
        let mac = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Address(bytes) => bytes.as_slice().try_into().ok(),
            _ => None,
        });
        // The flag says only what users ask for; the count says also that it is in a bridge.
        let promiscuous = link.attributes.iter().any(|it| matches!(it, LinkAttribute::Promiscuity(1..)));
        let mtu = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        Ok(Some(Wanted {
            mac: mac.context("an Ethernet interface without a MAC")?,
            promiscuous,
            mtu: mtu.context("an interface without an MTU")?,
        }))
    }

    /// An MTU above the card's becomes the card's. To a TAP nobody can tell how much its MTU may be, so the kernel takes any.
    pub fn limit_mtu(&self, wanted: &Wanted) -> Result<()> {
        match wanted.mtu > MAX_MTU as u32 {
            true => self.visit(|| {
                set_link(&Route::open(0)?, self.index()?, vec![LinkAttribute::Mtu(MAX_MTU as u32)])
            }),
            false => Ok(()),
        }
    }

    /// One that has moved on may have another number there.
    fn index(&self) -> Result<u32> {
        if self.place.is_here() {
            Ok(self.index)
        } else {
            self.tap.index()
        }
    }

    /// Waits until something has changed, or may have.
    pub fn wait(&self) {
        // Interrupted at most.
        let _ = rustix::event::poll(&mut [PollFd::new(&self.news.as_fd(), PollFlags::IN)], Some(&UNTOLD));
    }
}

/// The rules that bring frames to a queue pair. Without them none come.
pub struct Filter {
    group: Arc<Qp<SegmentCard>>,
    /// Of the port, and of the VLAN if it is one's.
    rule: FlowContext,
    /// And the MAC that it is for.
    own: Option<([u8; 6], Flow<SegmentCard>)>,
    any: Option<Flow<SegmentCard>>,
    _groups: Flow<SegmentCard>,
}

impl Filter {
    /// For the frames of a VLAN, or those that are left, at a port (from 1): at first those to groups alone.
    pub fn open(group: Arc<Qp<SegmentCard>>, port: u8, vlan: Option<u16>) -> Result<Self> {
        let rule = FlowContext::new().with_kind(FlowKind::KERNEL).with_port(port);
        let rule = match vlan {
            Some(vlan) => rule.of_vlan(vlan),
            // The interface of the port gets what those of its VLANs do not.
            None => rule.with_precedence(2),
        };
        let groups = rule.with_dmac([1, 0, 0, 0, 0, 0]).with_dmac_mask([1, 0, 0, 0, 0, 0]);
        let _groups = group.create_flow(&groups)?;
        Ok(Filter { group, rule, own: None, any: None, _groups })
    }

    /// Lets come what is wanted from now on.
    pub fn set(&mut self, wanted: Wanted) -> Result<()> {
        if self.own.as_ref().is_none_or(|(mac, _)| *mac != wanted.mac) {
            self.own = None;
            let own = self.rule.with_dmac(wanted.mac).with_dmac_mask([0xff; 6]);
            self.own = Some((wanted.mac, self.group.create_flow(&own)?));
        }
        if wanted.promiscuous != self.any.is_some() {
            // After the others: it takes no second copy of a frame.
            let any = self.rule.with_precedence(self.rule.precedence() + 1);
            self.any = wanted.promiscuous.then(|| self.group.create_flow(&any)).transpose()?;
        }
        Ok(())
    }
}
