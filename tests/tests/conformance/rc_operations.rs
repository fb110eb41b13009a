//! Reliable connections: what each operation does with its data, flags and limits, and in which order.

use driver::{Data, InlineSges, PostError, SendFlags, SendWr, Sge, WcFlags};
use fpga_regs::{CqeOpcode, CqeStatus, WqeOpcode};
use tests::{connect, join, on_one_and_two_cards, Net, Options, Peer, Side};

pub(super) fn small() -> Options {
    Options { depth: 64, bytes: 1 << 18, timeout: 14, cqes: 256, ..Default::default() }
}

pub(super) fn sent(peer: &Side) -> u64 {
    peer.counter("TX_PACKETS")
}

#[test]
fn immediate_data_arrives_with_both_opcodes() {
    on_one_and_two_cards(small(), |x, y| {
        x.buffer.pattern(4);
        for (n, imm) in [0, 1, 0xdead_beef, u32::MAX].into_iter().enumerate() {
            let n = n as u64;
            for size in [0, 1, 1024, 5000] {
                y.buffer.fill(0);
                y.recv(n, &[y.sge(0, 5000)]);
                let sge = [x.sge(0, size)];
                x.post(&[SendWr { imm, ..x.wr(n, WqeOpcode::SEND_WITH_IMM, &sge) }]);
                assert_eq!(x.expect(n).opcode, CqeOpcode::SEND);
                let wc = y.expect(n);
                assert_eq!(
                    (wc.opcode, wc.imm, wc.byte_len as usize, wc.flags),
                    (CqeOpcode::RECV, imm, size, WcFlags::RECV | WcFlags::WITH_IMM)
                );
                assert!(y.buffer[..size] == x.buffer[..size]);

                // The receive's own buffer is not used.
                y.buffer.fill(0);
                y.recv(n, &[y.sge(0, 10)]);
                x.post(&[SendWr { imm, ..x.remote(n, WqeOpcode::WRITE_WITH_IMM, &sge, y, 20_000) }]);
                assert_eq!(x.expect(n).opcode, CqeOpcode::RDMA_WRITE);
                let wc = y.expect(n);
                assert_eq!(
                    (wc.opcode, wc.imm, wc.byte_len as usize),
                    (CqeOpcode::RECV_RDMA_WITH_IMM, imm, size)
                );
                assert!(wc.flags.contains(WcFlags::WITH_IMM));
                assert!(y.buffer[20_000..20_000 + size] == x.buffer[..size]);
                assert!(y.buffer[..5000].iter().all(|&b| b == 0));
            }
        }
        // Without immediate data the flag is not set.
        y.recv(7, &[]);
        x.post(&[x.wr(7, WqeOpcode::SEND, &[])]);
        assert_eq!(y.expect(7).flags, WcFlags::RECV);
    });
}

#[test]
fn inline_data_of_every_length() {
    let (_net, a, b) = Net::new(2).both();
    let most = a.limits().max_inline() as usize;
    let (x, y) = connect(&a, &b, Options { inline: most as u32, depth: 7, ..small() });
    let mut source: Vec<u8> = (0..most).map(|i| i as u8 ^ 0x5a).collect();
    let mut n = 0;
    for size in (0..=130).chain(most - 20..=most) {
        for opcode in [WqeOpcode::SEND, WqeOpcode::WRITE, WqeOpcode::SEND_WITH_IMM, WqeOpcode::WRITE_WITH_IMM]
        {
            let at = 4096 + 1024 * (n as usize % 8);
            let target = y.sge(at, most);
            if opcode != WqeOpcode::WRITE {
                y.recv(n, &[target]);
            }
            source[0] = n as u8;
            let want = source[..size].to_vec();
            // In two pieces, and as one.
            let half = size / 3;
            let pieces = [
                Sge { addr: source.as_ptr() as u64, length: half as u32, lkey: 0 },
                Sge { addr: source[half..].as_ptr() as u64, length: (size - half) as u32, lkey: 0 },
            ];
            let mut wr = x.remote(n, opcode, &[], &y, at);
            // SAFETY: `source` is readable.
            #[allow(unsafe_code)]
            let pieces = unsafe { InlineSges::new(&pieces) };
            wr.data = if n % 2 == 0 { Data::Inline(pieces) } else { Data::Bytes(&source[..size]) };
            x.post(&[wr]);
            // The source may be used again at once.
            source.iter_mut().for_each(|b| *b = b.wrapping_add(1));
            x.expect(n);
            if opcode != WqeOpcode::WRITE {
                assert_eq!(y.expect(n).byte_len as usize, size);
            }
            assert!(y.buffer[at..at + size] == want[..], "{opcode} of {size} bytes");
            n += 1;
        }
    }
    let long = vec![0; most + 1];
    let mut post = x.qp.send();
    assert!(matches!(
        post.push(&SendWr { data: Data::Bytes(&long), ..x.wr(1, WqeOpcode::SEND, &[]) }),
        Err(PostError::Invalid(_))
    ));
    for opcode in [WqeOpcode::READ, WqeOpcode::FETCH_ADD] {
        let wr = SendWr { data: Data::Bytes(&long[..8]), ..x.remote(1, opcode, &[], &y, 0) };
        assert!(matches!(post.push(&wr), Err(PostError::Invalid(_))), "{opcode} has no data to send");
    }
}

#[test]
fn as_many_elements_as_the_card_takes() {
    let (_net, a, b) = Net::new(2).both();
    let most = a.limits().max_sge();
    assert!(most >= 16);
    let (mut x, mut y) = connect(&a, &b, Options { sges: most, depth: 5, ..small() });
    x.buffer.pattern(1);
    for round in 0..20u64 {
        // Elements of uneven lengths, some empty, spread backwards over memory.
        let cut = |peer: &Side, seed: usize| -> Vec<Sge> {
            (0..most as usize)
                .map(|i| peer.sge((most as usize - i) * 3000, ((i + seed) * 397 % 7) * 333))
                .collect()
        };
        let flat = |buffer: &[u8], base: u64, sges: &[Sge]| -> Vec<u8> {
            sges.iter()
                .flat_map(|s| buffer[(s.addr - base) as usize..][..s.length as usize].to_vec())
                .collect()
        };
        let from = cut(&x, round as usize);
        let message = flat(&x.buffer, x.buffer.addr(0), &from);
        let mut to = cut(&y, round as usize + 3);
        to[most as usize - 1] = y.sge(120_000, 60_000);
        y.buffer.fill(0);
        y.recv(round, &to);
        x.completes(x.wr(round, WqeOpcode::SEND, &from));
        let wc = y.expect(round);
        assert_eq!(wc.byte_len as usize, message.len());
        assert!(
            flat(&y.buffer, y.buffer.addr(0), &to)[..message.len()] == message[..],
            "SEND, round {round}"
        );
        x.completes(x.remote(round, WqeOpcode::WRITE, &from, &y, 100_001));
        assert!(y.buffer[100_001..100_001 + message.len()] == message[..], "WRITE, round {round}");
        // And back, into as many pieces.
        y.buffer.pattern(round as u8);
        let into: Vec<Sge> = from.iter().map(|s| Sge { addr: s.addr + 100_000, ..*s }).collect();
        x.post(&[x.remote(round, WqeOpcode::READ, &into, &y, 77)]);
        assert_eq!(x.expect(round).byte_len as usize, message.len());
        assert!(
            flat(&x.buffer, x.buffer.addr(0), &into) == y.buffer[77..77 + message.len()],
            "READ, round {round}"
        );
    }
    let too_many = vec![x.sge(0, 1); most as usize + 1];
    assert!(matches!(x.qp.send().push(&x.wr(1, WqeOpcode::SEND, &too_many)), Err(PostError::Invalid(_))));
    assert!(matches!(x.qp.recv().push(1, &too_many), Err(PostError::Invalid(_))));
}

#[test]
fn empty_messages_of_every_opcode() {
    on_one_and_two_cards(small(), |x, y| {
        y.buffer.pattern(8);
        let before = y.buffer.to_vec();
        let empty = x.sge(0, 0);
        for sges in [&[][..], &[empty], &[empty, empty, empty]] {
            for (n, opcode) in [
                WqeOpcode::SEND,
                WqeOpcode::SEND_WITH_IMM,
                WqeOpcode::WRITE,
                WqeOpcode::WRITE_WITH_IMM,
                WqeOpcode::READ,
            ]
            .into_iter()
            .enumerate()
            {
                let n = n as u64;
                let receives = !matches!(opcode, WqeOpcode::WRITE | WqeOpcode::READ);
                if receives {
                    y.recv(n, sges);
                }
                // No key is looked at when there is nothing to access (IB spec 9.7.4.1.5).
                let wr = SendWr { rkey: 0, remote_addr: 3, imm: 9, ..x.remote(n, opcode, sges, y, 0) };
                x.completes(wr);
                if receives {
                    assert_eq!(y.expect(n).byte_len, 0);
                }
                y.quiet();
            }
        }
        assert!(before == y.buffer[..]);
    });
}

#[test]
fn every_send_completes_when_the_queue_says_so() {
    let (_net, a) = Net::one();
    let x = Peer::tuned(&a, small(), None, |init| init.sq_sig_all = true);
    let y = Peer::new(&a, small());
    join(&x, &y);
    let sge = [x.sge(0, 8)];
    let unsignaled = |n| SendWr { flags: SendFlags::empty(), ..x.remote(n, WqeOpcode::WRITE, &sge, &y, 0) };
    x.post(&[unsignaled(1), x.remote(2, WqeOpcode::READ, &sge, &y, 0), unsignaled(3)]);
    (1..=3).for_each(|n| {
        x.expect(n);
    });
    x.quiet();
}

#[test]
fn unsignaled_sends_give_their_places_back() {
    on_one_and_two_cards(Options { depth: 4, ..small() }, |x, y| {
        let sge = [x.sge(0, 8)];
        for n in 0..200 {
            // Three silent ones and one that speaks for them.
            let silent = SendWr { flags: SendFlags::empty(), ..x.remote(n, WqeOpcode::WRITE, &sge, y, 0) };
            x.post(&[silent, silent, silent, x.remote(n, WqeOpcode::WRITE, &sge, y, 0)]);
            assert_eq!(x.qp.send().push(&silent), Err(PostError::QueueFull));
            x.expect(n);
            x.quiet();
        }
        (0..4).for_each(|n| y.recv(n, &[]));
        assert_eq!(y.qp.recv().push(4, &[]), Err(PostError::QueueFull));
    });
}

#[test]
fn rings_of_every_depth_wrap_with_requests_of_every_size() {
    let (_net, a, b) = Net::new(2).both();
    for depth in [1, 2, 3, 7, 16] {
        let (mut x, y) = connect(&a, &b, Options { depth, sges: 30, inline: 300, ..small() });
        x.buffer.pattern(depth as u8);
        let source = x.buffer[..300].to_vec();
        for round in 0..150usize {
            let count = (round * 7 % depth as usize) + 1;
            let all: Vec<Vec<Sge>> =
                (0..count).map(|i| vec![x.sge(i, 11); (round * 13 + i * 5) % 30 + 1]).collect();
            let wrs: Vec<_> = (0..count)
                .map(|i| {
                    let mut wr = x.remote(i as u64, WqeOpcode::WRITE, &all[i], &y, i * 500);
                    if (round + i) % 3 == 0 {
                        wr.data = Data::Bytes(&source[..(round * 11 + i) % 300]);
                    }
                    wr
                })
                .collect();
            x.post(&wrs);
            for (i, sges) in all.iter().enumerate() {
                x.expect(i as u64);
                let want: Vec<u8> = match wrs[i].data {
                    Data::Bytes(bytes) => bytes.to_vec(),
                    _ => sges.iter().flat_map(|_| x.buffer[i..i + 11].to_vec()).collect(),
                };
                assert!(
                    y.buffer[i * 500..i * 500 + want.len()] == want[..],
                    "depth {depth}, round {round}, request {i}"
                );
            }
        }
    }
}

#[test]
fn messages_of_64_mib() {
    const SIZE: usize = 64 << 20;
    let (_net, a, b) = Net::new(2).both();
    for mtu in [1, 5] {
        let (mut x, mut y) = connect(&a, &b, Options { mtu, bytes: SIZE + 4096, timeout: 18, ..small() });
        x.buffer.pattern(mtu);
        y.recv(1, &[y.sge(1, 1 << 20), y.sge((1 << 20) + 1, SIZE - (1 << 20))]);
        x.completes(x.wr(1, WqeOpcode::SEND, &[x.sge(3, SIZE)]));
        assert_eq!(y.expect(1).byte_len as usize, SIZE);
        assert!(x.buffer[3..3 + SIZE] == y.buffer[1..1 + SIZE]);
        x.completes(x.remote(2, WqeOpcode::WRITE, &[x.sge(0, SIZE)], &y, 4096));
        assert!(x.buffer[..SIZE] == y.buffer[4096..]);
        y.buffer.pattern(mtu + 1);
        x.post(&[x.remote(3, WqeOpcode::READ, &[x.sge(5, SIZE)], &y, 2)]);
        assert_eq!(x.expect(3).byte_len as usize, SIZE);
        assert!(x.buffer[5..5 + SIZE] == y.buffer[2..2 + SIZE]);
    }
}

#[test]
fn both_sides_send_at_once() {
    on_one_and_two_cards(Options { rd_atomic: 2, ..small() }, |x, y| {
        x.buffer.pattern(1);
        y.buffer.pattern(2);
        for round in 0..50 {
            for (p, q) in [(&*x, &*y), (&*y, &*x)] {
                p.recv(1000 + round, &[p.sge(200_000, 5000)]);
                p.post(&[
                    p.remote(round, WqeOpcode::READ, &[p.sge(100_000, 5000)], q, 0),
                    p.remote(round, WqeOpcode::WRITE, &[p.sge(0, 5000)], q, 150_000),
                ]);
            }
            for (p, q) in [(&*x, &*y), (&*y, &*x)] {
                p.expect(round);
                p.expect(round);
                assert!(p.buffer[100_000..105_000] == q.buffer[..5000]);
                assert!(q.buffer[150_000..155_000] == p.buffer[..5000]);
            }
            for (p, q) in [(&*x, &*y), (&*y, &*x)] {
                p.completes(p.wr(round, WqeOpcode::SEND, &[p.sge(0, 5000)]));
                q.expect(1000 + round);
                assert!(q.buffer[200_000..205_000] == p.buffer[..5000]);
            }
        }
    });
}

#[test]
fn a_qp_connected_with_itself() {
    let (_net, a) = Net::one();
    let mut x = Peer::new(&a, small());
    x.init();
    x.rtr(x.qp.qpn(), x.gid(), x.options.psn);
    x.rts();
    x.buffer.pattern(4);
    for n in 0..20usize {
        let id = n as u64;
        x.recv(100 + id, &[x.sge(100_000, 3000)]);
        x.post(&[
            x.remote(id, WqeOpcode::WRITE, &[x.sge(n, 3000)], &x, 50_000),
            x.remote(id, WqeOpcode::READ, &[x.sge(70_000, 3000)], &x, 50_000),
            x.wr(id, WqeOpcode::SEND, &[x.sge(n, 3000)]),
        ]);
        let mut ids = [(); 4].map(|()| x.wait()).map(|wc| {
            assert_eq!(wc.status, CqeStatus::SUCCESS);
            wc.wr_id
        });
        ids.sort_unstable();
        assert_eq!(ids, [id, id, id, 100 + id]);
        for at in [50_000, 70_000, 100_000] {
            assert!(x.buffer[at..at + 3000] == x.buffer[n..n + 3000]);
        }
    }
}
