//! Larger programs of DPDK on the card's ports: a router and a switch that know nothing of a model, with `testpmd` at the
//! other end.

#[path = "stock_peers/l3fwd.rs"]
mod l3fwd;
#[path = "stock_peers/ovs.rs"]
mod ovs;

use std::sync::Mutex;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// Each program spins on a core: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());
