//! Why a card could not be opened.

use crate::packet::MAX_CARDS;
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
    #[error("the net has {count} cards: there is no verbena{card}{}", more_cards(*.card))]
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
    #[error(
        "simulated time cannot include the clients of a served card: start the net without --clock virtual"
    )]
    Simulated,
}

/// How the net would have that card, if it can.
fn more_cards(card: u32) -> String {
    match (card as usize) < MAX_CARDS {
        true => format!(" (start it with --cards {})", card + 1),
        false => format!(" (a net can have {MAX_CARDS})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_can_be_followed() {
        let said = |card| OpenError::NoCard { card, count: 2 }.to_string();
        assert_eq!(said(15), "the net has 2 cards: there is no verbena15 (start it with --cards 16)");
        assert_eq!(said(16), "the net has 2 cards: there is no verbena16 (a net can have 16)");
        assert_eq!(said(u32::MAX), "the net has 2 cards: there is no verbena4294967295 (a net can have 16)");
    }
}
