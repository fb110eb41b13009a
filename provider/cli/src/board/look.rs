//! What is wrong with a card by its registers, and the remedy.

use fpga_regs::regs::{self, port, Cause, ErrorCause, Health, Id, Link, PhysState, Status, Version};

use super::device::AnyCard;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Register and field.
    pub register: String,
    pub wrong: String,
    /// What helps.
    pub remedy: String,
    /// The card cannot be used.
    pub fatal: bool,
}

/// Everything that the registers of a card complain about, the gravest first.
pub fn findings(card: &AnyCard) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |fatal: bool, register: &str, wrong: String, remedy: &str| {
        found.push(Finding { register: register.into(), wrong, remedy: remedy.into(), fatal });
    };
    let id = card.read32(regs::ID);
    if id == u32::MAX {
        say(
            true,
            "ID",
            "reads all ones: nothing answers at BAR0".into(),
            "check that the card is in its slot, powered and configured, and that COMMAND.memory is set; \
             rescan the bus (echo 1 > /sys/bus/pci/rescan)",
        );
        return found;
    }
    if id != regs::ID_VALUE {
        say(true, "ID", wrong_id(Id(id)), "load the Verbena bitstream, or look at another slot");
    }
    let version = Version(card.read32(regs::VERSION));
    if version.major() != regs::VERSION_MAJOR {
        let wrong = format!("is {}.{}, {}.x is known", version.major(), version.minor(), regs::VERSION_MAJOR);
        say(true, "VERSION.major", wrong, "update the card's bitstream or this software");
    }
    let status = Status(card.read32(regs::STATUS));
    if status.resetting() {
        say(
            true,
            "STATUS.resetting",
            "is set: a reset is in progress".into(),
            "wait; if it stays, the reset logic is stuck: check clocks and PLL locks, power-cycle the card",
        );
    }
    if status.error() {
        let cause = Cause(card.read32(regs::ERROR_CAUSE));
        let wrong = format!("is set; ERROR_CAUSE says {} (detail {})", cause.code(), cause.detail());
        say(true, "STATUS.error", wrong, cause_remedy(cause.code()));
    }
    health(Health(card.read32(regs::HEALTH)), &mut say);
    for p in 0..regs::PORTS {
        link(p, Link(card.read32(port::base(p) + port::LINK)), &mut say);
    }
    found
}

/// How a wrong identity reads.
pub fn wrong_id(id: Id) -> String {
    format!(
        "is {:04x}:{:04x}, {:04x}:{:04x} was expected",
        id.vendor(),
        id.device(),
        regs::VENDOR_ID,
        regs::DEVICE_ID
    )
}

fn health(health: Health, say: &mut impl FnMut(bool, &str, String, &str)) {
    let set = || "is set".to_string();
    if health.fatal() {
        say(true, "HEALTH.fatal", set(), "reset the card: verbena selftest does");
    }
    if health.admin_stalled() {
        say(true, "HEALTH.admin_stalled", set(), "look at the fetch of ASQ_BASE's ring; reset the card");
    }
    if health.dma_error() {
        let remedy = "look for IOMMU faults in the kernel's log (DMAR, AMD-Vi) and at COMMAND.bus_master";
        say(false, "HEALTH.dma_error", set(), remedy);
    }
    if health.eq_overrun() {
        say(false, "HEALTH.eq_overrun", set(), "events were not consumed in time; reset the card");
    }
    if health.cq_overrun() {
        say(false, "HEALTH.cq_overrun", set(), "a completion queue was too small for its work requests");
    }
    if health.memory_corrected() {
        say(false, "HEALTH.memory_corrected", set(), "once is nothing; if it comes back, check the DRAM");
    }
    if health.hot() {
        let wrong = format!("is set at {} degrees Celsius", health.temperature());
        say(true, "HEALTH.hot", wrong, "check fan and heat sink");
    }
}

fn link(p: u32, link: Link, say: &mut impl FnMut(bool, &str, String, &str)) {
    let register = |field: &str| format!("port{}.LINK.{field}", p + 1);
    if !link.module() {
        say(
            false,
            &register("module"),
            "is not set: the cage is empty".into(),
            "plug an SFP+ module or a cable",
        );
    } else if !link.up() {
        let wrong = format!("is not set; the port is {}, the cable {}", link.state(), link.phys());
        let remedy = match link.phys() {
            PhysState::DISABLED => "a program has disabled the port, for all: `verbena link`, or DPDK's `set link-up port`, enables it",
            _ => "check the cable, the module and what is at the other end",
        };
        say(false, &register("up"), wrong, remedy);
    }
}

fn cause_remedy(cause: ErrorCause) -> &'static str {
    match cause {
        ErrorCause::DMA_READ | ErrorCause::DMA_WRITE => {
            "look for IOMMU faults in the kernel's log and at COMMAND.bus_master, then reset"
        }
        ErrorCause::ADMIN_RING | ErrorCause::ADMIN_DOORBELL | ErrorCause::ADMIN_OVERRUN => {
            "the driver set the admin queue up wrongly: record the bring-up (verbena record), then reset"
        }
        ErrorCause::TEMPERATURE => "check fan and heat sink",
        ErrorCause::MEMORY => "check the card's DRAM; power-cycle it",
        _ => "reset the card: verbena selftest does",
    }
}
