//! What a step has to work with, and how it says what went wrong.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use driver::{CardError, Device};
use fpga_regs::DOORBELL_PAGES;
use serde::Serialize;

use crate::args;
use crate::board::admin::{self, Admin, AdminError, Queues};
use crate::board::device::{AnyCard, DeviceArgs, Opened};
use crate::board::memory::Shared;

/// Options of `verbena selftest`.
#[derive(Args, Clone, Debug)]
pub struct SelftestArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Continue after a failure
    #[arg(long)]
    pub keep_going: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Seconds of the last step
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = args::seconds)]
    pub stress: Duration,
    /// Start of the random numbers of the last step
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What went wrong in a step.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// What a good card does.
    pub expected: String,
    /// What this one did.
    pub came: String,
    /// Which register, field or byte to look at.
    pub look: String,
}

/// Why a step did not pass.
pub enum Stop {
    /// The card is not well.
    Failed(Failure),
    /// It could not be tried.
    Skipped(String),
}

/// What passed, in a few words.
pub type Check = Result<String, Stop>;

/// Without memory for it no step can be tried.
impl From<CardError> for Stop {
    fn from(error: CardError) -> Self {
        Stop::Skipped(error.to_string())
    }
}

/// Why a step has failed.
pub fn failure(expected: impl Into<String>, came: impl Into<String>, look: impl Into<String>) -> Stop {
    Stop::Failed(Failure { expected: expected.into(), came: came.into(), look: look.into() })
}

pub fn failed<T>(
    expected: impl Into<String>,
    came: impl Into<String>,
    look: impl Into<String>,
) -> Result<T, Stop> {
    Err(failure(expected, came, look))
}

/// A step that could not be tried.
pub fn skipped<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Skipped(why.into()))
}

/// What the steps work with.
pub struct Lab<'a> {
    /// The card.
    pub opened: &'a Opened,
    pub args: &'a SelftestArgs,
    /// The function as the steps by hand use it.
    pub admin: Option<Admin>,
    /// The admin queue has answered: the driver can be tried.
    pub answers: bool,
    /// Memory that the card may use until it is reset.
    pub kept: Vec<Queues>,
    /// The same.
    pub kept_memory: Vec<Shared>,
    /// The function as the driver uses it.
    pub device: Option<Arc<Device<AnyCard>>>,
}

impl Lab<'_> {
    pub fn card(&self) -> &AnyCard {
        &self.opened.card
    }

    /// The admin queue, if its step has passed.
    pub fn admin(&mut self) -> Result<&mut Admin, Stop> {
        self.admin.as_mut().ok_or_else(|| Stop::Skipped("the admin queue does not work".into()))
    }

    /// Ends what the steps by hand have begun: the card is reset before its memory is taken back.
    pub fn end_admin(&mut self) {
        let admin = self.admin.take();
        let kept = (std::mem::take(&mut self.kept), std::mem::take(&mut self.kept_memory));
        if (admin.is_some() || !kept.0.is_empty()) && admin::reset(self.card()).is_err() {
            // The card may still write to it.
            std::mem::forget((admin, kept));
        }
    }

    /// The card, brought up by the driver.
    pub fn device(&mut self) -> Result<Arc<Device<AnyCard>>, Stop> {
        if let Some(device) = &self.device {
            return Ok(device.clone());
        }
        if !self.answers {
            return skipped("a step before has shown that the card does not come up");
        }
        self.end_admin();
        match Device::open(self.opened.card.clone()) {
            Ok(device) => Ok(self.device.insert(device).clone()),
            Err(error) => {
                self.answers = false;
                failed("the driver brings the card up", error.to_string(), "STATUS, ERROR_CAUSE, HEALTH")
            }
        }
    }
}

/// Runs a step with queues of its own on interrupt vector `vector`; the card has few of them.
pub fn with_queues<T>(
    lab: &mut Lab<'_>,
    vector: u32,
    step: impl FnOnce(&mut Lab<'_>, &Queues) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let queues =
        Queues::new(lab.admin()?, vector).map_err(|error| command_failed("queues are created", error))?;
    let result = step(lab, &queues);
    let destroyed = match (&result, lab.admin()) {
        (Ok(_), Ok(admin)) => queues.destroy(admin),
        // What has failed stays as it is, for inspection.
        _ => Ok(()),
    };
    // The card may use the memory until it is reset.
    lab.kept.push(queues);
    destroyed.map_err(|error| command_failed("queues are destroyed", error))?;
    result
}

/// A command that should have worked.
pub fn command_failed(expected: &str, error: AdminError) -> Stop {
    match error {
        AdminError::Silence(bytes) => failure(
            expected,
            format!("no reply within {} ms; its slot holds {}", admin::PATIENCE.as_millis(), hex(&bytes)),
            "ASQ_DOORBELL, the fetch at ASQ_BASE, the write at ACQ_BASE, HEALTH.admin_stalled",
        ),
        AdminError::Tag(reply) => {
            failure(expected, format!("the reply of another command: {reply:?}"), "Reply.tag (byte 0)")
        }
        AdminError::Refused(opcode, reply) => failure(
            expected,
            format!("{opcode} was refused: {} (syndrome {})", reply.status(), reply.syndrome()),
            format!("Reply.status (byte 2) and Reply.syndrome (byte 3) of {opcode}"),
        ),
        AdminError::Page(page) => failure(
            format!("ALLOC_PAGE gives one of {DOORBELL_PAGES} doorbell pages"),
            format!("doorbell page {page:#x}, which is outside BAR0"),
            "Reply.object (byte 4) of ALLOC_PAGE: the page's number, counted from 0",
        ),
        AdminError::Memory(error) => error.into(),
    }
}

/// A call of the driver that should have worked.
pub fn driver_failed(expected: impl Into<String>, error: impl std::fmt::Display, look: &str) -> Stop {
    // The alternate form of anyhow's errors gives the causes too.
    failure(expected, format!("{error:#}"), look)
}

pub fn hex(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| *byte == 0) {
        return format!("{} zero bytes", bytes.len());
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
