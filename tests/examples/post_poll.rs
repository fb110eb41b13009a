//! One process, two cards: the cost of posting and reaping WRITEs of 8 bytes, one post each.
//!
//! `cargo run --release -p tests --example post_poll [messages]`: the profile target of the data path.

use fpga_regs::WqeOpcode;
use std::time::Instant;
use tests::{connect, Net, Options};

fn main() {
    let messages: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(5_000_000);
    let net = Net::new(2);
    let (a, b) = (net.open(0), net.open(1));
    let (x, y) = connect(&a, &b, Options { depth: 128, sges: 1, inline: 0, mtu: 5, ..Default::default() });
    let sge = [x.sge(0, 8)];
    let wr = x.remote(0, WqeOpcode::WRITE, &sge, &y, 0);
    let mut quiet = wr;
    quiet.flags = Default::default();
    let start = Instant::now();
    for n in 0..messages {
        // perftest signals every hundredth.
        let mut post = x.qp.send();
        post.push(if n % 100 == 99 { &wr } else { &quiet }).expect("room");
        post.ring();
        if n % 100 == 99 {
            x.expect(0);
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / messages as f64;
    println!("{ns:.1} ns a message");
}
