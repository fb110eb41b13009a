//! What a net of any number of cards is. It costs only what is used of it.

use std::io;

use crate::cells::{Bells, Interrupts};
use crate::link::LinkArea;
use crate::sim::state::Sim;
use crate::world::World;
use crate::zeroed::Zeroed;

/// All that a net of cards is.
pub(super) struct Room {
    pub world: Zeroed<World>,
    pub sim: Zeroed<Sim>,
    pub bells: Zeroed<[Bells]>,
    pub interrupts: Zeroed<[Interrupts]>,
    pub link: Zeroed<LinkArea>,
}

impl Room {
    /// Of `count` cards.
    pub fn new(count: usize) -> io::Result<Room> {
        Ok(Room {
            world: Zeroed::<World>::of_cards(count)?,
            sim: Zeroed::<Sim>::of_cards(count)?,
            bells: Zeroed::of(count)?,
            interrupts: Zeroed::of(count)?,
            link: Zeroed::new()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_takes_little_of_the_address_space() {
        let bytes = |count| {
            let Room { world, sim, bells, interrupts, link } = &Room::new(count).unwrap();
            let cards = size_of_val(&**world) + size_of_val(&**sim);
            cards + size_of_val(&**bells) + size_of_val(&**interrupts) + size_of_val(&**link)
        };
        let card = bytes(2) - bytes(1);
        println!("{card} bytes of address space a card");
        assert!(card < 64 << 20, "{card}");
    }
}
