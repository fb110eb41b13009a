//! What the guest tests run in the guest: the driver on a card in a slot, through VFIO.

fn main() {}
