//! A net of modelled cards whose keeper is a thread of this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::Device;
use model::attach::{run_keeper, NetOptions, SegmentCard};

/// See the module.
pub struct Net {
    /// A keeper that nobody comes to ends soon; this one is not alone.
    held: Option<SegmentCard>,
    directory: tempfile::TempDir,
    keeper: Option<std::thread::JoinHandle<()>>,
}

impl Net {
    /// A net of `cards` cards.
    pub fn new(cards: u8) -> Net {
        Net::with(cards)
    }

    /// A net with options.
    pub fn with(options: impl Into<NetOptions>) -> Net {
        let options = options.into();
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory for the socket");
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).expect("chmod");
        let socket = directory.path().join("net.sock");
        let at = socket.clone();
        let keeper = std::thread::spawn(move || run_keeper(&at, options).expect("the keeper runs"));
        let until = Instant::now() + Duration::from_secs(5);
        while !socket.exists() {
            assert!(Instant::now() < until, "the keeper's socket did not appear within 5 s");
            std::thread::sleep(Duration::from_millis(1));
        }
        let held = Some(SegmentCard::open(&socket, 0).expect("the first card opens"));
        Net { held, directory, keeper: Some(keeper) }
    }

    /// The keeper's socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("net.sock")
    }

    /// Opens a card through the driver.
    pub fn open(&self, card: u32) -> Arc<Device<SegmentCard>> {
        let card = SegmentCard::open(&self.socket(), card).expect("the card opens");
        Device::open(card).expect("the card comes up")
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.held = None;
        // The keeper ends by itself when the last device is closed.
        let keeper = self.keeper.take().expect("joined once");
        let until = Instant::now() + Duration::from_secs(5);
        while !keeper.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !std::thread::panicking() {
            assert!(keeper.is_finished(), "the keeper did not end within 5 s of its last connection");
            keeper.join().expect("the keeper ended well");
        }
    }
}
