//! Open vSwitch with DPDK, a switch whose ports are the card's: all of its files are in a directory of the test.

use std::process::Command;
use std::time::Instant;

use driver::Registers;
use fpga_regs::regs::port;
use model::attach::SegmentCard;
use tests::stock::{need, peers, wait_for, EalFiles, Program, StockNet, Testpmd};

use super::LIMIT;
use crate::kernel::expect_ten_answers;

/// Questions to `ovs-appctl`.
const LACP: [&str; 2] = ["lacp/show", "bond0"];
const BOND: [&str; 2] = ["bond/show", "bond0"];

/// A switch. It ends when this is dropped.
struct Ovs {
    // In this order.
    _switch: Program,
    _database: Program,
    _files: EalFiles,
    directory: tempfile::TempDir,
}

impl Ovs {
    /// Starts one without a bridge.
    fn start(net: &StockNet) -> Ovs {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name).display().to_string();
        let (data, socket) = (at("conf.db"), format!("unix:{}", at("db.sock")));
        let schema = peers().join("usr/share/openvswitch/vswitch.ovsschema").display().to_string();
        ran(of_ovs(&directory, "usr/bin/ovsdb-tool", &["create", &data, &schema]));
        let listens = format!("--remote=p{socket}");
        let words = [&data[..], &listens, "--no-chdir"];
        let mut database = Program::start(of_ovs(&directory, "usr/sbin/ovsdb-server", &words));
        database.expect_that("it does not listen", |_| directory.path().join("db.sock").exists());
        let files = EalFiles::new();
        let memory = "--no-huge --legacy-mem -m 512 --no-pci";
        let extra = format!("other_config:dpdk-extra={memory} --file-prefix {}", files.prefix);
        // Its own threads and the one that polls ports are on one core; testpmd polls on the other.
        let cores =
            ["dpdk-lcore-mask", "pmd-cpu-mask"].map(|it| format!("other_config:{it}={}", 1 << files.core));
        let init = "other_config:dpdk-init=true";
        let set = ["--no-wait", "set", "Open_vSwitch", ".", init, &extra, &cores[0], &cores[1]];
        ran(control(&directory, &["--no-wait", "init"]));
        ran(control(&directory, &set));
        let program = peers().join("usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk");
        let unixctl = format!("--unixctl={}", at("switch.ctl"));
        let mut command = net.command(&[], program, &[&socket, &unixctl, "--no-chdir"]);
        command.envs(places(&directory));
        Ovs { _switch: Program::start(command), _database: database, _files: files, directory }
    }

    /// `ovs-vsctl`, which returns when the switch is as it is asked to be.
    fn set(&self, words: &str) -> String {
        ran(control(&self.directory, &words.split(' ').collect::<Vec<_>>()))
    }

    /// Makes a bridge with a bond of the ports of card 0, which speaks LACP.
    fn bonds(&self) {
        let member = |name: &str, device: &str| {
            format!(
                "set Interface {name} type=dpdk options:dpdk-devargs={device} options:dpdk-lsc-interrupt=true"
            )
        };
        self.set(&format!(
            "add-br br0 -- set bridge br0 datapath_type=netdev -- add-bond br0 bond0 m0 m1 lacp=active \
             bond_mode=balance-tcp other_config:lacp-time=fast -- {} -- {}",
            member("m0", "net_verbena0"),
            member("m1", "net_verbena0p2")
        ));
    }

    /// `ovs-appctl`.
    fn ask(&self, words: &[&str]) -> String {
        let target = self.directory.path().join("switch.ctl").display().to_string();
        let words = [&["--timeout=60", "-t", &target], words].concat();
        ran(of_ovs(&self.directory, "usr/bin/ovs-appctl", &words))
    }

    /// Waits until the bond has agreed by both of its members and uses both. It agrees a moment before it takes
    /// frames from a member, and drops those that come between.
    fn uses_both(&self) {
        self.says(&LACP, "they do not agree", |said| {
            said.contains("status: active negotiated") && said.matches(": current attached").count() == 2
        });
        self.says(&BOND, "a member stays out", |said| said.matches(": enabled").count() == 2);
    }

    /// Waits until it answers so.
    fn says(&self, question: &[&str], instead: &str, is: impl Fn(&str) -> bool) {
        wait_for(|| format!("{instead}: {}", self.ask(question)), || is(&self.ask(question)));
    }
}

/// Where its programs have what is otherwise in /var and /etc.
fn places(directory: &tempfile::TempDir) -> [(&'static str, &std::path::Path); 4] {
    ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"].map(|name| (name, directory.path()))
}

fn of_ovs(directory: &tempfile::TempDir, program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(peers().join(program));
    command.args(words).envs(places(directory));
    command
}

fn control(directory: &tempfile::TempDir, words: &[&str]) -> Command {
    let database = format!("--db=unix:{}", directory.path().join("db.sock").display());
    of_ovs(directory, "usr/bin/ovs-vsctl", &[&[&database, "--timeout=60"], words].concat())
}

fn ran(command: Command) -> String {
    Program::start(command).wait(LIMIT).expect_good()
}

/// The kernel's side of the switch, and an address that testpmd answers for, as it does for any.
const BRIDGE: &str = "192.0.2.1/24";
const HOST: &str = "192.0.2.2";

/// Gives the bridge's own port an address in the net's network.
fn address(net: &StockNet) {
    let script = format!("ip addr add {BRIDGE} dev br0; ip link set br0 up");
    net.run("sh", &["-ec", &script], LIMIT);
}

/// Asks once: true if an answer comes.
fn answers(net: &StockNet) -> bool {
    net.start("ping", &["-c", "1", "-W", "1", HOST]).wait(LIMIT).good()
}

/// Waits until an answer comes: a switch that has just agreed with its peer may not have all of its own rules yet.
fn reaches(net: &StockNet) {
    wait_for("no answer", || answers(net));
}

/// Each question gets one answer, however long that takes on a busy machine.
fn pings(net: &StockNet, options: &[&str]) {
    let words = [&["-c", "10", "-i", "0.1", "-w", "100"], options, &[HOST]].concat();
    expect_ten_answers(&net.run("ping", &words, LIMIT));
}

/// From the kernel through the switch's own port, the switch, the card and the cable to a program of DPDK, and back.
#[test]
#[ignore = "the long form of the checks"]
fn a_bridge_forwards_between_the_kernel_and_a_port() {
    need("ping");
    let net = StockNet::alone();
    let mut host = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=icmpecho"]);
    host.types("start");
    let ovs = Ovs::start(&net);
    let bridge = "add-br br0 -- set bridge br0 datapath_type=netdev";
    let port = "add-port br0 p0 -- set Interface p0 type=dpdk options:dpdk-devargs=net_verbena0";
    ovs.set(&format!("{bridge} -- {port}"));
    assert_eq!(ovs.set("get Interface p0 error").trim(), "[]");
    assert_eq!(ovs.set("get Interface p0 link_state").trim(), "up");
    address(&net);
    reaches(&net);
    pings(&net, &[]);
    pings(&net, &["-s", "1472", "-M", "do"]);
    // The bridge's own port is in a VLAN, the card's is a trunk.
    host.does("set verbose 1");
    ovs.set("set Port br0 tag=107");
    // The switch says that it is done before its threads have replaced the rules by which frames went until now: the answer to
    // one that went untagged is dropped.
    wait_for("questions have no tag, or no answers", || {
        let before = host.said().len();
        let answered = answers(&net);
        let said = &host.said()[before..];
        answered && said.contains("- type=0x8100 -") && !said.contains("- type=0x0800 -")
    });
    pings(&net, &[]);
    assert!(host.said().contains("type=0x8100"), "{}", host.said());
    drop(ovs);
    host.quit();
    net.expect_gone();
}

/// A bond of the switch and one of DPDK agree by LACP, and outlive each of their cables.
#[test]
#[ignore = "the long form of the checks"]
fn bonds_of_a_switch_and_of_dpdk_negotiate() {
    need("ping");
    let net = StockNet::alone();
    let devices =
        ["net_verbena1", "net_verbena1p2", "net_bonding0,mode=4,slave=net_verbena1,slave=net_verbena1p2"];
    let mut host = Testpmd::start(&net, &devices, &["-i", "--portlist=2", "--forward-mode=icmpecho"]);
    host.expect("testpmd>");
    host.does("port stop 2\nset bonding lacp dedicated_queues 2 enable\nport start 2\nstart");
    let ovs = Ovs::start(&net);
    ovs.bonds();
    ovs.uses_both();
    let said = ovs.ask(&LACP);
    assert_eq!(said.matches("partner sys_id: 02:56:42:00:01:00").count(), 2, "{said}");
    host.asks("show bonding config 2", "Active Slaves (2): [0 1]");
    address(&net);
    reaches(&net);
    pings(&net, &[]);

    let card = SegmentCard::open(&net.socket(), 0).expect("a card");
    let sent = |member: u32| card.read64(port::base(member) + port::TX_PACKETS);
    let mut ping = net.start("ping", &["-i", "0.1", HOST]);
    let answers = |ping: &Program| ping.said().matches("time=").count();
    let goes_on = |ping: &Program, more: usize| {
        let before = answers(ping);
        wait_for("no answers", || answers(ping) >= before + more);
    };
    let link = |member: u32, state: &str| {
        net.does(&["link", &format!("verbena0/{}", member + 1), state]);
    };
    goes_on(&ping, 10);
    for _ in 0..2 {
        // Which cable has the traffic follows from addresses; LACP sends one frame a second by each.
        let before = [sent(0), sent(1)];
        goes_on(&ping, 30);
        let busy = u32::from(sent(1) - before[1] > sent(0) - before[0]);
        link(busy, "down");
        let start = Instant::now();
        goes_on(&ping, 1);
        println!("the first answer came {} ms after cable {busy} was pulled", start.elapsed().as_millis());
        goes_on(&ping, 10);
        ovs.says(&BOND, "a member without a link", |said| {
            said.contains(&format!("member m{busy}: disabled"))
        });
        let others = format!("Active Slaves (1): [{}]", 1 - busy);
        host.asks("show bonding config 2", &others);
        link(busy, "up");
        ovs.uses_both();
        host.asks("show bonding config 2", "Active Slaves (2)");
    }
    assert!(!ping.has_ended(), "{}", ping.said());
    drop(ping);
    pings(&net, &[]);
    drop((card, ovs));
    host.quit();
    net.expect_gone();
}

/// A bond of the switch and a card whose ports are one agree by LACP, and outlive each of their cables.
#[test]
#[ignore = "the long form of the checks"]
fn bonds_of_a_switch_and_of_a_card_negotiate() {
    need("ping");
    let net = StockNet::alone();
    let ovs = Ovs::start(&net);
    ovs.bonds();
    net.does(&["lag", "verbena1", "--mode", "802.3ad"]);
    let mut host = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=icmpecho"]);
    host.types("start");
    ovs.uses_both();
    let said = ovs.ask(&LACP);
    assert_eq!(said.matches("partner sys_id: 02:56:42:00:01:00").count(), 2, "{said}");
    let in_use = || net.does(&["lag", "verbena1"]).matches(" up active ").count() == 2;
    wait_for("the card does not use both ports", in_use);
    address(&net);
    reaches(&net);
    pings(&net, &[]);
    for member in ["verbena0/1", "verbena0/2"] {
        net.does(&["link", member, "down"]);
        reaches(&net);
        pings(&net, &[]);
        net.does(&["link", member, "up"]);
        ovs.uses_both();
        wait_for("the card does not use both ports again", in_use);
    }
    pings(&net, &[]);
    drop(ovs);
    host.quit();
    net.expect_gone();
}
