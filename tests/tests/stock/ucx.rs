//! Stock UCX, which MPI and many others use, over verbena's verbs.

use tests::stock::{free_port, need, Both, Program, StockNet, LIMIT};

/// `ucx_perftest` as server and client. (`rc_v` is `rc_verbs` with `ud_verbs` for setting connections up.)
fn perftest(net: &StockNet, options: &[&str], transport: &str, test: &str) -> String {
    need("ucx_perftest");
    let port = free_port();
    let side = |host: Option<&str>, device: &str| {
        let port = port.to_string();
        let mut arguments = vec!["-t", test, "-n", "1000", "-w", "10", "-s", "4000", "-p", &port];
        arguments.extend(host);
        let mut command = net.command(options, "ucx_perftest", &arguments);
        command
            .env("UCX_TLS", format!("{transport},self"))
            .env("UCX_NET_DEVICES", format!("{device}:1"))
            .env("UCX_WARN_UNUSED_ENV_VARS", "n");
        Program::start(command)
    };
    let mut server = side(None, "verbena0");
    server.expect_listening(port);
    let both = Both::of([side(Some("localhost"), "verbena1"), server], LIMIT);
    both.unwrap_or_else(|error| panic!("{transport}: {error}")).client.said
}

#[test]
fn messages_and_puts_over_rc_and_ud() {
    let net = StockNet::new();
    for transport in ["rc_v", "ud_verbs"] {
        for test in ["tag_lat", "tag_bw", "ucp_put_lat", "ucp_put_bw"] {
            let said = perftest(&net, &[], transport, test);
            assert!(said.contains("Final:"), "{transport} {test}: {said}");
        }
    }
}

#[test]
fn messages_as_real_frames() {
    let net = StockNet::new();
    for transport in ["rc_v", "ud_verbs"] {
        let said = perftest(&net, &["--wire", "exact"], transport, "tag_bw");
        assert!(said.contains("Final:"), "{transport}: {said}");
    }
}

#[test]
fn it_sees_the_cards() {
    need("ucx_info");
    let net = StockNet::new();
    let said = net.run("ucx_info", &["-d"], LIMIT);
    for line in ["Device: verbena0:1", "Device: verbena1:2", "Transport: rc_verbs", "Transport: ud_verbs"] {
        assert!(said.contains(line), "no `{line}` in:\n{said}");
    }
}

#[test]
fn messages_in_simulated_time() {
    let net = StockNet::new();
    for transport in ["rc_v", "ud_verbs"] {
        for test in ["tag_lat", "ucp_put_bw"] {
            let said = perftest(&net, &["--clock", "virtual"], transport, test);
            assert!(said.contains("Final:"), "{transport} {test}: {said}");
        }
    }
}
