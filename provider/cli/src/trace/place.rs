//! Where a span took place: the row of a viewer that it is shown in.

use model::sim::trace::{Span, Subject, UNPLACED};

/// A card, or a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A card by number.
    Card(u16),
    /// The card that answers this one; the trace does not say which that is.
    ResponderOf(u16),
    /// A process by slot.
    Program(u16),
}

impl Place {
    pub fn of(span: &Span) -> Place {
        let Subject { card, place, process, .. } = span.subject;
        match place {
            _ if span.phase.of_host() => Place::Program(process),
            UNPLACED => Place::ResponderOf(card),
            card => Place::Card(card),
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
