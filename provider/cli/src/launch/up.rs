//! `verbena up` and `verbena down`: the cards for every program here.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use clap::Args;

use super::tree::Tree;
use super::{mounts, provider_so, run};
use crate::args::CardArgs;
use crate::files;
use crate::kernel;
use crate::net::daemon;
use crate::net::keeper;
use crate::net::runtime::{self, default_net, Net};
use crate::net::wire;

/// Options of `verbena up`.
#[derive(Args)]
pub struct UpArgs {
    #[command(flatten)]
    cards: CardArgs,
    /// The net; programs on the same net share its cards
    #[arg(long, value_name = "NAME", default_value_t = default_net())]
    net: String,
}

/// Mounts the cards into the current mount namespace and keeps their net.
pub fn up(args: UpArgs) -> Result<u8> {
    need_root("up")?;
    if !mounts::ours()?.is_empty() {
        bail!("the cards are up already; `verbena down` removes them");
    }
    let provider = provider_so::find()?;
    let net = Net::named(&args.net)?;
    let held = keeper::ensure(&net, &args.cards)?;
    let holder = start_holder(&held.hold)?;
    fs::write(holder_file(net.dir()), holder.to_string()).context("noting the holder")?;
    let socket = net.socket();
    let tree = Tree {
        cards: u8::try_from(held.info.cards).context("too many cards")?,
        slots: &[],
        profile: &held.info.card,
        socket: &socket,
        provider: &provider,
        network: false,
        kernel: &kernel::here(&net)?,
        wire: &held.info.wire,
    };
    let staging = net.dir().join("staging");
    files::make_directory(&staging)?;
    mounts::show(&tree, &staging).inspect_err(|_| {
        let _ = take_down(net.dir());
    })?;
    say!(
        "up: {} x {} (verbena0..{}), net `{}`{}",
        held.info.cards,
        held.info.card,
        held.info.cards - 1,
        net.name(),
        wire::in_words(&held.info.wire)
    );
    if !mounts::has_config_dir() {
        say!(
            "note: {} is missing (install libibverbs1), so no program will load the provider",
            mounts::CONFIG_DIR
        );
    }
    if run::ib_core_present() {
        say!(
            "note: this kernel has ib_core. libibverbs asks it by netlink first and will not see \
             these cards; that socket can be denied to one program only: use `verbena run`"
        );
    }
    Ok(0)
}

pub fn down() -> Result<u8> {
    need_root("down")?;
    let removed = take_down(&runtime::directory()?)?;
    say!("{}", if removed { "down" } else { "nothing was up" });
    Ok(0)
}

fn need_root(command: &str) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("`verbena {command}` changes the whole container and needs root; `verbena run` does not");
    }
    Ok(())
}

fn take_down(dir: &Path) -> Result<bool> {
    let points = mounts::ours()?;
    for point in points.iter().rev() {
        mounts::remove(point)?;
    }
    let file = holder_file(dir);
    let holder = fs::read_to_string(&file).ok();
    if let Some(pid) = holder.as_deref().and_then(|text| text.parse().ok()) {
        end_holder(pid);
    }
    let _ = fs::remove_file(&file);
    Ok(!points.is_empty() || holder.is_some())
}

fn holder_file(dir: &Path) -> PathBuf {
    dir.join("up.pid")
}

/// Gives the connection to the keeper to a process that only waits.
fn start_holder(hold: &OwnedFd) -> Result<u32> {
    let arguments = ["hold".to_owned(), format!("--fd={}", hold.as_raw_fd())];
    Ok(daemon::spawn(&arguments, Some(hold.as_fd()))?.id())
}

fn end_holder(pid: i32) {
    // The number may belong to another process by now.
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    if !command.split(|&byte| byte == 0).any(|word| word == b"hold") {
        return;
    }
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}
