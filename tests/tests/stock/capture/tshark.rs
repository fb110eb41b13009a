//! Captures as tshark reads them.

use std::process::Command;

use tests::stock::{alone, need, wait_for, Pair, StockNet};

use super::{begin, begin_file, good, interrupted, numbers, Files, LIMIT};

/// Program, arguments, and what tshark calls some of its packets.
const PROGRAMS: [(&str, &[&str], &[&str]); 7] = [
    (
        "ib_send_bw",
        &["-s", "3000", "-m", "1024"],
        &["RC Send First", "RC Send Middle", "RC Send Last", "RC Acknowledge"],
    ),
    (
        "ib_write_bw",
        &["-s", "3000", "-m", "1024"],
        &["RC RDMA Write First", "RC RDMA Write Middle", "RC RDMA Write Last"],
    ),
    (
        "ib_read_bw",
        &["-s", "3000", "-m", "1024"],
        &["RC RDMA Read Request", "RC RDMA Read Response First", "RC RDMA Read Response Last"],
    ),
    ("ib_atomic_bw", &["-A", "FETCH_AND_ADD"], &["RC Fetch Add", "RC Atomic Acknowledge"]),
    ("ib_atomic_bw", &["-A", "CMP_AND_SWAP"], &["RC Compare Swap"]),
    ("ib_send_bw", &["-c", "UD", "-s", "500"], &["UD Send Only"]),
    (
        "ib_write_bw",
        &["-c", "UC", "-s", "3000", "-m", "1024", "-x", "0"],
        &["UC RDMA Write First", "UC RDMA Write Last"],
    ),
];

/// What tshark prints.
pub fn tshark(arguments: &[&str]) -> String {
    let output = Command::new("tshark").args(arguments).output().expect("tshark runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark {arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// tshark finds nothing malformed, and prints the lines that we print, which go on.
#[test]
#[ignore = "the long form of the checks"]
fn tshark_reads_what_is_captured() {
    let _alone = alone();
    need("tshark");
    for clock in ["wall", "virtual"] {
        for (program, arguments, names) in PROGRAMS {
            let what = format!("{clock}: {program} {}", arguments.join(" "));
            let (net, holder) = StockNet::held(&["--clock", clock]);
            let files = Files::new();
            let path = files.path("packets");
            let captures = [begin_file(&net, &path, &[]), begin(&net, &[])];
            let arguments = [&["-n", "200", "-F"], arguments].concat();
            if let Err(error) = Pair::new(&net, program, &arguments).run() {
                panic!("{what}: {error}");
            }
            captures.iter().for_each(|capture| capture.signal(libc::SIGINT));
            let [file, lines] = captures.map(good);
            assert!(numbers(&file).0 >= 200 && numbers(&file) == numbers(&lines), "{what}: {file}");
            let path = path.to_str().unwrap();
            let seconds = if clock == "wall" { "r" } else { "e" };
            // The one name in Wireshark's list that lacks a space at its end.
            let read = tshark(&["-r", path, "-t", seconds])
                .replace("UC RDMA Write FirstQP", "UC RDMA Write First QP");
            let ours: Vec<_> = lines.lines().filter(|line| line.contains(" RRoCE ")).collect();
            assert_eq!(read.lines().count(), ours.len(), "{what}");
            for (theirs, ours) in read.lines().zip(ours) {
                assert!(ours.starts_with(theirs.trim_end()), "{what}:\n{theirs}\n{ours}");
            }
            for name in names {
                assert!(read.contains(&format!(" {name} QP=0x")), "{what}: no {name}");
            }
            for filter in ["_ws.malformed", "!infiniband"] {
                let found = tshark(&["-r", path, "-Y", filter]);
                assert!(found.is_empty(), "{what}: {filter}: {:?} ...", found.lines().next());
            }
            net.expect_gone_after(holder);
        }
    }
}

/// The datagrams of the connection manager are decoded.
#[test]
#[ignore = "the long form of the checks"]
fn tshark_reads_the_connection_manager() {
    need("tshark");
    let (net, holder) = StockNet::held_alone(&[]);
    let files = Files::new();
    let path = files.path("packets");
    let capture = begin_file(&net, &path, &["--qp", "1"]);
    let server = net.start("rping", &["-s", "-C", "3", "-a", "198.18.0.1"]);
    // Until the server listens, others are rejected.
    wait_for("rping is rejected", || {
        let client = net.start("rping", &["-c", "-C", "3", "-a", "198.18.0.1"]).wait(LIMIT);
        assert!(client.good() || client.said.contains("REJECTED"), "{client}");
        client.good()
    });
    good(server);
    interrupted(capture);
    let read = tshark(&["-r", path.to_str().unwrap()]);
    for name in ["ConnectRequest", "ConnectReply", "ReadyToUse", "DisconnectRequest"] {
        assert!(read.contains(name), "no {name}:\n{read}");
    }
    assert_eq!(tshark(&["-r", path.to_str().unwrap(), "-Y", "_ws.malformed"]), "");
    net.expect_gone_after(holder);
}
