//! The `verbena` command: starts verbs programs on modelled cards, checks the machine, runs and
//! compares perftest, brings up boards, and prints what queue entries mean.
//!
//! | module | commands |
//! |---|---|
//! | [`launch`] | `run`, `up`, `down`: programs that see the cards |
//! | [`net`] | the keeper of a net, `serve`, `link`, `lag`, the wire between the cards |
//! | [`capture`] | `capture`: the packets of a running net |
//! | [`kernel`] | `port`: the kernel's interface for a port |
//! | [`doctor`] | `doctor` |
//! | [`perftest`], [`measured`], [`compare`], [`trace`] | perftest's figures: one run, a matrix, where the time goes |
//! | [`sim`] | `sim`: workloads on many cards, without programs |
//! | [`matrix`] | `matrix`: which programs of which releases work |
//! | [`board`], [`pci`] | a card in a slot: `list`, `bind`, `probe`, `regs`, `selftest`, `bench`, `top`, `record` |
//! | [`card`], [`decode`], [`export`] | profiles and definitions |
//! | [`manual`] | `completions`, `man`: made from the definitions in this file |
//! | [`plot`], [`output`], [`files`], [`args`], [`counters`], [`signals`] | what several of them use: plots, printing, files, options, names of counters, Ctrl-C |

// What cannot be printed is reported: see `output`. Remarks that nobody reads are lost: `model::tell!`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod output;

mod args;
mod board;
mod capture;
mod card;
mod compare;
mod counters;
mod decode;
mod doctor;
mod export;
mod files;
mod kernel;
mod launch;
mod manual;
mod matrix;
mod measured;
mod net;
mod pci;
mod perftest;
mod plot;
mod signals;
mod sim;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use launch::{run, up};
use net::{keeper, lag, link, serve};

/// Exit code of `verbena run` when it could not start the program (the same
/// convention as `env` and container tools: 126 and 127 are the program's).
const EXIT_LAUNCHER: u8 = 125;

/// RDMA programs on modelled Verbena cards, without hardware or kernel module.
#[derive(Parser)]
#[command(name = "verbena", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a verbs program with verbena0..N-1 visible
    Run(run::RunArgs),
    /// Make the cards visible in the whole container (root)
    Up(up::UpArgs),
    /// Undo `verbena up`
    Down,
    /// Check everything that can be wrong on this machine, with the remedy
    Doctor(doctor::DoctorArgs),
    /// Run client and server of a perftest test, with a plot of the result
    Perftest(perftest::PerftestArgs),
    /// Card profiles: how fast a modelled card is, and how that is known
    Card(card::CardCommand),
    /// Run a perftest test in simulated time, and show where the time of each message goes
    Trace(trace::TraceArgs),
    /// Run many perftest tests and compare them with published ones, in one report
    Compare(compare::CompareArgs),
    /// Play a traffic pattern on many cards in simulated time, without programs
    Sim(sim::SimArgs),
    /// Run stock programs of several releases, and print which of them pass
    Matrix(matrix::MatrixArgs),
    /// Pull the cable of a port of a running net, or disable the port; show the links
    Link(link::LinkArgs),
    /// Make the two ports of a card one (802.3ad, active-backup, xor); show their state
    Lag(lag::LagArgs),
    /// Show the packets of a running net, or write them to a file, as tcpdump does
    Capture(capture::CaptureArgs),
    /// Make a network interface of the kernel for a port, remove it, or list all
    Port(kernel::PortCommand),
    /// List the cards on PCI, with IOMMU group, driver and state
    List(pci::ListArgs),
    /// Give PCI devices to vfio-pci, so that programs can open them (root)
    Bind(pci::BindArgs),
    /// Give PCI devices back (root)
    Unbind(pci::BindArgs),
    /// Serve cards as PCI functions over vfio-user, for QEMU or the driver's own client
    Serve(serve::ServeArgs),
    /// Print what the bytes of a queue entry mean
    Decode(decode::DecodeArgs),
    /// Write the card's definition as C, SystemVerilog, SystemRDL or golden vectors
    Export(export::ExportArgs),
    /// Show what card this is, how it is, and what is wrong with it
    Probe(board::probe::ProbeArgs),
    /// Show registers with their fields
    Regs(board::regs::RegsArgs),
    /// Show one register
    Peek(board::poke::PeekArgs),
    /// Write one register
    Poke(board::poke::PokeArgs),
    /// Compare two dumps of `regs --json`
    Diff(board::diff::DiffArgs),
    /// Test a board step by step
    Selftest(board::selftest::SelftestArgs),
    /// Measure a card without libibverbs
    Bench(board::bench::BenchArgs),
    /// Watch what cards are doing
    Top(board::top::TopArgs),
    /// Record every register access and queue entry of a command
    Record(board::record::RecordArgs),
    /// Compare a record with what the model does
    Replay(board::record::ReplayArgs),
    /// Print the completion script of a shell; in bash: source <(verbena completions bash)
    Completions(manual::CompletionsArgs),
    /// Write the man pages of all commands
    Man(manual::ManArgs),
    /// Serve the cards of a net (started by the other commands)
    #[command(hide = true)]
    Keeper(keeper::KeeperArgs),
    /// Keep a net alive until killed (started by `up`)
    #[command(hide = true)]
    Hold(keeper::HoldArgs),
    /// Carry frames between a port and the kernel until killed (started by `port up`)
    #[command(hide = true)]
    KernelPort(kernel::process::ProcessArgs),
}

/// Takes -1 as a value, which the option then refuses, rather than as an option that does not exist.
fn negative_values(command: clap::Command) -> clap::Command {
    let takes = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_trailing_var_arg_set();
    let command = command.mut_args(|arg| if takes(&arg) { arg.allow_negative_numbers(true) } else { arg });
    command.mut_subcommands(negative_values)
}

/// Runs the command line and turns every error into one readable message.
fn main() -> ExitCode {
    signals::survive_file_limits();
    let cli = Cli::from_arg_matches(&negative_values(Cli::command()).get_matches());
    let cli = cli.unwrap_or_else(|error| error.exit());
    let launcher = matches!(cli.command, Command::Run(_));
    let result = match cli.command {
        Command::Run(args) => run::run(args),
        Command::Up(args) => up::up(args),
        Command::Down => up::down(),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Perftest(args) => perftest::perftest(args),
        Command::Card(args) => card::card(args),
        Command::Trace(args) => trace::trace(args),
        Command::Compare(args) => compare::compare(args),
        Command::Sim(args) => sim::sim(args),
        Command::Matrix(args) => matrix::matrix(args),
        Command::Link(args) => link::link(args),
        Command::Lag(args) => lag::lag(args),
        Command::Capture(args) => capture::capture(args),
        Command::Port(args) => kernel::port(args),
        Command::List(args) => pci::list(args),
        Command::Bind(args) => pci::bind(args),
        Command::Unbind(args) => pci::unbind(args),
        Command::Serve(args) => serve::serve(args),
        Command::Decode(args) => decode::decode(args),
        Command::Export(args) => export::export(args),
        Command::Probe(args) => board::probe::probe(args),
        Command::Regs(args) => board::regs::regs(args),
        Command::Peek(args) => board::poke::peek(args),
        Command::Poke(args) => board::poke::poke(args),
        Command::Diff(args) => board::diff::diff(args),
        Command::Selftest(args) => board::selftest::selftest(args),
        Command::Bench(args) => board::bench::bench(args),
        Command::Top(args) => board::top::top(args),
        Command::Record(args) => board::record::record(args),
        Command::Replay(args) => board::record::replay(args),
        Command::Completions(args) => manual::completions(args, Cli::command()),
        Command::Man(args) => manual::man(args, Cli::command()),
        Command::Keeper(args) => keeper::keeper(args),
        Command::KernelPort(args) => kernel::process::kernel_port(args),
        Command::Hold(args) => keeper::hold_until_killed(args),
    };
    match result.and_then(output::finish) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            model::tell!("verbena: {error:#}");
            let code = if launcher { EXIT_LAUNCHER } else { 1 };
            let ended = error.downcast_ref::<signals::Ended>();
            ExitCode::from(ended.map_or(code, |ended| signals::exit_code(ended.0)))
        }
    }
}
