//! Frames that were to wait for a receive, and did not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{Card, Device, Wc};
use fpga_regs::CqeStatus;

use crate::{connect, counter, on_one_and_two_cards, Options, Peer, Side};

/// How long a frame waits for a receive at least.
const PATIENCE: Duration = Duration::from_millis(100);
/// Longer than it waits.
const LONG: Duration = Duration::from_millis(150);

/// What two cards have dropped since then for want of a receive. A test that is off its core for so long posts too late.
pub struct Drops<C: Card> {
    devices: [Arc<Device<C>>; 2],
    before: u64,
    since: Instant,
}

impl<C: Card> Drops<C> {
    /// From now on; what is to wait is sent later.
    pub fn new(x: &Peer<C>, y: &Peer<C>) -> Drops<C> {
        let mut drops =
            Drops { devices: [x.device.clone(), y.device.clone()], before: 0, since: Instant::now() };
        drops.before = drops.count();
        drops
    }

    fn count(&self) -> u64 {
        let ports = self.devices.iter().flat_map(|device| [(device, 1), (device, 2)]);
        ports.map(|(device, port)| counter(device, port, "RX_NO_RECV")).sum()
    }

    /// Something was dropped; none may be before it has waited.
    fn dropped(&self) -> bool {
        let dropped = self.count() != self.before;
        let waited = self.since.elapsed();
        assert!(!dropped || waited >= PATIENCE, "a frame was dropped after {waited:?}, before it had waited");
        dropped
    }

    /// Nothing was dropped.
    pub fn still_whole(&self) -> Option<()> {
        (!self.dropped()).then_some(())
    }

    /// The next completion of a receiver, which must be a success of this request; or a frame was dropped.
    pub fn come(&self, y: &Peer<C>, wr_id: u64) -> Option<Wc> {
        // To read a counter takes long on a busy machine.
        let since = Instant::now();
        let wc = y.wait_unless(|| since.elapsed() > LONG && self.dropped());
        self.still_whole()?;
        let wc = wc.expect("one of both");
        assert_eq!(
            (wc.wr_id, wc.status),
            (wr_id, CqeStatus::SUCCESS),
            "vendor syndrome {:#x}",
            wc.vendor_err
        );
        Some(wc)
    }

    /// Nothing completes at a sender whose frame waits; or it was dropped.
    pub fn waits(&self, x: &Peer<C>) -> Option<()> {
        let wc = x.poll();
        self.still_whole()?;
        assert!(wc.is_none(), "nobody can take it yet, but {wc:?}");
        Some(())
    }
}

/// Repeats with new queue pairs on the same cards what gives nothing when a frame was dropped that was to wait.
pub fn until_frames_wait(x: &Side, y: &Side, attempt: impl Fn(&mut Side, &mut Side) -> Option<()>) {
    let waited = |_| {
        let (mut x, mut y) = connect(&x.device, &y.device, x.options);
        attempt(&mut x, &mut y).is_some()
    };
    assert!((0..20).any(waited), "each time a frame is dropped that was to wait");
}

/// The same on one card and on two.
pub fn where_frames_wait(options: Options, attempt: impl Fn(&mut Side, &mut Side) -> Option<()>) {
    on_one_and_two_cards(options, |x, y| until_frames_wait(x, y, &attempt));
}
