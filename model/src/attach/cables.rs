//! The links of a net's ports: how they are, and pulling their cables while programs run.

use std::path::Path;
use std::time::Duration;

use super::card::Joined;
use super::error::OpenError;
use crate::env::Env;
use crate::link::LinkArea;
use crate::packet::{PortId, PORTS};
use crate::world::World;

/// How long a cable waits for the cards in simulated time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Each port of the net whose keeper listens at `socket`, and whether its link is up.
pub fn cables(socket: &Path) -> Result<Vec<(PortId, bool)>, OpenError> {
    let look =
        |world: &World, now: u64| world.ports().map(|port| (port, world.is_up(port, || now))).collect();
    Ok(match Joined::new(socket)? {
        Joined::Wall(runner) => runner.control(|world, env| look(world, env.now()))?,
        // Who looks from outside has no clock of its own that others would wait for.
        Joined::Virtual(threads) => threads.outside_time(PATIENCE, |world, env| look(world, env.now()))?,
    })
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

fn pull(
    world: &mut World,
    link: &LinkArea,
    (port, pulled): (PortId, bool),
    env: &mut impl Env,
) -> Result<bool, OpenError> {
    if port.card >= world.count() {
        return Err(OpenError::NoCard { card: port.card.into(), count: world.count() });
    }
    if usize::from(port.port) >= PORTS {
        return Err(OpenError::NoPort { port: port.port });
    }
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
