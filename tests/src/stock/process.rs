//! What /proc says about processes.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// True while the process runs (a zombie does not).
pub fn running(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| !matches!(fields[0].as_str(), "Z" | "X"))
}

/// True when a signal has stopped each thread of the process.
pub fn stopped(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut stats = tasks.map(|task| fs::read_to_string(task.path().join("stat")).unwrap_or_default());
    stats.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
}

/// Sends a signal to a process of the test.
#[track_caller]
pub fn signal(pid: u32, number: i32) {
    // SAFETY: takes numbers only.
    let sent = unsafe { libc::kill(pid as i32, number) };
    assert_eq!(sent, 0, "signal {number} to {pid}: {}", std::io::Error::last_os_error());
}

/// User and system time that the process has used, all threads together.
///
/// From the scheduler's nanosecond counter where there is one: the ticks of `stat` are 10 ms.
pub fn cpu_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let exact: Option<u64> = tasks.map(|task| run_time(&task.path())).sum();
    match exact {
        Some(nanoseconds) if nanoseconds > 0 => Duration::from_nanos(nanoseconds),
        _ => ticks(pid),
    }
}

/// How often the first thread of a process has left the processor and could have gone on: others came, or it yielded.
pub fn involuntary_switches(pid: u32) -> u64 {
    status(format!("/proc/{pid}"), "nonvoluntary_ctxt_switches").unwrap_or(0)
}

/// A number of a process's or a thread's `status`: a count, or KiB.
pub fn status(process: impl AsRef<Path>, field: &str) -> Option<u64> {
    let status = fs::read_to_string(process.as_ref().join("status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value?.split_whitespace().next()?.parse().ok()
}

fn run_time(task: &Path) -> Option<u64> {
    let text = fs::read_to_string(task.join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn ticks(pid: u32) -> Duration {
    let fields = stat(pid).unwrap_or_else(|| panic!("process {pid} is gone"));
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number of ticks");
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// The fields of `stat` from the state on (the name before it may hold spaces).
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &text[text.rfind(')')? + 2..];
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Processes that descend from `pid`.
pub fn descendants(pid: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = pids().filter_map(|pid| Some((pid, stat(pid)?[1].parse().ok()?))).collect();
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid));
        at += 1;
    }
    found.split_off(1)
}

/// The keeper processes of a net.
pub fn keepers(net: &str) -> Vec<u32> {
    let wanted = format!("--net={net}");
    let is_keeper = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0);
        words.clone().any(|word| word == b"keeper") && words.any(|word| word == wanted.as_bytes())
    };
    pids().filter(is_keeper).filter(|&pid| running(pid)).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
