//! `verbena run`: a program of its own, with the cards in its view.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use model::attach::{read_patience, PATIENCE_VARIABLE, PROGRAMS_VARIABLE};
use model::link::LinkOptions;
use rustix::process::{getppid, set_parent_process_death_signal, Pid, Signal};

use super::part_id::{announcement, PartArgs, VARIABLE};
use super::slots::{self, SlotCard};
use super::tree::Tree;
use super::way::{Network, Way};
use super::{provider_so, seccomp, shell};
use crate::args::CardArgs;
use crate::args::Clock;
use crate::kernel;
use crate::net::keeper::{self, Held};
use crate::net::runtime::{default_net, Net, NET_VARIABLE};
use crate::net::wire::in_words;

/// What a program misses on the host's network.
const HOST_NETWORK: &str = "on the host's network the cards' addresses (198.18.x.y) are not local, so TCP to them leaves \
     this machine; the cards have no network interfaces but those of `verbena port up`; and TCP does not reach programs on \
     the net's own network";

/// Options of `verbena run`.
#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    cards: CardArgs,
    /// The net; programs on the same net share its cards
    #[arg(long, value_name = "NAME", default_value_t = default_net())]
    net: String,
    /// Show a card in a slot as verbena0, instead of modelled cards; a second one is verbena1
    #[arg(long, value_name = "vfio:PCI", value_parser = slots::parse, conflicts_with_all = ["net", "network", "cards", "card", "clock", "trace", "programs", "WireArgs"])]
    device: Vec<String>,
    #[command(flatten)]
    part: PartArgs,
    /// Say nothing unless something is wrong
    #[arg(long, short)]
    quiet: bool,
    /// Use no namespaces: environment variables and links in /dev instead
    #[arg(long)]
    no_namespace: bool,
    /// The network that the program sees (default own; host where a port of the net leads outside)
    #[arg(long, value_name = "NETWORK")]
    network: Option<Network>,
    /// In simulated time, a program that opens a card waits until N have done so, and all begin together: a script that
    /// starts N programs runs the same each time (default 1)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    programs: Option<u16>,
    /// End the program when the process with this number ends
    #[arg(long, hide = true, value_name = "PID")]
    with_parent: Option<u32>,
    /// Become an interactive shell, $SHELL, instead of a program
    #[arg(long)]
    shell: bool,
    /// The program and its arguments
    #[arg(
        required_unless_present = "shell",
        conflicts_with = "shell",
        trailing_var_arg = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

/// `verbena run` on a net, without further options and program, by this very binary and until this process ends.
pub fn run_on(net: &Net) -> Command {
    // The name that it can always be reached by.
    let mut command = Command::new("/proc/self/exe");
    command.args(["run", "--quiet", "--net", net.name()]);
    command.arg(format!("--with-parent={}", std::process::id()));
    command
}

/// Becomes the program. Returns only what went wrong.
pub fn run(args: RunArgs) -> Result<u8> {
    let provider = provider_so::find()?;
    let net = Net::named(&args.net)?;
    let slots = args.device.iter().map(|name| slots::look(name)).collect::<Result<Vec<_>>>()?;
    // Cards in slots need no net.
    let held = match slots.is_empty() {
        true => Some(keeper::ensure(&net, &args.cards)?),
        false => None,
    };
    let none = LinkOptions::default();
    let wire = held.as_ref().map_or(&none, |held| &held.info.wire);
    let inside = wire.ports.is_empty();
    ensure!(
        inside || args.network != Some(Network::Own),
        "--network own: a port of this net leads outside, and its address is on the host's network"
    );
    let socket = net.socket();
    let cards = held.as_ref().map_or(slots.len() as u32, |held| held.info.cards);
    let kernel = held.as_ref().map_or(Ok(Vec::new()), |_| kernel::here(&net))?;
    let tree = Tree {
        cards: u8::try_from(cards).context("too many cards")?,
        slots: &slots,
        profile: held.as_ref().map_or("vfio", |held| &held.info.card),
        socket: &socket,
        provider: &provider,
        network: false,
        kernel: &kernel,
        wire,
    };
    let network = args.network.unwrap_or(if inside { Network::Own } else { Network::Host });
    let way = if args.no_namespace {
        Way::by_environment(&tree, net.dir(), "--no-namespace was given".to_owned())?
    } else {
        Way::find(&tree, net.dir(), held.as_ref(), network)?
    };
    let filtered = seccomp::deny_rdma_netlink();
    if !args.quiet {
        model::tell!("verbena: {}, {}", what(&net, held.as_ref(), &slots), way.message);
    }
    let lacks_network = held.is_some() && !way.own_network && inside;
    if lacks_network && !(args.quiet && network == Network::Host) {
        model::tell!("verbena: {HOST_NETWORK}");
    }
    if let Err(error) = filtered {
        ensure!(
            !ib_core_present(),
            "this kernel has ib_core, and its answer cannot be hidden from the program: \
             {error:#}"
        );
    }
    let mut command = match args.program.split_first() {
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest);
            command
        }
        None => shell::interactive(&args.net)?,
    };
    command.env("VERBENA_SOCKET", &socket).envs(way.variables);
    if held.is_some() {
        command.env(NET_VARIABLE, net.name());
    }
    if let Some(id) = args.part.presented() {
        model::tell!("verbena: {}", announcement(id));
        command.env(VARIABLE, id.to_string());
    }
    if held.as_ref().is_some_and(|held| held.info.clock == Clock::Virtual) {
        command.env("LD_PRELOAD", preload(&provider_so::find_clock()?));
        same_addresses()?;
        check_patience()?;
        command.envs(args.programs.map(|programs| (PROGRAMS_VARIABLE, programs.to_string())));
    } else if args.programs.is_some() {
        bail!(
            "--programs needs --clock virtual: by the wall clock programs begin when the machine starts them"
        );
    }
    if let Some(parent) = args.with_parent {
        die_with(parent)?;
    }
    // The program inherits the connection that keeps the net alive.
    let _held = held;
    let error = command.exec();
    let program = Path::new(command.get_program()).display();
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    if missing {
        model::tell!("verbena: there is no program `{program}`: is it installed and in PATH?");
    } else {
        model::tell!("verbena: `{program}` could not be started: {error}");
    }
    Ok(if missing { 127 } else { 126 })
}

/// The cards in a few words.
fn what(net: &Net, held: Option<&Held>, slots: &[SlotCard]) -> String {
    match held {
        Some(Held { info, .. }) => {
            let time = if info.clock == Clock::Virtual { ", simulated time" } else { "" };
            let trace = info.trace.iter().map(|path| format!(", trace in {}", path.display()));
            let more = in_words(&info.wire) + &trace.collect::<String>();
            format!("net `{}`, {} x {}{time}{more}", net.name(), info.cards, info.card)
        }
        None => slots.iter().map(|slot| slot.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// True where libibverbs could ask the kernel for devices.
pub fn ib_core_present() -> bool {
    Path::new("/sys/module/ib_core").exists()
}

/// The clock library before what is preloaded anyway.
fn preload(clock: &Path) -> OsString {
    let mut list = OsString::from(clock);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// The program gets the same addresses in every run: it may print them.
pub fn same_addresses() -> Result<()> {
    // SAFETY: personality with plain numbers.
    let set = unsafe {
        let now = libc::personality(0xffff_ffff);
        now >= 0 && libc::personality((now | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong) >= 0
    };
    if !set {
        bail!(
            "personality(2) is refused here, so that addresses differ from run to run, which --clock virtual does \
             not allow; in a container: docker run --security-opt seccomp=unconfined"
        );
    }
    Ok(())
}

/// A mistake in the variable is reported here, where its user reads it.
fn check_patience() -> Result<()> {
    if let Some(text) = std::env::var_os(PATIENCE_VARIABLE) {
        read_patience(&text.to_string_lossy()).map_err(anyhow::Error::msg)?;
    }
    Ok(())
}

/// SIGTERM comes when the process that asked for this one ends, however it ends.
pub fn die_with(parent: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM)).context("prctl(PR_SET_PDEATHSIG)")?;
    ensure!(Pid::as_raw(getppid()) == parent as i32, "the process that asked for this program has ended");
    Ok(())
}
