//! Constraints between the numbers of a profile.

use super::load::Faults;
use super::{Number, Profile, NUMBERS};

/// Reports combinations that are impossible although each number is within its bounds.
pub(super) fn check(p: &Profile, faults: &mut Faults) {
    for name in ["pcie.mps", "pcie.mrrs", "pcie.rcb", "caches.mtt_page_bytes", "limits.mtu"] {
        let value = (number(name).get)(p);
        if !value.is_power_of_two() {
            faults.say(name, format!("{value} is no power of two"));
        }
    }
    if ![1, 2, 4, 8, 16].contains(&p.pcie.lanes) {
        faults.say("pcie.lanes", format!("{}: a slot has 1, 2, 4, 8 or 16", p.pcie.lanes));
    }
    let raw = raw_gbps(p.pcie.gen) * f64::from(p.pcie.lanes);
    let tlp = number("pcie.tlp_gbps").value(p);
    if tlp > raw {
        let slot = format!("PCIe {}.0 x{}", p.pcie.gen, p.pcie.lanes);
        faults.say("pcie.tlp_gbps", format!("{tlp} Gb/s: {slot} has {raw:.2} Gb/s after its line code"));
    }
    if p.pcie.posted_data_credits * 16 < p.pcie.mps {
        let credits = p.pcie.posted_data_credits;
        faults.say("pcie.posted_data_credits", format!("{credits} x 16 B never allow a write of pcie.mps"));
    }
    if p.sq.push_max % 64 != 0 {
        faults.say("sq.push_max", format!("{} is no multiple of 64", p.sq.push_max));
    }
    if p.tx.buffer_bytes < p.limits.mtu {
        faults.say("tx.buffer_bytes", format!("{} holds no packet of limits.mtu", p.tx.buffer_bytes));
    }
}

fn number(name: &str) -> &'static Number {
    NUMBERS.iter().find(|number| number.name() == name).expect("a number of the table")
}

/// Gb/s of a lane after its line code (PCIe Base Specification 3.0, 4.2.1 and 4.2.2; 5.0, 4.2.2).
fn raw_gbps(gen: u32) -> f64 {
    match gen {
        1 => 2.5 * 0.8,
        2 => 5.0 * 0.8,
        3 => 8.0 * 128.0 / 130.0,
        4 => 16.0 * 128.0 / 130.0,
        _ => 32.0 * 128.0 / 130.0,
    }
}
