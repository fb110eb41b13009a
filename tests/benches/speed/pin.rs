//! Pinning to a core.

/// Pins the calling thread, and what it starts, to a core.
pub fn pin(core: usize) {
    // SAFETY: a CPU set is plain data; the call reads it.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    assert_eq!(result, 0, "cannot pin to core {core}: the benchmark needs two cores");
}
