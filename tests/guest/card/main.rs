//! What the guest tests run in the guest: the driver on cards in slots, through VFIO.
//!
//! `guest-card CHECK PCI [PCI]`. A check panics when it finds something wrong; a card that is lost
//! meanwhile is one line of output, with exit status 3.

mod bringup;
mod interrupts;
mod memory;
mod traffic;

use std::process::ExitCode;
use std::sync::Arc;

use driver::backend::vfio::Vfio;
use driver::Device;

/// A card in a slot.
type Card = Arc<Device<Vfio>>;

fn open(address: &str) -> driver::Result<Card> {
    Device::open(Vfio::open(address)?)
}

fn run(words: &[&str]) -> driver::Result<()> {
    match words {
        ["bring-up", a] => bringup::bring_up(a),
        ["walk", a] => bringup::walk(a),
        ["hold", a] => bringup::hold(a),
        ["interrupts", a] => interrupts::each_vector(a),
        ["data", a, b] => memory::both_ways(&open(a)?, &open(b)?),
        ["regions", a, b] => memory::regions(&open(a)?, &open(b)?),
        ["huge", a, b] => memory::huge(&open(a)?, &open(b)?),
        ["outside", a, b] => memory::outside(&open(a)?, &open(b)?),
        ["pin", a, mib] => memory::pin(&open(a)?, mib.parse().expect("MiB")),
        ["traffic", a, b] => traffic::until_lost(&open(a)?, &open(b)?),
        ["reset", a, b] => traffic::reset_by_sysfs(a, b),
        _ => panic!("{words:?} is no check"),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => {
            println!("{} passed", words[0]);
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::from(3)
        }
    }
}
