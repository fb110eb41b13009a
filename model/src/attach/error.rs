//! Why a card could not be opened.

use crate::segment::{AttachError, LockError};

/// Why a card could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The segment could not be joined.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The cards are busy or stopped.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The net has fewer cards.
    #[error("the net has {count} cards: there is no card {card} (start it with --cards {})", .card + 1)]
    NoCard {
        /// Asked for.
        card: u32,
        /// Cards of the net.
        count: u16,
    },
    /// The cards have fewer ports.
    #[error("a card has the ports 1 to {}: there is no port {}", crate::packet::PORTS, .port + 1)]
    NoPort {
        /// Asked for, from 0.
        port: u8,
    },
    /// Too many captures.
    #[error("the net has {} captures already: end one of them first", crate::link::live::MAX_LIVE)]
    TooManyCaptures,
    /// Too many open contexts.
    #[error("the card has no free function: too many programs have it open")]
    NoFunction,
    /// A card in simulated time was to be served.
    #[error("a card in simulated time cannot be served, as its clients have no part in that time: serve cards of a net that was started without --clock virtual")]
    Simulated,
}
