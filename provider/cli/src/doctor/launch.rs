//! Checks of what `verbena run` needs: namespaces, mounts, the netlink filter,
//! and whether a real program then finds the cards.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use model::link::LinkOptions;

use super::finding::Finding;
use crate::launch::in_path;
use crate::launch::mounts;
use crate::launch::namespace::{enter_mount, enter_user, make_user, rehearse, root_may_mount};
use crate::launch::network;
use crate::launch::provider_so;
use crate::launch::run::{ib_core_present, same_addresses};
use crate::launch::seccomp;
use crate::launch::tree::Tree;
use crate::net::runtime;
use crate::perftest::side::Side;

const DISCOVERY_TIME: Duration = Duration::from_secs(10);

/// All checks of this file.
pub fn checks() -> Vec<Finding> {
    vec![namespaces(), network(), view(), simulated_time(), netlink(), ib_core(), discovery()]
}

fn enter() -> Result<()> {
    if !root_may_mount() {
        enter_user()?;
    }
    enter_mount()
}

fn namespaces() -> Finding {
    let name = "namespaces";
    if root_may_mount() {
        return Finding::ok(name, "root may make a mount namespace");
    }
    match rehearse(enter_user) {
        Ok(()) => Finding::ok(name, "a user namespace may be made without privilege"),
        Err(error) => Finding::warn(
            name,
            format!("none may be made: {error:#}"),
            "allow them (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0; in Docker --security-opt seccomp=unconfined \
             --security-opt apparmor=unconfined); without them `run` uses environment variables",
        ),
    }
}

/// The very network of `verbena run`, which is gone at once.
fn network() -> Finding {
    let name = "network";
    let made = if root_may_mount() {
        network::make(None, 1)
    } else {
        make_user().and_then(|user| network::make(Some(user.as_fd()), 1))
    };
    match made {
        Ok(_) => Finding::ok(name, "a net may have a network of its own, with an interface for each port"),
        Err(error) => Finding::warn(
            name,
            format!("none may be made: {error:#}"),
            "allow network namespaces (see `namespaces` above) and veth interfaces (modprobe veth); without them \
             programs stay on the host's network: TCP to 198.18.x.y leaves this machine, no interface belongs to a \
             card (UCX from 1.18 on needs UCX_IB_ROCE_REACHABILITY_MODE=all), and addresses give no further GIDs",
        ),
    }
}

/// The very mounts of `verbena run`, in a process that ends at once.
fn view() -> Finding {
    let name = "sysfs view";
    let attempt = || -> Result<()> {
        let dir = runtime::directory()?;
        let staging = dir.join("staging");
        fs::create_dir_all(&staging).context("making the staging directory")?;
        let provider = provider_so::find().unwrap_or_default();
        enter()?;
        mounts::make_private()?;
        let tree = Tree {
            cards: 1,
            slots: &[],
            profile: "f10a",
            socket: Path::new(""),
            provider: &provider,
            network: false,
            kernel: &[],
            wire: &LinkOptions::default(),
        };
        mounts::show(&tree, &staging)?;
        fs::read_to_string("/sys/class/infiniband/verbena0/node_guid").context("reading the fake sysfs")?;
        fs::metadata("/dev/infiniband/uverbs0").context("looking for the device node")?;
        Ok(())
    };
    match rehearse(attempt) {
        Ok(()) => Finding::ok(name, "cards can be shown in /sys/class, /dev/infiniband and libibverbs.d"),
        Err(error) => Finding::warn(
            name,
            format!("{error:#}"),
            "see `namespaces` above; `run` falls back to environment variables, which suffice \
             for programs that use libibverbs only",
        ),
    }
}

fn simulated_time() -> Finding {
    let name = "simulated time";
    if let Err(error) = provider_so::find_clock() {
        return Finding::warn(name, format!("{error:#}"), "see `libraries` below");
    }
    match rehearse(same_addresses) {
        Ok(()) => Finding::ok(name, "programs can have the same addresses in every run"),
        Err(error) => {
            Finding::warn(name, format!("{error:#}"), "everything but `--clock virtual` works without")
        }
    }
}

fn netlink() -> Finding {
    let name = "netlink filter";
    match rehearse(seccomp::deny_rdma_netlink) {
        Ok(()) => Finding::ok(name, "the RDMA netlink socket can be denied to a program"),
        Err(error) if ib_core_present() => Finding::fail(
            name,
            format!("{error:#}, and the kernel's ib_core would answer"),
            "use a kernel with CONFIG_SECCOMP_FILTER, or unload ib_core",
        ),
        Err(error) => Finding::warn(name, format!("{error:#}"), "harmless while the kernel has no ib_core"),
    }
}

fn ib_core() -> Finding {
    let name = "ib_core";
    if !ib_core_present() {
        return Finding::ok(name, "not in this kernel: libibverbs reads sysfs");
    }
    Finding::warn(
        name,
        "loaded: libibverbs asks the kernel first and sees its cards only",
        "use `verbena run`, which denies that question to its program; `verbena up` cannot",
    )
}

/// Everything together: does a stock program list the cards?
fn discovery() -> Finding {
    let name = "discovery";
    let remedy = "see the lines above; `IBV_SHOW_WARNINGS=1 verbena run -- ibv_devices` says more";
    if !in_path("ibv_devices") {
        return Finding::warn(
            name,
            "not tried: ibv_devices is not installed",
            "apt-get install ibverbs-utils",
        );
    }
    match list_devices() {
        Ok(text) if text.contains("verbena0") && text.contains("verbena1") => {
            Finding::ok(name, "ibv_devices lists verbena0 and verbena1")
        }
        Ok(text) => {
            Finding::fail(name, format!("ibv_devices does not list the cards: {}", one_line(&text)), remedy)
        }
        Err(error) => Finding::fail(name, format!("{error:#}"), remedy),
    }
}

/// The name of the net of the doctor's program.
pub fn own_net() -> String {
    format!("doctor-{}", std::process::id())
}

fn list_devices() -> Result<String> {
    let net = format!("--net={}", own_net());
    let mut command = Command::new("/proc/self/exe");
    command.args(["run", "--quiet", &net, "--cards=2", "--", "ibv_devices"]);
    let mut side = Side::start("doctor's program", command, None)?;
    let ended = side.wait(DISCOVERY_TIME)?;
    ended.with_context(|| format!("ibv_devices did not end within {} s", DISCOVERY_TIME.as_secs()))?;
    Ok(side.said())
}

fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines.join(" / ")
}
