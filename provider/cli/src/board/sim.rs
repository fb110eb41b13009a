//! A modelled card: on a net that runs, or on a private one whose keeper is a thread of this process.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use model::attach::{run_keeper, NetOptions, SegmentCard};
use model::device::defect::Defect;
use model::link::{LinkOptions, Wire};
use model::segment::KeeperError;

use crate::net::keeper::{END_TIME, START_TIME};
use crate::net::runtime::Net;

/// What a private net needs while its card is open. Drop it after the card.
pub struct Private {
    keeper: Option<JoinHandle<Result<(), KeeperError>>>,
}

/// A card of a private net, defective or not.
pub fn private(defect: Defect) -> Result<(SegmentCard, Private)> {
    let directory = tempfile::tempdir().context("making a directory for the net's socket")?;
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700))?;
    let socket = directory.path().join("net.sock");
    // A link that is cut loses frames: there are frames on the exact wire only.
    let wire = if defect == Defect::LinkFlap { Wire::Exact } else { Wire::Fast };
    let options = NetOptions { link: LinkOptions { wire, ..LinkOptions::default() }, ..NetOptions::from(1) };
    let at = socket.clone();
    let keeper = std::thread::spawn(move || run_keeper(&at, options));
    let card = first(&socket, &keeper)?;
    card.set_defect(defect);
    // Nobody else comes: the directory can go, so that it does not stay when Ctrl-C ends the command.
    Ok((card, Private { keeper: Some(keeper) }))
}

fn first(socket: &Path, keeper: &JoinHandle<Result<(), KeeperError>>) -> Result<SegmentCard> {
    let until = Instant::now() + START_TIME;
    loop {
        match SegmentCard::open(socket, 0) {
            Ok(card) => return Ok(card),
            Err(error) if keeper.is_finished() || Instant::now() > until => {
                return Err(error).context("starting a private net of modelled cards");
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// A card of a running net.
pub fn joined(net: &str, number: u32) -> Result<SegmentCard> {
    let net = Net::named(net)?;
    if !net.socket().exists() {
        bail!("net `{0}` is not running: start something on it (verbena run --net {0} PROGRAM)", net.name());
    }
    SegmentCard::open(&net.socket(), number)
        .with_context(|| format!("opening card {number} of net {}", net.name()))
}

impl Drop for Private {
    fn drop(&mut self) {
        // The keeper ends by itself when the last card is closed.
        let until = Instant::now() + END_TIME;
        while self.keeper.as_ref().is_some_and(|keeper| !keeper.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.keeper.take_if(|keeper| keeper.is_finished()).is_none() {
            model::tell!("verbena: the keeper of the private net did not end");
        }
    }
}
