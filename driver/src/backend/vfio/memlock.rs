//! The limit of locked memory, checked before the kernel refuses: all memory that a card reaches is pinned.
#![allow(unsafe_code)]

use std::fs;

/// `CAP_IPC_LOCK`: a process that has it may lock without limit (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;

/// What the kernel allows this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memlock {
    /// Bytes that may be locked; `None` is no limit.
    limit: Option<u64>,
    /// Bytes that are locked.
    locked: u64,
}

impl Memlock {
    /// As it is now.
    pub fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: room for one rlimit.
        unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
        let limited = limit.rlim_cur != libc::RLIM_INFINITY && !privileged(&status);
        Memlock { limit: limited.then_some(limit.rlim_cur), locked: locked(&status) }
    }

    /// Why `bytes` more cannot be locked, with the remedy; `None` if they can.
    pub fn refuses(&self, bytes: usize) -> Option<String> {
        let limit = self.limit?;
        let needed = self.locked.saturating_add(bytes as u64);
        (needed > limit).then(|| {
            format!(
                "{} KiB are to be pinned and {} KiB are, but only {} KiB may be: ulimit -l {} or more \
                 (root, or memlock in /etc/security/limits.conf, raises it)",
                bytes.div_ceil(1024),
                self.locked / 1024,
                limit / 1024,
                needed.div_ceil(1024)
            )
        })
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()
}

fn privileged(status: &str) -> bool {
    let set = field(status, "CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    set.is_some_and(|set| set >> CAP_IPC_LOCK & 1 != 0)
}

/// `VmLck` counts what is pinned for VFIO too.
fn locked(status: &str) -> u64 {
    field(status, "VmLck").and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_the_number() {
        let memlock = Memlock { limit: Some(8 << 20), locked: 1 << 20 };
        assert_eq!(memlock.refuses(7 << 20), None);
        let why = memlock.refuses((7 << 20) + 1).unwrap();
        assert!(why.contains("only 8192 KiB") && why.contains("ulimit -l 8193"), "{why}");
        assert_eq!(Memlock { limit: None, locked: 0 }.refuses(usize::MAX), None);
    }

    #[test]
    fn what_the_kernel_says() {
        let status = "Name:\tx\nVmLck:\t     128 kB\nCapEff:\t0000000000004000\n";
        assert!(privileged(status));
        assert_eq!(locked(status), 128 << 10);
        assert!(!privileged("CapEff:\t00000000a80425fb\n".replace("425fb", "025fb").as_str()));
        assert_eq!(locked(""), 0);
    }
}
