//! Traffic that is cut off: the card is pulled out, or reset from outside.

use std::time::{Duration, Instant};

use driver::{CqError, Error};
use fpga_regs::{CqeStatus, WqeOpcode};
use tests::{connect, Options, Peer};

use crate::{memory, open, Card};

/// How long a lost card may go unnoticed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of a message.
const MESSAGE: usize = 4096;

/// Runs WRITEs of changing data until the card is lost; completed data must have arrived, and the
/// bytes around the target must be unchanged.
fn pump(
    x: &mut Peer<driver::backend::vfio::Vfio>,
    y: &Peer<driver::backend::vfio::Vfio>,
    mut each: impl FnMut(u32),
) -> Error {
    assert!(y.buffer.iter().all(|byte| *byte == 0));
    let mut round = 0u32;
    loop {
        let value = (round % 251 + 1) as u8;
        x.buffer[..MESSAGE].fill(value);
        let sge = [x.sge(0, MESSAGE)];
        let wr = x.remote(round.into(), WqeOpcode::WRITE, &sge, y, MESSAGE);
        let mut post = x.qp.send();
        if let Err(error) = post.push(&wr) {
            panic!("posting: {error}");
        }
        post.ring();
        let until = Instant::now() + PATIENCE;
        let mut found = None;
        while found.is_none() {
            match x.cq.poll(1, |wc| found = Some(wc)) {
                Ok(_) => assert!(Instant::now() < until, "nothing was noticed for {PATIENCE:?}"),
                Err(error) => {
                    let around = y.buffer[..MESSAGE].iter().chain(&y.buffer[2 * MESSAGE..]);
                    assert!(around.into_iter().all(|byte| *byte == 0), "memory around the target changed");
                    assert!(error == CqError::Gone || error == CqError::Lost, "{error}");
                    return x.device.check().expect_err("the card is lost");
                }
            }
        }
        let wc = found.expect("a completion");
        if wc.status != CqeStatus::SUCCESS {
            // The other card was lost: the connection broke. This one notices when it is asked.
            println!("{}", wc.status);
            return y.device.check().expect_err("one of the cards is lost");
        }
        assert!(y.buffer[MESSAGE..2 * MESSAGE].iter().all(|byte| *byte == value), "round {round}");
        round += 1;
        each(round);
    }
}

/// Prints `running` after a while, and continues until the card is lost.
pub fn until_lost(a: &Card, b: &Card) -> driver::Result<()> {
    let (mut x, y) = connect(a, b, Options { timeout: 14, ..Options::default() });
    let error = pump(&mut x, &y, |round| {
        if round == 50 {
            println!("running");
        }
    });
    // Commands fail too, and soon.
    let start = Instant::now();
    x.device.set_command_timeout(Duration::from_secs(1));
    let command = x.device.alloc_pd().map(drop).expect_err("a lost card takes no command");
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    println!("a command: {command}");
    Err(error)
}

/// A function level reset in the middle of traffic; then the card is opened again and works.
pub fn reset_by_sysfs(a: &str, b: &str) -> driver::Result<()> {
    {
        let (first, second) = (open(a)?, open(b)?);
        let (mut x, y) = connect(&first, &second, Options { timeout: 14, ..Options::default() });
        let mut resetter = None;
        let file = format!("/sys/bus/pci/devices/{a}/reset");
        let error = pump(&mut x, &y, |round| {
            if round == 50 {
                let file = file.clone();
                resetter = Some(std::thread::spawn(move || std::fs::write(file, "1")));
            }
        });
        resetter.expect("was started").join().expect("does not panic").expect("the kernel resets the card");
        println!("{error}");
        assert!(matches!(error, Error::Lost { .. }), "{error}");
    }
    memory::both_ways(&open(a)?, &open(b)?)
}
