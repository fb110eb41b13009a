//! `verbena port`: the kernel as one more user of a port's Ethernet queues, by a network interface.
//!
//! | file | one idea |
//! |---|---|
//! | `mod` | the commands: starting and ending the process of an interface |
//! | [`process`] | that process, which carries frames between the card and the interface |
//! | [`filter`] | which frames come to it |
//! | [`queue`] | its queues of the card |
//! | [`tap`] | the interface |
//! | [`merge`] | TCP that comes in frames, put together for the kernel |
//! | [`place`] | the network namespace that it is in |

pub mod process;

mod filter;
mod merge;
mod place;
mod queue;
mod tap;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use clap::{Args, Subcommand};
use fpga_regs::MAX_FRAME;
use rustix::fs::FlockOperation;
use rustix::process::{kill_process, Pid, Signal};

use crate::args::{CardArgs, Clock};
use crate::net::daemon;
use crate::net::keeper::{self, Held};
use crate::net::link::PortName;
use crate::net::runtime::{Net, DEFAULT_NET};

/// How long the end of a process is waited for.
const END: Duration = Duration::from_secs(10);
/// Largest MTU: the longest frame but for the Ethernet header with a tag.
const MAX_MTU: i64 = MAX_FRAME as i64 - 18;
/// Most queues of an interface: what is more helps no machine that carries frames by software.
const MAX_QUEUES: i64 = 16;

/// `verbena port`.
#[derive(Args)]
pub struct PortCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a network interface of the kernel for a port
    Up(UpArgs),
    /// Remove it
    Down(DownArgs),
}

/// Which interface.
#[derive(Args, Clone)]
struct Which {
    /// The port, as verbena0/1
    port: PortName,
    /// The interface of this VLAN, whose tag the card strips and inserts
    #[arg(long, value_name = "VLAN", value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    /// The net
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NET)]
    net: String,
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
}

/// Checks the name of an interface.
fn interface(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '%');
    match (1..=15).contains(&text.len()) && text.chars().all(good) && !matches!(text, "." | "..") {
        true => Ok(text.to_owned()),
        false => Err("the name of an interface has 1 to 15 letters and digits".into()),
    }
}

/// Runs the command.
pub fn port(command: PortCommand) -> Result<u8> {
    match command.action {
        Action::Up(args) => up(args),
        Action::Down(args) => down(args.which),
    }
}

impl Which {
    /// In words.
    fn text(&self) -> String {
        self.vlan.map_or(self.port.to_string(), |vlan| format!("{}, VLAN {vlan}", self.port))
    }

    /// The command that removes it.
    fn down(&self) -> String {
        let vlan = self.vlan.map_or(String::new(), |vlan| format!(" --vlan {vlan}"));
        format!("verbena port down {}{vlan} --net {}", self.port, self.net)
    }

    /// The file that its process has locked, with its process id and the interface's name.
    fn file(&self, net: &Net) -> PathBuf {
        let vlan = self.vlan.map_or(String::new(), |vlan| format!(".{vlan}"));
        let port = self.port.to_string().replace('/', "p");
        net.dir().join(format!("{}.{port}{vlan}.kernel", net.name()))
    }

    /// The file, locked by this process. Whoever has it instead is in the error.
    fn lock(&self, net: &Net) -> Result<File, Taken> {
        let open = || {
            let path = self.file(net);
            let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
            file.with_context(|| format!("opening {}", path.display()))
        };
        let mut file = open().map_err(Taken::Failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let read = file.read_to_string(&mut text).context("reading who has the interface");
                read.map_err(Taken::Failed)?;
                let (pid, name) = text.split_once(' ').unwrap_or_default();
                Err(Taken::By(pid.parse().ok(), name.trim().to_owned()))
            }
            Err(error) => Err(Taken::Failed(error.into())),
        }
    }

    /// As [`lock`](Self::lock), and notes whose it is.
    fn take(&self, net: &Net, name: &str) -> Result<File> {
        let mut file = self.lock(net).map_err(|taken| match taken {
            Taken::By(_, other) => {
                anyhow::anyhow!(
                    "{} has the interface {other} already; `{}` removes it",
                    self.text(),
                    self.down()
                )
            }
            Taken::Failed(error) => error,
        })?;
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{} {name}", std::process::id()).context("noting who has the interface")?;
        Ok(file)
    }
}

/// Why a file cannot be locked.
enum Taken {
    /// This process has it, for an interface.
    By(Option<i32>, String),
    Failed(anyhow::Error),
}

/// Refuses ports that have no frames.
fn check(which: &Which, held: &Held) -> Result<()> {
    let (port, info) = (which.port.0, &held.info);
    if u32::from(port.card) >= info.cards || usize::from(port.port) >= model::packet::PORTS {
        bail!(
            "net `{}` has the ports verbena0/1 to verbena{}/{}, not {}",
            which.net,
            info.cards - 1,
            model::packet::PORTS,
            which.port
        );
    }
    if info.wire.outside()?.iter().any(|(outside, _)| *outside == port) {
        bail!(
            "{} is connected to something outside of the net, and carries RoCE alone: take another port",
            which.port
        );
    }
    if info.clock == Clock::Virtual {
        bail!("net `{}` runs in simulated time, in which the kernel has no part: take one without --clock virtual", which.net);
    }
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
    if !said.trim().is_empty() {
        bail!("{}", said.trim());
    }
    if which.lock(&net).is_ok() {
        bail!(
            "the background process of {} ended without a message: was it out of memory (dmesg)?",
            args.kernel
        );
    }
    say!("{} is {}", args.kernel, which.text());
    Ok(0)
}

fn down(which: Which) -> Result<u8> {
    let net = Net::named(&which.net)?;
    let until = Instant::now() + END;
    let mut told = None;
    loop {
        match which.lock(&net) {
            Ok(_) if told.is_some() => return Ok(0),
            Ok(_) => bail!("{} of net `{}` has no kernel interface", which.text(), which.net),
            Err(Taken::By(pid, name)) => {
                // It may be just writing its number.
                if let Some(pid) = pid.filter(|_| told.is_none()) {
                    let process = Pid::from_raw(pid).context("no process id")?;
                    kill_process(process, Signal::TERM).with_context(|| format!("ending process {pid}"))?;
                    told = Some(pid);
                }
                if Instant::now() > until {
                    bail!(
                        "process {} of the interface {name} does not end: is it stopped?",
                        told.unwrap_or(0)
                    );
                }
            }
            Err(Taken::Failed(error)) => return Err(error),
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
}
