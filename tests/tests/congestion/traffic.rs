//! Flows between the cards of a net, which send without end.

use driver::{SendFlags, SendWr};
use fpga_regs::regs::port;
use fpga_regs::{CqeStatus, WqeOpcode};
use model::attach::{NetOptions, SegmentCard, Timeline};
use model::congestion::SwitchOptions;
use model::link::LinkOptions;
use model::packet::PortId;
use model::profile::{Profile, Rate};
use model::sim::switch::Counts;
use tests::{connect, Net, Options, Side};

/// Bytes of a message.
pub const MESSAGE: usize = 64 << 10;
/// Messages of a flow that are posted at a time.
const AHEAD: u64 = 32;

/// From a card to a card, by their first ports.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub from: u8,
    pub to: u8,
}

/// A port of the switch at a time (ps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub counts: Counts,
    pub at: u64,
}

/// See the module.
pub struct Traffic {
    pub switch: SwitchOptions,
    clock: Timeline,
    flows: Vec<Side2>,
    cards: u8,
    // Last: the cards above are closed before it.
    _net: Net,
}

/// Both sides of a flow, and how many messages were posted and are done.
struct Side2 {
    from: Side,
    to: Side,
    posted: u64,
    done: u64,
}

/// A card with ports of 40 Gb/s that nothing else in it limits.
pub fn at_40g() -> Profile {
    let mut profile = Profile::load("cx5-25g").expect("a profile of our own").profile;
    profile.wire.rate_bps = Rate::new(40_000_000_000);
    profile.rx.rx_packet_ps = 0;
    profile.tx.gap_ps = 0;
    profile
}

impl Traffic {
    pub fn start(profile: Profile, switch: &str, cc: Option<&str>, flows: &[Flow]) -> Traffic {
        Traffic::on(profile, switch, cc, flows, LinkOptions::default())
    }

    /// The same with another wire.
    pub fn on(
        profile: Profile,
        switch: &str,
        cc: Option<&str>,
        flows: &[Flow],
        link: LinkOptions,
    ) -> Traffic {
        Traffic::with((profile, link), switch, cc, flows, 14)
    }

    /// The same with this `timeout` of the queue pairs.
    pub fn with(
        (profile, link): (Profile, LinkOptions),
        switch: &str,
        cc: Option<&str>,
        flows: &[Flow],
        timeout: u8,
    ) -> Traffic {
        let switch: SwitchOptions = switch.parse().expect("a switch");
        let cc = cc.map(|text| text.parse().expect("congestion control"));
        let cards = flows.iter().map(|flow| flow.from.max(flow.to)).max().expect("a flow") + 1;
        let link = LinkOptions { switch: Some(switch), cc, ..link };
        let net = Net::with(NetOptions { clock: Some(profile), link, ..NetOptions::from(cards) });
        let devices: Vec<_> = (0..cards).map(|card| net.open(card.into())).collect();
        let clock =
            SegmentCard::open(&net.socket(), 0).expect("the card opens").timeline().expect("simulated");
        let options =
            Options { depth: 64, sges: 1, inline: 0, mtu: 3, timeout, bytes: MESSAGE, ..Options::default() };
        let flows = flows.iter().map(|flow| {
            let (from, to) =
                connect(&devices[usize::from(flow.from)], &devices[usize::from(flow.to)], options);
            Side2 { from, to, posted: 0, done: 0 }
        });
        let flows = flows.collect();
        let mut traffic = Traffic { switch, clock, flows, cards, _net: net };
        traffic.post();
        traffic
    }

    fn post(&mut self) {
        for flow in &mut self.flows {
            if flow.posted - flow.done > AHEAD / 2 {
                continue;
            }
            let sges = [flow.from.sge(0, MESSAGE)];
            let write = flow.from.remote(0, WqeOpcode::WRITE, &sges, &flow.to, 0);
            let mut post = flow.from.qp.send();
            while flow.posted - flow.done < AHEAD {
                post.push(&SendWr { flags: SendFlags::SIGNALED, ..write }).expect("room in the send queue");
                flow.posted += 1;
            }
            post.ring();
        }
    }

    fn reap(&mut self) {
        for flow in &mut self.flows {
            flow.from
                .cq
                .poll(AHEAD as usize, |wc| {
                    assert_eq!(wc.status, CqeStatus::SUCCESS);
                    flow.done += 1;
                })
                .expect("the CQ is well");
        }
    }

    /// Lets the flows send until a time (ps).
    pub fn run_until(&mut self, at: u64) {
        const STEP: u64 = 20_000_000;
        while self.clock.clock() < at {
            self.clock.sleep_until((self.clock.clock() + STEP).min(at));
            self.reap();
            self.post();
        }
    }

    /// Waits until what is posted has arrived.
    pub fn finish(&mut self) {
        let end = self.clock.clock() + 10_000_000_000_000;
        while self.flows.iter().any(|flow| flow.done < flow.posted) {
            assert!(self.clock.clock() < end, "not done within 10 simulated seconds");
            self.clock.sleep_until(self.clock.clock() + 1_000_000_000);
            self.reap();
        }
    }

    /// Bytes of each flow that have arrived.
    pub fn bytes_done(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.done * MESSAGE as u64).collect()
    }

    /// The switch's port to a card.
    pub fn port(&self, card: u8) -> Port {
        let (counts, _, at) =
            self.clock.switch_port(PortId { card: card.into(), port: 0 }).expect("there is a switch");
        Port { counts, at }
    }

    /// Pauses that the switch sent to all cards.
    pub fn pauses(&self) -> u64 {
        (0..self.cards).map(|card| self.port(card).counts.pauses).sum()
    }

    /// A counter of a card's first port.
    pub fn counter(&self, card: u8, register: u32) -> u64 {
        let flows = self.flows.iter().flat_map(|flow| [&flow.from, &flow.to]);
        let mut cards =
            flows.filter(|side| side.gid() == model::address::gid(PortId { card: card.into(), port: 0 }, 1));
        let device = &cards.next().expect("a flow of the card").device;
        driver::Registers::read64(device.card(), port::base(0) + register)
    }

    /// Pauses that a card has received.
    pub fn pauses_received(&self, card: u8) -> u64 {
        self.counter(card, port::RX_PAUSE)
    }
}
