//! What an event costs: one process posts and polls, so that nothing is handed over.

use std::time::Instant;

use fpga_regs::WqeOpcode;
use model::attach::{NetOptions, SegmentCard};
use model::profile::Profile;
use model::time::heap::Queue;
use tests::{connect, Net, Options};

const MESSAGES: u64 = 300_000;
/// The machine may be slow for a second or two.
const TRIES: u32 = 20;
/// About as many events are pending in such a run.
const PENDING: u32 = 16;

/// Nanoseconds of an event (with posting, polling and all that the cards do) and events of a message, for
/// messages of 8 bytes between two cards.
pub fn ours() -> (f64, f64) {
    let profile = Profile::load("cx4lx").expect("a profile of our own").profile;
    let net = Net::with(NetOptions { clock: Some(profile), ..NetOptions::from(2) });
    let (a, b) = (net.open(0), net.open(1));
    let clock = SegmentCard::open(&net.socket(), 0).expect("the card opens").clocked().expect("simulated");
    let (x, y) = connect(&a, &b, Options { depth: 128, sges: 1, inline: 0, mtu: 5, ..Default::default() });
    let sge = [x.sge(0, 8)];
    let wr = x.remote(0, WqeOpcode::WRITE, &sge, &y, 0);
    let mut quiet = wr;
    quiet.flags = Default::default();
    let mut events = 0;
    let ns = least(TRIES, || {
        let (start, before) = (Instant::now(), clock.events());
        for n in 0..MESSAGES {
            // perftest signals every hundredth.
            let mut post = x.qp.send();
            post.push(if n % 100 == 99 { &wr } else { &quiet }).expect("room");
            post.ring();
            if n % 100 == 99 {
                x.expect(0);
            }
        }
        events = clock.events() - before;
        start.elapsed().as_nanos() as f64 / events as f64
    });
    (ns, events as f64 / MESSAGES as f64)
}

/// The least of several tries: nothing makes an event cheaper than it is.
fn least(tries: u32, mut once: impl FnMut() -> f64) -> f64 {
    (0..tries).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds of a push and a pop of the event queue alone.
pub fn bare() -> f64 {
    const STEPS: u64 = 2_000_000;
    let mut queue = Box::<Queue<16384>>::default();
    let mut random = 1u64;
    let mut delay = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % 2_000_000
    };
    for n in 0..PENDING {
        queue.push(delay(), n.into(), n).expect("room");
    }
    least(TRIES, || {
        let start = Instant::now();
        for n in 0..STEPS {
            let event = queue.pop().expect("as many as were pushed");
            queue.push(std::hint::black_box(event).time + delay(), n, n as u32).expect("room");
        }
        start.elapsed().as_nanos() as f64 / STEPS as f64
    })
}
