//! The functions of a driver are where each release of DPDK looks for them.

use std::ffi::{c_int, c_void};

use super::ethdev::*;
use super::info::{DevInfo, RxqInfo};
use super::release::RELEASES;

unsafe extern "C" fn infos(_: *mut EthDev, _: *mut DevInfo) -> c_int {
    0
}

unsafe extern "C" fn queue(_: *mut EthDev, _: u16, _: *mut RxqInfo) {}

unsafe extern "C" fn set_vlan(_: *mut EthDev, _: u16, _: c_int) -> c_int {
    0
}

unsafe extern "C" fn link(_: *mut EthDev, _: c_int) -> c_int {
    0
}

unsafe extern "C" fn flows(_: *mut EthDev, _: *mut *const c_void) -> c_int {
    0
}

unsafe extern "C" fn reset(_: *mut EthDev) -> c_int {
    0
}

unsafe extern "C" fn of_queue(_: *mut EthDev, _: u16) -> c_int {
    0
}

/// By the offsets of `ethdev_driver.h` of each release.
#[test]
fn functions_are_where_each_release_has_them() {
    for (release, bytes, offsets) in [
        (0, 904, [48, 56, 192, 200, 256, 296, 320, 344, 560]),
        (1, 968, [48, 56, 216, 224, 288, 328, 352, 376, 592]),
    ] {
        let ops = EthDevOps {
            dev_reset: Some(reset),
            link_update: Some(link),
            dev_infos_get: Some(infos),
            rxq_info_get: Some(queue),
            vlan_filter_set: Some(set_vlan),
            rx_queue_start: Some(of_queue),
            tx_queue_stop: Some(of_queue),
            rx_queue_intr_enable: Some(of_queue),
            flow_ops_get: Some(flows),
            ..EthDevOps::default()
        };
        let words = ops.of_release(&RELEASES[release].layout);
        assert_eq!(words.len() * 8, bytes);
        let set: Vec<usize> = (0..words.len()).filter(|&at| words[at] != 0).map(|at| at * 8).collect();
        assert_eq!(set, offsets);
    }
}
