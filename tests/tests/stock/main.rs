//! Stock programs, as separate processes on modelled cards.
//!
//! | module | programs, or what is seen through them |
//! |---|---|
//! | `bindings` | the suites of Rust bindings of verbs |
//! | `buffers` | when buffers may be used again |
//! | `capture` | `verbena capture` |
//! | `delays` | frames that a fault delays |
//! | `disabled` | ports that a program disables |
//! | `dpdk` | `dpdk-testpmd` |
//! | `exact_wire` | frames, with faults, recorded |
//! | `examples` | the C++ examples of the book |
//! | `gids` | GIDs of VLANs and of RoCE version 1 |
//! | `http` | a TCP/IP stack on each core |
//! | `ibverbs_utils` | listings and ping-pongs |
//! | `kernel` | the kernel on the same port |
//! | `lag` | two ports that are one |
//! | `links` | cables that are pulled |
//! | `memory` | registered memory that is unmapped, or shared |
//! | `network` | interfaces and addresses |
//! | `nvme` | NVMe over Fabrics |
//! | `pcap` | files of frames, for the others |
//! | `peers` | `l3fwd` and Open vSwitch |
//! | `perftest` | every test, with the options that people use |
//! | `processes` | processes that die, fork, have threads, share a net, or do nothing |
//! | `programs` | the programs of Debian 12 |
//! | `pyverbs` | rdma-core's own tests |
//! | `raw_ethernet` | perftest's raw tests |
//! | `rdmacm` | connections by address |
//! | `releases` | other releases of libibverbs |
//! | `sysfs` | what tools read from sysfs, or ask the kernel for |
//! | `ucx` | UCX |
//! | `udp` | ports that lead to each other by UDP or frames |
//! | `unprivileged` | an ordinary user's programs |
//! | `verbs` | C programs of `tests/c` on stock verbs |
//! | `xrc` | extended reliable connections |

mod bindings;
mod buffers;
mod capture;
mod delays;
mod disabled;
mod dpdk;
mod exact_wire;
mod examples;
mod gids;
mod http;
mod ibverbs_utils;
mod kernel;
mod lag;
mod links;
mod memory;
mod network;
mod nvme;
mod pcap;
mod peers;
mod perftest;
mod processes;
mod programs;
mod pyverbs;
mod raw_ethernet;
mod rdmacm;
mod releases;
mod sysfs;
mod ucx;
mod udp;
mod unprivileged;
mod verbs;
mod xrc;
