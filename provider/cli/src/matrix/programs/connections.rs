//! Programs that connect by address, through librdmacm: rdmacm-utils, perftest with `-R`, qperf, fio, libfabric, and QEMU.

use super::scripts;
use crate::matrix::row::{Pair, Proof, Ready, Row, Way, PORT};
use crate::perftest::meeting::EARLY;

/// A server that ends, and its client, which are told the port.
const fn pair(server: &'static str, client: &'static str) -> Pair {
    Pair { server, client, ready: Ready::Rdma(PORT), by: None }
}

const fn connected(pair: Pair, program: &'static str, options: &'static str, says: &'static str) -> Row {
    Row::alone("rdmacm-utils", program, options, says).by(Way::Pair(pair))
}

const RPING: Pair = pair("-s -a 198.18.0.1 -p PORT", "-c -a 198.18.0.1 -p PORT");
/// Since rdma-core 59 (pull request 1622) its thread of events polls the channel and then asks for the event. If the main
/// thread destroys the id in between, the event is gone and the thread waits for another one, as it would in the kernel. In
/// each release the main thread may close the channel before the other one asks, which then says so and fails.
const fn rping(options: &'static str) -> Row {
    let early = &["rdma_get_cm_event: Bad file descriptor"];
    Row { hangs_since: Some(59), early, ..connected(RPING, "rping", options, "rdma-ping-9") }
}

const STREAM: Pair = pair("-p PORT", "-p PORT -s 198.18.0.1");

/// A program that always uses this port.
const fn at(port: u16) -> Pair {
    Pair { ready: Ready::Rdma(port), ..pair("", "-s 198.18.0.1") }
}

/// A client whose server is another program.
const fn served_by(server: &'static str) -> Pair {
    Pair { by: Some(server), ..STREAM }
}

const fn perftest(program: &'static str, options: &'static str) -> Row {
    let row = Row::alone("perftest", program, options, "");
    // Its server tells the client to connect, and then listens. If that takes longer than a connection manager's answer,
    // which is that there is no such service, the client may crash.
    Row { proof: Proof::Figure, early: EARLY, ..row }.by(Way::Pair(pair("-p PORT", "-p PORT 198.18.0.1")))
}

const fn qperf(options: &'static str, says: &'static str) -> Row {
    Row::alone("qperf", "qperf", options, says).by(Way::Script(scripts::QPERF))
}

const fn fio(options: &'static str) -> Row {
    Row::alone("fio", "fio", options, "err= 0").by(Way::Pair(pair(
        // It takes all that comes: the client does not repeat what finds no receive.
        "--name=server --ioengine=rdma --port=PORT --rw=read --iodepth=256",
        "--name=client --ioengine=rdma --port=PORT --rw=write --iodepth=4 --hostname=198.18.0.1",
    )))
}

/// uDAPL finds its interfaces in a file, by names.
const fn dapl(program: &'static str, options: &'static str, says: &'static str, way: Way) -> Row {
    Row::alone("dapl2-utils", program, options, says)
        .within("DAT_OVERRIDE=dat.conf")
        .reading(&[("dat.conf", include_str!("../../../matrix/dat.conf"))])
        .by(way)
}

const DTEST: Pair = Pair {
    ready: Ready::Says("waiting for client connection"),
    ..pair("-P server", "-P client -h 198.18.0.1")
};

const fn libfabric(options: &'static str) -> Row {
    let pair = Pair { ready: Ready::Tcp, ..pair("-B PORT", "-P PORT 198.18.0.1") };
    Row::alone("libfabric-bin", "fi_pingpong", options, "MB/sec").by(Way::Pair(pair))
}

pub const ROWS: &[Row] = &[
    rping("-v -V -C 10"),
    rping("-v -V -C 10 -q -S 60000"),
    rping("-v -V -C 10").with("--wire exact"),
    connected(at(7471), "ucmatose", "-c 10 -C 20 -S 1000", "return status 0"),
    connected(at(7471), "ucmatose", "-m -c 10", "return status 0"),
    connected(at(7174), "udaddy", "-c 5 -C 20 -S 1000", "return status 0"),
    connected(
        Pair { ready: Ready::Says("receiving data transfers"), ..pair("-b 198.18.0.1", "-s -b 198.18.0.2") },
        "mckey",
        "-m 239.1.2.3 -C 20 -S 1000",
        "return status 0",
    ),
    connected(served_by("rdma_server"), "rdma_client", "", "rdma_client: end 0"),
    connected(served_by("rdma_xserver"), "rdma_xclient", "-c r", "rdma_xclient: end 0"),
    connected(STREAM, "rstream", "-S 1000 -I 100 -C 10 -T v", "custom"),
    connected(STREAM, "rstream", "-S 1000 -I 100 -C 10 -T v -T b", "custom"),
    connected(STREAM, "riostream", "-S 1000 -I 100 -C 10 -T v", "custom"),
    Row::alone("rdmacm-utils", "rcopy", "FILE 198.18.0.1:COPY", "the copy is the same")
        .by(Way::Script(scripts::RCOPY)),
    perftest("ib_write_bw", "-R -F -n 100"),
    perftest("ib_write_lat", "-R -F -n 100"),
    perftest("ib_read_bw", "-R -F -n 100"),
    perftest("ib_read_lat", "-R -F -n 100"),
    perftest("ib_send_bw", "-R -F -n 100"),
    perftest("ib_send_lat", "-R -F -n 100"),
    perftest("ib_atomic_bw", "-R -F -n 100"),
    perftest("ib_atomic_lat", "-R -F -n 100"),
    perftest("ib_send_bw", "-R -F -n 100 -q 4 -a"),
    perftest("ib_send_bw", "-R -F -n 100 -c UD -s 1024"),
    perftest("ib_write_bw", "-R -F -n 100").with("--wire exact"),
    perftest("ib_write_lat", "-R -F -n 100").with("--clock virtual"),
    qperf("-cm 1 -t 1 rc_lat rc_bw rc_bi_bw", "rc_bi_bw"),
    qperf(
        "-cm 1 -t 1 rc_rdma_read_lat rc_rdma_read_bw rc_rdma_write_lat rc_rdma_write_bw",
        "rc_rdma_write_bw",
    ),
    qperf("-cm 1 -t 1 rc_compare_swap_mr rc_fetch_add_mr", "rc_fetch_add_mr"),
    qperf("-cm 1 -t 1 ver_rc_compare_swap ver_rc_fetch_add", "ver_rc_fetch_add"),
    fio("--verb=send --bs=64k --size=16m --verify=crc32c"),
    fio("--verb=write --bs=64k --size=16m"),
    fio("--verb=read --bs=64k --size=16m"),
    libfabric("-p verbs -e msg -c -I 100 -S all"),
    libfabric("-p verbs;ofi_rxm -e rdm -c -I 100 -S all"),
    libfabric("-p verbs -e dgram -c -I 100"),
    dapl("dtest", "-b 4096", "DAPL Test Complete. PASSED", Way::Pair(DTEST)),
    dapl(
        "dapltest",
        "-T T -D client -s 198.18.0.1 -i 100 -t 2 -w 2 client SR 1024 2 server SR 1024 2",
        "End of Work -- Client Exiting",
        Way::Script(scripts::DAPLTEST),
    ),
    // libiscsi 1.19 uses a struct that it never clears: the C library hands out cleared memory.
    Row::alone(
        "libiscsi-bin",
        "iscsi-test-cu",
        "SCSI.Read16,SCSI.Write16,SCSI.Verify10,SCSI.WriteVerify10,SCSI.WriteVerify16",
        "WriteVerify16",
    )
    .within("MALLOC_PERTURB_=255")
    .by(Way::Script(scripts::ISER)),
    // A target that hears of the source's end before it has loaded all that came gives up (rdma_cm_poll_handler of QEMU's
    // migration/rdma.c), as one on a busy machine may.
    Row {
        early: &["receive cm event, cm event is 10"],
        ..Row::alone("qemu-system-x86", "qemu-system-x86_64", "migrate rdma:", "the guest goes on")
    }
    .by(Way::Script(scripts::MIGRATION)),
];
