//! The longest messages: 2 GiB, and as many packets as PSNs allow to be outstanding.
//!
//! The memory is a region whose pages are all the same one, so that it fits any machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{Data, Memory, Mr, PageList, SendFlags, SendWr, Sge, Wc};
use fpga_regs::{Access, CqeStatus, QpState, WqeOpcode};
use tests::{Net, Options, Side, TestCard};

const PAGE: usize = 2 << 20;
/// The longest message of the specification.
const GIANT: u64 = 1 << 31;

/// A region of 2 GiB over one aligned page of a peer's buffer.
struct Giant {
    mr: Arc<Mr<TestCard>>,
    /// Where that page begins.
    at: usize,
}

impl Giant {
    /// Of pages of the buffer's one, of 1 << `shift` bytes.
    fn new(peer: &Side, shift: u8) -> Giant {
        let card = peer.device.card();
        let iova = card.map(peer.buffer.addr(0) as *mut u8, peer.buffer.len(), true).expect("mapped");
        let aligned = iova.next_multiple_of(PAGE as u64);
        let pages = vec![aligned; GIANT as usize >> shift];
        let list = PageList { pages: &pages, page_shift: shift, first_offset: 0, length: GIANT };
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        // SAFETY: the buffer stays mapped until the region is gone.
        #[allow(unsafe_code)]
        let mr = unsafe { peer.pd.reg_pages(&list, 0, access) }.expect("a region");
        Giant { mr, at: (aligned - iova) as usize }
    }

    fn sge(&self, addr: u64, length: u64) -> Sge {
        Sge { addr, length: length as u32, lkey: self.mr.lkey() }
    }
}

fn options(mtu: u8) -> Options {
    Options { mtu, bytes: 2 * PAGE, depth: 4, cqes: 16, timeout: 18, retry_cnt: 0, ..Default::default() }
}

/// Two connected peers with a giant region each, the other one's of pages of 1 << `shift` bytes. No retry: one lost step is an error.
fn on_giants(mtu: u8, shift: u8, body: impl FnOnce(&Side, &Side, [&Giant; 2])) {
    let net = Net::new(2);
    let (mut x, y) = net.pair(options(mtu));
    x.buffer.pattern(mtu);
    let (from, to) = (Giant::new(&x, 21), Giant::new(&y, shift));
    body(&x, &y, [&from, &to]);
    drop((from, to));
    for peer in [&x, &y] {
        peer.device.card().unmap(peer.buffer.addr(0), peer.buffer.addr(0) as *mut u8, peer.buffer.len());
    }
}

/// Posts a message in two elements and waits until it is done.
fn transfer(x: &Side, opcode: WqeOpcode, bytes: u64, [from, to]: [&Giant; 2]) -> Wc {
    let half = bytes / 2;
    let sges = [(0, half), (half, bytes - half)].map(|(addr, length)| from.sge(addr, length));
    let data = Data::Sges(&sges);
    let flags = SendFlags::SIGNALED;
    x.post(&[SendWr { wr_id: 1, opcode, flags, rkey: to.mr.rkey(), data, ..Default::default() }]);
    let until = Instant::now() + Duration::from_secs(50);
    loop {
        if let Some(wc) = x.poll() {
            return wc;
        }
        assert!(Instant::now() < until, "no completion within 50 s");
    }
}

#[test]
fn messages_of_more_packets_than_may_be_under_way() {
    // Five million packets.
    let bytes = GIANT / 8 * 5 - 12_345;
    on_giants(1, 21, |x, y, giants| {
        for opcode in [WqeOpcode::WRITE, WqeOpcode::READ] {
            let wc = transfer(x, opcode, bytes, giants);
            assert_eq!(wc.status, CqeStatus::SUCCESS, "{opcode}, {:#x}", wc.vendor_err);
        }
        let [x, y] =
            [(x, giants[0]), (y, giants[1])].map(|(peer, giant)| &peer.buffer[giant.at..giant.at + PAGE]);
        assert!(x == y);
    });
}

#[test]
fn the_longest_message() {
    on_giants(5, 21, |x, y, giants| {
        y.recv(7, &[giants[1].sge(0, GIANT)]);
        assert_eq!(transfer(x, WqeOpcode::SEND, GIANT, giants).status, CqeStatus::SUCCESS);
        assert_eq!(u64::from(y.expect(7).byte_len), GIANT);
        let [one, two] =
            [(x, giants[0]), (y, giants[1])].map(|(peer, giant)| &peer.buffer[giant.at..giant.at + PAGE]);
        assert!(one == two);
        let sges = [giants[0].sge(0, GIANT), x.sge(0, 1)];
        assert!(x.qp.send().push(&x.remote(1, WqeOpcode::WRITE, &sges, y, 0)).is_err(), "longer than 2 GiB");
    });
}

#[test]
fn a_read_whose_answer_takes_half_of_all_psns_is_refused() {
    on_giants(1, 21, |x, y, giants| {
        assert_eq!(transfer(x, WqeOpcode::READ, GIANT, giants).status, CqeStatus::LOC_LEN_ERR);
        assert_eq!(y.state(), QpState::RTS);
    });
}

/// Most memory of this process so far, in bytes.
fn most_memory() -> u64 {
    tests::stock::status("/proc/self", "VmHWM").expect("a high water mark") << 10
}

#[test]
fn the_answer_to_a_read_of_many_pages_takes_no_memory() {
    on_giants(5, 12, |x, y, giants| {
        let before = most_memory();
        let wc = transfer(x, WqeOpcode::READ, GIANT / 2, giants);
        assert_eq!(wc.status, CqeStatus::SUCCESS, "{:#x}", wc.vendor_err);
        let more = most_memory() - before;
        assert!(more < GIANT / 8, "{more} bytes");
        let page = &y.buffer[giants[1].at..giants[1].at + (1 << 12)];
        assert!(x.buffer[giants[0].at..giants[0].at + PAGE].chunks(1 << 12).all(|read| read == page));
    });
}
