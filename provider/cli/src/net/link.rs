//! `verbena link`: the links of a net's ports, and pulling their cables and disabling them while programs run.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Result};
use clap::{Args, ValueEnum};
use model::attach::{cables, enable, plug, LinkState, COUNTED_WITHIN};
use model::packet::PortId;

use super::runtime::{default_net, Net};
use crate::args::PortName;
use crate::launch::live;

/// Options of `verbena link`.
#[derive(Args)]
pub struct LinkArgs {
    /// The port, as verbena0/1 (default: print all)
    pub port: Option<PortName>,
    /// Pull its cable, or plug it in; disable the port, or enable it (default: print how the link is)
    #[arg(requires = "port")]
    pub to: Option<To>,
    /// The net
    #[arg(long, value_name = "NAME", default_value_t = default_net())]
    pub net: String,
}

/// What a link is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// The cable is plugged in.
    Up,
    /// It is pulled.
    Down,
    /// The port is enabled, as by its driver.
    Enable,
    /// It is disabled.
    Disable,
}

/// Prints how links are, or changes one.
pub fn link(args: LinkArgs) -> Result<u8> {
    let net = Net::running(&args.net)?;
    let socket = net.socket();
    if let (Some(PortName(port)), Some(to)) = (args.port, args.to) {
        let up = match to {
            To::Up | To::Down => plug(&socket, port, to == To::Down)?,
            To::Enable | To::Disable => enable(&socket, port, to == To::Enable)?,
        };
        if let Some(why) =
            cables(&socket)?.iter().find(|known| known.0 == port).and_then(|known| still(to, known.1))
        {
            model::tell!("verbena: {} is {why}", PortName(port));
        }
        return shown(&net, port, up).map(|()| 0);
    }
    let all = cables(&socket)?;
    if let Some(name) = args.port.filter(|name| all.iter().all(|(port, _)| *port != name.0)) {
        let known: Vec<_> = all.iter().map(|(port, _)| PortName(*port).to_string()).collect();
        bail!("net `{}` has no port {name}; it has {}", net.name(), known.join(", "));
    }
    for (port, link) in all.into_iter().filter(|(port, _)| args.port.is_none_or(|name| name.0 == *port)) {
        let is = match link {
            LinkState { disabled: true, .. } => "down, disabled",
            LinkState { up: true, .. } => "up",
            _ => "down",
        };
        say!("{} {is}", PortName(port));
    }
    Ok(0)
}

/// Why a link that was to come up has not.
fn still(to: To, link: LinkState) -> Option<String> {
    let (is, and) = match to {
        _ if link.up => return None,
        To::Down | To::Disable => return None,
        To::Up if link.disabled => return Some("plugged in, and down still: it is disabled".into()),
        To::Up => ("plugged in", ""),
        To::Enable => ("enabled", "its cable is pulled, "),
    };
    Some(format!(
        "{is}, and down still: {and}the port at the other end is disabled, the interface that it leads to is down or has no signal, or nobody is connected to its socket"
    ))
}

/// Waits until programs read of it in sysfs, which the net's keeper writes.
fn shown(net: &Net, port: PortId, up: bool) -> Result<()> {
    let file = live::of_port(&live::directory(&net.socket()), port).join("state");
    let until = Instant::now() + 10 * COUNTED_WITHIN;
    let is = |text: String| text.contains("ACTIVE") == up;
    while file.exists() && !fs::read_to_string(&file).is_ok_and(is) {
        ensure!(
            Instant::now() <= until,
            "the keeper of net `{}` does not write {}: is it stopped?",
            net.name(),
            file.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
