//! Answers come in the order of the requests, whatever their kind.

use fpga_regs::WqeOpcode;
use tests::{connect, Net, Options};

/// ACKs of WRITEs must not overtake the READ's response before them: the requester would take that
/// for a loss. Without any retry, one such mistake is an error.
#[test]
fn writes_behind_reads_and_atomics_need_no_retry() {
    let (_net, a, b) = Net::new(2).both();
    for (mtu, other) in [(3, &b), (5, &b), (1, &a)] {
        let options = Options { mtu, retry_cnt: 0, rnr_retry: 0, ..Default::default() };
        let (mut x, mut y) = connect(&a, other, options);
        x.buffer.pattern(3);
        y.buffer.pattern(5);
        for round in 0..200u64 {
            let length = 1 + (round as usize * 977) % 20_000;
            let (back, counter, source) = ([x.sge(600_000, length)], [x.sge(0, 8)], [x.sge(100_000, length)]);
            let mut chain = vec![
                x.remote(0, WqeOpcode::READ, &back, &y, 50_000),
                x.remote(1, WqeOpcode::FETCH_ADD, &counter, &y, 1_000_000),
            ];
            chain.extend(
                (2..10).map(|n| x.remote(n, WqeOpcode::WRITE, &source, &y, 100_000 + 20_000 * n as usize)),
            );
            chain.push(x.remote(10, WqeOpcode::READ, &back, &y, 50_000));
            chain.push(x.remote(11, WqeOpcode::WRITE, &source, &y, 100_000));
            x.post(&chain);
            (0..12).for_each(|n| {
                x.expect(n);
            });
            assert!(
                x.buffer[600_000..600_000 + length] == y.buffer[50_000..50_000 + length],
                "round {round}: READ"
            );
            assert!(
                x.buffer[100_000..100_000 + length] == y.buffer[280_000..280_000 + length],
                "round {round}: WRITE"
            );
        }
    }
}
