//! The network namespace that an interface is to be in.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use super::note::NAMES;
use crate::launch::namespace::{self, Kind};

/// Enters the one that is named, or stays. Refuses that of the net's own programs, where all addresses of the cards are local.
pub fn enter(named: Option<&str>, of_net: &[OwnedFd]) -> Result<()> {
    if let Some(named) = named {
        join(named)?;
    }
    if let Some(own) = namespace::find(of_net, Kind::Network) {
        if namespace::is_in(own, Kind::Network)? {
            bail!(
                "all addresses of the net are local in its own network, so nothing would leave by the interface: \
                 name another network namespace (--netns NAME, after ip netns add NAME)"
            );
        }
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
            namespace::keep_network_privileges()?;
        }
    }
    namespace::join(network.as_fd(), Kind::Network)
        .with_context(|| format!("{}: may it be entered by root alone?", what()))
}
