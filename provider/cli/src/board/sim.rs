//! A modelled card: on a net that runs, or on a private one whose keeper is a thread of this process.

use std::path::Path;

use anyhow::{Context, Result};
use model::attach::{NetOptions, PrivateNet, SegmentCard};
use model::device::defect::Defect;
use model::link::{LinkOptions, Wire};

use crate::args::CardName;
use crate::net::runtime::Net;

/// The card of a private net, defective or not.
pub fn private(defect: Defect) -> Result<SegmentCard> {
    let directory = tempfile::tempdir().context("making a directory for the net's socket")?;
    // A link that is cut loses frames: there are frames on the exact wire only.
    let wire = if defect == Defect::LinkFlap { Wire::Exact } else { Wire::Fast };
    let options = NetOptions { link: LinkOptions { wire, ..LinkOptions::default() }, ..NetOptions::from(1) };
    let open = |socket: &Path| SegmentCard::open(socket, 0);
    let started = PrivateNet::start(&directory.path().join("net/sock"), options, open);
    let (net, card) = started.context("starting a private net of modelled cards")?;
    card.set_defect(defect);
    // It ends after the card, which a driver keeps that cannot stop it, or with the command. Nobody else comes: the directory
    // can go, so that it does not stay when Ctrl-C ends the command.
    std::mem::forget(net);
    Ok(card)
}

/// A card of a running net.
pub fn joined(net: &str, card: CardName) -> Result<SegmentCard> {
    let net = Net::running(net)?;
    SegmentCard::open(&net.socket(), card.0)
        .with_context(|| format!("opening {card} of net `{}`", net.name()))
}
