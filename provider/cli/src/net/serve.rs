//! `verbena serve`: cards of a net as PCI functions at UNIX sockets (vfio-user).

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{bail, ensure, Context, Result};
use clap::{Args, ValueEnum};
use model::attach::ServedCard;
use model::congestion::{CcOptions, SwitchOptions};
use model::serve::DmaMode;

use super::runtime::{default_net, Net};
use super::{daemon, keeper};
use crate::args::{CardArgs, CardName, Clock};

/// Options of `verbena serve`; without those that need simulated time.
#[derive(Args)]
#[command(
    mut_arg("clock", |arg| arg.hide(true).value_parser(wall)),
    mut_arg("trace", |arg| arg.hide(true).value_parser(simulated::<PathBuf>)),
    mut_arg("switch", |arg| arg.hide(true).value_parser(simulated::<SwitchOptions>)),
    mut_arg("cc", |arg| arg.hide(true).value_parser(simulated::<CcOptions>))
)]
pub struct ServeArgs {
    /// Where to listen; given several times, each further socket serves the next card
    #[arg(long, value_name = "PATH", required = true)]
    socket: Vec<PathBuf>,
    /// The net; it is started if necessary
    #[arg(long, value_name = "NAME", default_value_t = default_net())]
    net: String,
    /// The card that the first socket serves
    #[arg(long, value_name = "DEVICE", default_value = "verbena0")]
    device: CardName,
    /// How the card reaches the client's memory: `shared`, through the files that the client passes; or
    /// `messages`, each access by a message to the client, so that its IOMMU sees and checks it
    #[arg(long, default_value = "shared", value_parser = ["shared", "messages"])]
    dma: String,
    #[command(flatten)]
    cards: CardArgs,
}

/// An option of simulated time.
fn simulated<T>(_: &str) -> Result<T, &'static str> {
    Err("this needs simulated time, which cannot include the clients of a served card: leave it out")
}

/// The only clock of a served card.
fn wall(text: &str) -> Result<Clock, &'static str> {
    match Clock::from_str(text, false) {
        Ok(Clock::Wall) => Ok(Clock::Wall),
        _ => simulated(text),
    }
}

/// Serves until SIGTERM, SIGINT or SIGHUP.
pub fn serve(args: ServeArgs) -> Result<u8> {
    let mode = if args.dma == "messages" { DmaMode::Messages } else { DmaMode::Shared };
    let net = Net::named(&args.net)?;
    let _held = keeper::ensure(&net, &args.cards)?;
    // Before any thread is started: all of them leave these signals to the wait below.
    let end = daemon::EndSignals::block()?;
    let (mut places, mut threads) = (Vec::new(), Vec::new());
    for (path, index) in args.socket.iter().zip(args.device.0..) {
        let name = CardName(index);
        let card = ServedCard::open(&net.socket(), index)
            .with_context(|| format!("opening {name} of net `{}`", net.name()))?;
        let listener = Arc::new(listen(path)?);
        places.push(Place { path, listener: listener.clone() });
        say!("serving {name} of net `{}` at {}", net.name(), path.display());
        let at = path.clone();
        let thread = std::thread::Builder::new().name(format!("verbena-serve{index}")).spawn(move || {
            let say = |line: &str| model::tell!("verbena: {name} ({}): {line}", at.display());
            if let Err(error) = model::serve::serve(&card, &listener, mode, &say) {
                say(&format!("no longer listening: {error}"));
            }
        })?;
        threads.push((path, thread));
    }
    end.wait()?;
    drop(places);
    for (path, thread) in threads {
        ensure!(thread.join().is_ok(), "the server of {} has panicked", path.display());
    }
    Ok(0)
}

/// Where a card is served, until dropped.
struct Place<'a> {
    path: &'a Path,
    listener: Arc<UnixListener>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.path);
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

/// A socket that only this user can connect to.
fn listen(path: &Path) -> Result<UnixListener> {
    remove_stale(path)?;
    let listener = {
        let _mask = Umask::set(0o177);
        UnixListener::bind(path)
    };
    listener.with_context(|| format!("listening at {} (a path has at most 107 bytes)", path.display()))
}

/// A killed server leaves its socket.
fn remove_stale(path: &Path) -> Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    ensure!(
        meta.file_type().is_socket(),
        "{} exists and is no socket: remove it or choose another path",
        path.display()
    );
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .with_context(|| format!("removing the stale socket {}", path.display())),
        _ => bail!("another process is serving at {} already: choose another path", path.display()),
    }
}

/// The process's file mode mask, until dropped.
struct Umask(rustix::fs::Mode);

impl Umask {
    fn set(mask: u32) -> Umask {
        Umask(rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask)))
    }
}

impl Drop for Umask {
    fn drop(&mut self) {
        rustix::process::umask(self.0);
    }
}
