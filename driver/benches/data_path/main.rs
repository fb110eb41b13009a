//! What posting and polling cost without a card: nanoseconds a request, on 1 to 1024 QPs.
//!
//! The benchmark itself writes the completions between the timed parts, so the figures leave out the card's
//! work, but not all of the cache misses that this work would cause.

mod slot;

use std::hint::black_box;
use std::time::{Duration, Instant};

use driver::SendWr;
use slot::{complete, queues, write, SGE};

const DEPTH: u32 = 128;
const ROUNDS: u32 = 200;

/// The middle one, in nanoseconds: other programs' slices of the core fall away.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64
}

/// Nanoseconds a post and a poll, posting one request to one QP after the other.
fn round_robin(count: usize, wr: &SendWr<'_>) -> (f64, f64) {
    let (device, cq, qps) = queues(count, DEPTH);
    let mut indices = vec![0u32; count];
    let (mut posting, mut polling) = (Vec::new(), Vec::new());
    // At most what the CQ holds, and no more than a QP's depth each.
    let batch = (count * DEPTH as usize).min(2048);
    let rounds = ROUNDS * 2048 / batch as u32;
    for _ in 0..rounds {
        let start = Instant::now();
        for n in 0..batch {
            let mut post = qps[n % count].send();
            post.push(&SendWr { wr_id: n as u64, ..*black_box(wr) }).expect("room");
            post.ring();
        }
        posting.push(start.elapsed());
        for n in 0..batch {
            let index = &mut indices[n % count];
            complete(&device, &cq, &qps[n % count], *index);
            *index += 1;
        }
        let start = Instant::now();
        let mut left = batch;
        while left > 0 {
            left -= cq
                .poll(16, |wc| {
                    black_box(wc);
                })
                .expect("a poll");
        }
        polling.push(start.elapsed());
    }
    (median(posting) / batch as f64, median(polling) / batch as f64)
}

/// Nanoseconds a request in chains of 32.
fn chained(wr: &SendWr<'_>) -> f64 {
    let (device, cq, qps) = queues(1, DEPTH);
    let mut posting = Vec::new();
    let mut index = 0;
    for _ in 0..ROUNDS * 10 {
        let start = Instant::now();
        for _ in 0..4 {
            let mut post = qps[0].send();
            for _ in 0..32 {
                post.push(black_box(wr)).expect("room");
            }
            post.ring();
        }
        posting.push(start.elapsed());
        index += 128;
        complete(&device, &cq, &qps[0], index - 1);
        assert_eq!(cq.poll(1, |_| ()), Ok(1));
    }
    median(posting) / 128.0
}

fn main() {
    let wr = write(&SGE);
    // A second thread exists, as in a program with events, so locks are real ones.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    println!("8-byte WRITE, ns a request       post   poll");
    for count in [1, 16, 256, 1024] {
        let (post, poll) = round_robin(count, &wr);
        println!("one doorbell each, {count:4} QPs    {post:6.1} {poll:6.1}");
    }
    println!("chains of 32, 1 QP             {:6.1}", chained(&wr));
    drop(stop);
    let _ = thread.join();
}
