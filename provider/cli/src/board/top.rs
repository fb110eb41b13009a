//! `verbena top`: what cards are doing: counters as rates, queues, and what goes wrong.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use fpga_regs::regs::{self, port, Link};
use model::attach::rule_uses;
use model::device::defect::Defect;
use model::link::RuleUse;

use super::device::{AnyCard, DeviceArgs, DeviceName, Opened};
use super::sim;
use crate::args::{self, CardName};
use crate::counters;
use crate::net::runtime::Net;
use crate::output;

/// Options of `verbena top`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("device", |arg| arg.hide_default_value(true).help(DEVICE)))]
pub struct TopArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Seconds between two rounds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = args::seconds)]
    pub interval: Duration,
    /// End after this many rounds
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

/// Counters that are shown as rates, with a name and a factor.
const RATES: [(u32, &str, f64); 4] = [
    (port::TX_PACKETS, "tx kpkt/s", 1e-3),
    (port::TX_BYTES, "tx MB/s", 1e-6),
    (port::RX_PACKETS, "rx kpkt/s", 1e-3),
    (port::RX_BYTES, "rx MB/s", 1e-6),
];

/// Help of `--device`.
const DEVICE: &str = "The card, as for `verbena probe` (default: all cards of a net)";
/// Without a device, all cards of the net: a modelled card of this process would do nothing.
const ALL: DeviceName = DeviceName::Sim(Defect::None);

/// One look at a port.
struct Look {
    link: Link,
    /// In the order of the registers.
    counters: Vec<u64>,
}

impl Look {
    fn at(card: &AnyCard, p: u32) -> Look {
        let base = port::base(p);
        Look {
            link: Link(card.read32(base + port::LINK)),
            counters: port::counters().map(|counter| card.read64(base + counter.offset)).collect(),
        }
    }
}

pub fn top(args: TopArgs) -> Result<u8> {
    let (cards, opened) = open(&args.device)?;
    let look = || -> Vec<Vec<Look>> {
        cards.iter().map(|(_, card)| (0..regs::PORTS).map(|p| Look::at(card, p)).collect()).collect()
    };
    let (mut before, mut then) = (look(), Instant::now());
    let mut looks = 0;
    while args.count.is_none_or(|count| looks < count) && !output::failed() {
        std::thread::sleep(args.interval);
        looks += 1;
        let (now, time) = (look(), Instant::now());
        let mut text = String::new();
        for ((name, card), (before, now)) in cards.iter().zip(before.iter().zip(&now)) {
            text += &block(name, card, before, now, time.duration_since(then).as_secs_f64());
        }
        text += &faults(&args.device)?;
        show(&text);
        (before, then) = (now, time);
    }
    drop(cards);
    opened.map_or(Ok(()), Opened::finish)?;
    Ok(0)
}

/// What the rules of a net's faults have done, a line each.
fn faults(args: &DeviceArgs) -> Result<String> {
    if !matches!(args.device, ALL | DeviceName::OfNet(_)) {
        return Ok(String::new());
    }
    // A net that ends meanwhile has none.
    let uses = rule_uses(&Net::named(&args.net())?.socket()).unwrap_or_default();
    let line = |it: &RuleUse| format!("fault `{}`: {} of {} frames\n", it.rule, it.hit, it.counted);
    Ok(uses.iter().map(line).collect())
}

/// The cards of a net, or the one device.
#[allow(clippy::type_complexity)] // Cards with their names.
fn open(args: &DeviceArgs) -> Result<(Vec<(String, AnyCard)>, Option<Opened>)> {
    if args.device != ALL {
        let opened = args.open()?;
        return Ok((vec![(opened.name.clone(), opened.card.clone())], Some(opened)));
    }
    let net = args.net();
    let join = |number| -> Result<(String, AnyCard)> {
        let card = CardName(number);
        Ok((format!("{card} of net `{net}`"), Arc::new(sim::joined(&net, card)?)))
    };
    let mut cards = vec![join(0)?];
    cards.extend((1..).map_while(|number| join(number).ok()));
    Ok((cards, None))
}

/// What is shown of a card.
fn block(name: &str, card: &AnyCard, before: &[Look], now: &[Look], seconds: f64) -> String {
    let number = |register| card.read32(register);
    let mut text = format!(
        "{name}\n  functions {}  QPs {}  CQs {}  keys {}  sends waiting {} (deepest {})  receives waiting {}\n",
        number(regs::FUNCTIONS_OPEN),
        number(regs::QPS_IN_USE),
        number(regs::CQS_IN_USE),
        number(regs::KEYS_IN_USE),
        number(regs::SENDS_WAITING),
        number(regs::SENDS_DEEPEST),
        number(regs::RECVS_WAITING),
    );
    for (p, (before, now)) in before.iter().zip(now).enumerate() {
        let link = if now.link.up() { "up" } else { "DOWN" };
        text += &format!("  port {}  {link:<5}", p + 1);
        let mut trouble = String::new();
        for (counter, (was, is)) in port::counters().zip(before.counters.iter().zip(&now.counters)) {
            match RATES.iter().find(|(offset, ..)| *offset == counter.offset) {
                Some((_, name, factor)) => {
                    text += &format!("  {name} {:9.3}", is.wrapping_sub(*was) as f64 / seconds * factor);
                }
                None if *is != 0 => {
                    let known =
                        counters::name_of(counter.offset).map_or(String::new(), |name| format!("  {name}"));
                    trouble +=
                        &format!("           {} {is} (+{}){known}\n", counter.name, is.wrapping_sub(*was));
                }
                None => {}
            }
        }
        if now.link.changes() != before.link.changes() {
            trouble += &format!("           LINK.changes {}\n", now.link.changes());
        }
        text += "\n";
        text += &trouble;
    }
    text
}

fn show(text: &str) {
    // On a terminal each look takes the place of the one before.
    let start = if output::is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    output::print(format_args!("{start}{text}"));
}
