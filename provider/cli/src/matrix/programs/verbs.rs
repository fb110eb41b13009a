//! Programs that need nothing but verbs: ibverbs-utils and perftest, whose sides find each other over TCP.

use crate::matrix::row::{Pair, Proof, Ready, Row, Way};

/// Each side has a card of its own.
const SOCKETS: Way = Way::Pair(Pair {
    server: "-d verbena0 -p PORT",
    client: "-d verbena1 -p PORT localhost",
    ready: Ready::Tcp,
    by: None,
});

const fn perftest(program: &'static str, options: &'static str) -> Row {
    Row { proof: Proof::Figure, ..Row::alone("perftest", program, options, "").by(SOCKETS) }
}

/// perftest posts by the `ibv_wr_*` calls, and sends inline, on cards that it knows. Of these it asks more than verbs
/// from release 25 on, unless the QP is UC or UD: `mlx5dv_query_device`, which only a card of NVIDIA's answers.
const fn perftest_wr(program: &'static str, options: &'static str) -> Row {
    perftest(program, options).with("--as cx5")
}

const fn tool(program: &'static str, options: &'static str, says: &'static str) -> Row {
    Row::alone("ibverbs-utils", program, options, says)
}

const fn pingpong(program: &'static str, options: &'static str) -> Row {
    tool(program, options, "usec/iter").by(SOCKETS)
}

pub const ROWS: &[Row] = &[
    tool("ibv_devices", "", "verbena1"),
    tool("ibv_devinfo", "-v -d verbena1", "PORT_ACTIVE"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -c"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -c -e"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -c -N"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -t"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -c -s 1000000 -m 4096"),
    pingpong("ibv_uc_pingpong", "-g 1 -n 300 -c"),
    pingpong("ibv_ud_pingpong", "-g 1 -n 300 -c"),
    pingpong("ibv_srq_pingpong", "-g 1 -n 300 -c -e"),
    tool("ibv_xsrq_pingpong", "-g 1 -n 300 -e", "success").by(SOCKETS),
    perftest("ib_write_bw", "-F -n 100"),
    perftest("ib_write_lat", "-F -n 100"),
    perftest("ib_read_bw", "-F -n 100"),
    perftest("ib_read_lat", "-F -n 100"),
    perftest("ib_send_bw", "-F -n 100"),
    perftest("ib_send_lat", "-F -n 100"),
    perftest("ib_atomic_bw", "-F -n 100"),
    perftest("ib_atomic_lat", "-F -n 100"),
    perftest("ib_atomic_bw", "-F -n 100 -A CMP_AND_SWAP"),
    perftest("ib_send_bw", "-F -n 5 -a"),
    perftest("ib_send_bw", "-F -n 100 -b --report-both"),
    perftest("ib_send_bw", "-F -n 50 -e --use-srq -q 4"),
    perftest("ib_send_bw", "-F -n 160 -l 16 --recv_post_list 16"),
    perftest("ib_send_bw", "-F -n 50 -c UD -s 1024"),
    perftest("ib_send_lat", "-F -n 50 -c UC -e"),
    perftest("ib_write_bw", "-F -n 50 -q 16 -b"),
    perftest("ib_write_bw", "-F -n 50 -x 0 -i 2 -m 1024"),
    perftest("ib_write_bw", "-F -D 1"),
    perftest_wr("ib_write_lat", "-F -n 50 -c UC -I 64 -s 64"),
    perftest_wr("ib_send_lat", "-F -n 50 -c UC -I 64 -s 64"),
    perftest_wr("ib_send_bw", "-F -n 100 -c UD -s 1024"),
    perftest("ib_write_bw", "-F -n 100 -c XRC"),
    perftest("ib_send_bw", "-F -n 50 -c XRC -b -q 2"),
    perftest("ib_read_bw", "-F -n 100 -c XRC"),
    perftest("ib_atomic_bw", "-F -n 100 -c XRC"),
    perftest("ib_write_bw", "-F -n 100").with("--wire exact"),
    perftest("ib_send_bw", "-F -n 100").with("--clock virtual"),
    perftest("ib_write_lat", "-F -n 100").with("--clock virtual"),
];
