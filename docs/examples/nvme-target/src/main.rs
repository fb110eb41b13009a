//! An NVMe over Fabrics target on RDMA: an example of an RDMA server in Rust.
//!
//! A host connects an admin queue, and from there as many I/O queues as it likes. Each is an RC connection that the
//! connection manager makes, and has a thread here. A command comes as a message. Its data are fetched from the host's
//! memory by RDMA READ, or put there by RDMA WRITE, and the completion is a message back.
//!
//! | file | idea |
//! |---|---|
//! | [`rdma`] | librdmacm and libibverbs, through `rdma-sys`, as safe Rust: all the unsafe code is there |
//! | [`queue`], [`step`] | a queue: what comes, what is fetched, what is sent |
//! | [`binding`] | what both sides say when they connect |
//! | [`capsule`] | commands, and where their data are |
//! | [`status`] | completions |
//! | [`target`] | Connect, and the controllers |
//! | [`controller`] | properties, features, Keep Alive |
//! | [`admin`], [`identify`], [`discovery`] | commands of admin queues |
//! | [`io`] | commands of I/O queues |
//! | [`namespace`] | where the blocks are |

mod admin;
mod binding;
mod capsule;
mod controller;
mod discovery;
mod identify;
mod io;
mod namespace;
mod queue;
mod rdma;
mod status;
mod step;
mod target;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use clap::Parser;
use namespace::Namespace;
use queue::Queue;
use target::Target;

/// Serves a file, or memory, to NVMe over Fabrics hosts, over RDMA.
#[derive(Parser)]
struct Options {
    /// Where to listen: an address of a card, or 0.0.0.0 for all cards
    #[arg(long, default_value = "0.0.0.0:4420")]
    listen: SocketAddr,
    /// Name of the subsystem
    #[arg(long, default_value = "nqn.2014-08.org.example:disk")]
    nqn: String,
    /// What to serve: a file of blocks of 512 bytes
    #[arg(long)]
    file: Option<PathBuf>,
    /// What to serve, if no file: so many MiB of memory
    #[arg(long, default_value_t = 64, conflicts_with = "file")]
    memory: u64,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let namespace = match &options.file {
        Some(path) => Namespace::open(path).with_context(|| path.display().to_string())?,
        None => Namespace::in_memory(options.memory << 20).context("memory")?,
    };
    let mut listener = rdma::Listener::bind(options.listen)
        .with_context(|| format!("listening at {}: is that an address of a card?", options.listen))?;
    println!("{}: {} blocks, at {}", options.nqn, namespace.blocks(), options.listen);
    let target = Arc::new(Target::new(options.nqn, namespace));
    loop {
        let request = listener.next().context("the connection manager")?;
        match Queue::accept(&mut listener, request, &target) {
            Ok(Some(queue)) => {
                // Without a thread it is dropped, which ends the connection. The others go on.
                if let Err(why) = thread::Builder::new().spawn(|| queue.serve()) {
                    println!("a connection gets no thread: {why}");
                }
            }
            Ok(None) => {}
            Err(why) => println!("a connection fails: {why}"),
        }
    }
}
