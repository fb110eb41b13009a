//! The options of `verbena sim`, and what of them cannot be.

use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use clap::{Args, ValueEnum};
use model::attach::StageOptions;
use model::congestion::{CcOptions, Pfc, SwitchOptions};
use model::packet::MOST_CARDS;
use model::profile::Profile;
use model::sim::fabric::Fabric;

use super::pattern::{Pattern, Traffic};
use super::retries::{self, Retries};
use crate::card;
use crate::net::wire::mtu;

/// How the cards are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Topology {
    /// One switch with a port for each card
    Star,
    /// Leaf switches with some cards each, all connected to the same spine switches
    LeafSpine,
}

/// Options of `verbena sim`.
#[derive(Args)]
pub struct SimArgs {
    /// Number of cards, 2 to 4096
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=MOST_CARDS as i64))]
    cards: u16,
    /// How the cards are connected
    #[arg(long, value_name = "NAME", default_value = "star")]
    topology: Topology,
    /// Who sends to whom
    #[arg(long, value_name = "NAME")]
    pattern: Pattern,
    /// Bytes of each message, such as 65536 or 1MiB; with allreduce, of the vector
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = bytes)]
    bytes: u64,
    /// Other cards that a card sends to at a time, at most: with alltoall, the message to the next one begins when one ended
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    window: u16,
    /// Chooses the permutation, the switches' marks (unless --switch has a seed), and the flows that share a cable
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Card profile: a name of `verbena card list`, or a file, whose name has a `/` or ends in .toml
    #[arg(long, value_name = "PROFILE", default_value = "cx5-25g", value_parser = card::profile_name)]
    card: String,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096 (default: the profile's)
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    mtu: Option<u32>,
    /// The switches' queues, marks and pauses, as for `verbena run` (default: pfc, with a threshold that the cards of an
    /// incast can all reach in 16 MiB)
    #[arg(long, value_name = "SWITCH")]
    switch: Option<SwitchOptions>,
    /// The cards' congestion control, as for `verbena run` (default: none)
    #[arg(long, value_name = "CONTROL")]
    cc: Option<CcOptions>,
    /// Exponent of the local ACK timeout, 1 to 31, as perftest's -u: what has no answer after 4.096 us x 2^N is sent again
    /// (default: 16, which is 268 ms; without pfc what full queues take, there and back, and at least 8, which is 1.05 ms)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(retries::MOST_TIMEOUT)))]
    timeout: Option<u8>,
    /// Times in a row that a queue pair sends again what has no answer, before it gives up: retry_cnt, 0 to 7 (default: 7)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(retries::MOST)))]
    retries: Option<u8>,
    /// With leaf-spine: cards of a leaf
    #[arg(long, value_name = "N", default_value_t = LEAF, value_parser = clap::value_parser!(u16).range(1..=MOST_CARDS as i64))]
    leaf: u16,
    /// With leaf-spine: cards of a leaf to each of its cables to a spine; 1 is as much up as down
    #[arg(long, value_name = "N", default_value_t = RATIO, value_parser = clap::value_parser!(u16).range(1..))]
    ratio: u16,
    /// Write each message's completion time to this file, as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw the distribution of the completion times in this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// What is to be played.
pub struct Plan {
    pub traffic: Traffic,
    pub stage: StageOptions,
    /// As it is printed.
    pub network: String,
    pub mtu: u32,
    /// Cards that a card sends to at a time.
    pub window: usize,
    /// When queue pairs send again.
    pub retries: Retries,
    /// They matter: the switches can lose packets, or they were given.
    pub shows_retries: bool,
}

/// Cards of a leaf, and of one of its cables to a spine, if nothing is said.
const LEAF: u16 = 16;
const RATIO: u16 = 1;
/// Bytes that the switch may hold by default, of all ports together: those of common switches.
const BUFFER: u64 = 16 << 20;
/// The stage's memory: only what is used takes any.
const MEMORY: u64 = 1 << 38;
/// Largest message: times in picoseconds of all cards' messages one after the other must have room.
const MOST_BYTES: u64 = 1 << 36;

fn bytes(text: &str) -> Result<u64, String> {
    match model::congestion::bytes(text) {
        Some(0) => Err("a message has at least one byte".to_owned()),
        Some(bytes) if bytes <= MOST_BYTES => Ok(bytes),
        Some(_) => Err("a message has at most 64GiB".to_owned()),
        None => Err("a number of bytes, such as 65536, 64KiB or 1MB".to_owned()),
    }
}

impl SimArgs {
    /// What is to be played, if it can be.
    pub fn plan(&self) -> Result<Plan> {
        let profile = Profile::load(&self.card).with_context(|| format!("--card {}", self.card))?.profile;
        let mtu = self.mtu.unwrap_or(profile.limits.mtu);
        ensure!(
            mtu <= profile.limits.mtu,
            "--mtu {mtu}: the ports of {} have a path MTU of at most {}",
            self.card,
            profile.limits.mtu
        );
        let traffic =
            Traffic { pattern: self.pattern, cards: self.cards, bytes: self.bytes, seed: self.seed };
        let links = traffic.most_links();
        ensure!(
            self.topology != Topology::Star || (self.leaf, self.ratio) == (LEAF, RATIO),
            "--leaf and --ratio are those of leaves: add --topology leaf-spine"
        );
        ensure!(
            links <= model::attach::limits(Some(&profile)).max_qp() as usize,
            "{} with {} cards takes {links} queue pairs a card, more than it has",
            self.pattern,
            self.cards
        );
        let switch = self.switch.unwrap_or_else(|| {
            let xoff = (BUFFER / u64::from(self.cards)).clamp(8 << 10, Pfc::default().xoff);
            let pfc = Pfc { xoff, xon: xoff / 2, headroom: None };
            SwitchOptions { pfc: Some(pfc), ..SwitchOptions::default() }
        });
        let switch = SwitchOptions { seed: switch.seed.or(Some(self.seed)), ..switch };
        let ((fabric, network), switches) = match self.topology {
            Topology::Star => ((Fabric::default(), "star".to_owned()), 1),
            Topology::LeafSpine => (self.leaf_spine()?, 3),
        };
        let rate = profile.wire.rate_bps.bits_per_second();
        self.cc.map_or(Ok(()), |cc| cc.check_rate(rate)).context("--cc")?;
        let retries = Retries {
            count: self.retries.unwrap_or(retries::MOST),
            timeout: self.timeout.unwrap_or_else(|| retries::default_timeout(&switch, switches, rate)),
        };
        // With pfc a headroom that was given may be too small.
        let can_lose = switch.pfc.is_none_or(|pfc| pfc.headroom.is_some());
        let shows_retries = can_lose || self.timeout.or(self.retries).is_some();
        let stage = StageOptions {
            cards: self.cards,
            profile,
            switch: Some((switch, fabric)),
            cc: self.cc,
            mtu: Some(mtu),
            memory: MEMORY,
        };
        Ok(Plan { traffic, stage, network, mtu, window: self.window.into(), retries, shows_retries })
    }

    fn leaf_spine(&self) -> Result<(Fabric, String)> {
        let Self { cards, leaf, ratio, .. } = *self;
        let per_leaf = leaf.min(cards);
        ensure!(
            per_leaf % ratio == 0,
            "--ratio {ratio}: a leaf of {per_leaf} cards cannot have a cable for each {ratio} of them"
        );
        let spines = per_leaf / ratio;
        let fabric = Fabric::leaf_spine(cards, per_leaf, spines, self.seed);
        let leaves = cards.div_ceil(per_leaf);
        let network = format!("leaf-spine, {leaves} leaves of {per_leaf} cards, {spines} spines");
        Ok((fabric.with_context(|| format!("{network}: more ports than the switches have"))?, network))
    }
}
