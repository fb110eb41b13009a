//! What a card has to do, through any backend: the same bodies run on a card in this
//! process, on served cards through the vfio-user client, and on real VFIO in a guest. (The scripted bus
//! has no card: it checks the driver's accesses, in `driver/tests/it`.)

#[path = "conformance/actions.rs"]
mod actions;
#[path = "conformance/backends.rs"]
mod backends;
#[path = "conformance/cq.rs"]
mod cq;
#[path = "conformance/cq_overrun.rs"]
mod cq_overrun;
#[path = "conformance/memory.rs"]
mod memory;
#[path = "conformance/memory_pages.rs"]
mod memory_pages;
#[path = "conformance/multicast.rs"]
mod multicast;
#[path = "conformance/raw.rs"]
mod raw;
#[path = "conformance/rc.rs"]
mod rc;
#[path = "conformance/rc_errors.rs"]
mod rc_errors;
#[path = "conformance/rc_flush.rs"]
mod rc_flush;
#[path = "conformance/rc_local.rs"]
mod rc_local;
#[path = "conformance/rc_local_errors.rs"]
mod rc_local_errors;
#[path = "conformance/rc_operations.rs"]
mod rc_operations;
#[path = "conformance/rc_order.rs"]
mod rc_order;
#[path = "conformance/rc_reads.rs"]
mod rc_reads;
#[path = "conformance/rc_retry.rs"]
mod rc_retry;
#[path = "conformance/rss.rs"]
mod rss;
#[path = "conformance/srq.rs"]
mod srq;
#[path = "conformance/states.rs"]
mod states;
#[path = "conformance/tso.rs"]
mod tso;
#[path = "conformance/uc.rs"]
mod uc;
#[path = "conformance/ud.rs"]
mod ud;
#[path = "conformance/windows.rs"]
mod windows;
