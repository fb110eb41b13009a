//! Two systems with two cables between them, in a time of their own.

use fpga_regs::{LacpRate, LacpState};

use super::pdu::Info;
use super::Lacp;

const SECOND: u64 = 1_000_000_000;
const SYSTEMS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const IN_USE: u8 = LacpState::ACTIVITY.0
    | LacpState::AGGREGATION.0
    | LacpState::SYNCHRONIZATION.0
    | LacpState::COLLECTING.0
    | LacpState::DISTRIBUTING.0;

/// Where each port's cable leads: to a port of the other system, or to nobody.
struct Rig {
    ends: [Lacp; 2],
    far: [[Option<(usize, usize)>; 2]; 2],
    up: [[bool; 2]; 2],
    now: u64,
}

impl Rig {
    fn new(rates: [LacpRate; 2]) -> Rig {
        let mut rig = Rig {
            ends: [Lacp::default(); 2],
            far: [[Some((1, 0)), Some((1, 1))], [Some((0, 0)), Some((0, 1))]],
            up: [[true; 2]; 2],
            now: SECOND,
        };
        for (n, end) in rig.ends.iter_mut().enumerate() {
            end.begin(SYSTEMS[n], rates[n], [true; 2], SECOND);
        }
        rig
    }

    /// Time goes on to `until`, in the order of what happens.
    fn run(&mut self, until: u64) {
        loop {
            let mut next = None;
            loop {
                let mut said = false;
                for end in 0..2 {
                    let due = self.ends[end].run(self.now);
                    next = [next, due].into_iter().flatten().filter(|&at| at > self.now).min();
                    for n in 0..2 {
                        let Some((actor, partner)) = self.ends[end].take(n, self.now) else { continue };
                        said = true;
                        let to = self.far[end][n].filter(|_| self.up[end][n]);
                        if let Some((far, port)) = to {
                            self.ends[far].receive(port, &actor, &partner, self.now);
                        }
                    }
                }
                if !said {
                    break;
                }
            }
            match next {
                Some(at) if at <= until => self.now = at,
                _ => break,
            }
        }
        self.now = until;
    }

    fn pull(&mut self, n: usize, up: bool) {
        for end in 0..2 {
            self.up[end][n] = up;
            self.ends[end].link(n, up, self.now);
        }
    }

    fn uses(&self) -> [[bool; 2]; 2] {
        [0, 1].map(|end: usize| [0, 1].map(|n| self.ends[end].uses(n)))
    }
}

/// Both ends speak, wait two seconds for each other's ports, and use both.
#[test]
fn two_systems_use_both_cables() {
    let mut rig = Rig::new([LacpRate::FAST, LacpRate::FAST]);
    rig.run(SECOND * 2);
    assert_eq!(rig.uses(), [[false; 2]; 2], "they wait for each other");
    rig.run(SECOND * 4);
    assert_eq!(rig.uses(), [[true; 2]; 2]);
    for (end, partner) in [(0, 1), (1, 0)] {
        for n in 0..2 {
            let port = rig.ends[end].port(n);
            assert_eq!(port.partner.system, SYSTEMS[partner]);
            assert_eq!(port.partner.port, n as u16 + 1);
            assert_eq!(port.actor.state & IN_USE, IN_USE);
            assert_eq!(port.actor.state & (LacpState::DEFAULTED.0 | LacpState::EXPIRED.0), 0);
            assert_eq!(port.aggregator, rig.ends[end].port(0).aggregator, "one aggregation");
        }
    }
    // A LACPDU a second of each port, no more.
    let sent = rig.ends[0].port(0).sent;
    rig.run(rig.now + 10 * SECOND);
    assert_eq!(rig.ends[0].port(0).sent - sent, 10);
}

/// Who is asked for few sends one in thirty seconds, and is gone after ninety.
#[test]
fn slow_partners_speak_every_thirty_seconds() {
    let mut rig = Rig::new([LacpRate::SLOW, LacpRate::SLOW]);
    rig.run(10 * SECOND);
    assert_eq!(rig.uses(), [[true; 2]; 2]);
    let sent = rig.ends[0].port(0).sent;
    rig.run(rig.now + 60 * SECOND);
    assert_eq!(rig.ends[0].port(0).sent - sent, 2);
    // It falls silent, with its link up.
    rig.far[1] = [None; 2];
    let silent = rig.now;
    while rig.uses()[0] == [true; 2] {
        rig.run(rig.now + SECOND);
    }
    assert_eq!(rig.uses()[0], [false; 2]);
    // Ninety seconds after the last LACPDU, which was up to thirty old.
    assert!((60..=91).contains(&((rig.now - silent) / SECOND)), "{}", (rig.now - silent) / SECOND);
}

/// A cable that is pulled carries nothing from that moment on, and soon again when it is plugged in.
#[test]
fn a_pulled_cable_is_left_at_once() {
    let mut rig = Rig::new([LacpRate::FAST, LacpRate::FAST]);
    rig.run(5 * SECOND);
    rig.pull(0, false);
    assert_eq!(rig.uses(), [[false, true]; 2]);
    rig.run(7 * SECOND);
    assert_eq!(rig.uses(), [[false, true]; 2]);
    rig.pull(0, true);
    rig.run(7 * SECOND + SECOND / 10);
    assert_eq!(rig.uses(), [[true; 2]; 2]);
}

/// A silent partner is gone after three seconds, though the link is up.
#[test]
fn a_silent_partner_is_gone_after_three_seconds() {
    let mut rig = Rig::new([LacpRate::FAST, LacpRate::FAST]);
    rig.run(5 * SECOND);
    rig.far[1][0] = None;
    rig.run(5 * SECOND + 19 * SECOND / 10);
    assert_eq!(rig.uses()[0], [true; 2]);
    rig.run(9 * SECOND);
    assert_eq!(rig.uses()[0], [false, true]);
    // The other end hears it once the port has left the aggregation, another three seconds later.
    rig.run(12 * SECOND);
    assert_eq!(rig.uses(), [[false, true]; 2]);
    rig.run(20 * SECOND);
    assert_eq!(rig.uses(), [[false, true]; 2], "a port on its own does not replace one with a partner");
}

/// Without a partner one port is used, by itself: the other would be another link.
#[test]
fn without_a_partner_one_port_is_used() {
    let mut rig = Rig::new([LacpRate::FAST, LacpRate::FAST]);
    rig.far = [[None; 2]; 2];
    rig.run(2 * SECOND);
    assert_eq!(rig.uses(), [[false; 2]; 2]);
    rig.run(10 * SECOND);
    assert_eq!(rig.uses(), [[true, false]; 2]);
    assert_ne!(rig.ends[0].port(0).actor.state & LacpState::DEFAULTED.0, 0);
    rig.pull(0, false);
    rig.run(11 * SECOND);
    assert_eq!(rig.uses(), [[false, true]; 2]);
}

/// Two partners are two aggregations, of which one is used.
#[test]
fn ports_to_different_partners_are_not_one() {
    let mut rig = Rig::new([LacpRate::FAST, LacpRate::FAST]);
    rig.far[1] = [None; 2];
    rig.far[0] = [None; 2];
    let partner = |system: u8| Info {
        priority: 1,
        system: [2, 0, 0, 0, 9, system],
        key: 7,
        port: 1,
        state: IN_USE,
        ..Info::default()
    };
    for _ in 0..8 {
        for n in 0..2 {
            let actor = rig.ends[0].port(n).actor;
            rig.ends[0].receive(n, &partner(n as u8), &actor, rig.now);
        }
        rig.run(rig.now + SECOND / 2);
    }
    let [a, b] = [0, 1].map(|n| rig.ends[0].port(n).aggregator);
    assert_ne!(a, b);
    assert_eq!(rig.uses()[0], [true, false]);
}

/// A cable between two ports of one system is no partner.
#[test]
fn a_system_is_not_its_own_partner() {
    let mut rig = Rig::new([LacpRate::FAST, LacpRate::FAST]);
    let own = rig.ends[0].port(1).actor;
    assert!(!rig.ends[0].receive(0, &own, &Info::default(), SECOND));
}

/// However often something changes, three LACPDUs a second leave.
#[test]
fn three_pdus_a_second_at_most() {
    let mut rig = Rig::new([LacpRate::FAST, LacpRate::FAST]);
    rig.far = [[None; 2]; 2];
    let other = Info { system: SYSTEMS[1], state: IN_USE, ..Info::default() };
    for step in 0..100u64 {
        // It knows nothing of us: there is something to say each time.
        rig.now = SECOND + step * SECOND / 100;
        rig.ends[0].receive(0, &other, &Info::default(), rig.now);
        rig.ends[0].run(rig.now);
        rig.ends[0].take(0, rig.now);
    }
    assert_eq!(rig.ends[0].port(0).sent, 3);
}
