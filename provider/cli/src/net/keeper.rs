//! The keeper of a net: finding it, starting it, holding on to it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure, Context, Result};
use clap::Args;
use model::attach::{run_keeper, NetOptions};
use model::link::LinkOptions;
use model::profile::Profile;
use model::segment::{AttachError, Segment};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{flock, FlockOperation};
use serde::{Deserialize, Serialize};

use super::daemon;
use super::runtime::Net;
use super::wire::{whole_path, written};
use crate::args::{CardArgs, Clock};
use crate::files;
use crate::launch::namespace::{self, Kind};
use crate::launch::{fallback, live, network};
use crate::signals;

/// A namespace waits for the kernel's locks, long where many are made and removed.
const START_TIME: Duration = Duration::from_secs(60);
const END_TIME: Duration = Duration::from_secs(30);
const LOCK_PAUSE: Duration = Duration::from_millis(5);
const DEFAULT_CARDS: u32 = 2;
const DEFAULT_PROFILE: &str = "f10a";

/// What is on a net.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NetInfo {
    pub cards: u32,
    pub card: String,
    /// The wire between them.
    #[serde(with = "written")]
    pub wire: LinkOptions,
    /// The time that programs see.
    #[serde(default)]
    pub clock: Clock,
    pub trace: Option<PathBuf>,
}

/// A net whose keeper runs, and stays while `hold` is open.
pub struct Held {
    /// Connection to the keeper, inherited by programs that are started.
    pub hold: OwnedFd,
    /// The namespaces of its programs: network, user.
    pub namespaces: Vec<OwnedFd>,
    pub info: NetInfo,
}

/// Options of `verbena keeper`. The rest is in the net's [`NetInfo`].
#[derive(Args)]
pub struct KeeperArgs {
    #[arg(long)]
    net: String,
}

/// Options of `verbena hold`.
#[derive(Args)]
pub struct HoldArgs {
    /// The inherited connection to the keeper.
    #[arg(long)]
    fd: i32,
}

/// True when a keeper answers at that socket.
fn answers(socket: &Path) -> bool {
    Segment::ask(socket).is_ok()
}

/// Holds the net, after starting its keeper if it has none.
pub fn ensure(net: &Net, wanted: &CardArgs) -> Result<Held> {
    // Two starters at once would race for the socket.
    let _alone = lock(net)?;
    let socket = net.socket();
    let start = Instant::now();
    let mut starting: Option<(Child, String)> = None;
    loop {
        match Segment::hold(&socket) {
            // Its programs have ended, and so will it: it is not joined, whatever its options.
            Ok(hold) if hold.alone && starting.is_none() => {
                drop(hold);
                std::thread::sleep(LOCK_PAUSE);
                if start.elapsed() > START_TIME {
                    let (name, limit) = (net.name(), START_TIME.as_secs());
                    bail!("waited {limit} s for the last net `{name}` to end, whose programs have ended");
                }
            }
            Ok(hold) => {
                let info = read_info(net)?;
                if starting.is_none() {
                    check_wanted(net, wanted, &info)?;
                }
                return Ok(Held { hold: hold.connection, namespaces: hold.namespaces, info });
            }
            Err(AttachError::NoKeeper(_) | AttachError::Closed(_)) => match starting.as_mut() {
                None => starting = Some((start_keeper(net, wanted)?, String::new())),
                Some((child, said)) => {
                    if !still_starting(net, child, said)? {
                        starting = None;
                    }
                }
            },
            Err(error) => return Err(error.into()),
        }
        signals::check()?;
        if start.elapsed() > START_TIME {
            bail!(
                "the keeper of net `{}` did not answer at {} within {} s; \
                 `verbena doctor` looks for the reason",
                net.name(),
                socket.display(),
                START_TIME.as_secs()
            );
        }
    }
}

/// The lock of the directory of nets.
fn lock(net: &Net) -> Result<File> {
    let path = net.dir().join("lock");
    let file = File::create(&path).context("opening the lock file")?;
    let start = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error).context("locking the directory of nets"),
        }
        signals::check()?;
        ensure!(
            start.elapsed() <= START_TIME,
            "waited {} s for {}, which another verbena holds while it starts a net: is one stopped (Ctrl-Z)?",
            START_TIME.as_secs(),
            path.display()
        );
        std::thread::sleep(LOCK_PAUSE);
    }
}

fn start_keeper(net: &Net, wanted: &CardArgs) -> Result<Child> {
    let info = NetInfo {
        cards: wanted.cards.unwrap_or(DEFAULT_CARDS),
        card: wanted.card.clone().unwrap_or(DEFAULT_PROFILE.to_owned()),
        wire: wanted.wire.decide()?,
        clock: wanted.clock.unwrap_or_default(),
        trace: wanted.trace.as_deref().map(|path| whole_path("--trace", path)).transpose()?,
    };
    let (timing, _) = choose(&info.card, info.clock)?;
    sweep(net.dir());
    let at = wanted.wire.pcap_at.iter().map(|card| (card.0, format!("--pcap-at {card}")));
    let ports = wanted.wire.port.iter().map(|spec| (spec.port.card.into(), format!("--port {spec}")));
    let gids = wanted.wire.gid.iter().map(|spec| (spec.port.card.into(), format!("--gid {spec}")));
    if let Some((_, option)) = at.chain(ports).chain(gids).find(|(card, _)| *card >= info.cards) {
        bail!("{option}: the net has the cards verbena0 to verbena{}", info.cards - 1);
    }
    if let Some(faults) = &wanted.wire.fault {
        faults.check_cards(info.cards).map_err(|error| anyhow!("--fault: {error}"))?;
    }
    if !info.wire.ports.is_empty() && info.clock == Clock::Virtual {
        bail!("--port: in simulated time no port leaves the net; leave out --port, or --clock virtual");
    }
    ensure!(
        info.trace.is_none() || info.clock != Clock::Wall,
        "--trace records simulated time: add --clock virtual"
    );
    ensure!(
        wanted.wire.switch.is_none() || info.clock != Clock::Wall,
        "--switch needs --clock virtual: by the wall clock packets have no rate, and so no queues"
    );
    if let (Some(cc), Some(profile)) = (&wanted.wire.cc, timing) {
        let rate = profile.wire.rate_bps.bits_per_second();
        cc.check_rate(rate).map_err(|error| anyhow!("--cc: {error}"))?;
    }
    files::write(&info_file(net), serde_json::to_string(&info)?)?;
    daemon::spawn(&["keeper".to_owned(), format!("--net={}", net.name())], None)
}

/// Removes what keepers have left that were killed, of whatever name. With the directory's lock, so that none is just
/// being started.
fn sweep(directory: &Path) {
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let (sockets, rest): (Vec<_>, Vec<_>) =
        files.partition(|path| path.extension().is_some_and(|e| e == "sock"));
    for socket in sockets {
        // A listening socket refuses this, being of another type, and its owner is not woken.
        let error = UnixStream::connect(&socket).err();
        if error.is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            let _ = fs::remove_file(&socket);
        }
    }
    for note in rest.iter().filter(|path| !path.with_extension("sock").exists()) {
        match note.extension().and_then(|extension| extension.to_str()) {
            Some("json") => drop(fs::remove_file(note)),
            Some("live") => live::remove(note),
            Some("sysfs") => drop(fs::remove_dir_all(note)),
            _ => {}
        }
    }
}

/// Waits a moment. False when the keeper has ended without complaint: on a busy
/// machine it may do so before we come to hold it. Fails with its complaint.
fn still_starting(net: &Net, child: &mut Child, said: &mut String) -> Result<bool> {
    // The process that we started ends at once: it leaves the keeper to init.
    let _ = child.try_wait();
    let Some(stderr) = child.stderr.as_mut() else {
        return Ok(true);
    };
    let mut polled = [PollFd::new(&*stderr, PollFlags::IN)];
    let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    if rustix::event::poll(&mut polled, Some(&pause)).unwrap_or(0) == 0 {
        return Ok(true);
    }
    let mut buffer = [0; 4096];
    match stderr.read(&mut buffer).unwrap_or(0) {
        0 => {
            let _ = child.wait();
            let said = said.trim();
            if said.is_empty() {
                return Ok(false);
            }
            bail!("the keeper of net `{}` could not start: {said}", net.name());
        }
        count => said.push_str(&String::from_utf8_lossy(&buffer[..count])),
    }
    Ok(true)
}

fn info_file(net: &Net) -> PathBuf {
    net.dir().join(format!("{}.json", net.name()))
}

fn read_info(net: &Net) -> Result<NetInfo> {
    let path = info_file(net);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
}

/// Refuses options that a running net does not have.
fn check_wanted(net: &Net, wanted: &CardArgs, info: &NetInfo) -> Result<()> {
    // Before what the net has instead: the name may be a mistake.
    wanted.card.as_deref().map(Profile::load).transpose()?;
    let trace = wanted.trace.as_deref().map(|path| whole_path("--trace", path)).transpose()?;
    let difference = if let Some(cards) = wanted.cards.filter(|&cards| cards != info.cards) {
        format!("{} cards, not {cards}: leave out --cards", info.cards)
    } else if let Some(card) = wanted.card.as_ref().filter(|&card| *card != info.card) {
        format!("{} cards, not {card}: leave out --card", info.card)
    } else if let Some(clock) = wanted.clock.filter(|&clock| clock != info.clock) {
        format!("the {} clock, not {clock}: leave out --clock", info.clock)
    } else if trace.is_some() && trace != info.trace {
        let has = info.trace.as_ref().map_or("none".to_owned(), |path| path.display().to_string());
        format!("the trace {has}: leave out --trace")
    } else if let Some(difference) = wanted.wire.differs(&info.wire)? {
        difference
    } else {
        return Ok(());
    };
    bail!(
        "net `{}` is running with {difference}, name another net with --net, or end its programs first",
        net.name()
    )
}

/// `verbena keeper`: serves the net while a program holds it.
pub fn keeper(args: KeeperArgs) -> Result<u8> {
    daemon::orphan()?;
    daemon::allow_descriptors();
    let net = Net::named(&args.net)?;
    let served = serve(&net);
    if let Err(error) = &served {
        model::tell!("{error:#}");
    }
    // A starter that waits for our end has the lock that tidying needs.
    daemon::close_stderr();
    tidy(&net);
    Ok(served.is_err().into())
}

fn serve(net: &Net) -> Result<()> {
    let info = read_info(net)?;
    let (clock, reorder) = choose(&info.card, info.clock)?;
    let (cards, link) = (u8::try_from(info.cards)?, info.wire);
    // Without them the launchers do what they can and say what is lost.
    let user = if namespace::root_may_mount() { None } else { namespace::make_user().ok() };
    // The files of a net that is running are its keeper's.
    let (files, ours) = (live::directory(&net.socket()), !answers(&net.socket()));
    let counters = ours.then(|| live::Counters::show(files.clone(), cards).ok()).flatten();
    // Ports that lead outside have addresses of the host, and so have their programs.
    let inside = link.ports.is_empty();
    let make = || network::make(user.as_ref().map(AsFd::as_fd), cards).ok();
    let network = inside.then(make).flatten().and_then(|mut made| {
        let shown = counters.is_some() && made.interfaces.show(files, cards, &link.gids).is_ok();
        shown.then_some(made)
    });
    if let Some(made) = &network {
        // Whoever has started this process may have done so in a namespace that is to end before the net. Who may not leave
        // it stays.
        let _ = namespace::join(made.namespace.as_fd(), Kind::Network);
    }
    let counted = counters.map(|counters| Box::new(counters) as _);
    let (network, addresses) = network.map(|made| (made.namespace, Box::new(made.interfaces) as _)).unzip();
    let namespaces = user.into_iter().chain(network).collect();
    let trace = info.trace;
    run_keeper(
        &net.socket(),
        NetOptions { link, clock, reorder, trace, namespaces, addresses, counted, ..NetOptions::from(cards) },
    )?;
    Ok(())
}

/// Waits until the net's keeper has ended, and with it all that is written about the net.
pub fn ended(net: &Net) -> Result<()> {
    let start = Instant::now();
    while net.socket().exists() && answers(&net.socket()) {
        ensure!(
            start.elapsed() <= END_TIME,
            "waited {} s for the keeper of net `{}` to end",
            END_TIME.as_secs(),
            net.name()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The timing of a net, if it runs in simulated time, and the packets that a card keeps out of order, which is all that the
/// wall clock shows of a profile.
fn choose(card: &str, clock: Clock) -> Result<(Option<Profile>, u32)> {
    let profile = Profile::load(card)?.profile;
    let reorder = profile.rx.reorder_packets;
    match clock {
        Clock::Virtual => Ok((Some(profile), reorder)),
        Clock::Wall if card == DEFAULT_PROFILE || reorder != 0 => Ok((None, reorder)),
        Clock::Wall => bail!(
            "card `{card}` differs from {DEFAULT_PROFILE} in its timing, which the wall clock does not \
             show: leave out --card, or add --clock virtual"
        ),
    }
}

/// Removes the files of the net, unless it is running again already.
fn tidy(net: &Net) {
    let Ok(_alone) = lock(net) else {
        return;
    };
    if !net.socket().exists() {
        let _ = fs::remove_file(info_file(net));
        live::remove(&live::directory(&net.socket()));
        let _ = fs::remove_dir_all(fallback::directory(&net.socket()));
    }
}

/// `verbena hold`: keeps an inherited connection until it or the keeper ends.
pub fn hold_until_killed(args: HoldArgs) -> Result<u8> {
    let mut connection = daemon::inherited(args.fd)?;
    let mut buffer = [0; 64];
    while connection.read(&mut buffer).is_ok_and(|count| count > 0) {}
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_with_other_cards_is_refused() {
        let net = Net::named("test-check").unwrap();
        let info = NetInfo {
            cards: 2,
            card: "f10a".to_owned(),
            wire: LinkOptions::default(),
            clock: Clock::Wall,
            trace: None,
        };
        let wanted = |cards, card: Option<&str>| CardArgs {
            cards,
            card: card.map(str::to_owned),
            ..CardArgs::default()
        };
        check_wanted(&net, &wanted(None, None), &info).unwrap();
        check_wanted(&net, &wanted(Some(2), Some("f10a")), &info).unwrap();
        let error = check_wanted(&net, &wanted(Some(3), None), &info).unwrap_err();
        assert!(error.to_string().contains("running with 2 cards, not 3"));
        assert!(check_wanted(&net, &wanted(None, Some("cx4lx")), &info).is_err());
    }
}
