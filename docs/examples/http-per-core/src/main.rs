//! HTTP on a user-space TCP/IP stack on each core, in the manner of Seastar: a thread for each core polls queues of its
//! own, and the card brings each connection's frames to one of them (RSS). No thread ever touches what is another's.
//!
//! | file | idea |
//! |---|---|
//! | `port` | a port of a card: who of the cores gets which frame |
//! | `queues` | the queues of one core, as a network device of smoltcp |
//! | `stack` | the TCP/IP stack of one core |
//! | `server`, `client` | what is said over it |
//! | `cores` | a pinned thread for each core |

mod client;
mod cores;
mod port;
mod queues;
mod server;
mod stack;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use clap::{Args, Parser, Subcommand};

use client::{Client, Tally};
use port::Port;
use server::Server;

/// The port of HTTP.
const HTTP: u16 = 80;

/// HTTP on a TCP/IP stack of its own on each core. Start it with `verbena run`.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answer requests until killed
    Serve(Serve),
    /// Send requests, and print how many were answered
    Load(Load),
    /// Both in one process, first on one core and then on several, and how the rate grows
    Scale(Scale),
}

#[derive(Args)]
struct Common {
    /// The card: verbenaN, or verbenaN/2 for its second port
    #[arg(long, value_name = "CARD")]
    device: port::Name,
    /// Own IPv4 address
    #[arg(long, value_parser = host)]
    address: Ipv4Addr,
    /// Cores to use, each with a thread and queues of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    cores: u16,
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    common: Common,
    /// Connections that each core can have at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
}

#[derive(Args)]
struct Load {
    #[command(flatten)]
    common: Common,
    /// The server's address
    #[arg(long, value_name = "ADDRESS", value_parser = host)]
    to: Ipv4Addr,
    /// Connections of each core
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// How long
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

#[derive(Args)]
struct Scale {
    /// Most cores
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=64))]
    cores: u16,
    /// Connections of each core
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// How long for each number of cores
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// An address that a host can have.
fn host(text: &str) -> Result<Ipv4Addr, String> {
    let address: Ipv4Addr =
        text.parse().map_err(|_| "expected an IPv4 address such as 198.18.0.101".to_owned())?;
    match address.is_unspecified() || address.is_multicast() || address.is_broadcast() {
        true => Err("no host has this address: give one of its own, as 198.18.0.101".into()),
        false => Ok(address),
    }
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Serve(args) => serve(&args),
        Command::Load(args) => load(&args),
        Command::Scale(args) => scale(&args),
    }
}

fn serve(args: &Serve) -> Result<()> {
    let Common { device, address, cores } = &args.common;
    let (port, queues) = Port::open(*device, *cores)?;
    println!("http://{address}/ on {device}, {} cores", port.cores);
    cores::each(queues, |core, queues, failed| {
        let mut server = Server::new(queues, *address, core, args.connections);
        while !failed.any() {
            server.poll()?;
        }
        Ok(())
    })?;
    Ok(())
}

fn load(args: &Load) -> Result<()> {
    let Common { device, address, cores } = &args.common;
    let (port, queues) = Port::open(*device, *cores)?;
    let length = Duration::from_secs(args.seconds);
    let tallies = cores::each(queues, |core, queues, failed| {
        // Answers are to come to the core that asks.
        let mine = |local| port.core_of((args.to, HTTP), (*address, local)) == core;
        let mut client = Client::new(queues, *address, args.to, args.connections, mine)?;
        let end = Instant::now() + length;
        while Instant::now() < end && !failed.any() {
            client.poll()?;
        }
        client.end()
    })?;
    report(&tallies, args.seconds)?;
    Ok(())
}

/// Prints what each core had; the answers of all in a second.
fn report(tallies: &[Tally], seconds: u64) -> Result<f64> {
    for (core, tally) in tallies.iter().enumerate() {
        println!("core {core}: {tally}");
    }
    let answers: u64 = tallies.iter().map(Tally::answers).sum();
    if answers == 0 {
        bail!("no answer came: is a server there, on the same net?");
    }
    let rate = answers as f64 / seconds as f64;
    println!("{answers} answers, {rate:.0} a second");
    Ok(rate)
}

/// Server and client of each core on its thread: `verbena0` asks `verbena1`. Both directions of a connection come to the
/// same core, so that nothing goes from core to core.
fn scale(args: &Scale) -> Result<()> {
    let (ours, theirs) = (Ipv4Addr::new(198, 18, 0, 101), Ipv4Addr::new(198, 18, 0, 102));
    let length = Duration::from_secs(args.seconds);
    let mut one = None;
    for cores in [1, args.cores] {
        let (asking, ask) = Port::open("verbena0".parse()?, cores)?;
        let (answering, answer) = Port::open("verbena1".parse()?, cores)?;
        let both = ask.into_iter().zip(answer).collect();
        let tallies = cores::each(both, |core, (ask, answer), failed| {
            let mine = |local| {
                asking.core_of((theirs, HTTP), (ours, local)) == core
                    && answering.core_of((ours, local), (theirs, HTTP)) == core
            };
            let mut server = Server::new(answer, theirs, core, args.connections);
            let mut client = Client::new(ask, ours, theirs, args.connections, mine)?;
            let end = Instant::now() + length;
            while Instant::now() < end && !failed.any() {
                client.poll()?;
                server.poll()?;
            }
            client.end()
        })?;
        let rate = report(&tallies, args.seconds)?;
        match one {
            None => one = Some(rate),
            Some(one) => println!("{cores} cores: {:.2} times one", rate / one),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_host_can_have_is_refused_at_once() {
        let good = ["load", "--device", "verbena0", "--address", "198.18.0.101", "--to", "198.18.0.102"];
        let parsed = |words: &[&str]| Cli::try_parse_from([&["http-per-core"], words].concat());
        assert!(parsed(&good).is_ok());
        for address in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "fd00::1", "198.18"] {
            for at in [4, 6] {
                let mut words = good;
                words[at] = address;
                let why = parsed(&words).map(|_| ()).expect_err(address).to_string();
                assert!(why.contains("198.18.0.101"), "{why}");
            }
        }
        assert!(parsed(&[&good[..], &["--seconds", "0"]].concat()).is_err());
    }
}
