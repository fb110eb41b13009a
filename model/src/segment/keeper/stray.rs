//! Locks that nobody holds.
//!
//! The kernel releases the lock of a thread that ends. A thread id that no thread has is an overwritten word, and every
//! process would wait for ever.

use std::path::Path;

use crate::segment::{Segment, ALL};

/// Islands whose lock was held at the last look by a thread that belongs to no member, and its id.
#[derive(Default)]
pub(super) struct Strays(Vec<(u16, u32)>);

impl Strays {
    /// Looks for them, given the processes of a segment. Whether to look again soon.
    pub fn look(&mut self, segment: &Segment, processes: impl Iterator<Item = u32>) -> bool {
        let held = segment.controls().filter_map(|island| {
            let lock = &segment.control(island).lock;
            let tid = lock.holder();
            (tid != 0 && !(island == ALL && lock.is_condemned())).then_some((island, tid))
        });
        let held: Vec<(u16, u32)> = held.collect();
        let before = std::mem::take(&mut self.0);
        if held.is_empty() {
            return false;
        }
        let pids: Vec<u32> = processes.collect();
        // A thread id is valid only in the process namespace of its process.
        let ours = std::fs::read_link("/proc/self/ns/pid").ok();
        let elsewhere = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok() != ours;
        if ours.is_none() || pids.iter().any(|&pid| elsewhere(pid)) {
            return false;
        }
        let exists = |pid: u32, tid: u32| Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
        let stray = |&(_, tid): &(u16, u32)| !pids.iter().any(|&pid| exists(pid, tid));
        self.0 = held.into_iter().filter(stray).collect();
        // Seen twice: a member may have ended in between.
        for &(island, tid) in self.0.iter().filter(|stray| before.contains(stray)) {
            segment.control(island).lock.holder_is_gone(tid);
        }
        !self.0.is_empty()
    }
}
