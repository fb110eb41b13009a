//! The network namespace that an interface is in. The process of the interface lives in another, its own: whatever process is
//! in a namespace, or has a socket of it, keeps it alive. The interface is made there and moved, so that it goes with its
//! namespace, which ends the process.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use netlink_packet_route::link::LinkAttribute;
use rustix::net::netdevice::name_to_index;

use super::note::NAMES;
use super::tap::Tap;
use crate::launch::namespace::{self, Kind};
use crate::launch::network::{number_namespace, set_link};
use crate::launch::rtnetlink::Route;

/// Where the process of an interface lives.
pub struct Place {
    /// If not with its interface.
    home: Option<File>,
    /// Where that is to be, until it is there.
    there: Option<File>,
}

impl Place {
    /// Leaves the namespace that this process was started in, before it has any thread. It stays where it may not leave, or
    /// where the interface is already: a file of that can be opened only there.
    pub fn leave(interface: &str) -> Result<Place> {
        let is_here = name_to_index(UnixDatagram::unbound()?, interface).is_ok();
        let there = File::open(Kind::Network.of_this_process())?;
        if is_here || namespace::enter_network().is_err() {
            return Ok(Place { home: None, there: None });
        }
        Ok(Place { home: Some(File::open(Kind::Network.of_this_process())?), there: Some(there) })
    }

    /// Makes the interface and brings it to where it is to be. If that cannot be from elsewhere, the process returns.
    pub fn open(&mut self, make: impl Fn() -> Result<Vec<Tap>>) -> Result<Vec<Tap>> {
        let Some(there) = self.there.take() else { return make() };
        let moved = || -> Result<Vec<Tap>> {
            let taps = make()?;
            let route = Route::open(0)?;
            // For news of it. Without them it is looked at from time to time.
            let _ = number_namespace(&route, there.as_fd());
            set_link(&route, taps[0].index()?, vec![LinkAttribute::NetNsFd(there.as_raw_fd())])
                .context("moving the interface to its network namespace, which needs CAP_NET_ADMIN there")?;
            // Old kernels do not know.
            taps[0].namespace()?;
            Ok(taps)
        };
        moved().or_else(|error| match namespace::join(there.as_fd(), Kind::Network) {
            Ok(()) => {
                self.home = None;
                make()
            }
            Err(_) => Err(error),
        })
    }

    /// Does something where the interface is now.
    pub fn visit<T>(&self, tap: &Tap, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(home) = &self.home else { return act() };
        namespace::join(tap.namespace()?.as_fd(), Kind::Network)?;
        let done = act();
        namespace::join(home.as_fd(), Kind::Network).context("leaving the namespace of the interface")?;
        done
    }

    /// A socket that hears of changes of `groups` (RTMGRP_*) where the interface is.
    pub fn news(&self, groups: u32) -> Result<Route> {
        let news = Route::open(groups)?;
        if self.home.is_some() {
            // As above.
            let _ = news.hear_all_namespaces();
        }
        Ok(news)
    }

    /// True if the interface stays in this process's namespace.
    pub fn is_here(&self) -> bool {
        self.home.is_none()
    }
}

/// Enters the one that is named, or stays. Refuses that of the net's own programs, where all addresses of the cards are local.
pub fn enter(named: Option<&str>, of_net: &[OwnedFd]) -> Result<()> {
    if let Some(named) = named {
        join(named)?;
    }
    if let Some(own) = namespace::find(of_net, Kind::Network) {
        ensure!(
            !namespace::is_in(own, Kind::Network)?,
            "all addresses of the net are local in its own network, so nothing would leave by the interface: \
             name another network namespace (--netns NAME, after ip netns add NAME)"
        );
    }
    Ok(())
}

fn join(named: &str) -> Result<()> {
    let process: Option<u32> = named.parse().ok();
    let path = match process {
        Some(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
        None => Path::new(NAMES).join(named),
    };
    let what = || match process {
        Some(pid) => format!("--netns {pid}: the network of process {pid}"),
        None => format!("--netns {named}: {} (`ip netns list` has the names)", path.display()),
    };
    let network = File::open(&path).with_context(what)?;
    if let Some(pid) = process {
        // Who may administer it is who may so in its user namespace.
        let user = File::open(format!("/proc/{pid}/ns/user")).with_context(what)?;
        if !namespace::is_in(user.as_fd(), Kind::User)? {
            namespace::join(user.as_fd(), Kind::User).with_context(what)?;
            // For the process of the interface, which may not be root there.
            namespace::keep_privileges_between_networks()?;
        }
    }
    namespace::join(network.as_fd(), Kind::Network)
        .with_context(|| format!("{}: may it be entered by root alone?", what()))
}
