//! Which ports have an interface, and which had one whose process has failed.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tests::stock::{alone, wait_for, StockNet};

use super::{end, noted, two, typed, Host, ADDRESS, LIMIT};

/// How the lines of `verbena netdev` call the namespace of a host.
fn place(host: &Host) -> String {
    let number = fs::metadata(format!("/proc/{}/ns/net", host.pid)).expect("it runs").ino();
    format!("net:[{number}]")
}

#[test]
fn interfaces_are_listed_and_none_is_left_unseen() {
    let _alone = alone();
    let net = StockNet::new();
    net.refuses(&["netdev"], "is not running");
    let hosts = two(&net);
    let [a, b] = &hosts;
    b.up(&net, "verbena1/1", &["--name", "vb0.107", "--vlan", "107"]);
    let list = || net.does(&["netdev"]);
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
    let said = b.verbena(&net, &["netdev"]);
    assert!(said.contains("verbena1/1 vb0 pid ") && said.contains("verbena0/1 vb0 netns "), "{said}");
    // To its programs sysfs names that of a port, as it does for a card with a kernel driver; elsewhere there is none.
    let card =
        "cd /sys/class/infiniband/verbena1; ls device/net; cat ports/1/gid_attrs/ndevs/[01]; echo there";
    assert_eq!(b.on_card(&net, &["sh", "-c", card]).wait(LIMIT).expect_good(), "vb0\nvb0\nvb0\nthere\n");
    let said = a.on_card(&net, &["sh", "-c", card]).wait(LIMIT);
    assert!(!said.to_string().contains("vb0\n"), "{said}");
    let left = net.does(&["netdev", "down", "verbena1/1"]);
    assert!(
        left.contains("VLAN 107 has vb0.107 still; `verbena netdev down verbena1/1 --vlan 107 --net"),
        "{left}"
    );
    assert_eq!(list(), [&all[0][..], &all[2]].concat());
    b.up(&net, "verbena1/1", &["--name", "vb0"]);
    net.does(&["netdev", "down", "verbena1/1", "--all"]);
    assert_eq!(list(), all[0]);
    net.refuses(&["netdev", "down", "verbena1/1", "--all"], "has no kernel interface");
    b.up(&net, "verbena1/1", &["--name", "vb0"]);
    end(&net, hosts);
    net.refuses(&["netdev"], "is not running");
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
    let _alone = alone();
    let net = StockNet::new();
    let hosts = two(&net);
    let [_, b] = &hosts;
    let (mut fill, end_of_input) = typed(net.command(&[], "/usr/bin/python3", &["-c", FILL]));
    fill.expect("full of ", LIMIT);
    b.run(&["ip", "link", "set", "vb0", "promisc", "on"]);
    wait_for("no word of the failure", || net.does(&["netdev"]).contains("verbena1/1 vb0 failed: "));
    let list = net.does(&["netdev"]);
    assert!(list.contains("TABLE_FULL") && list.starts_with("verbena0/1 vb0 netns "), "{list}");
    drop((end_of_input, fill));
    // `down` tells it once more, and it is forgotten then; a new interface replaces it, too.
    net.refuses(&["netdev", "down", "verbena1/1"], "TABLE_FULL");
    net.refuses(&["netdev", "down", "verbena1/1"], "has no kernel interface");
    b.up(&net, "verbena1/1", &["--name", "vb0"]);
    assert!(!net.does(&["netdev"]).contains("failed"));
    hosts[0].pings(ADDRESS[1], &[]);
    end(&net, hosts);
}
