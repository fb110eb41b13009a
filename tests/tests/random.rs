//! Random chains of valid requests on two connected QPs, against a simple model of both memories.
//!
//! The seed is printed; `VERBENA_SEED=n` runs a certain one again.

mod seeded;

use std::sync::Arc;

use driver::{Data, Device, SendFlags, SendWr, Sge};
use fpga_regs::{QpType, WqeOpcode};
use model::attach::NetOptions;
use model::link::{Faults, Wire};
use proptest::prelude::*;
use tests::{join, Net, Options, Peer, Side, TestCard};

/// Bytes of memory of each side that requests may name.
const BYTES: usize = 24 * 1024;
/// The longest message.
const LONGEST: usize = 9000;

/// A request, as random numbers that always mean something valid.
#[derive(Clone, Debug)]
struct Raw {
    kind: u8,
    local: u16,
    remote: u16,
    length: u16,
    /// Where the local side, and the receive, are cut into elements.
    cuts: Vec<u16>,
    backwards: bool,
    inline: bool,
    signaled: bool,
    fence: bool,
    value: u64,
}

/// Requests that are posted in one call.
#[derive(Clone, Debug)]
struct Chain {
    second_sends: bool,
    requests: Vec<Raw>,
}

#[derive(Clone, Debug)]
struct Case {
    mtu: u8,
    rd_atomic: u8,
    psn: u32,
    chains: Vec<Chain>,
}

fn raw() -> impl Strategy<Value = Raw> {
    let numbers =
        (any::<u8>(), any::<u16>(), any::<u16>(), any::<u16>(), prop::collection::vec(any::<u16>(), 0..6));
    (numbers, any::<[bool; 4]>(), any::<u64>()).prop_map(
        |((kind, local, remote, length, cuts), flags, value)| Raw {
            kind,
            local,
            remote,
            // Short ones are as frequent as long ones.
            length: if value % 2 == 0 { length % 64 } else { length % LONGEST as u16 },
            cuts,
            backwards: flags[0],
            inline: flags[1],
            signaled: flags[2],
            fence: flags[3],
            value,
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let chain = (any::<bool>(), prop::collection::vec(raw(), 1..10))
        .prop_map(|(second_sends, requests)| Chain { second_sends, requests });
    (1..=5u8, 1..=16u8, 0..1u32 << 24, prop::collection::vec(chain, 1..20))
        .prop_map(|(mtu, rd_atomic, psn, chains)| Case { mtu, rd_atomic, psn, chains })
}

/// Disjoint pieces of `[start, start + length)`, in either order.
fn pieces(start: usize, length: usize, cuts: &[u16], backwards: bool) -> Vec<(usize, usize)> {
    let mut at: Vec<usize> =
        cuts.iter().map(|&c| start + c as usize % (length + 1)).chain([start, start + length]).collect();
    at.sort_unstable();
    let mut pieces: Vec<_> = at.windows(2).map(|w| (w[0], w[1] - w[0])).collect();
    if backwards {
        pieces.reverse();
    }
    pieces
}

fn gather(memory: &[u8], pieces: &[(usize, usize)]) -> Vec<u8> {
    pieces.iter().flat_map(|&(at, len)| memory[at..at + len].to_vec()).collect()
}

fn scatter(memory: &mut [u8], pieces: &[(usize, usize)], mut data: &[u8]) {
    for &(at, len) in pieces {
        let n = len.min(data.len());
        memory[at..at + n].copy_from_slice(&data[..n]);
        data = &data[n..];
    }
}

fn sges(peer: &Side, pieces: &[(usize, usize)]) -> Vec<Sge> {
    pieces.iter().map(|&(at, len)| peer.sge(at, len)).collect()
}

/// A request made valid.
struct Request {
    opcode: WqeOpcode,
    local: Vec<(usize, usize)>,
    remote: usize,
    length: usize,
    flags: SendFlags,
    inline: Option<Vec<u8>>,
    /// Where the peer receives.
    receive: Option<Vec<(usize, usize)>>,
    compare_add: u64,
    swap: u64,
}

/// Makes the requests of a chain valid, and does to the model's memories what they will do.
fn plan(chain: &Chain, reliable: bool, own: &mut [u8], peer: &mut [u8]) -> Vec<Request> {
    use WqeOpcode as O;
    // Inline data is taken when the chain is posted.
    let before = own.to_vec();
    let all = [O::SEND, O::WRITE, O::SEND_WITH_IMM, O::WRITE_WITH_IMM, O::READ, O::CMP_SWAP, O::FETCH_ADD];
    let (mut reads, mut atomics) = (false, false);
    let mut requests = Vec::new();
    for (n, raw) in chain.requests.iter().enumerate() {
        let opcode = all[raw.kind as usize % if reliable { 7 } else { 4 }];
        let atomic = matches!(opcode, O::CMP_SWAP | O::FETCH_ADD);
        let asks = atomic || opcode == O::READ;
        let length = if atomic { 8 } else { raw.length as usize };
        let place = |at: u16| at as usize % (BYTES - length + 1);
        let local = pieces(place(raw.local), length, &raw.cuts, raw.backwards);
        let remote = if atomic { place(raw.remote) & !7 } else { place(raw.remote) };
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, raw.signaled || n + 1 == chain.requests.len());
        // Only a fence orders what comes after a READ or atomic, other than READs (IB spec 9.5); atomics
        // among themselves are done as they arrive.
        flags.set(SendFlags::FENCE, raw.fence || (reads && opcode != O::READ) || (atomics && !asks));
        reads |= opcode == O::READ;
        atomics |= atomic;
        let inline = (raw.inline && length <= 256 && !asks).then(|| gather(&before, &local));
        let receive = match opcode {
            O::SEND | O::SEND_WITH_IMM => {
                Some(pieces(remote, length, &raw.cuts[raw.cuts.len() / 2..], !raw.backwards))
            }
            O::WRITE_WITH_IMM => Some(Vec::new()),
            _ => None,
        };
        let (mut compare_add, swap) = (raw.value, !raw.value);
        match opcode {
            O::READ => scatter(own, &local, &peer[remote..remote + length]),
            O::CMP_SWAP | O::FETCH_ADD => {
                let target = &mut peer[remote..remote + 8];
                let old = u64::from_ne_bytes((&*target).try_into().expect("8 bytes"));
                let new = match opcode {
                    O::FETCH_ADD => old.wrapping_add(compare_add),
                    // Half of them find what they expect.
                    _ if raw.inline => {
                        compare_add = old;
                        swap
                    }
                    _ => old,
                };
                target.copy_from_slice(&new.to_ne_bytes());
                scatter(own, &local, &old.to_ne_bytes());
            }
            _ => {
                let data = inline.clone().unwrap_or_else(|| gather(own, &local));
                match &receive {
                    Some(receive) if opcode != O::WRITE_WITH_IMM => scatter(peer, receive, &data),
                    _ => peer[remote..remote + length].copy_from_slice(&data),
                }
            }
        }
        requests.push(Request { opcode, local, remote, length, flags, inline, receive, compare_add, swap });
    }
    requests
}

/// Posts the receives and the chain, and awaits each completion.
fn perform(own: &Side, peer: &Side, requests: &[Request]) {
    let receives: Vec<_> = requests.iter().enumerate().filter(|(_, r)| r.receive.is_some()).collect();
    for (n, request) in &receives {
        peer.recv(1000 + *n as u64, &sges(peer, request.receive.as_deref().unwrap_or_default()));
    }
    let lists: Vec<_> = requests.iter().map(|r| sges(own, &r.local)).collect();
    let wrs: Vec<_> = requests
        .iter()
        .enumerate()
        .map(|(n, r)| SendWr {
            flags: r.flags,
            imm: n as u32,
            compare_add: r.compare_add,
            swap: r.swap,
            data: r.inline.as_deref().map_or(Data::Sges(&lists[n]), Data::Bytes),
            ..own.remote(n as u64, r.opcode, &[], peer, r.remote)
        })
        .collect();
    own.post(&wrs);
    for (n, request) in requests.iter().enumerate().filter(|(_, r)| r.flags.contains(SendFlags::SIGNALED)) {
        let wc = own.expect(n as u64);
        if matches!(request.opcode, WqeOpcode::READ) {
            assert_eq!(wc.byte_len as usize, request.length);
        }
    }
    for (n, request) in receives {
        let wc = peer.expect(1000 + n as u64);
        assert_eq!(wc.byte_len as usize, request.length);
        if request.opcode != WqeOpcode::SEND {
            assert_eq!(wc.imm, n as u32);
        }
    }
    own.quiet();
    peer.quiet();
}

fn run(devices: [&Arc<Device<TestCard>>; 2], case: &Case, qp_type: QpType) {
    let options = Options {
        qp_type,
        mtu: case.mtu,
        rd_atomic: case.rd_atomic,
        psn: case.psn,
        bytes: BYTES,
        depth: 12,
        sges: 8,
        inline: 256,
        timeout: 8,
        ..Default::default()
    };
    let (mut x, mut y) = (Peer::new(devices[0], options), Peer::new(devices[1], options));
    join(&x, &y);
    x.buffer.pattern(1);
    y.buffer.pattern(2);
    let (mut first, mut second) = (x.buffer.to_vec(), y.buffer.to_vec());
    for (n, chain) in case.chains.iter().enumerate() {
        if chain.second_sends {
            let requests = plan(chain, qp_type == QpType::RC, &mut second, &mut first);
            perform(&y, &x, &requests);
        } else {
            let requests = plan(chain, qp_type == QpType::RC, &mut first, &mut second);
            perform(&x, &y, &requests);
        }
        assert!(x.buffer[..] == first[..] && y.buffer[..] == second[..], "memory differs after chain {n}");
    }
}

/// Checks random cases on a net of one or two cards.
fn check(qp_type: QpType, cards: u8, cases: u32) {
    check_on(qp_type, |_| Net::new(cards), cases);
}

fn check_on(qp_type: QpType, net: impl FnOnce(u64) -> Net, cases: u32) {
    let seed = tests::seed();
    let net = net(seed);
    let (a, b) = (net.open(0), net.try_open(1).unwrap_or_else(|| net.open(0)));
    seeded::check(seed, cases, &case(), |case| {
        run([&a, &b], &case, qp_type);
        Ok(())
    });
}

#[test]
fn reliable_connections_agree_with_the_model() {
    check(QpType::RC, 2, 120);
}

#[test]
fn reliable_loopback_agrees_with_the_model() {
    check(QpType::RC, 1, 60);
}

#[test]
fn reliable_connections_agree_with_the_model_whatever_happens_to_frames() {
    whatever_happens_to_frames(0, 60);
}

/// The same with selective repeat, where much or next to nothing is kept.
#[test]
fn selective_repeat_agrees_with_the_model_whatever_happens_to_frames() {
    whatever_happens_to_frames(128, 40);
    whatever_happens_to_frames(3, 20);
}

fn whatever_happens_to_frames(reorder: u32, cases: u32) {
    check_on(
        QpType::RC,
        |seed| {
            let mut options = NetOptions { reorder, ..NetOptions::from(2) };
            options.link.wire = Wire::Exact;
            options.link.faults =
                Faults { loss: 0.02, dup: 0.02, reorder: 0.02, corrupt: 0.01, seed, ..Faults::default() };
            Net::with(options)
        },
        cases,
    );
}

#[test]
fn unreliable_connections_agree_with_the_model() {
    check(QpType::UC, 2, 60);
}
