//! The links of a net's ports: how they are, and pulling their cables and disabling them while programs run.

use std::path::Path;

use super::card::{Joined, PATIENCE};
use super::error::OpenError;
use crate::env::Env;
use crate::link::LinkArea;
use crate::packet::{PortId, PORTS};
use crate::world::World;

/// How the link of a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// It is up.
    pub up: bool,
    /// Software has disabled the port.
    pub disabled: bool,
}

/// Each port of the net whose keeper listens at `socket`, and its link.
pub fn cables(socket: &Path) -> Result<Vec<(PortId, LinkState)>, OpenError> {
    Ok(Joined::new(socket)?.outside_time(|world, now| {
        let state = |port: PortId| LinkState {
            up: world.is_up(port, || now),
            disabled: world.cards[usize::from(port.card)].is_disabled(port.port),
        };
        world.ports().map(|port| (port, state(port))).collect()
    })?)
}

/// Pulls the cable of a port of that net, or plugs it in, at both of its ends. What is sent meanwhile is lost and counted
/// (`LINK_LOST`); programs are told by `IBV_EVENT_PORT_ERR` and `IBV_EVENT_PORT_ACTIVE`.
/// Whether the port is up to programs after that: where ports are one, another cable may be there.
pub fn plug(socket: &Path, port: PortId, pulled: bool) -> Result<bool, OpenError> {
    set(socket, port, Setting::Pulled(pulled))
}

/// Enables a port of that net or disables it, as SET_PORT does; where ports are one, all of them. Whether it is up after that.
pub fn enable(socket: &Path, port: PortId, enabled: bool) -> Result<bool, OpenError> {
    set(socket, port, Setting::Enabled(enabled))
}

/// What is done to a port.
#[derive(Clone, Copy)]
enum Setting {
    Pulled(bool),
    Enabled(bool),
}

fn set(socket: &Path, port: PortId, to: Setting) -> Result<bool, OpenError> {
    let joined = Joined::new(socket)?;
    let link = &joined.net().link;
    match &joined {
        Joined::Wall(runner) => runner.control(|world, env| apply(world, link, (port, to), env))?,
        Joined::Virtual(threads) => {
            threads.outside_time(PATIENCE, |world, env| apply(world, link, (port, to), env))?
        }
    }
}

/// Refuses a port that the net does not have.
pub(super) fn check(world: &World, PortId { card, port }: PortId) -> Result<(), OpenError> {
    let count = world.count();
    match usize::from(port) < PORTS {
        _ if card >= count => Err(OpenError::NoCard { card: card.into(), count }),
        false => Err(OpenError::NoPort { port }),
        true => Ok(()),
    }
}

fn apply(
    world: &mut World,
    link: &LinkArea,
    (port, to): (PortId, Setting),
    env: &mut impl Env,
) -> Result<bool, OpenError> {
    check(world, port)?;
    change(world, link, |world| match to {
        Setting::Pulled(pulled) => world.plug(port, pulled, env),
        Setting::Enabled(enabled) => world.cards[usize::from(port.card)].enable(port.port, enabled, env),
    });
    Ok(world.cards[usize::from(port.card)].shown_link(port.port, env.now()).0)
}

/// Changes links of ports.
pub(super) fn change(world: &mut World, link: &LinkArea, change: impl FnOnce(&mut World)) {
    // First: whoever is killed in between leaves cables that are looked at.
    link.set_cut(true);
    change(world);
    link.follow(world);
}
