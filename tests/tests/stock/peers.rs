//! Larger programs of DPDK on the card's ports: a router and a switch that know nothing of a model, with `testpmd` at the
//! other end.

mod l3fwd;
mod ovs;

use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
