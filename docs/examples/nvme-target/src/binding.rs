//! The RDMA binding of NVMe over Fabrics: what host and target say to each other in the connection manager's messages.

use std::fmt;

use crate::controller::{IO_QUEUES, QUEUE_ENTRIES};
use crate::rdma;

/// The length of what a host says.
const LENGTH: usize = 32;

/// What a host wants to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// 0 for the admin queue.
    pub queue: u16,
    /// Commands that the host sends without waiting for an answer, at most: entries of its submission queue less one.
    pub commands: u16,
}

/// Why it gets no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The host says too little.
    Length = 1,
    /// It speaks another format.
    Format,
    /// A queue that no controller has.
    Queue,
    /// It wants to send more at a time than a queue takes, or nothing.
    SendSize,
    /// It has no room for answers.
    ReceiveSize,
    /// It answers no RDMA READ, which is how its data comes here.
    Reads = 7,
}

impl Wanted {
    /// Looks at a request.
    pub fn parse(request: &rdma::Request) -> Result<Wanted, Refusal> {
        let bytes = request.private_data.get(..LENGTH).ok_or(Refusal::Length)?;
        let field = |n: usize| u16::from_le_bytes([bytes[2 * n], bytes[2 * n + 1]]);
        let [format, queue, receives, commands] = [0, 1, 2, 3].map(field);
        match () {
            () if format != 0 => Err(Refusal::Format),
            () if queue > IO_QUEUES => Err(Refusal::Queue),
            () if commands == 0 || commands >= QUEUE_ENTRIES => Err(Refusal::SendSize),
            () if receives == 0 => Err(Refusal::ReceiveSize),
            () if request.reads == 0 => Err(Refusal::Reads),
            () => Ok(Wanted { queue, commands }),
        }
    }

    /// The receives that the host can count on.
    pub fn receives(self) -> u16 {
        self.commands + 1
    }

    /// What the target answers.
    pub fn answer(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[2..4].copy_from_slice(&self.receives().to_le_bytes());
        bytes
    }
}

impl Refusal {
    /// What the target answers.
    pub fn answer(self) -> [u8; 4] {
        [0, 0, self as u8, 0]
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(match self {
            Refusal::Length => "its private data is too short",
            Refusal::Format => "its private data has another format",
            Refusal::Queue => "there is no queue of this number",
            Refusal::SendSize => "a queue has 2 to 128 entries",
            Refusal::ReceiveSize => "it has no room for answers",
            Refusal::Reads => "it answers no RDMA READ",
        })
    }
}
