//! A thread for each core, on which it stays.

use std::thread;

use anyhow::{anyhow, Result};
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};

/// Runs `work` with the number of a core and what is its own, on a thread of that core; all answers, or the first
/// error. With more cores asked for than there are, some threads share one.
pub fn each<Own: Send, Answer: Send>(
    all: Vec<Own>,
    work: impl Fn(u16, Own) -> Result<Answer> + Sync,
) -> Result<Vec<Answer>> {
    let allowed = sched_getaffinity(None)?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&n| allowed.is_set(n)).collect();
    thread::scope(|scope| {
        let threads: Vec<_> = all
            .into_iter()
            .enumerate()
            .map(|(core, own)| {
                let (processor, work) = (processors[core % processors.len()], &work);
                scope.spawn(move || {
                    let mut only = CpuSet::new();
                    only.set(processor);
                    sched_setaffinity(None, &only)?;
                    work(core as u16, own)
                })
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a core's thread has panicked")))
        };
        threads.into_iter().map(join).collect()
    })
}
