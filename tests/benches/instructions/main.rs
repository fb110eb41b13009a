//! Instructions of a post and of a poll, counted by callgrind: on VFIO, with plain memory in place of
//! BAR0, and in process, where posting runs the card too. Of Ethernet frames as a poll-mode driver of DPDK sends them: in bursts.
//!
//! `tests/setup bench && cargo bench -p tests --bench instructions`

#[path = "../../../driver/benches/data_path/slot.rs"]
mod slot;

mod frames;

use std::path::Path;
use std::process::{Command, ExitCode};

use driver::{Card, Cq, Device, Qp, SendFlags, SendWr};
use fpga_regs::WqeOpcode;
use model::attach::SegmentCard;
use tests::{connect, Net, Options};

/// Requests that are counted.
const COUNT: u32 = 1600;
/// Requests that are posted before the completions are polled.
const BATCH: u32 = 50;

/// Posts one signaled request. Callgrind counts from the entry of this to its end.
#[inline(never)]
fn counted_post<C: Card>(qp: &Qp<C>, wr: &SendWr<'_>) {
    let mut post = qp.send();
    post.push(wr).expect("room");
    post.ring();
}

/// Polls one completion.
#[inline(never)]
fn counted_poll<C: Card>(cq: &Cq<C>) -> usize {
    cq.poll(1, |wc| {
        std::hint::black_box(wc);
    })
    .expect("a poll")
}

/// Posts and polls; `complete` makes the card's answers to a batch.
fn work<C: Card>(qp: &Qp<C>, cq: &Cq<C>, wr: &SendWr<'_>, mut complete: impl FnMut(u32)) {
    for first in (0..COUNT).step_by(BATCH as usize) {
        for _ in 0..BATCH {
            counted_post(qp, std::hint::black_box(wr));
        }
        complete(first);
        for _ in 0..BATCH {
            assert_eq!(counted_poll(cq), 1, "a completion for each request");
        }
    }
}

/// In process; if `quiet`, only the last request of a batch is signaled, and it is not counted.
fn in_process(socket: &str, quiet: bool) {
    let open =
        |card| Device::open(SegmentCard::open(Path::new(socket), card).expect("a card")).expect("a device");
    let (a, b) = (open(0), open(1));
    let (x, y) = connect(&a, &b, Options { depth: 128, sges: 1, inline: 0, mtu: 5, ..Default::default() });
    let sge = [x.sge(0, 8)];
    let wr = x.remote(0, WqeOpcode::WRITE, &sge, &y, 0);
    // No two programs share the cards here: all has been done when the doorbell returns.
    if !quiet {
        return work(&x.qp, &x.cq, &wr, |_| ());
    }
    let unsignaled = SendWr { flags: SendFlags::empty(), ..wr };
    for _ in 0..COUNT / BATCH {
        for _ in 0..BATCH {
            counted_post(&x.qp, std::hint::black_box(&unsignaled));
        }
        x.completes(wr);
    }
}

/// On VFIO; the benchmark writes the completions.
fn in_slot() {
    let (device, cq, qps) = slot::queues(1, 128);
    work(&qps[0], &cq, &slot::write(&slot::SGE), |first| {
        for index in first..first + BATCH {
            slot::complete(&device, &cq, &qps[0], index);
        }
    });
}

/// Runs this program on one backend under callgrind; instructions of one call of `function`.
fn count(backend: &str, function: &str) -> Result<f64, String> {
    // The net's keeper stays outside: valgrind does not know all that it asks of the kernel.
    let net = Net::small();
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(program)
        .args(["--on", backend])
        .arg(net.socket())
        .output()
        .map_err(|error| format!("valgrind: {error}; get it with: tests/setup bench"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split("Collected :").nth(1));
    let collected = collected.and_then(|number| number.trim().parse::<f64>().ok());
    match collected {
        Some(number) if output.status.success() && number > 0.0 => Ok(number / f64::from(COUNT)),
        _ => Err(format!("valgrind on {backend}: {}\n{said}", output.status)),
    }
}

fn table() -> Result<(), String> {
    println!("8-byte WRITE, one doorbell each; instructions      post     poll");
    for (backend, what) in
        [("slot", "VFIO, memory in place of BAR0"), ("net", "in process, with the card's work")]
    {
        let (post, poll) = (count(backend, "counted_post")?, count(backend, "counted_poll")?);
        println!("{what:<48}{post:7.0}  {poll:7.0}");
    }
    println!("{:<48}{:7.0}", "the same, unsignaled", count("quiet", "counted_post")?);
    for length in frames::LENGTHS {
        let what = format!("{length}-byte frame of UDP, of a burst of {}, hashed", frames::BURST);
        let backend = format!("frames={length}");
        let (post, poll) = (count(&backend, "counted_burst")?, count(&backend, "counted_poll")?);
        println!("{what:<48}{post:7.0}  {poll:7.0}");
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let on = words.iter().position(|word| word == "--on").and_then(|at| words.get(at + 1));
    match on.map(String::as_str) {
        Some("slot") => in_slot(),
        Some(on @ ("net" | "quiet")) => in_process(words.last().expect("a socket"), on == "quiet"),
        Some(on) if on.starts_with("frames=") => {
            let length = on.trim_start_matches("frames=").parse().expect("a length");
            frames::run(words.last().expect("a socket"), length);
        }
        _ => {
            if let Err(error) = table() {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
