//! Simulated time under mixed traffic: debug builds make sure that each card's bus is asked in the order of time.
//!
//! A lone ping-pong does not show it: there nothing else is asked for between a transfer's being known and its
//! being due.

use driver::{PageList, SendWr};
use fpga_regs::{Access, CqeStatus, WqeOpcode};
use model::attach::NetOptions;
use model::profile::Profile;
use tests::{connect, Net, Options, Side};

/// Connections of each kind of traffic.
const EACH: usize = 2;
const ROUNDS: u64 = 40;
const BYTES: usize = 1 << 20;

fn profile(name: &str, change: impl FnOnce(&mut Profile)) -> Profile {
    let mut profile = Profile::load(name).expect("a profile of our own").profile;
    change(&mut profile);
    profile
}

/// SENDs, WRITEs, READs and atomics, short and long, gathered and inline, in both directions at once.
fn mixed(profile: Profile, rounds: u64) {
    let (_net, a, b) = Net::with(NetOptions { clock: Some(profile), ..NetOptions::from(2) }).both();
    let options = Options { rd_atomic: 8, timeout: 14, bytes: BYTES, inline: 64, ..Default::default() };
    let pairs: Vec<(Side, Side)> = (0..4 * EACH).map(|_| connect(&a, &b, options)).collect();
    for round in 0..rounds {
        for (nth, (x, y)) in pairs.iter().enumerate() {
            for (from, to) in [(x, y), (y, x)] {
                let opcode =
                    [WqeOpcode::SEND, WqeOpcode::WRITE, WqeOpcode::READ, WqeOpcode::FETCH_ADD][nth % 4];
                let length = match opcode {
                    WqeOpcode::FETCH_ADD => 8,
                    _ => [1, 64, 700, 5000, 20_000][(round as usize + nth) % 5],
                };
                if opcode == WqeOpcode::SEND {
                    to.recv(1, &[to.sge(0, BYTES / 2)]);
                }
                // The pages differ, so that translations are missed.
                let at = (round as usize * 7919) % 64 * 4096;
                let sges = [from.sge(BYTES / 2 + at, length)];
                from.post(&[from.remote(0, opcode, &sges, to, at)]);
            }
        }
        for (nth, (x, y)) in pairs.iter().enumerate() {
            let completions = if nth % 4 == 0 { 2 } else { 1 };
            for side in [x, y] {
                for _ in 0..completions {
                    let wc = side.wait();
                    assert_eq!(wc.status, CqeStatus::SUCCESS, "pair {nth}, round {round}: {wc:?}");
                }
            }
        }
    }
}

#[test]
fn many_connections() {
    mixed(profile("f10a", |_| ()), ROUNDS);
}

#[test]
fn many_connections_with_pushed_requests() {
    mixed(profile("cx3", |_| ()), ROUNDS);
}

/// Every table that the card keeps is too small: contexts, keys and translations are read again and again, and
/// all traffic comes to its end all the same.
#[test]
fn caches_of_one_entry() {
    let small = |p: &mut Profile| {
        (p.caches.qpc_entries, p.caches.mtt_entries, p.caches.key_entries) = (1, 1, 1);
    };
    mixed(profile("cx4lx", small), ROUNDS);
}

/// A READ of scattered pages is gathered in pieces that a packet's place holds.
#[test]
fn reads_of_scattered_pages() {
    const PAGE: usize = 4096;
    const PAGES: usize = 8;
    let net = Net::with(NetOptions { clock: Some(profile("f10a", |_| ())), ..NetOptions::from(2) });
    let (x, mut y) = net.pair(Options { rd_atomic: 8, bytes: BYTES, ..Default::default() });
    y.buffer.pattern(7);
    let aligned = y.mr.addr().next_multiple_of(PAGE as u64) - y.mr.addr();
    let pages: [u64; PAGES] =
        std::array::from_fn(|i| y.mr.addr() + aligned + ((PAGES - 1 - i) * PAGE) as u64);
    let (first, length) = (100, 20_000);
    let list = PageList { pages: &pages[..5], page_shift: 12, first_offset: first as u32, length };
    // SAFETY: the pages are the peer's buffer, which outlives the region.
    #[allow(unsafe_code)]
    let region = unsafe { y.pd.reg_pages(&list, 0, Access::REMOTE_READ) }.expect("a region");
    let sge = [x.sge(0, length as usize)];
    let read = SendWr { remote_addr: 0, rkey: region.rkey(), ..x.remote(1, WqeOpcode::READ, &sge, &y, 0) };
    x.completes(read);
    for at in 0..length as usize {
        let (page, within) = ((at + first) / PAGE, (at + first) % PAGE);
        let from = aligned as usize + (PAGES - 1 - page) * PAGE + within;
        assert_eq!(x.buffer[at], y.buffer[from], "byte {at}");
    }
}

/// A thread that was in a net has no place, and no time, in the next one.
#[test]
fn one_net_after_the_other() {
    for name in ["f10a", "cx3", "cx4lx"] {
        mixed(profile(name, |_| ()), 3);
    }
}
