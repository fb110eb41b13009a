//! Stock ibverbs-utils on modelled cards: what they list, and their ping-pongs.

use std::net::UdpSocket;

use model::wire::udp::ROCE_PORT;
use model::wire::{frame, BthOpcode, Ethernet, Headers, Ipv4, Network, Path, Udp};
use tests::loopback_address;
use tests::stock::{need, wait_for, Pair, StockNet, LIMIT};

#[test]
fn ibv_devices_lists_the_cards() {
    need("ibv_devices");
    let net = StockNet::new();
    let said = net.run("ibv_devices", &[], LIMIT);
    assert!(said.contains("verbena0") && said.contains("005642fffe000000"), "{said}");
    assert!(said.contains("verbena1") && said.contains("005642fffe000100"), "{said}");
    net.expect_gone();
}

#[test]
fn ibv_devinfo_tells_the_truth() {
    need("ibv_devinfo");
    let net = StockNet::new();
    let said = net.run("ibv_devinfo", &["-v", "-d", "verbena1"], LIMIT);
    for line in [
        "hca_id:\tverbena1",
        "transport:\t\t\tInfiniBand (0)",
        "vendor_id:\t\t\t0x1bd4",
        "vendor_part_id:\t\t\t61706",
        "phys_port_cnt:\t\t\t2",
        "node_guid:\t\t\t0056:42ff:fe00:0100",
        "state:\t\t\tPORT_ACTIVE (4)",
        "active_mtu:\t\t4096 (5)",
        "link_layer:\t\tEthernet",
        "GID[  0]:\t\tfe80::56:42ff:fe00:100, RoCE v2",
        "GID[  1]:\t\t::ffff:198.18.0.2, RoCE v2",
    ] {
        assert!(said.contains(line), "no `{line}` in:\n{said}");
    }
}

#[test]
fn ibv_devinfo_sees_as_many_cards_as_asked_for() {
    need("ibv_devinfo");
    let net = StockNet::new();
    let program = tests::stock::Program::start(net.command(&["--cards", "5"], "ibv_devinfo", &["-l"]));
    program.wait(LIMIT).expect_good_saying("5 HCAs found");
}

/// A packet of another partition is dropped, and counted where Linux' drivers count it.
#[test]
fn ibv_devinfo_tells_of_wrong_pkeys() {
    const SEND_ONLY: BthOpcode = BthOpcode(4);
    need("ibv_devinfo");
    let [from, to] = [(); 2].map(|()| loopback_address());
    let (net, _held) = StockNet::held(&["--port", &format!("0=udp:{to}")]);
    let counts = |count: u32| {
        let said = net.run("ibv_devinfo", &["-v", "-d", "verbena0", "-i", "1"], LIMIT);
        said.contains(&format!("bad_pkey_cntr:\t\t{count:#x}\n"))
    };
    assert!(counts(0));
    let socket = UdpSocket::bind((from, 0)).expect("a socket");
    let gids = [from, to].map(|address| address.to_ipv6_mapped().octets());
    let network = Network::from_gids(&gids[0], &gids[1], 0, 0, 64);
    let udp_sport = socket.local_addr().expect("its address").port();
    let mut headers = Headers::default();
    (headers.bth.opcode, headers.bth.pkey, headers.bth.dest_qp) = (SEND_ONLY, 0x1234, 7);
    let mut bytes = [0; 200];
    let path = Path { network, udp_sport, ..Path::default() };
    let length = frame::encode(&path, &headers, &[], &mut bytes).expect("a frame");
    let body = &bytes[Ethernet::BYTES + Ipv4::BYTES + Udp::BYTES..length];
    socket.send_to(body, (to, ROCE_PORT)).expect("sent");
    wait_for("a wrong P_Key is not counted", || counts(1));
}

/// Every ping-pong: polling and sleeping on the completion channel (-e), on two cards and on one.
fn pingpong(program: &str, extra: &[&str]) {
    let net = StockNet::alone();
    let mut failures = Vec::new();
    let cases: [&[&str]; 4] = [&["-c"], &["-c", "-e"], &["-c", "-s", "1"], &["-c", "-s", "1000", "-e"]];
    for case in cases.into_iter().chain((!extra.is_empty()).then_some(extra)) {
        for client in ["verbena1", "verbena0"] {
            let mut arguments = vec!["-g", "1", "-n", "300"];
            arguments.extend(case);
            let mut pair = Pair::new(&net, program, &arguments);
            pair.devices[1] = client;
            match pair.run() {
                // -c makes the tool itself complain about wrong bytes, but exit with 0.
                Ok(both)
                    if both.client.said.contains("invalid data")
                        || both.server.said.contains("invalid data") =>
                {
                    failures.push(format!("{}: wrong data\n{}", pair.line(), both.report()));
                }
                Ok(both) if !both.client.said.contains("usec/iter") => {
                    failures.push(format!("{}: no result\n{}", pair.line(), both.report()));
                }
                Ok(_) => {}
                Err(error) => failures.push(format!("{}: {error}", pair.line())),
            }
        }
    }
    assert!(failures.is_empty(), "{} failed:\n\n{}", failures.len(), failures.join("\n\n"));
    net.expect_gone();
}

#[test]
fn rc_pingpong() {
    pingpong("ibv_rc_pingpong", &["-c", "-s", "1000000", "-m", "4096"]);
}

#[test]
fn rc_pingpong_with_timestamps() {
    pingpong("ibv_rc_pingpong", &["-t"]);
}

#[test]
fn rc_pingpong_with_the_extended_post_interface() {
    pingpong("ibv_rc_pingpong", &["-N"]);
}

#[test]
fn uc_pingpong() {
    pingpong("ibv_uc_pingpong", &["-c", "-s", "100000", "-m", "256"]);
}

#[test]
fn ud_pingpong() {
    pingpong("ibv_ud_pingpong", &["-c", "-s", "1024"]);
}

#[test]
fn srq_pingpong() {
    pingpong("ibv_srq_pingpong", &["-c", "-q", "3", "-s", "8192"]);
}

#[test]
fn rc_pingpong_with_memory_found_on_demand() {
    pingpong("ibv_rc_pingpong", &["-o", "-P"]);
}

#[test]
fn rc_pingpong_in_the_cards_memory() {
    pingpong("ibv_rc_pingpong", &["-j"]);
}
