//! What programs of a net wait for, for whoever waits until they do.

use std::path::Path;

use super::card::{Joined, PATIENCE};
use super::error::OpenError;
use crate::env::Env;
use crate::world::World;
use fpga_regs::regs;

/// Ports of the connection manager, of any port space, that programs of the net at `socket` listen on. This process is a
/// member of the net until the answer is there.
pub fn listeners(socket: &Path) -> Result<Vec<u16>, OpenError> {
    Ok(Joined::new(socket)?.outside_time(|world, _| world.cm.listening())?)
}

/// Receive WQEs that wait for messages or frames in the queue pairs of a card (from 0), without a part in simulated time.
pub fn receives_waiting(socket: &Path, card: u8) -> Result<u32, OpenError> {
    Ok(match Joined::new(socket)? {
        Joined::Wall(runner) => runner.control_within(PATIENCE, |world, env| waiting(world, card, env))?,
        Joined::Virtual(threads) => threads.outside_time(PATIENCE, |world, env| waiting(world, card, env))?,
    })
}

fn waiting(world: &mut World, card: u8, env: &mut impl Env) -> u32 {
    let card = world.cards.get_mut(usize::from(card));
    card.map_or(0, |card| card.bar_read(0, regs::RECVS_WAITING, env) as u32)
}
