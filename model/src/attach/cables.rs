//! The links of a net's ports: how they are, and pulling their cables while programs run.

use std::path::Path;

use super::card::{Joined, PATIENCE};
use super::error::OpenError;
use crate::env::Env;
use crate::link::LinkArea;
use crate::packet::{PortId, PORTS};
use crate::world::World;

/// Each port of the net whose keeper listens at `socket`, and whether its link is up.
pub fn cables(socket: &Path) -> Result<Vec<(PortId, bool)>, OpenError> {
    Ok(Joined::new(socket)?
        .outside_time(|world, now| world.ports().map(|port| (port, world.is_up(port, || now))).collect())?)
}

/// Pulls the cable of a port of that net, or plugs it in, at both of its ends. What is sent meanwhile is lost and counted
/// (`LINK_LOST`); programs are told by `IBV_EVENT_PORT_ERR` and `IBV_EVENT_PORT_ACTIVE`.
/// Whether the port is up to programs after that: where ports are one, another cable may be there.
pub fn plug(socket: &Path, port: PortId, pulled: bool) -> Result<bool, OpenError> {
    let joined = Joined::new(socket)?;
    let link = &joined.net().link;
    match &joined {
        Joined::Wall(runner) => runner.control(|world, env| pull(world, link, (port, pulled), env))?,
        Joined::Virtual(threads) => {
            threads.outside_time(PATIENCE, |world, env| pull(world, link, (port, pulled), env))?
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

fn pull(
    world: &mut World,
    link: &LinkArea,
    (port, pulled): (PortId, bool),
    env: &mut impl Env,
) -> Result<bool, OpenError> {
    check(world, port)?;
    change(world, link, |world| world.plug(port, pulled, env));
    Ok(world.cards[usize::from(port.card)].shown_link(port.port, env.now()).0)
}

/// Changes links of ports.
pub(super) fn change(world: &mut World, link: &LinkArea, change: impl FnOnce(&mut World)) {
    // First: whoever is killed in between leaves cables that are looked at.
    link.set_cut(true);
    change(world);
    link.follow(world);
}
