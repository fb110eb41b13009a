//! `verbena probe`: what card this is, how it is, and what is wrong with it.

use anyhow::Result;
use clap::Args;
use fpga_regs::regs::{self, gid, port, Features, Function, Health, Id, Link, Status, Version};
use model::address::mac_text;
use serde_json::json;

use super::device::{AnyCard, DeviceArgs, Opened};
use super::look::{findings, Finding};

/// Options of `verbena probe`.
#[derive(Args, Clone, Debug)]
pub struct ProbeArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Reads registers only; exit code 1 when something is wrong that keeps the card from being used.
pub fn probe(args: ProbeArgs) -> Result<u8> {
    let opened = args.device.open()?;
    let found = findings(&opened.card);
    let code = found.iter().any(|finding| finding.fatal).into();
    if args.json {
        say!("{}", serde_json::to_string_pretty(&as_json(&opened, &found))?);
    } else {
        print(&opened, &found);
    }
    opened.finish()?;
    Ok(code)
}

/// A port's MAC as text.
fn mac(card: &AnyCard, p: u32) -> String {
    mac_text(fpga_regs::mac_from_u64(card.read64(port::base(p) + port::MAC)))
}

/// The valid entries of a port's GID table.
fn gids(card: &AnyCard, p: u32) -> Vec<(u32, String)> {
    let count = card.read32(port::base(p) + port::GID_COUNT).min(gid::GID_ENTRIES);
    let valid = (0..count)
        .filter(|&index| regs::GidAttr(card.read32(port::gid_entry(p, index) + gid::GID_ATTR)).valid());
    valid.map(|index| (index, std::net::Ipv6Addr::from(gid_bytes(card, p, index)).to_string())).collect()
}

/// A GID of a port, counted from 0.
pub fn gid_bytes(card: &AnyCard, p: u32, index: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (word, chunk) in bytes.chunks_exact_mut(4).enumerate() {
        let value = card.read32(port::gid_entry(p, index) + gid::GID + 4 * word as u32);
        chunk.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

fn features(card: &AnyCard) -> Vec<&'static str> {
    let set = Features(card.read64(regs::FEATURES)).set().bits();
    let known = regs::FeatureSet::VALUES.iter();
    known.filter(|bit| set & bit.value != 0).map(|bit| bit.name).collect()
}

fn print(opened: &Opened, found: &[Finding]) {
    let card = &opened.card;
    let id = Id(card.read32(regs::ID));
    let version = Version(card.read32(regs::VERSION));
    let function = Function(card.read32(regs::FUNCTION));
    say!("{}", opened.name);
    say!(
        "  identity    {:04x}:{:04x}, registers {}.{}",
        id.vendor(),
        id.device(),
        version.major(),
        version.minor()
    );
    say!(
        "  serial      {:016x}, card {}, function {}",
        card.read64(regs::SERIAL),
        function.card(),
        function.index()
    );
    if let Some(config) = &opened.config {
        let (vendor, device) = config.id();
        say!("  PCI         {vendor:04x}:{device:04x}, command {:#06x}", config.command());
    }
    say!("  features    {}", features(card).join(" "));
    let health = Health(card.read32(regs::HEALTH));
    let status = Status(card.read32(regs::STATUS));
    say!("  status      {}", fields(&regs::Status::FORMAT, status.0.into()));
    say!("  health      {}", fields(&regs::Health::FORMAT, health.0.into()));
    say!("  vectors     {}", card.read32(regs::VECTORS));
    for p in 0..regs::PORTS {
        let base = port::base(p);
        let link = Link(card.read32(base + port::LINK));
        say!(
            "  port {}      {}, {} Mb/s, MTU {}, MAC {}, link changed {} times",
            p + 1,
            if link.up() { "up" } else { "down" },
            card.read32(base + port::SPEED),
            card.read32(base + port::MTU),
            mac(card, p),
            link.changes()
        );
        for (index, gid) in gids(card, p) {
            say!("              GID {index}: {gid}");
        }
    }
    match found {
        [] => say!("nothing is wrong"),
        _ => found.iter().for_each(|finding| {
            let weight = if finding.fatal { "WRONG" } else { "note" };
            say!("{weight}: {} {}\n  remedy: {}", finding.register, finding.wrong, finding.remedy);
        }),
    }
}

/// The fields of a register in one line; flags that are not set are left out.
fn fields(format: &fpga_regs::Format, value: u64) -> String {
    let bytes = value.to_le_bytes();
    let shown = format.fields.iter().filter(|field| {
        field.kind != fpga_regs::Kind::Bool || field.value(&bytes).is_some_and(|value| value != 0)
    });
    let parts: Vec<String> = shown
        .map(|field| match field.kind {
            fpga_regs::Kind::Bool => field.name.to_owned(),
            _ => format!("{} {}", field.name, field.text(&bytes)),
        })
        .collect();
    if parts.is_empty() {
        "-".into()
    } else {
        parts.join(", ")
    }
}

fn as_json(opened: &Opened, found: &[Finding]) -> serde_json::Value {
    let card = &opened.card;
    let id = Id(card.read32(regs::ID));
    let ports: Vec<_> = (0..regs::PORTS)
        .map(|p| {
            let base = port::base(p);
            let link = Link(card.read32(base + port::LINK));
            json!({
                "port": p + 1,
                "up": link.up(),
                "state": link.state().to_string(),
                "changes": link.changes(),
                "speed_mbps": card.read32(base + port::SPEED),
                "mtu": card.read32(base + port::MTU),
                "mac": mac(card, p),
                "gids": gids(card, p).into_iter().map(|(_, gid)| gid).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "device": opened.name,
        "vendor": format!("{:04x}", id.vendor()),
        "id": format!("{:04x}", id.device()),
        "serial": format!("{:016x}", card.read64(regs::SERIAL)),
        "features": features(card),
        "status": card.read32(regs::STATUS),
        "health": card.read32(regs::HEALTH),
        "ports": ports,
        "findings": found,
    })
}
