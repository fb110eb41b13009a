//! Which ports have an interface.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tests::stock::{alone, StockNet};

use super::{end, noted, two, Host};

/// How the lines of `verbena port` call the namespace of a host.
fn place(host: &Host) -> String {
    let number = fs::metadata(format!("/proc/{}/ns/net", host.pid)).expect("it runs").ino();
    format!("net:[{number}]")
}

#[test]
fn interfaces_are_listed_and_none_is_left_unseen() {
    let _alone = alone();
    let net = StockNet::new();
    net.refuses(&["port"], "is not running");
    let hosts = two(&net);
    let [a, b] = &hosts;
    b.up(&net, "verbena1/1", &["--kernel", "vb0.107", "--vlan", "107"]);
    let list = || net.does(&["port"]);
    let line = |start: &str, host: &Host, file: &str| {
        format!("{start} netns {} pid {}\n", place(host), noted(&net, file).expect("a process"))
    };
    let all = [
        line("verbena0/1 vb0", a, "verbena0p1"),
        line("verbena1/1 vb0", b, "verbena1p1"),
        line("verbena1/1 vb0.107 vlan 107", b, "verbena1p1.107"),
    ];
    assert_eq!(list(), all.concat());
    // To whom is there it says no place.
    let said = b.verbena(&net, &["port"]);
    assert!(said.contains("verbena1/1 vb0 pid ") && said.contains("verbena0/1 vb0 netns "), "{said}");
    let left = net.does(&["port", "down", "verbena1/1"]);
    assert!(
        left.contains("VLAN 107 has vb0.107 still; `verbena port down verbena1/1 --vlan 107 --net"),
        "{left}"
    );
    assert_eq!(list(), [&all[0][..], &all[2]].concat());
    b.up(&net, "verbena1/1", &["--kernel", "vb0"]);
    net.does(&["port", "down", "verbena1/1", "--all"]);
    assert_eq!(list(), all[0]);
    net.refuses(&["port", "down", "verbena1/1", "--all"], "has no kernel interface");
    b.up(&net, "verbena1/1", &["--kernel", "vb0"]);
    end(&net, hosts);
    net.refuses(&["port"], "is not running");
}
