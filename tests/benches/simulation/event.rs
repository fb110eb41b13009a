//! What an event costs: one process posts and polls, so that nothing is handed over.

use std::process::Command;
use std::time::Instant;

use fpga_regs::WqeOpcode;
use model::attach::{NetOptions, SegmentCard};
use model::profile::Profile;
use model::sim::heap::Queue;
use tests::{Net, Options};

const MESSAGES: u64 = 300_000;
const STEPS: u64 = 2_000_000;
/// The machine may be slow for a second or two.
const TRIES: u32 = 5;
/// Which pages a net gets decides how well they go together in the caches: several processes measure, each with a
/// net of its own.
const PROCESSES: u32 = 4;
/// What is given to them.
pub const ALONE: &str = "--one-event-cost";
/// About as many events are pending in such a run.
const PENDING: u32 = 16;

/// What was measured.
pub struct Cost {
    /// Nanoseconds of an event, with posting, polling and all that the cards do.
    pub event: f64,
    /// Events of a message of 8 bytes between two cards.
    pub per_message: f64,
    /// Nanoseconds of a push and a pop of the event queue alone.
    pub bare: f64,
}

/// The least that several processes found.
pub fn cost() -> Cost {
    let costs = (0..PROCESSES).map(|_| {
        let output = Command::new("/proc/self/exe").args(["--bench", ALONE]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = said.split_whitespace().map_while(|word| word.parse().ok()).collect();
        match numbers[..] {
            [event, bare, per_message] => Cost { event, per_message, bare },
            _ => panic!("an event's cost was not measured: {}", String::from_utf8_lossy(&output.stderr)),
        }
    });
    costs.reduce(|a, b| Cost { event: a.event.min(b.event), bare: a.bare.min(b.bare), ..a }).expect("some")
}

/// Prints the least of several tries, both in turns: nothing makes an event cheaper than it is, and when the machine
/// changes its pace both have tries at each.
pub fn alone() {
    let profile = Profile::load("cx4lx").expect("a profile of our own").profile;
    let net = Net::with(NetOptions { clock: Some(profile), ..NetOptions::from(2) });
    let clock = SegmentCard::open(&net.socket(), 0).expect("the card opens").timeline().expect("simulated");
    let (x, y) = net.pair(Options { depth: 128, sges: 1, inline: 0, mtu: 5, ..Default::default() });
    let sge = [x.sge(0, 8)];
    let wr = x.remote(0, WqeOpcode::WRITE, &sge, &y, 0);
    let mut quiet = wr;
    quiet.flags = Default::default();
    let mut events = 0;
    let mut ours = || {
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
    };
    let mut queue = Box::new(Queue::<16384>::default());
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
    let mut bare = || {
        let start = Instant::now();
        for n in 0..STEPS {
            let event = queue.pop().expect("as many as were pushed");
            queue.push(std::hint::black_box(event).time + delay(), n, n as u32).expect("room");
        }
        start.elapsed().as_nanos() as f64 / STEPS as f64
    };
    let mut least = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TRIES {
        least = (least.0.min(ours()), least.1.min(bare()));
    }
    println!("{} {} {}", least.0, least.1, events as f64 / MESSAGES as f64);
}
