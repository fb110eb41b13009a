//! Which card this provider drives, and where to find it: in a segment, or in a PCI slot.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use driver::backend::vfio::Vfio;
use model::attach::{Follower, SegmentCard, Task, Timeline};

/// The backend. A branch of the data path that always goes the same way costs next to nothing, and
/// all above it is compiled once.
// One of them for each open device: there is nothing to be won by a box.
#[allow(clippy::large_enum_variant)]
pub enum Card {
    /// A card in a shared segment.
    Segment(SegmentCard),
    /// A card in a PCI slot.
    Vfio(Vfio),
}

/// The same call for each kind of card.
macro_rules! each {
    ($self:ident, $card:ident => $call:expr) => {
        match $self {
            Card::Segment($card) => $call,
            Card::Vfio($card) => $call,
        }
    };
}

impl Card {
    /// Lets the connection manager of the card's net do something. `None`: it has none, or is out of order.
    pub fn manager<T: Task>(&self, task: T) -> Option<T::Answer> {
        match self {
            Card::Segment(card) => card.manager(task),
            Card::Vfio(_) => None,
        }
    }

    /// Makes a thread of this process that waits for interrupt `vector` check again.
    pub fn wake(&self, vector: u32) {
        each!(self, card => card.wake(vector));
    }

    fn in_net(socket: &Path, number: u32) -> Result<Card, String> {
        let card = SegmentCard::open(socket, number);
        card.map(Card::Segment).map_err(|error| format!("{error} (socket {})", socket.display()))
    }

    /// The first card of the net that a device is of, which it names in its directory.
    pub fn of_net(dir: &Path) -> Result<Card, String> {
        match Place::of(dir) {
            Place::Net(socket) => Card::in_net(&socket, 0),
            _ => Err("the device is in a slot, and not of a net".into()),
        }
    }

    /// Opens what the device's directory in sysfs names (see [`Place`]): card `number` of a net, or a slot.
    pub fn open(dir: &Path, number: u32) -> Result<Card, String> {
        match Place::of(dir) {
            Place::Net(socket) => Card::in_net(&socket, number),
            Place::Slot(address) => Vfio::open(&address).map(Card::Vfio).map_err(|error| error.to_string()),
            Place::Unknown(text) => Err(format!(
                "{text:?} names no device: write vfio: and a PCI address, as in vfio:0000:01:00.0"
            )),
        }
    }

    /// This process's part in the simulated time that the card runs in, if it does.
    pub fn timeline(&self) -> Option<Timeline> {
        match self {
            Card::Segment(card) => card.timeline(),
            Card::Vfio(_) => None,
        }
    }

    /// The place of a thread about to be started that waits for the card's interrupts, in simulated time.
    pub fn follower(&self) -> Option<Follower> {
        match self {
            Card::Segment(card) => card.follower(),
            Card::Vfio(_) => None,
        }
    }
}

driver::forward_card!(each for Card);

/// An open card function.
pub type Device = driver::Device<Card>;
/// Protection domain.
pub type Pd = driver::Pd<Card>;
/// Memory region.
pub type Mr = driver::Mr<Card>;
/// Part of the card's own memory.
pub type Dm = driver::Dm<Card>;
/// Memory window.
pub type Mw = driver::Mw<Card>;
/// Completion queue.
pub type Cq = driver::Cq<Card>;
/// Shared receive queue.
pub type Srq = driver::Srq<Card>;
/// Queue pair.
pub type Qp = driver::Qp<Card>;
/// Flow rule.
pub type Flow = driver::Flow<Card>;
/// Indirection table.
pub type Table = driver::Table<Card>;
/// XRC domain.
pub type Xrcd = driver::Xrcd<Card>;

/// The interrupt vector of the events.
const VECTOR: u32 = 0;

/// Ends a [wait for events](driver::Device::wait_for_event) of another thread, or its next one.
pub fn wake_events(device: &Device) {
    device.card().wake(VECTOR);
}

/// Where a device is to be found.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// In the net whose keeper listens at this socket: `VERBENA_SOCKET`, or what the device's
    /// directory in sysfs says (`verbena/socket`, written by the launcher), or the user's default net.
    Net(PathBuf),
    /// In the slot with this PCI address: `verbena/device` in that directory says `vfio:` and it.
    Slot(String),
    /// `verbena/device` says something else.
    Unknown(String),
}

impl Place {
    fn of(dir: &Path) -> Place {
        let Ok(text) = std::fs::read_to_string(dir.join("verbena/device")) else {
            return Place::Net(pick_socket(std::env::var_os("VERBENA_SOCKET"), dir));
        };
        match text.trim().strip_prefix("vfio:") {
            Some(address) => Place::Slot(address.into()),
            None => Place::Unknown(text.trim().into()),
        }
    }
}

fn pick_socket(socket: Option<OsString>, device_dir: &Path) -> PathBuf {
    if let Some(socket) = socket.filter(|socket| !socket.is_empty()) {
        return socket.into();
    }
    match std::fs::read_to_string(device_dir.join("verbena/socket")) {
        Ok(text) if !text.trim().is_empty() => text.trim().into(),
        _ => model::attach::default_socket("default"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_net() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(pick_socket(Some("/a/b.sock".into()), dir.path()), PathBuf::from("/a/b.sock"));
        let default = pick_socket(None, dir.path());
        assert!(default.ends_with("default.sock"));
        assert_eq!(pick_socket(Some(OsString::new()), dir.path()), default);
        std::fs::create_dir(dir.path().join("verbena")).unwrap();
        std::fs::write(dir.path().join("verbena/socket"), "/run/net.sock\n").unwrap();
        assert_eq!(pick_socket(None, dir.path()), PathBuf::from("/run/net.sock"));
        assert!(matches!(Place::of(dir.path()), Place::Net(_)));
        std::fs::write(dir.path().join("verbena/device"), "vfio:0000:01:00.0\n").unwrap();
        assert_eq!(Place::of(dir.path()), Place::Slot("0000:01:00.0".into()));
        std::fs::write(dir.path().join("verbena/device"), "0000:01:00.0").unwrap();
        let Err(error) = Card::open(dir.path(), 0) else { panic!("opened") };
        assert!(error.contains("as in vfio:"), "{error}");
    }
}
