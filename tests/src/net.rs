//! A net of modelled cards whose keeper is a thread of this process; or cards in slots, which need none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use driver::Device;
use model::attach::{run_keeper, run_keeper_of, NetOptions, SegmentCard};
use model::link::Wire;
use model::segment::KeeperError;

use crate::card::slots;
use crate::TestCard;

/// See the module.
pub struct Net {
    /// A connection that keeps the keeper from ending.
    held: Option<SegmentCard>,
    directory: tempfile::TempDir,
    keeper: Option<std::thread::JoinHandle<()>>,
    /// Cards.
    count: u8,
}

/// A function in a slot is opened once: a second open gives the same device.
static OPEN: Mutex<BTreeMap<u32, Weak<Device<TestCard>>>> = Mutex::new(BTreeMap::new());

impl Net {
    /// A net of `cards` cards. `VERBENA_TEST_WIRE=exact` runs the tests on frames.
    pub fn new(cards: u8) -> Net {
        let wire = std::env::var("VERBENA_TEST_WIRE").ok();
        Net::on_wire(cards, wire.map(|wire| wire.parse().expect("VERBENA_TEST_WIRE")).unwrap_or_default())
    }

    /// A net of `cards` cards on this wire.
    pub fn on_wire(cards: u8, wire: Wire) -> Net {
        let mut options = NetOptions::from(cards);
        options.link.wire = wire;
        Net::with(options)
    }

    /// A net with options.
    pub fn with(options: impl Into<NetOptions>) -> Net {
        Net::kept(options.into(), run_keeper)
    }

    /// A net of two cards with 8 GiB for rings and registered memory, for programs under valgrind.
    pub fn small() -> Net {
        Net::kept(2.into(), |socket, options| run_keeper_of(socket, options, 8 << 30))
    }

    fn kept(options: NetOptions, keep: fn(&Path, NetOptions) -> Result<(), KeeperError>) -> Net {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory for the socket");
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).expect("chmod");
        let count = options.cards;
        if slots().is_some() {
            return Net { held: None, directory, keeper: None, count };
        }
        let socket = directory.path().join("net.sock");
        let at = socket.clone();
        let keeper = std::thread::spawn(move || keep(&at, options).expect("the keeper runs"));
        let until = Instant::now() + Duration::from_secs(30);
        // The socket's file is there a moment before anybody listens.
        let held = loop {
            match SegmentCard::open(&socket, 0) {
                Ok(card) => break Some(card),
                Err(error) => assert!(Instant::now() < until, "no card within 30 s: {error}"),
            }
            assert!(!keeper.is_finished(), "the keeper ended before anybody came");
            std::thread::sleep(Duration::from_millis(1));
        };
        Net { held, directory, keeper: Some(keeper), count }
    }

    /// The keeper's socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("net.sock")
    }

    /// Opens a card through the driver, if the net has it.
    pub fn try_open(&self, card: u32) -> Option<Arc<Device<TestCard>>> {
        (card < self.count.into()).then(|| self.open(card))
    }

    /// Opens a card through the driver.
    pub fn open(&self, card: u32) -> Arc<Device<TestCard>> {
        let open = || {
            let card = TestCard::open(&self.socket(), card).expect("the card opens");
            Device::open(card).expect("the card comes up")
        };
        if slots().is_none() {
            return open();
        }
        assert!(card < self.count.into(), "the net has {} cards", self.count);
        let mut known = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let device = known.get(&card).and_then(Weak::upgrade).unwrap_or_else(open);
        known.insert(card, Arc::downgrade(&device));
        device
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.held = None;
        // The keeper ends by itself when the last device is closed.
        let Some(keeper) = self.keeper.take() else { return };
        let until = Instant::now() + Duration::from_secs(30);
        while !keeper.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !std::thread::panicking() {
            assert!(keeper.is_finished(), "the keeper did not end within 30 s of its last connection");
            keeper.join().expect("the keeper ended well");
        }
    }
}
