//! Which ports the programs of a net listen on, for whoever waits for one of them.

use std::path::Path;
use std::time::Duration;

use super::card::Joined;
use super::error::OpenError;

/// How long the cards may be busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ports of the connection manager, of any port space, that programs of the net at `socket` listen on. This process is a
/// member of the net until the answer is there.
pub fn listeners(socket: &Path) -> Result<Vec<u16>, OpenError> {
    Ok(match Joined::new(socket)? {
        Joined::Wall(runner) => runner.control_within(PATIENCE, |world, _| world.cm.listening())?,
        Joined::Virtual(threads) => threads.outside_time(PATIENCE, |world| world.cm.listening())?,
    })
}
