//! The links of a net's ports: how they are, and pulling their cables while programs run.

use std::path::Path;

use super::card::Joined;
use super::error::OpenError;
use crate::packet::{PortId, PORTS};
use crate::segment::now_ns;
use crate::world::World;

/// Each port of the net whose keeper listens at `socket`, and whether its link is up.
pub fn cables(socket: &Path) -> Result<Vec<(PortId, bool)>, OpenError> {
    let look = |world: &mut World| {
        let now = now_ns();
        world.ports().map(|port| (port, world.is_up(port, now))).collect()
    };
    Ok(match Joined::new(socket)? {
        Joined::Wall(runner) => runner.control(|world, _| look(world))?,
        Joined::Virtual(threads) => threads.control(|world, _| look(world))?,
    })
}

/// Pulls the cable of a port of that net, or plugs it in, at both of its ends. What is sent meanwhile is lost and counted
/// (`LINK_LOST`); programs are told by `IBV_EVENT_PORT_ERR` and `IBV_EVENT_PORT_ACTIVE`.
/// Whether the port is up to programs after that: where ports are one, another cable may be there.
pub fn plug(socket: &Path, port: PortId, pulled: bool) -> Result<bool, OpenError> {
    let Joined::Wall(runner) = Joined::new(socket)? else { return Err(OpenError::SimulatedLink) };
    runner.control(|world, env| {
        if port.card >= world.count() {
            return Err(OpenError::NoCard { card: port.card.into(), count: world.count() });
        }
        if usize::from(port.port) >= PORTS {
            return Err(OpenError::NoPort { port: port.port });
        }
        // First: whoever is killed in between leaves cables that are looked at.
        if pulled {
            runner.net().link.set_cut(true);
        }
        world.plug(port, pulled, env);
        Ok(world.cards[usize::from(port.card)].shown_link(port.port, now_ns()).0)
    })?
}
