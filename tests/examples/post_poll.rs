//! One process, two cards: the cost of posting and reaping WRITEs of 8 bytes, one post each.
//!
//!
//! `cargo run --release -p tests --example post_poll [messages]`: the profile target of the data path.

#![allow(unsafe_code)]

use fpga_regs::WqeOpcode;
use tests::{Net, Options};

/// Processor time of this thread in nanoseconds: other programs disturb it less than the clock.
fn thread_time() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time given to it.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

fn main() {
    let messages: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(5_000_000);
    let net = Net::new(2);
    let (x, y) = net.pair(Options { depth: 128, sges: 1, inline: 0, mtu: 5, ..Default::default() });
    let sge = [x.sge(0, 8)];
    let wr = x.remote(0, WqeOpcode::WRITE, &sge, &y, 0);
    let mut quiet = wr;
    quiet.flags = Default::default();
    let start = thread_time();
    for n in 0..messages {
        // perftest signals every hundredth.
        let mut post = x.qp.send();
        post.push(if n % 100 == 99 { &wr } else { &quiet }).expect("room");
        post.ring();
        if n % 100 == 99 {
            x.expect(0);
        }
    }
    let ns = (thread_time() - start) / messages as f64;
    println!("{ns:.1} ns of processor time a message");
}
