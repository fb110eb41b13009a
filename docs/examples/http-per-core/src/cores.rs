//! A thread for each core, on which it stays.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{anyhow, Result};
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};

/// Whether a core has failed, and the others are to end too.
#[derive(Default)]
pub struct Failed(AtomicBool);

impl Failed {
    /// To be asked in every turn.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Tells the others when it is dropped, as it is by an error or a panic.
struct Alarm<'a>(&'a Failed);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0 .0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` with the number of a core and what is its own, on a thread of that core; all answers, or the first
/// error. With more cores asked for than there are, some threads share one.
pub fn each<Own: Send, Answer: Send>(
    all: Vec<Own>,
    work: impl Fn(u16, Own, &Failed) -> Result<Answer> + Sync,
) -> Result<Vec<Answer>> {
    let allowed = sched_getaffinity(None)?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&n| allowed.is_set(n)).collect();
    let failed = Failed::default();
    thread::scope(|scope| {
        let threads: Vec<_> = all
            .into_iter()
            .enumerate()
            .map(|(core, own)| {
                let (processor, work, failed) = (processors[core % processors.len()], &work, &failed);
                scope.spawn(move || {
                    let alarm = Alarm(failed);
                    let mut only = CpuSet::new();
                    only.set(processor);
                    sched_setaffinity(None, &only)?;
                    let answer = work(core as u16, own, failed)?;
                    mem::forget(alarm);
                    Ok(answer)
                })
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a core's thread has panicked")))
        };
        threads.into_iter().map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// What is said when core 1 does this, and core 0 goes on until it is told.
    fn said(fail: fn() -> Result<()>) -> String {
        let work = |core, (), failed: &Failed| {
            let begin = Instant::now();
            while core == 0 && !failed.any() {
                anyhow::ensure!(begin.elapsed() < Duration::from_secs(10), "core 0 is not told");
                thread::yield_now();
            }
            if core == 1 {
                fail()
            } else {
                Ok(())
            }
        };
        each(vec![(); 2], work).expect_err("core 1 has failed").to_string()
    }

    #[test]
    fn an_error_of_a_core_ends_all() {
        assert_eq!(said(|| Err(anyhow!("broken"))), "broken");
        assert_eq!(said(|| panic!("on purpose")), "a core's thread has panicked");
    }
}
