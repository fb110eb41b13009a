//! The releases of DPDK whose structures are known, and where these differ.
//!
//! `abi` has the structures of 22.11. What is elsewhere in 24.11 is reached by the offsets here, in bytes, which are from
//! `ethdev_driver.h` and `rte_ethdev.h` of both.

use std::sync::OnceLock;

/// A release of DPDK.
pub struct Release {
    /// How `rte_version()` begins.
    pub version: &'static str,
    /// Number of its ABI, which its libraries have in their names.
    pub abi: u32,
    /// Where its structures differ.
    pub layout: Layout,
}

/// Where the structures of a release differ.
pub struct Layout {
    /// `tx_descriptor_status` of `struct rte_eth_dev`, which has got a `tx_queue_count` before it.
    pub tx_descriptor_status: usize,
    /// `data` of `struct rte_eth_dev`, which has got more functions of the data path before it.
    pub data: usize,
    /// `dev_ops` of it.
    pub dev_ops: usize,
    /// `device` of it.
    pub device: usize,
    /// `intr_handle` of it.
    pub intr_handle: usize,
    /// What follows `rss_conf` in `struct rte_eth_dev_data`: that has got an algorithm.
    pub after_rss_conf: usize,
    /// `max_rx_pktlen` and what follows in `struct rte_eth_dev_info`, which has got a `max_rx_bufsize` before it.
    pub info_limits: usize,
    /// `dev_supported_ptypes_get` is asked for the length of its list, too.
    pub counts_kinds: bool,
    /// Before which functions of `struct eth_dev_ops` of 22.11 there is another one, for each one.
    pub more_ops: &'static [usize],
}

/// All that are known.
pub const RELEASES: [Release; 2] = [
    Release {
        version: "DPDK 22.11.",
        abi: 23,
        layout: Layout {
            tx_descriptor_status: 40,
            data: 48,
            dev_ops: 64,
            device: 72,
            intr_handle: 80,
            after_rss_conf: 264,
            info_limits: 36,
            counts_kinds: false,
            more_ops: &[],
        },
    },
    Release {
        version: "DPDK 24.11.",
        abi: 25,
        layout: Layout {
            tx_descriptor_status: 48,
            data: 72,
            dev_ops: 88,
            device: 104,
            intr_handle: 112,
            after_rss_conf: 272,
            info_limits: 40,
            counts_kinds: true,
            // Three of speed lanes, recycle_rxq_info_get, timesync_adjust_freq, and three at the end.
            more_ops: &[8, 8, 8, 27, 77, 113, 113, 113],
        },
    },
];

static CHOSEN: OnceLock<&Release> = OnceLock::new();

/// Says which one the program has.
pub fn choose(release: &'static Release) {
    // There is one DPDK in a program.
    let _ = CHOSEN.set(release);
}

/// Where the structures of the program's release differ.
pub fn layout() -> &'static Layout {
    &CHOSEN.get().expect("the driver has found its DPDK before it registers").layout
}

/// The release that calls itself `version`; else why there is none.
pub fn of(version: &str) -> Result<&'static Release, String> {
    let known = RELEASES.iter().find(|release| version.starts_with(release.version));
    known.ok_or_else(|| {
        let all = RELEASES.map(|release| format!("{}x", release.version)).join(" or ");
        format!("this driver is for {all} and not for {version}: it stays out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_known_by_its_version() {
        for (version, abi) in [("DPDK 22.11.11", 23), ("DPDK 24.11.8", 25), ("DPDK 24.11.0-rc4", 25)] {
            assert_eq!(of(version).map(|release| release.abi), Ok(abi), "{version}");
        }
        // 23.03 has the ABI of 22.11 for programs, and not for drivers.
        for version in ["DPDK 23.03.0", "DPDK 24.1.0", "DPDK 25.11.2"] {
            let why = of(version).map(|release| release.abi).unwrap_err();
            assert_eq!(
                why,
                format!(
                    "this driver is for DPDK 22.11.x or DPDK 24.11.x and not for {version}: it stays out"
                )
            );
        }
    }
}
