//! `verbena lag`: makes the two ports of a card of a running net one, and prints how they are.

use std::fmt::Write;
use std::sync::Arc;

use anyhow::{bail, ensure, Context, Result};
use clap::{Args, ValueEnum};
use driver::{Device, Error};
use fpga_regs::{AdminStatus, LacpRate, LacpState, LagContext, LagMode, LagSelect, Syndrome};
use model::address::mac_text;
use model::attach::{simulated_time, SegmentCard};
use model::packet::PORTS;

use super::runtime::{default_net, Net};
use crate::args::CardName;

/// Options of `verbena lag`.
#[derive(Args)]
pub struct LagArgs {
    /// The card, as verbena0 (default: print all)
    pub card: Option<CardName>,
    /// Make its ports one (default: print how they are)
    #[arg(long, requires = "card")]
    pub mode: Option<Mode>,
    /// By which port the packets of a QP leave
    #[arg(long, requires = "mode", default_value = "affinity")]
    pub select: Select,
    /// 802.3ad: how often the partner is asked to send LACPDUs
    #[arg(long, requires = "mode", default_value = "fast", value_name = "RATE")]
    pub lacp_rate: Rate,
    /// Make its ports two again
    #[arg(long, requires = "card", conflicts_with = "mode")]
    pub off: bool,
    /// The net
    #[arg(long, value_name = "NAME", default_value_t = default_net())]
    pub net: String,
}

/// How ports are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Those that LACP finds to have the same partner
    #[value(name = "802.3ad")]
    Lacp,
    /// Port 1, and port 2 while the link of port 1 is down
    ActiveBackup,
    /// Both
    Xor,
}

/// By which of them packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Select {
    /// Each QP has a port, in turn
    Affinity,
    /// By a hash of the UDP source port
    Hash,
}

/// How often LACPDUs are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rate {
    /// Every second
    Fast,
    /// Every thirty seconds
    Slow,
}

/// Prints how ports are one, or makes them so.
pub fn lag(args: LagArgs) -> Result<u8> {
    let socket = Net::running(&args.net)?.socket();
    ensure!(
        args.mode != Some(Mode::Lacp) || simulated_time(&socket)?.is_none(),
        "LACP needs seconds, in which programs of a net in simulated time do nothing: use --mode xor, \
         which has the same traffic"
    );
    let open = |number: u32| -> Result<Arc<Device<SegmentCard>>> {
        let name = || format!("opening verbena{number}");
        let card = SegmentCard::open(&socket, number).with_context(name)?;
        Device::open(card).with_context(name)
    };
    let Some(CardName(number)) = args.card else {
        let mut number = 0;
        while let Ok(device) = open(number) {
            print(number, &device)?;
            number += 1;
        }
        return Ok(0);
    };
    let device = open(number)?;
    let mode = match args.mode {
        Some(Mode::Lacp) => LagMode::LACP,
        Some(Mode::ActiveBackup) => LagMode::ACTIVE_BACKUP,
        Some(Mode::Xor) => LagMode::XOR,
        None if args.off => LagMode::OFF,
        None => return print(number, &device).map(|()| 0),
    };
    let select = if args.select == Select::Hash { LagSelect::HASH } else { LagSelect::AFFINITY };
    let rate = if args.lacp_rate == Rate::Slow { LacpRate::SLOW } else { LacpRate::FAST };
    match device.set_lag(mode, select, rate) {
        Ok(()) => Ok(0),
        Err(Error::Refused { status: AdminStatus::IN_USE, .. }) => bail!(
            "the ports of verbena{number} cannot change while programs have queue pairs on it: end them first"
        ),
        Err(Error::Refused { syndrome: Syndrome::BAD_PORT, .. }) => bail!(
            "a port of verbena{number} leads outside by `udp:`, from an address of this machine and without Ethernet frames, \
             so the other port cannot send for it: use `packet:`, `tap:`, `stream:` or `dgram:` for both"
        ),
        Err(Error::Refused { syndrome: Syndrome::NO_ROUTE, .. }) => bail!(
            "one port of verbena{number} leads outside of the net and the other one does not, so they have no peers in \
             common: give --port for both"
        ),
        Err(error) => Err(error).with_context(|| format!("verbena{number}")),
    }
}

fn print(number: u32, device: &Device<SegmentCard>) -> Result<()> {
    let members: Vec<_> = (1..=PORTS as u8).map(|port| device.query_lag(port)).collect::<Result<_, _>>()?;
    output(number, &members);
    Ok(())
}

fn output(number: u32, members: &[LagContext]) {
    let Some(first) = members.first() else { return };
    let mode = match first.mode() {
        LagMode::OFF => return say!("verbena{number} off"),
        LagMode::ACTIVE_BACKUP => "active-backup",
        LagMode::XOR => "xor",
        _ => "802.3ad",
    };
    let select = if first.select() == LagSelect::HASH { "hash" } else { "affinity" };
    let rate = if first.rate() == LacpRate::SLOW { "slow" } else { "fast" };
    let lacp = first.mode() == LagMode::LACP;
    say!("verbena{number} {mode}, {select}{}", if lacp { format!(", lacp {rate}") } else { String::new() });
    members.iter().zip(1..).for_each(|(member, port)| say!("{}", line(port, member, lacp)));
}

/// A member of a bond.
fn line(port: usize, member: &LagContext, lacp: bool) -> String {
    let link = if member.link_up() { "up" } else { "down" };
    let active = if member.active() { "active" } else { "unused" };
    let mut line = format!("  port {port} {link} {active} {} QPs", member.qps());
    if lacp {
        let partner = match member.actor_state().contains(LacpState::DEFAULTED) {
            true => "no partner".to_owned(),
            false => format!(
                "partner {} port {} key {}",
                mac_text(member.partner()),
                member.partner_port(),
                member.partner_key()
            ),
        };
        let _ = write!(
            line,
            ", {partner}, aggregator {}, {}, partner {}, {} LACPDUs sent, {} received",
            member.aggregator(),
            state(member.actor_state()),
            state(member.partner_state()),
            member.lacp_sent(),
            member.lacp_received()
        );
    }
    line
}

/// A port's state, a letter for each bit: activity, timeout, aggregation, synchronization, collecting, distributing, defaulted,
/// expired.
fn state(state: LacpState) -> String {
    let letter = |(n, letter)| if state.0 >> n & 1 != 0 { letter } else { '-' };
    "ATGSCDFE".chars().enumerate().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_a_line() {
        let member = LagContext::new().with_link_up(true).with_active(true).with_qps(3);
        assert_eq!(line(1, &member, false), "  port 1 up active 3 QPs");
        let member = member
            .with_actor_state(LacpState(0x3f))
            .with_partner_state(LacpState(0x3d))
            .with_partner([2, 0x56, 0x42, 0, 1, 0])
            .with_partner_port(2)
            .with_partner_key(1)
            .with_aggregator(1)
            .with_lacp_sent(4)
            .with_lacp_received(5);
        assert_eq!(
            line(2, &member, true),
            "  port 2 up active 3 QPs, partner 02:56:42:00:01:00 port 2 key 1, aggregator 1, ATGSCD--, \
             partner A-GSCD--, 4 LACPDUs sent, 5 received"
        );
        let alone = LagContext::new().with_actor_state(LacpState::DEFAULTED);
        assert!(line(1, &alone, true).contains("no partner"));
    }
}
