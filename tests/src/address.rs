//! Addresses for ports that lead outside by UDP.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};

/// An address of the loopback interface that nobody else has; 255 calls of a process give different ones.
pub fn loopback_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 + (high & 127), low, NEXT.fetch_add(1, Ordering::Relaxed))
}
