//! `verbena port`: the kernel as one more user of a port's Ethernet queues, by a network interface.
//!
//! | file | one idea |
//! |---|---|
//! | `mod` | the commands: starting and ending the process of an interface, listing them |
//! | [`note`] | what is known of an interface, in a file |
//! | [`process`] | that process, which carries frames between the card and the interface |
//! | [`filter`] | which frames come to it |
//! | [`queue`] | its queues of the card |
//! | [`tap`] | the interface |
//! | [`merge`] | TCP that comes in frames, put together for the kernel |
//! | [`place`] | the network namespace that it is in |

pub mod process;

mod filter;
mod merge;
mod note;
mod place;
mod queue;
mod tap;

use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure, Context, Result};
use clap::{Args, Subcommand};
use fpga_regs::MAX_FRAME;
use model::packet::PortId;
use rustix::process::{kill_process, Pid, Signal};

use crate::args::{CardArgs, Clock};
use crate::net::daemon;
use crate::net::keeper::{self, Held};
use crate::net::runtime::{default_net, Net};
use note::{Noted, Which};

/// How long the end of a process is waited for.
const END: Duration = Duration::from_secs(10);
/// Largest MTU: the longest frame but for the Ethernet header with a tag.
const MAX_MTU: i64 = MAX_FRAME as i64 - 18;
/// Most queues of an interface: what is more helps no machine that carries frames by software.
const MAX_QUEUES: i64 = 16;

/// `verbena port`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PortCommand {
    #[command(subcommand)]
    action: Option<Action>,
    /// The net whose interfaces are listed
    #[arg(long, value_name = "NAME", default_value_t = default_net())]
    net: String,
}

#[derive(Subcommand)]
enum Action {
    /// Make a network interface of the kernel for a port
    Up(UpArgs),
    /// Remove a port's kernel interface
    Down(DownArgs),
}

#[derive(Args)]
struct UpArgs {
    #[command(flatten)]
    which: Which,
    /// Name of the interface
    #[arg(long, value_name = "NAME", value_parser = interface)]
    kernel: String,
    /// The network namespace that it is in: a process id, or a name of `ip netns` (default: that of this command)
    #[arg(long, value_name = "PID|NAME")]
    netns: Option<String>,
    /// Its MTU
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(68..=MAX_MTU))]
    mtu: u32,
    /// Its queues for each direction, with a thread each; the frames of a connection take the same one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MAX_QUEUES))]
    queues: u16,
}

#[derive(Args)]
struct DownArgs {
    #[command(flatten)]
    which: Which,
    /// Also remove the interfaces of its VLANs
    #[arg(long, conflicts_with = "vlan")]
    all: bool,
}

/// Checks the name of an interface.
fn interface(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '%');
    match (1..=15).contains(&text.len()) && text.chars().all(good) && !matches!(text, "." | "..") {
        true => Ok(text.to_owned()),
        false => Err(
            "the name of an interface has 1 to 15 printable ASCII characters other than space, /, : and %"
                .into(),
        ),
    }
}

pub fn port(command: PortCommand) -> Result<u8> {
    match command.action {
        Some(Action::Up(args)) => up(args),
        Some(Action::Down(args)) => down(&args),
        None => list(&command.net),
    }
}

/// Prints the interfaces of a net, and those whose process has failed.
fn list(name: &str) -> Result<u8> {
    let net = Net::named(name)?;
    let noted = noted(&net)?;
    if noted.is_empty() {
        // Nothing to be said of a net that does not run is most likely a wrong name.
        Net::running(name)?;
    }
    for (which, noted) in noted {
        say!("{}", noted.line(&which));
    }
    Ok(0)
}

fn noted(net: &Net) -> Result<Vec<(Which, Noted)>> {
    let look = |which: Which| Some(which.look(net).transpose()?.map(|noted| (which, noted)));
    Which::all(net)?.into_iter().filter_map(look).collect()
}

/// The interfaces that are in the network namespace of this process, but for those of VLANs.
pub fn here(net: &Net) -> Result<Vec<(PortId, String)>> {
    let own = note::own_namespace()?;
    let here = |(which, noted): &(Which, Noted)| which.vlan.is_none() && noted.runs && noted.namespace == own;
    let all = noted(net)?.into_iter().filter(here);
    Ok(all.map(|(which, noted)| (which.port.0, noted.interface)).collect())
}

/// Refuses ports that have no frames.
fn check(which: &Which, held: &Held) -> Result<()> {
    let (port, info) = (which.port.0, &held.info);
    ensure!(
        u32::from(port.card) < info.cards && usize::from(port.port) < model::packet::PORTS,
        "net `{}` has the ports verbena0/1 to verbena{}/{}, not {}",
        which.net,
        info.cards - 1,
        model::packet::PORTS,
        which.port
    );
    ensure!(
        info.wire.outside(port).is_none(),
        "{} leads outside of the net, where the kernel has interfaces of its own: take another port",
        which.port
    );
    ensure!(
        info.clock != Clock::Virtual,
        "net `{}` runs in simulated time, in which the kernel has no part: take one without --clock virtual",
        which.net
    );
    Ok(())
}

fn up(args: UpArgs) -> Result<u8> {
    let which = &args.which;
    let net = Net::named(&which.net)?;
    let held = keeper::ensure(&net, &CardArgs::default())?;
    check(which, &held)?;
    place::enter(args.netns.as_deref(), &held.namespaces)?;
    let mut words = vec!["kernel-port".to_owned(), which.port.to_string()];
    let directory = net.dir().to_str().context("the path of the nets is not UTF-8")?;
    words.extend([
        format!("--net={}", which.net),
        format!("--directory={directory}"),
        format!("--kernel={}", args.kernel),
        format!("--mtu={}", args.mtu),
        format!("--queues={}", args.queues),
    ]);
    words.extend(which.vlan.map(|vlan| format!("--vlan={vlan}")));
    let mut child = daemon::spawn(&words, None)?;
    let mut said = String::new();
    // It ends when the process closes it, as soon as the interface is up, or ends.
    let mut stderr = child.stderr.take().context("no pipe to the process of the interface")?;
    stderr.read_to_string(&mut said).context("hearing of the process of the interface")?;
    let _ = child.wait();
    ensure!(said.trim().is_empty(), "{}", said.trim());
    match which.look(&net)? {
        Some(noted) if noted.runs => say!("{} is {which}", args.kernel),
        Some(noted) => bail!("{} is gone again: {}", args.kernel, noted.why()),
        None => bail!(
            "the background process of {} ended without a message: was it out of memory (dmesg)?",
            args.kernel
        ),
    }
    Ok(0)
}

fn down(args: &DownArgs) -> Result<u8> {
    let net = Net::named(&args.which.net)?;
    if args.all {
        let of_port = |which: &Which| which.port == args.which.port;
        let all: Vec<Which> = noted(&net)?.into_iter().map(|(which, _)| which).filter(of_port).collect();
        if all.is_empty() {
            end(&args.which, &net)?;
        }
        // All of them, whatever becomes of one.
        let ended: Vec<Result<()>> = all.iter().map(|which| end(which, &net)).collect();
        return ended.into_iter().collect::<Result<()>>().map(|()| 0);
    }
    let ended = end(&args.which, &net);
    let is_vlan = |which: &Which| which.port == args.which.port && which.vlan.is_some();
    for (which, noted) in noted(&net)?.into_iter().filter(|(which, noted)| is_vlan(which) && noted.runs) {
        if args.which.vlan.is_none() {
            say!("{which} has {} still; `{}` removes it", noted.interface, which.down());
        }
    }
    ended.map(|()| 0)
}

/// Why there is nothing to end: most likely a wrong name.
fn nothing(which: &Which) -> anyhow::Error {
    let running = Net::running(&which.net);
    running.err().unwrap_or_else(|| anyhow!("{which} of net `{}` has no kernel interface", which.net))
}

/// Ends the process of an interface.
fn end(which: &Which, net: &Net) -> Result<()> {
    if !which.is_noted(net) {
        return Err(nothing(which));
    }
    let until = Instant::now() + END;
    let mut told = None;
    loop {
        match which.lock(net)? {
            Ok(mut note) => {
                let noted = note.read()?;
                note.clear()?;
                match noted {
                    _ if told.is_some() => return Ok(()),
                    Some(noted) => bail!(
                        "{which} of net `{}` has no kernel interface any more, {} failed: {}",
                        which.net,
                        noted.interface,
                        noted.why()
                    ),
                    None => return Err(nothing(which)),
                }
            }
            Err(Noted { pid, interface, .. }) => {
                if told.is_some() && pid.is_some_and(|pid| Some(pid) != told) {
                    // The process has ended, and another one has the port already.
                    return Ok(());
                }
                // It may be just writing its number.
                if let Some(pid) = pid.filter(|_| told.is_none()) {
                    let process = Pid::from_raw(pid).context("no process id")?;
                    kill_process(process, Signal::TERM).with_context(|| format!("ending process {pid}"))?;
                    told = Some(pid);
                }
                ensure!(
                    Instant::now() <= until,
                    "process {} of the interface {interface} does not end: is it stopped?",
                    told.unwrap_or(0)
                );
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_names_of_the_kernel() {
        assert_eq!(interface("vb0.107").as_deref(), Ok("vb0.107"));
        for wrong in ["", "..", "a/b", "with space", "longer-than-fifteen"] {
            assert!(interface(wrong).is_err(), "{wrong}");
        }
    }

    /// The next process of a port is not taken for the one that was told to end.
    #[test]
    fn another_process_may_follow_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let net = Net::within(directory.path().to_owned(), "n").unwrap();
        let which = Which { port: "verbena0/1".parse().unwrap(), vlan: None, net: "n".into() };
        let note = directory.path().join("n.verbena0p1.kernel");
        let sleep = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (mut first, next) = (sleep(), sleep());
        std::fs::write(&note, format!("{} vb0 1", first.id())).unwrap();
        // Whoever has it, it is never free.
        let taken = which.lock(&net).ok().unwrap();
        let follows = std::thread::spawn(move || {
            first.wait().unwrap();
            std::fs::write(&note, format!("{} vb1 1", next.id())).unwrap();
            next
        });
        let ended = end(&which, &net);
        let mut next = follows.join().unwrap();
        assert!(next.try_wait().unwrap().is_none(), "the next one is ended, too");
        next.kill().unwrap();
        next.wait().unwrap();
        drop(taken);
        ended.unwrap();
    }

    #[test]
    fn ending_what_is_not_there_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let net = Net::within(directory.path().to_owned(), "typo").unwrap();
        let which = Which { port: "verbena0/1".parse().unwrap(), vlan: Some(9), net: "typo".into() };
        let why = end(&which, &net).unwrap_err().to_string();
        assert!(why.contains("net `typo` is not running"), "{why}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
