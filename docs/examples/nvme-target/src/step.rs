//! What a command that has come needs next.

/// What comes next for a command.
pub enum Step {
    /// The completion, with this result.
    Done(u64),
    /// So many bytes from the host.
    Fetch(usize),
    /// The first bytes of the chunk go to the host, then the completion.
    Deliver {
        /// How many bytes.
        length: usize,
        /// For the completion.
        result: u64,
    },
    /// Nothing: it waits for ever.
    Hold,
}
