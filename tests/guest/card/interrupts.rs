//! Each interrupt vector of the card reaches its eventfd, and no other.

use std::time::Duration;

use driver::backend::vfio::Vfio;
use driver::{Device, Interrupts, Registers};
use fpga_regs::regs;
use fpga_regs::WqeOpcode;
use tests::{connect, expect_completion_event, Options};

/// A completion event on one vector after the other.
pub fn each_vector(address: &str) -> driver::Result<()> {
    let card = Vfio::open(address)?;
    let vectors = card.read32(regs::VECTORS);
    assert_eq!(vectors, card.vectors(), "the register and MSI-X agree");
    drop(card);
    for vector in 0..vectors {
        let device = Device::open_on(Vfio::open(address)?, vector)?;
        // Both ends on this card.
        let (x, y) = connect(&device, &device, Options { bytes: 1 << 16, ..Options::default() });
        let sge = [x.sge(0, 64)];
        for round in 0..3 {
            x.cq.arm(false);
            x.post(&[x.remote(round, WqeOpcode::WRITE, &sge, &y, 0)]);
            expect_completion_event(&device, x.cq.cqn());
            x.expect(round);
        }
        for other in (0..vectors).filter(|other| *other != vector) {
            let fired = device.card().wait_interrupt(other, Duration::ZERO)?;
            assert!(!fired, "vector {other} fired, {vector} was meant");
        }
    }
    println!("{vectors} vectors");
    Ok(())
}
