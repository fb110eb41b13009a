//! A process's calls of the connection manager, by either clock.

use crate::cm::command::Command;
use crate::cm::ids::Result;
use crate::cm::tables::Manager;
use crate::env::Env;

/// Whose call it is: the process, and the function of card 0 whose interrupt 0 tells it of events.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub(super) member: u16,
    pub(super) function: u16,
}

/// Something to be done by the manager of either environment.
pub trait Task {
    /// What comes of it.
    type Answer;
    /// Does it.
    fn run<E: Env>(self, manager: Manager<'_, E>, caller: Caller) -> Self::Answer;
}

/// Opens an event channel.
#[derive(Clone, Copy, Debug)]
pub struct OpenChannel {
    /// The process may bind ports below 1024.
    pub privileged: bool,
}

impl Task for OpenChannel {
    /// Its number.
    type Answer = Result<u16>;

    fn run<E: Env>(self, mut manager: Manager<'_, E>, caller: Caller) -> Result<u16> {
        manager.open_channel(caller.member, caller.function, self.privileged)
    }
}

/// Closes one.
#[derive(Clone, Copy, Debug)]
pub struct CloseChannel(pub u16);

impl Task for CloseChannel {
    type Answer = ();

    fn run<E: Env>(self, mut manager: Manager<'_, E>, _: Caller) {
        manager.close_channel(self.0);
    }
}

/// Executes a command of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Execute<'a>(pub u16, pub Command<'a>);

impl Task for Execute<'_> {
    /// The bytes for the program.
    type Answer = Result<Vec<u8>>;

    fn run<E: Env>(self, mut manager: Manager<'_, E>, _: Caller) -> Result<Vec<u8>> {
        manager.command(self.0, &self.1)
    }
}

/// Asks which of these channels have events.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a>(pub &'a [u16]);

impl Task for Waiting<'_> {
    type Answer = Vec<u16>;

    fn run<E: Env>(self, manager: Manager<'_, E>, _: Caller) -> Vec<u16> {
        self.0.iter().copied().filter(|&channel| manager.has_events(channel)).collect()
    }
}
