//! A net of modelled cards whose keeper is a thread of this process; or cards in slots, which need none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use driver::Device;
use model::attach::{NetOptions, PrivateNet, SegmentCard};
use model::link::Wire;

use crate::card::slots;
use crate::{connect, Options, Side, TestCard};

/// See the module.
pub struct Net {
    /// A connection that keeps the keeper from ending.
    held: Option<SegmentCard>,
    /// Ends after it.
    private: Option<PrivateNet>,
    directory: tempfile::TempDir,
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

    /// A net of one card, and the card.
    pub fn one() -> (Net, Arc<Device<TestCard>>) {
        let net = Net::new(1);
        let card = net.open(0);
        (net, card)
    }

    /// A net of `cards` cards on this wire.
    pub fn on_wire(cards: u8, wire: Wire) -> Net {
        let mut options = NetOptions::from(cards);
        options.link.wire = wire;
        Net::with(options)
    }

    /// A net with options.
    pub fn with(options: impl Into<NetOptions>) -> Net {
        let (options, directory) = (options.into(), tempfile::tempdir().expect("a directory for the socket"));
        let mut net = Net { held: None, private: None, directory, count: options.cards };
        if slots().is_none() {
            let open = |socket: &Path| SegmentCard::open(socket, 0);
            let (private, card) = PrivateNet::start(&net.socket(), options, open).expect("the keeper runs");
            (net.held, net.private) = (Some(card), Some(private));
        }
        net
    }

    /// A net of two cards with 8 GiB for rings and registered memory, for programs under valgrind.
    pub fn small() -> Net {
        Net::with(NetOptions { heap_bytes: 8 << 30, ..NetOptions::from(2) })
    }

    /// The keeper's socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("net/sock")
    }

    /// Opens a card through the driver, if the net has it.
    pub fn try_open(&self, card: u32) -> Option<Arc<Device<TestCard>>> {
        (card < self.count.into()).then(|| self.open(card))
    }

    /// The net with its first two cards.
    pub fn both(self) -> (Net, Arc<Device<TestCard>>, Arc<Device<TestCard>>) {
        let (a, b) = (self.open(0), self.open(1));
        (self, a, b)
    }

    /// Two new queue pairs of its first two cards, connected with each other.
    pub fn pair(&self, options: Options) -> (Side, Side) {
        connect(&self.open(0), &self.open(1), options)
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
