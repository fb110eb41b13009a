//! Stock tools that read the cards from sysfs, or ask the kernel for them.

use std::process::Command;

use tests::place_for;
use tests::stock::{need, Pair, Program, StockNet, LIMIT};

fn expect_lines(said: &str, lines: &[&str]) {
    for line in lines {
        assert!(said.lines().any(|found| found.trim() == *line), "no `{line}` in:\n{said}");
    }
}

#[test]
fn ibstat_shows_each_card_and_port() {
    need("ibstat");
    let net = StockNet::new();
    let said = net.run("ibstat", &[], LIMIT);
    expect_lines(
        &said,
        &["CA 'verbena0'", "CA 'verbena1'", "CA type: f10a", "Number of ports: 2", "Firmware version: 1.0.0"],
    );
    expect_lines(
        &said,
        &[
            "Hardware version: 1",
            "State: Active",
            "Physical state: LinkUp",
            "Rate: 10",
            "Link layer: Ethernet",
        ],
    );
    expect_lines(&said, &["Capability mask: 0x04010000", "Port GUID: 0x005642fffe000101"]);
    assert_eq!(net.run("ibstat", &["-p"], LIMIT).lines().count(), 4);
}

/// The rate is that of the profile, as `ibv_query_port` says it.
#[test]
fn ibstatus_shows_the_rate_of_the_profile() {
    need("ibstatus");
    for (card, rate) in
        [("f10a", "10 Gb/sec (1X QDR)"), ("cx5-25g", "25 Gb/sec (1X EDR)"), ("cx3", "40 Gb/sec (4X QDR)")]
    {
        let net = StockNet::new();
        let options = ["--card", card, "--clock", "virtual"];
        let said = Program::start(net.command(&options, "ibstatus", &["verbena1:2"])).wait(LIMIT).said;
        assert!(said.contains(rate) && said.contains("state:\t\t 4: ACTIVE"), "{said}");
        assert!(!said.contains("unknown"), "{said}");
    }
}

/// What scripts look up by themselves. The type of an empty GID is an error, as the kernel's.
#[test]
fn files_are_where_the_kernel_has_them() {
    let net = StockNet::new();
    let script = "cd /sys/class/infiniband/verbena0 && cat board_id fw_ver hw_rev device/vendor device/device \
                  device/subsystem_vendor ports/1/counters/port_xmit_data ports/1/hw_counters/out_of_sequence \
                  ports/1/gid_attrs/types/1 && ! cat ports/1/gid_attrs/types/7";
    let said = net.run("sh", &["-c", script], LIMIT);
    let lines = ["VERBENA_F10A", "1.0.0", "1", "0x1bd4", "0xf10a", "0x1bd4", "0", "0", "RoCE v2"];
    assert!(said.starts_with(&(lines.join("\n") + "\n")), "{said}");
    assert!(said.contains("Invalid argument"), "{said}");
}

/// What the cards count is there soon, whichever program looks and however long it runs.
#[test]
fn counters_are_those_of_the_cards() {
    let net = StockNet::new();
    let (_directory, done) = place_for("done");
    // Keeps the net, and looks before and after.
    let script = format!(
        "cd /sys/class/infiniband/verbena1/ports/1; cat hw_counters/out_of_sequence; \
         for i in $(seq 400); do test -e {} && break; sleep 0.1; done; \
         for i in $(seq 100); do test $(cat counters/port_rcv_packets) -ge 400 && break; sleep 0.1; done; \
         for i in $(seq 100); do test $(cat hw_counters/out_of_sequence) -gt 0 && break; sleep 0.1; done; \
         cat counters/port_rcv_packets counters/port_rcv_data hw_counters/out_of_sequence; \
         cat ../../../verbena0/ports/1/hw_counters/packet_seq_err hw_counters/lifespan",
        done.display()
    );
    let mut reader = Program::start(net.command(&["--fault=drop write nth=5"], "sh", &["-c", &script]));
    reader.expect("0\n", LIMIT);
    let arguments = ["-n", "200", "-s", "2048", "-m", "1024"];
    let pair = Pair { devices: ["verbena1", "verbena0"], ..Pair::new(&net, "ib_write_bw", &arguments) };
    pair.good();
    std::fs::write(&done, "").expect("a file");
    let said = reader.wait(LIMIT).said;
    let numbers: Vec<u64> = said.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let [0, packets, data, sequence, naks, 800] = numbers[..] else { panic!("{said}") };
    assert!(packets >= 400 && data >= packets / 2 * 1024 / 4, "{said}");
    assert!(sequence > 0 && naks > 0, "{said}");
}

#[test]
fn ibv_asyncwatch_waits() {
    need("ibv_asyncwatch");
    let net = StockNet::new();
    let mut program = net.start("ibv_asyncwatch", &["-d", "verbena0"]);
    program.expect("async event FD", LIMIT);
    assert!(!program.has_ended());
}

/// `rdma` asks the kernel, which knows no such cards: it answers as on a machine without RDMA modules.
#[test]
fn rdma_fails_as_without_rdma_modules() {
    need("rdma");
    let net = StockNet::new();
    let ended = net.start("rdma", &["link", "show", "-j"]).wait(LIMIT);
    assert_eq!(ended.status.and_then(|status| status.code()), Some(1), "{}", ended.said);
    assert_eq!(ended.said.trim(), "Failed to open NETLINK_RDMA socket");
    if !std::path::Path::new("/sys/module/ib_core").exists() {
        let outside = Command::new("rdma").args(["link", "show", "-j"]).output().expect("rdma runs");
        assert_eq!(outside.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&outside.stderr), ended.said);
    }
}
