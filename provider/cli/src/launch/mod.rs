//! Starts programs so that stock libibverbs finds the cards: `run`, `up` and `down`.
//!
//! | module | what it does |
//! |---|---|
//! | [`run`], [`way`] | one program; the ways in which it sees the cards |
//! | [`shell`] | an interactive shell in the program's place |
//! | [`up`] | the whole container |
//! | [`tree`], [`sysfs`] | the files under `/sys/class` that libibverbs and other programs read |
//! | [`slots`] | the same for cards in PCI slots |
//! | [`mounts`], [`namespace`] | how a program sees these files |
//! | [`live`] | files that change while it runs: GIDs, counters |
//! | [`network`], [`interfaces`], [`rtnetlink`] | the network interfaces that it sees, and the GIDs of their addresses |
//! | [`fallback`] | without namespaces: by environment variables |
//! | [`seccomp`] | sockets that would ask the kernel's RDMA subsystem |
//! | [`part_id`] | which card programs take it for |
//! | [`provider_so`] | where the provider and the clock library are |

pub mod fallback;
pub mod interfaces;
pub mod live;
pub mod mounts;
pub mod namespace;
pub mod network;
pub mod part_id;
pub mod provider_so;
pub mod rtnetlink;
pub mod run;
pub mod seccomp;
pub mod shell;
pub mod slots;
pub mod sysfs;
pub mod tree;
pub mod up;
pub mod way;

/// True when a program of that name is in PATH.
pub fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
