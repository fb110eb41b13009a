//! The ways in which the cards come into a program's view; the first that works is taken.

use std::os::fd::BorrowedFd;
use std::path::Path;

use anyhow::{Context, Result};

use super::fallback::{self, Variables};
use super::mounts;
use super::namespace::{self, Kind};
use super::tree::{Tree, DRIVER_STEM};
use crate::files::make_directory;
use crate::net::keeper::Held;

/// Which network a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Network {
    /// That of the net: an interface for each port, and nothing of the host.
    Own,
    /// The host's.
    Host,
}

/// How the cards came into the program's view.
pub struct Way {
    /// The same in words.
    pub message: String,
    /// Variables for the program.
    pub variables: Variables,
    /// The program is on the net's own network.
    pub own_network: bool,
}

impl Way {
    /// Takes the first way that works.
    pub fn find(tree: &Tree<'_>, dir: &Path, held: Option<&Held>, network: Network) -> Result<Way> {
        let namespaces = held.map_or(&[][..], |held| &held.namespaces);
        let own = namespace::find(namespaces, Kind::Network);
        let mut way = Way::enter(tree, dir, held, own.filter(|_| network == Network::Own))?;
        way.own_network = own.is_some_and(|it| namespace::is_in(it, Kind::Network).unwrap_or(false));
        if held.is_some() {
            way.message += match (way.own_network, network) {
                (true, Network::Own) => ", own network",
                (true, Network::Host) => ", the net's network, in which it was started",
                (false, Network::Host) => ", the host's network",
                (false, Network::Own) => ", the host's network (verbena doctor says why)",
            };
        }
        Ok(way)
    }

    fn enter(
        tree: &Tree<'_>,
        dir: &Path,
        held: Option<&Held>,
        network: Option<BorrowedFd<'_>>,
    ) -> Result<Way> {
        let staging = dir.join("staging");
        let mut reasons = Vec::new();
        if rustix::process::geteuid().is_root() {
            match enter_as_root(tree, &staging, network) {
                Ok(()) => return Ok(Way::by_mounts("private mount namespace")),
                Err(error) => reasons.push(format!("as root: {error:#}")),
            }
        }
        if let Some(user) = held.and_then(|held| namespace::find(&held.namespaces, Kind::User)) {
            if namespace::is_in(user, Kind::User)? && mounts::shown(tree.socket) {
                return Ok(Way::new("shown here already".to_owned(), Variables::new()));
            }
            match enter_as_user(tree, &staging, network, || namespace::join(user, Kind::User)) {
                Ok(()) => return Ok(Way::by_mounts("private mount namespace in the net's user namespace")),
                Err(error) => reasons.push(format!("the net's user namespace: {error:#}")),
            }
        }
        // The net's network belongs to another user namespace.
        match enter_as_user(tree, &staging, None, namespace::enter_user) {
            Ok(()) => {
                if held.is_some() {
                    warn_of_a_namespace_of_its_own(&reasons);
                }
                Ok(Way::by_mounts("private mount namespace in a user namespace"))
            }
            Err(error) => {
                reasons.push(format!("user namespace: {error:#}"));
                Way::by_environment(tree, dir, reasons.join("; "))
            }
        }
    }

    /// The way without namespaces; `reason` says why.
    pub fn by_environment(tree: &Tree<'_>, dir: &Path, reason: String) -> Result<Way> {
        let variables = fallback::prepare(tree, dir).with_context(|| {
            format!("neither namespaces ({reason}) nor environment variables can show the cards")
        })?;
        let message = format!(
            "environment variables only ({reason}); programs that read \
             /sys/class/infiniband themselves see no card"
        );
        Ok(Way::new(message, variables))
    }

    fn by_mounts(name: &str) -> Way {
        let mut variables = Variables::new();
        let mut message = name.to_owned();
        if !mounts::has_config_dir() {
            message += &format!(" and {} ({} is missing)", fallback::DRIVERS, mounts::CONFIG_DIR);
            let stem = Path::new(mounts::NODE_DIR).join(DRIVER_STEM);
            variables.push((fallback::DRIVERS, stem));
        }
        Way::new(message, variables)
    }

    fn new(message: String, variables: Variables) -> Way {
        Way { message, variables, own_network: false }
    }
}

fn enter_as_root(tree: &Tree<'_>, staging: &Path, network: Option<BorrowedFd<'_>>) -> Result<()> {
    make_directory(staging)?;
    show_in_private(tree, staging, network)
}

/// Said even with --quiet: transfers will fail.
fn warn_of_a_namespace_of_its_own(reasons: &[String]) {
    let why = match reasons {
        [] => "the net's keeper has none for all".to_owned(),
        reasons => reasons.join("; "),
    };
    model::tell!(
        "verbena: the program gets a user namespace of its own ({why}): other programs of the net cannot reach \
         its memory that does not move into the cards' segment (shared memory, the ends of unaligned buffers); \
         end all programs of the net and start them again, or start all with --no-namespace"
    );
}

fn enter_as_user(
    tree: &Tree<'_>,
    staging: &Path,
    network: Option<BorrowedFd<'_>>,
    enter_namespace: impl Fn() -> Result<()>,
) -> Result<()> {
    make_directory(staging)?;
    let enter = || {
        enter_namespace()?;
        show_in_private(tree, staging, network)
    };
    namespace::rehearse(enter)?;
    enter()?;
    namespace::keep_network_privileges()
}

/// Shows the cards in a new mount namespace, and their interfaces if the network can be joined.
fn show_in_private(tree: &Tree<'_>, staging: &Path, network: Option<BorrowedFd<'_>>) -> Result<()> {
    namespace::enter_mount()?;
    mounts::make_private()?;
    let network = network.is_some_and(|it| namespace::join(it, Kind::Network).is_ok());
    mounts::show(&Tree { network, ..*tree }, staging)
}
