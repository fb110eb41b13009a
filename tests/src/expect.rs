//! What a test expects of a [`Peer`], in one word each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{AttrMask, Card, Device, QpAttr, SendWr, Wc};
use fpga_regs::{Access, CqeStatus, QpState};

use crate::{join, wait_for, Net, Options, Peer, TestCard};

/// A peer on a modelled card, however the tests reach it.
pub type Side = Peer<TestCard>;

/// A counter of a port, which must be there, however its name is written.
#[track_caller]
pub fn counter<C: Card>(device: &Device<C>, port: u8, name: &str) -> u64 {
    let counters = device.query_port(port).expect("a port").counters;
    let found = counters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.unwrap_or_else(|| panic!("no counter {name}: {counters:?}")).1
}

impl<C: Card> Peer<C> {
    /// The next completion, which must have this status.
    pub fn expect_status(&self, wr_id: u64, status: CqeStatus) -> Wc {
        let wc = self.wait();
        assert_eq!((wc.wr_id, wc.status), (wr_id, status), "vendor syndrome {:#x}", wc.vendor_err);
        wc
    }

    /// Posts a request, which is the next to complete, and well.
    pub fn completes(&self, wr: SendWr<'_>) -> Wc {
        let wr_id = wr.wr_id;
        self.post(&[wr]);
        self.expect(wr_id)
    }

    /// The next completions: these requests are flushed, in this order.
    pub fn expect_flushed(&self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            self.expect_status(id, CqeStatus::WR_FLUSH_ERR);
        }
    }

    /// No completion comes for this long.
    pub fn quiet_for(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let wc = self.poll();
            assert!(wc.is_none(), "nothing was to complete, but {wc:?}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// No completion waits.
    pub fn quiet(&self) {
        let wc = self.poll();
        assert!(wc.is_none(), "nothing was to complete, but {wc:?}");
    }

    /// A counter of the device's first port.
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        counter(&self.device, 1, name)
    }

    /// The state as the card says it.
    pub fn state(&self) -> QpState {
        self.qp.query().expect("a query").state
    }

    /// Changes only the state.
    pub fn to(&self, state: QpState) {
        let attr = QpAttr { state, ..Default::default() };
        self.qp.modify(&attr, AttrMask::STATE).unwrap_or_else(|e| panic!("to {state}: {e}"));
    }

    /// Posts a chain, and waits until the card has sent this many packets, so has begun what they are of:
    /// in SQD it begins no request, though it was posted before (IB spec 10.3.1).
    pub fn post_begun(&self, wrs: &[SendWr<'_>], packets: u64) {
        let sent = || self.counter("TX_PACKETS");
        let before = sent();
        self.post(wrs);
        wait_for("the requests are not begun", || sent() - before >= packets);
    }

    /// Moves from RTS to SQD and asks for the drained event.
    pub fn drain(&self) {
        let attr = QpAttr { state: QpState::SQD, en_sqd_async_notify: true, ..Default::default() };
        self.qp.modify(&attr, AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY).expect("SQD");
    }

    /// Changes what a peer may do through the QP, in RTS.
    pub fn set_access(&self, access: Access) {
        let attr = QpAttr { state: QpState::RTS, access, ..Default::default() };
        self.qp.modify(&attr, AttrMask::STATE | AttrMask::ACCESS_FLAGS).expect("other access flags");
    }
}

/// Connections within one card and between two, on nets that are made once.
pub struct Cards {
    // The devices go before their net.
    pairs: [[Arc<Device<TestCard>>; 2]; 2],
    _nets: [Net; 2],
}

impl Cards {
    /// A net of one card, opened twice, and a net of two.
    pub fn new() -> Cards {
        let nets = [Net::new(1), Net::new(2)];
        let pairs = [[nets[0].open(0), nets[0].open(0)], [nets[1].open(0), nets[1].open(1)]];
        Cards { pairs, _nets: nets }
    }

    /// Runs `body` with a new connection within the one card, and with one between the two.
    pub fn each(&self, options: Options, body: impl Fn(&mut Side, &mut Side)) {
        self.each_of(options, options, body);
    }

    /// As [`Cards::each`], with other options at the second peer.
    pub fn each_of(&self, first: Options, second: Options, body: impl Fn(&mut Side, &mut Side)) {
        for [a, b] in &self.pairs {
            // What the tests before have left.
            while a.next_event(Duration::ZERO).expect("events").is_some() {}
            while b.next_event(Duration::ZERO).expect("events").is_some() {}
            let (mut x, mut y) = (Peer::new(a, first), Peer::new(b, second));
            join(&x, &y);
            body(&mut x, &mut y);
        }
    }
}

impl Default for Cards {
    fn default() -> Self {
        Cards::new()
    }
}

/// As [`Cards::each`], for tests with one body.
pub fn on_one_and_two_cards(options: Options, body: impl Fn(&mut Side, &mut Side)) {
    Cards::new().each(options, body);
}
