//! What a served card costs: `cargo run --release -p tests --example served_costs`.
//!
//! Server, client and keeper are threads of this process; the sockets between them are real.

use std::time::{Duration, Instant};

use driver::{Memory, Registers, SendWr};
use fpga_regs::{regs, SqDoorbell, WqeOpcode, DOORBELL_BASE};
use tests::{connect, Buffer, Net, Options, TestCard};

/// Microseconds of one call, on average.
fn each(calls: u32, mut call: impl FnMut(u32)) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(&mut call);
    start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}

fn main() {
    std::env::set_var("VERBENA_TEST_CARDS", "served");
    let net = Net::new(2);
    let (a, b) = (net.open(0), net.open(1));
    let card: &TestCard = a.card();
    let row = |what: &str, us: f64| println!("{what:44} {us:10.2} us");

    row("register read", each(10_000, |_| assert_eq!(card.read32(regs::ID), regs::ID_VALUE)));
    // Of no queue: the server refuses it, which costs as much as to look at it.
    let bell = each(10_000, |_| card.doorbell(DOORBELL_BASE, SqDoorbell::new(0xff_ffff, 1).0));
    row("doorbell, until the store is over", bell);
    let buffer = Buffer::new(1 << 20);
    let map = each(1000, |_| {
        let iova = card.map(buffer.addr(0) as *mut u8, 1 << 20, true).expect("mapped");
        card.unmap(iova, buffer.addr(0) as *mut u8, 1 << 20);
    });
    row("map and unmap", map);
    let alloc = each(1000, |_| card.free(card.alloc(4096).expect("memory")));
    row("allocate and free a page that is shared", alloc);

    let options = Options { timeout: 18, bytes: 1 << 21, ..Options::default() };
    let (x, y) = connect(&a, &b, options);
    for (size, calls) in [(8, 2000), (4096, 2000), (65_536, 500), (1 << 20, 50)] {
        let sges = [x.sge(0, size)];
        let write = each(calls, |n| {
            x.post(&[SendWr { wr_id: n.into(), ..x.remote(n.into(), WqeOpcode::WRITE, &sges, &y, 0) }]);
            x.expect(n.into());
        });
        row(&format!("WRITE of {size} bytes, memory by messages"), write);
    }
    let mut waits = Duration::ZERO;
    for n in 0..1000 {
        x.cq.arm(false);
        let start = Instant::now();
        x.post(&[x.remote(n, WqeOpcode::WRITE, &[], &y, 0)]);
        while a.next_event(Duration::from_secs(1)).expect("events").is_none() {}
        waits += start.elapsed();
        x.expect(n);
    }
    row("doorbell to MSI-X to eventfd to event", waits.as_secs_f64() * 1e3);
}
