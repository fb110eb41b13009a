//! The links, and a message that leaves one port and comes in at the other.

use std::time::{Duration, Instant};

use driver::PortInfo;
use fpga_regs::regs::{self, port, Link};
use fpga_regs::{CqeStatus, QpType, WqeOpcode};

use super::lab::{driver_failed, failed, skipped, Check, Lab, Stop};
use crate::board::pair::Pair;

/// How long the links are watched.
const WATCH: Duration = Duration::from_millis(200);
/// Messages over the wire.
const MESSAGES: usize = 64;
/// Bytes of each.
const BYTES: usize = 4096;

fn read(lab: &Lab<'_>, p: u32) -> Link {
    Link(lab.card().read32(port::base(p) + port::LINK))
}

/// A link that is up stays up.
pub fn link(lab: &mut Lab<'_>) -> Check {
    lab.end_admin();
    let before: Vec<Link> = (0..regs::PORTS).map(|p| read(lab, p)).collect();
    let until = Instant::now() + WATCH;
    let mut down = vec![0u32; before.len()];
    let mut looks = 0u32;
    while Instant::now() < until {
        for p in 0..regs::PORTS {
            down[p as usize] += u32::from(!read(lab, p).up());
        }
        looks += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    for (p, before) in before.iter().enumerate() {
        let changed = read(lab, p as u32).changes().wrapping_sub(before.changes());
        if changed != 0 {
            return failed(
                format!("the link of port {} does not change", p + 1),
                format!(
                    "the link flaps: it changed {changed} times within {} ms and was down in {} of {looks} looks",
                    WATCH.as_millis(),
                    down[p]
                ),
                format!("port{}.LINK.changes (bits 16 to 31) and .phys: cable, module, reference clock of the PHY", p + 1),
            );
        }
    }
    let up: Vec<String> =
        (0..regs::PORTS).filter(|p| read(lab, *p).up()).map(|p| (p + 1).to_string()).collect();
    match up.as_slice() {
        [] => skipped("no port has a link: plug a cable from port 1 to port 2"),
        up => Ok(format!("up and steady for {} ms: port {}", WATCH.as_millis(), up.join(", "))),
    }
}

/// Messages from port 1 to port 2.
pub fn send(lab: &mut Lab<'_>) -> Check {
    if (0..regs::PORTS).any(|p| !read(lab, p).up()) {
        return skipped("both ports need a link: plug a cable from port 1 to port 2");
    }
    let device = lab.device()?;
    let look = "the counters of both ports: verbena regs port1, verbena regs port2";
    let ports = |what: &str| -> Result<[PortInfo; 2], Stop> {
        let both = (device.query_port(1), device.query_port(2));
        Ok([
            both.0.map_err(|error| driver_failed(what, error, look))?,
            both.1.map_err(|error| driver_failed(what, error, look))?,
        ])
    };
    let expected = "a QP of port 1 and one of port 2 are connected";
    let before = ports(expected)?;
    let pair = Pair::new(&device, QpType::RC, 2, 2 * BYTES);
    let mut pair =
        pair.map_err(|error| driver_failed(expected, error, "GID tables of both ports, RESOLVE"))?;
    for message in 0..MESSAGES {
        let fill = |byte: usize| (byte * 31 + message * 7) as u8;
        for (at, byte) in pair.region.bytes().iter_mut().enumerate().take(2 * BYTES) {
            *byte = if at < BYTES { fill(at) } else { 0 };
        }
        let sges = [pair.region.sge(0, BYTES)];
        let expected = format!("message {message} of {BYTES} bytes arrives at port 2");
        let posted = pair.b.recv(2, &[pair.region.sge(BYTES, BYTES)]);
        let posted = posted.and_then(|()| pair.a.post(&pair.wr(WqeOpcode::SEND, &sges, 0)));
        let sent = posted.and_then(|()| pair.a.wait());
        let sent = sent.map_err(|error| driver_failed(&*expected, error, look))?;
        if sent.status != CqeStatus::SUCCESS {
            let came = format!(
                "{} (syndrome {:#04x}); {}",
                sent.status,
                sent.vendor_err,
                counted(&before, &ports(&expected)?)
            );
            return failed(expected, came, look);
        }
        pair.b.wait().map_err(|error| driver_failed(&*expected, error, look))?;
        let wrong =
            pair.region.bytes()[BYTES..2 * BYTES].iter().enumerate().find(|(at, byte)| **byte != fill(*at));
        if let Some((at, byte)) = wrong {
            let came = format!("byte {at} is {byte:#04x}, it was sent as {:#04x}", fill(at));
            return failed(expected, came, "the payload's way from DMA read over MAC to DMA write");
        }
    }
    let after = ports("the ports are read")?;
    let lost = counted(&before, &after);
    match lost.as_str() {
        "no counter of errors moved" => Ok(format!("{MESSAGES} messages of {BYTES} bytes, {lost}")),
        _ => failed("no packet is lost on a cable", lost, look),
    }
}

/// The counters of trouble that moved, in words.
fn counted(before: &[PortInfo; 2], after: &[PortInfo; 2]) -> String {
    let trouble = [
        "RX_ICRC_ERRORS",
        "RX_MALFORMED",
        "RX_PKEY_ERRORS",
        "RX_NO_QP",
        "RETRANSMITS",
        "ACK_TIMEOUTS",
        "OUT_OF_SEQUENCE",
        "SEQUENCE_NAK",
    ];
    let mut moved = Vec::new();
    for (p, (before, after)) in before.iter().zip(after).enumerate() {
        for ((name, was), (_, is)) in before.counters.iter().zip(&after.counters) {
            if trouble.contains(name) && is != was {
                moved.push(format!("port{}.{name} +{}", p + 1, is.wrapping_sub(*was)));
            }
        }
    }
    if moved.is_empty() {
        "no counter of errors moved".into()
    } else {
        moved.join(", ")
    }
}
