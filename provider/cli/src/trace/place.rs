//! Where a span took place: the row of a viewer that it is shown in.

use super::file::Span;

/// A card, or a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A card by number.
    Card(u8),
    /// The card that answers this one; the trace does not say which that is.
    ResponderOf(u8),
    /// A process by slot.
    Program(u32),
}

impl Place {
    /// Of a span.
    pub fn of(span: &Span) -> Place {
        match span.place() {
            _ if span.phase.of_host() => Place::Program(span.process),
            Some(card) => Place::Card(card),
            None => Place::ResponderOf(span.card),
        }
    }

    /// For people.
    pub fn title(self) -> String {
        match self {
            Place::Card(card) => format!("card {card}"),
            Place::ResponderOf(card) => format!("responder of card {card}"),
            Place::Program(slot) => format!("program {slot}"),
        }
    }
}
