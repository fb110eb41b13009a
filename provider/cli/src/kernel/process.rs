//! The process of an interface: carries frames between a port of the card and the kernel, and sleeps in between. Its end takes
//! the interface away, and what the card has of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use clap::Args;
use driver::{Device, Event};
use fpga_regs::EventKind;
use model::attach::SegmentCard;
use rustix::event::{PollFd, PollFlags};

use super::filter::{Filter, Wishes};
use super::merge::{Frame, Message};
use super::note::{Note, Which};
use super::place::Place;
use super::queue::{self, Receiver, Sender, BATCH};
use super::tap::Tap;
use crate::net::daemon;
use crate::net::runtime::Net;

/// The longest sleep without an event. Nothing depends on it.
const SLEEP: Duration = Duration::from_secs(3600);
/// How long the thread that sends waits when all its frames wait for their receivers, which they do for a tenth of a second
/// at most.
const PAUSE: Duration = Duration::from_millis(1);

/// Options of `verbena netdev-process`.
#[derive(Args)]
pub struct ProcessArgs {
    #[command(flatten)]
    which: Which,
    /// Where the net is: the user may have another number in the interface's namespace.
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    name: String,
    #[arg(long)]
    mtu: u32,
    #[arg(long)]
    queues: u16,
}

/// `verbena netdev-process`: the process.
pub fn netdev_process(args: ProcessArgs) -> Result<u8> {
    daemon::orphan()?;
    if let Err(error) = serve(&args) {
        // Read by the starter, as long as the interface is not up.
        model::tell!("{error:#}");
        return Ok(1);
    }
    Ok(0)
}

fn serve(args: &ProcessArgs) -> Result<()> {
    let net = Net::within(args.directory.clone(), &args.which.net)?;
    let mut note = args.which.take(&net, &args.name)?;
    let ready = match start(args, &net) {
        Ok(ready) => ready,
        Err(error) => {
            note.clear()?;
            return Err(error);
        }
    };
    daemon::close_stderr();
    // From here on nobody listens.
    let note = Arc::new(Mutex::new(note));
    End::after(&note, || run(ready, &note));
    Ok(())
}

/// An interface that is up.
struct Ready {
    port: u8,
    device: Arc<Device<SegmentCard>>,
    taps: Vec<Arc<Tap>>,
    pairs: Vec<(Sender, Receiver)>,
    filter: Filter,
    wishes: Wishes,
}

fn start(args: &ProcessArgs, net: &Net) -> Result<Ready> {
    let which = &args.which;
    let port = which.port.0;
    let mut place = Place::leave(&args.name)?;
    let card = SegmentCard::open(&net.socket(), port.card.into());
    let card = card.with_context(|| format!("opening verbena{}", port.card))?;
    let device = Device::open(card)?;
    let taps = place.open(|| Tap::open(&args.name, queue::cuts(&device), args.queues))?;
    let taps: Vec<_> = taps.into_iter().map(Arc::new).collect();
    let (pairs, spread) = queue::open(&device, port.port + 1, which.vlan, args.queues)?;
    let mut filter = Filter::open(spread, port.port + 1, which.vlan)?;
    let wishes = Wishes::of(&taps[0], place)?;
    wishes.visit(|| taps[0].configure(port, args.mtu, which.vlan.is_none()))?;
    follow(&wishes, &mut filter)?;
    taps[0].set_carrier(device.query_port(port.port + 1)?.link_up);
    Ok(Ready { port: port.port + 1, device, taps, pairs, filter, wishes })
}

fn run(ready: Ready, note: &Arc<Mutex<Note>>) -> Result<()> {
    let Ready { port, device, taps, pairs, mut filter, wishes } = ready;
    let mut receivers = HashMap::new();
    for (n, (tap, (sender, receiver))) in taps.iter().zip(pairs).enumerate() {
        let (from_kernel, to_kernel) = (Arc::clone(tap), Arc::clone(tap));
        let cqn = receiver.cqn();
        until_the_end(note, format!("tx-{n}"), move || send(&from_kernel, sender))?;
        let receiving = until_the_end(note, format!("rx-{n}"), move || receive(&to_kernel, receiver))?;
        receivers.insert(cqn, receiving);
    }
    until_the_end(note, "filter".into(), move || loop {
        wishes.wait();
        // If the kernel has no time for the question, it is asked again soon.
        if let Ok(Some(wanted)) = wishes.now() {
            // Without the right to it the interface is root's, and so is its MTU.
            let _ = wishes.limit_mtu(&wanted);
            filter.set(wanted)?;
        }
    })?;
    watch(&taps[0], &receivers, &device, port)
}

/// Lets come what the kernel wants now. An interface that has gone to another namespace keeps what it had.
fn follow(wishes: &Wishes, filter: &mut Filter) -> Result<()> {
    wishes.now()?.map_or(Ok(()), |wanted| filter.set(wanted))
}

/// Starts a thread with a name, that of its queue as the kernel calls it in sysfs. When it ends, the interface was deleted, or the
/// card is gone, if not worse: so is the process.
fn until_the_end(
    note: &Arc<Mutex<Note>>,
    name: String,
    work: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<Thread> {
    let note = Arc::clone(note);
    let thread = std::thread::Builder::new().name(name).spawn(move || End::after(&note, work));
    Ok(thread.context("a thread of the interface")?.thread().clone())
}

/// Ends the process, and notes why.
struct End<'a> {
    note: &'a Mutex<Note>,
    /// `None`: the interface was deleted, as anybody may.
    why: Option<String>,
}

impl End<'_> {
    fn after(note: &Mutex<Note>, work: impl FnOnce() -> Result<()>) {
        let mut end = End { note, why: Some("its process has panicked".into()) };
        end.why = work().err().filter(|error| !is_of_deleted(error)).map(|error| format!("{error:#}"));
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        // Held to the end: what comes after the first reason comes of it.
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.why {
            Some(why) => note.fail(why),
            None => drop(note.clear()),
        }
        std::process::exit(1);
    }
}

/// What the kernel says of a TAP without an interface.
fn is_of_deleted(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.into_iter().any(|error| error.raw_os_error() == Some(libc::EBADFD))
}

/// Brings to the card what the kernel sends.
fn send(tap: &Tap, mut sender: Sender) -> Result<()> {
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

/// Brings to the kernel what a queue of the card receives. Sleeps until [`watch`] wakes it.
fn receive(tap: &Tap, mut receiver: Receiver) -> Result<()> {
    let give = |mut frames: &[Frame<'_>]| {
        while !frames.is_empty() {
            let message = Message::first_of(frames);
            tap.write(&message)?;
            frames = &frames[message.count()..];
        }
        Ok(())
    };
    let take = |receiver: &mut Receiver| receiver.receive(give);
    loop {
        while take(&mut receiver)? != 0 {}
        receiver.arm();
        // What came before that is told by no event.
        if take(&mut receiver)? == 0 {
            std::thread::park();
        }
    }
}

/// Wakes the threads whose queues have received, by the numbers of their CQs; tells the kernel how the link is.
fn watch(tap: &Tap, receivers: &HashMap<u32, Thread>, device: &Device<SegmentCard>, port: u8) -> Result<()> {
    loop {
        match device.next_event(SLEEP)? {
            Some(Event::Completion { cqn }) => {
                if let Some(receiver) = receivers.get(&cqn) {
                    receiver.unpark();
                }
            }
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
