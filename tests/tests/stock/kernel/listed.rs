//! Which ports have an interface, and which had one whose process has failed.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tests::stock::{wait_for, StockNet};

use super::{end, hosts_on, noted, two, typed, Host, ADDRESS, LIMIT};

/// How the lines of `verbena port` call the namespace of a host.
fn place(host: &Host) -> String {
    let number = fs::metadata(format!("/proc/{}/ns/net", host.pid)).expect("it runs").ino();
    format!("net:[{number}]")
}

#[test]
fn interfaces_are_listed_and_none_is_left_unseen() {
    let net = StockNet::alone();
    net.refuses(&["port"], "is not running");
    let hosts = hosts_on(&net);
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
    // To its programs sysfs names that of a port, as it does for a card with a kernel driver; elsewhere there is none.
    let card =
        "cd /sys/class/infiniband/verbena1; ls device/net; cat ports/1/gid_attrs/ndevs/[01]; echo there";
    assert_eq!(b.on_card(&net, &["sh", "-c", card]).wait(LIMIT).expect_good(), "vb0\nvb0\nvb0\nthere\n");
    let said = a.on_card(&net, &["sh", "-c", card]).wait(LIMIT);
    assert!(!said.to_string().contains("vb0\n"), "{said}");
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

/// Takes all rules that a card has room for.
const FILL: &str = "
import sys
import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.flow import Flow, FlowAttr
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.spec import EthSpec
context = Context(name='verbena1')
pd, cq = PD(context), CQ(context, 16)
cap = QPCap(max_send_wr=1, max_recv_wr=1)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RAW_PACKET, scq=cq, rcq=cq, cap=cap), QPAttr(port_num=1))
flows = []
try:
    while True:
        rule = FlowAttr(num_of_specs=1, port=1)
        rule.specs.append(EthSpec(dst_mac='02:00:00:00:%02x:%02x' % divmod(len(flows), 256)))
        flows.append(Flow(qp, rule))
except PyverbsRDMAError:
    print('full of', len(flows), flush=True)
sys.stdin.read()
";

/// The card has no rule left for an interface that the kernel makes promiscuous.
#[test]
fn a_process_that_fails_says_why() {
    let (net, hosts) = two();
    let [_, b] = &hosts;
    let (mut fill, end_of_input) = typed(net.command(&[], "/usr/bin/python3", &["-c", FILL]));
    fill.expect("full of ", LIMIT);
    b.run(&["ip", "link", "set", "vb0", "promisc", "on"]);
    wait_for("no word of the failure", || net.does(&["port"]).contains("verbena1/1 vb0 failed: "));
    let list = net.does(&["port"]);
    assert!(list.contains("TABLE_FULL") && list.starts_with("verbena0/1 vb0 netns "), "{list}");
    drop((end_of_input, fill));
    // `down` tells it once more, and it is forgotten then; a new interface replaces it, too.
    net.refuses(&["port", "down", "verbena1/1"], "TABLE_FULL");
    net.refuses(&["port", "down", "verbena1/1"], "has no kernel interface");
    b.up(&net, "verbena1/1", &["--kernel", "vb0"]);
    assert!(!net.does(&["port"]).contains("failed"));
    hosts[0].pings(ADDRESS[1], &[]);
    end(&net, hosts);
}
