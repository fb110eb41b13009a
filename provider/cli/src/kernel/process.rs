//! The process of an interface: carries frames between a port of the card and the kernel, and sleeps in between. Its end takes
//! the interface away, and what the card has of it.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use clap::Args;
use driver::{Device, Event};
use fpga_regs::EventKind;
use model::attach::SegmentCard;
use rustix::event::{PollFd, PollFlags};

use super::queue::{self, Receiver, Sender, BATCH};
use super::tap::Tap;
use super::Which;
use crate::net::daemon;
use crate::net::runtime::Net;

/// The longest sleep of the thread that receives. Nothing depends on it.
const SLEEP: Duration = Duration::from_secs(3600);
/// How long the thread that sends waits when all its frames wait for their receivers, which they do for a tenth of a second
/// at most.
const PAUSE: Duration = Duration::from_millis(1);

/// Options of `verbena kernel-port`.
#[derive(Args)]
pub struct ProcessArgs {
    #[command(flatten)]
    which: Which,
    #[arg(long)]
    kernel: String,
    #[arg(long)]
    mtu: u32,
    #[arg(long)]
    promiscuous: bool,
}

/// `verbena kernel-port`: the process.
pub fn kernel_port(args: ProcessArgs) -> Result<u8> {
    daemon::orphan()?;
    if let Err(error) = serve(&args) {
        // Read by the starter, as long as the interface is not up.
        let _ = write!(std::io::stderr(), "{error:#}");
        return Ok(1);
    }
    Ok(0)
}

fn serve(args: &ProcessArgs) -> Result<()> {
    let which = &args.which;
    let net = Net::named(&which.net)?;
    let _taken = which.take(&net, &args.kernel)?;
    let port = which.port.0;
    let card = SegmentCard::open(&net.socket(), port.card.into());
    let card = card.with_context(|| format!("opening verbena{}", port.card))?;
    let device = Device::open(card)?;
    let tap = Tap::open(&args.kernel, queue::cuts(&device))?;
    let (sender, receiver) = queue::open(&device, port.port + 1, which.vlan, args.promiscuous)?;
    tap.configure(port, args.mtu, which.vlan.is_none())?;
    tap.set_carrier(device.query_port(port.port + 1)?.link_up);
    daemon::close_stderr();
    let tap = Arc::new(tap);
    let from_kernel = Arc::clone(&tap);
    std::thread::spawn(move || {
        // The interface was deleted, or the card is gone, if not worse: so is the process.
        let _end = End;
        let _ = send(&from_kernel, sender);
    });
    receive(&tap, receiver, &device, port.port + 1)
}

/// Ends the process.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        std::process::exit(1);
    }
}

/// Brings to the card what the kernel sends.
fn send(tap: &Tap, mut sender: Sender<SegmentCard>) -> Result<()> {
    loop {
        let mut entries = [PollFd::new(tap, PollFlags::IN)];
        // Interrupted at most.
        let _ = rustix::event::poll(&mut entries, None);
        for _ in 0..BATCH {
            let Some(room) = sender.room()? else {
                sender.send()?;
                std::thread::sleep(PAUSE);
                continue;
            };
            let Some(frame) = tap.read(room)? else { break };
            sender.take(frame);
        }
        sender.send()?;
    }
}

/// Brings to the kernel what the card receives, and how the link is.
fn receive(
    tap: &Tap,
    mut receiver: Receiver<SegmentCard>,
    device: &Device<SegmentCard>,
    port: u8,
) -> Result<()> {
    let take = |receiver: &mut Receiver<_>| receiver.receive(|frame, good| Ok(tap.write(frame, good)?));
    loop {
        while take(&mut receiver)? != 0 {}
        receiver.arm();
        // What came before that is told by no event.
        if take(&mut receiver)? != 0 {
            continue;
        }
        match device.next_event(SLEEP)? {
            // Of whichever port.
            Some(Event::Async { kind: EventKind::PORT_ACTIVE | EventKind::PORT_ERR, .. }) => {
                tap.set_carrier(device.query_port(port)?.link_up);
            }
            Some(Event::Async { kind: kind @ (EventKind::DEVICE_FATAL | EventKind::QP_FATAL), object }) => {
                bail!("the card has failed: {kind} {object}")
            }
            _ => {}
        }
    }
}
