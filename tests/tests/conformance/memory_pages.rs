//! Memory regions of scattered pages.

use driver::{Memory, Mr, PageList, SendWr, Sge};
use fpga_regs::{CqeStatus, WqeOpcode};
use std::sync::Arc;
use tests::{on_one_and_two_cards, Buffer, Net, Options, Peer, Side, TestCard};

use super::memory::{all, small};

/// A region of scattered pages, and how its bytes lie in the buffer beneath.
struct Pages {
    mr: Arc<Mr<TestCard>>,
    order: Vec<usize>,
    shift: u8,
    first: usize,
    /// Offset of the first aligned page in the buffer.
    aligned: usize,
}

impl Pages {
    /// Every second page of `memory`, backwards.
    fn new(y: &Side, memory: &Buffer, shift: u8, first: usize, length: usize, wire_va: u64) -> Pages {
        let iova = y.device.card().map(memory.addr(0) as *mut u8, memory.len(), true).expect("mapped");
        let size = 1usize << shift;
        let aligned = iova.next_multiple_of(size as u64) - iova;
        let count = (first + length).div_ceil(size);
        let order: Vec<usize> = (0..count).map(|i| (count - 1 - i) * 2).collect();
        assert!(aligned as usize + (order[0] + 1) * size <= memory.len());
        let pages: Vec<u64> = order.iter().map(|&page| iova + aligned + (page * size) as u64).collect();
        let list =
            PageList { pages: &pages, page_shift: shift, first_offset: first as u32, length: length as u64 };
        // SAFETY: the memory stays mapped until the region is gone.
        #[allow(unsafe_code)]
        let mr = unsafe { y.pd.reg_pages(&list, wire_va, all()) }.expect("a region");
        Pages { mr, order, shift, first, aligned: aligned as usize }
    }

    /// `len` bytes of the region from `offset` on.
    fn bytes(&self, memory: &[u8], offset: usize, len: usize) -> Vec<u8> {
        (offset..offset + len)
            .map(|i| {
                let at = i + self.first;
                memory[self.aligned
                    + (self.order[at >> self.shift] << self.shift)
                    + (at & ((1 << self.shift) - 1))]
            })
            .collect()
    }
}

#[test]
fn a_region_of_scattered_pages() {
    for shift in [12, 16, 21] {
        on_one_and_two_cards(Options { bytes: 1 << 20, ..small() }, |x, y| {
            let size = 1usize << shift;
            let (first, length) = (1003, size * 7 + 500);
            let memory = Buffer::new(size * 17);
            let pages = Pages::new(y, &memory, shift, first, length, 0x5000_0000_0007);
            let mr = &pages.mr;
            x.buffer.pattern(shift);
            for (offset, len) in [
                (0, 1),
                (0, 100),
                (size - 1003 - 1, 2),
                (size - 1500, 3 * size / 2),
                (3, 400_000),
                (length - 1000, 1000),
            ] {
                let len = len.min(length - offset).min(500_000);
                let wire = mr.wire_va() + offset as u64;
                let sge = [x.sge(17, len)];
                x.completes(SendWr {
                    remote_addr: wire,
                    rkey: mr.rkey(),
                    ..x.remote(1, WqeOpcode::WRITE, &sge, y, 0)
                });
                assert!(
                    pages.bytes(&memory, offset, len) == x.buffer[17..17 + len],
                    "WRITE of {len} at {offset}"
                );
                let back = [x.sge(510_001, len)];
                x.completes(SendWr {
                    remote_addr: wire,
                    rkey: mr.rkey(),
                    ..x.remote(2, WqeOpcode::READ, &back, y, 0)
                });
                assert!(
                    x.buffer[510_001..510_001 + len] == x.buffer[17..17 + len],
                    "READ of {len} at {offset}"
                );
                // As local memory: sent from, received into, read into.
                let own = [Sge { addr: wire, length: len as u32, lkey: mr.lkey() }];
                x.buffer[510_000..].fill(0);
                x.recv(3, &back);
                y.completes(y.wr(3, WqeOpcode::SEND, &own));
                x.expect(3);
                assert!(
                    x.buffer[510_001..510_001 + len] == x.buffer[17..17 + len],
                    "SEND of {len} at {offset}"
                );
                let other = [x.sge(1, len)];
                y.recv(4, &own);
                x.completes(x.wr(4, WqeOpcode::SEND, &other));
                y.expect(4);
                assert!(
                    pages.bytes(&memory, offset, len) == x.buffer[1..1 + len],
                    "receive of {len} at {offset}"
                );
                y.completes(y.remote(5, WqeOpcode::READ, &own, x, 2));
                assert!(
                    pages.bytes(&memory, offset, len) == x.buffer[2..2 + len],
                    "READ into {len} at {offset}"
                );
            }
            // An atomic at an address that is aligned on the wire.
            let at = 0x5000_0000_1000 - mr.wire_va();
            let add = SendWr {
                compare_add: 5,
                remote_addr: 0x5000_0000_1000,
                rkey: mr.rkey(),
                ..x.remote(6, WqeOpcode::FETCH_ADD, &[], y, 0)
            };
            let before =
                u64::from_ne_bytes(pages.bytes(&memory, at as usize, 8).try_into().expect("8 bytes"));
            let sge = [x.sge(0, 8)];
            x.completes(SendWr { data: driver::Data::Sges(&sge), ..add });
            assert_eq!(x.buffer[..8], before.to_ne_bytes());
            assert_eq!(pages.bytes(&memory, at as usize, 8), before.wrapping_add(5).to_ne_bytes());
            // Its eight bytes are of two pages, which lie apart: nothing is done.
            let across = 0x5000_0000_0c18;
            let before = memory.to_vec();
            if shift == 12 {
                x.post(&[SendWr { remote_addr: across, data: driver::Data::Sges(&sge), ..add }]);
                x.expect_status(6, CqeStatus::REM_OP_ERR);
                assert!(memory[..] == before[..], "memory beside the page was changed");
                return y.device.card().unmap(memory.addr(0), memory.addr(0) as *mut u8, memory.len());
            }
            // One byte beyond.
            let wr = SendWr {
                remote_addr: mr.wire_va() + length as u64 - 7,
                rkey: mr.rkey(),
                ..x.remote(7, WqeOpcode::WRITE, &sge, y, 0)
            };
            x.post(&[wr]);
            x.expect_status(7, CqeStatus::REM_ACCESS_ERR);
            y.device.card().unmap(memory.addr(0), memory.addr(0) as *mut u8, memory.len());
        });
    }
}

#[test]
fn a_read_of_a_page_that_is_not_there_fails_at_once() {
    const PAGES: usize = 32;
    on_one_and_two_cards(small(), |x, y| {
        let memory = y.mr.addr().next_multiple_of(4096);
        // The answer before it is of several packets, and has left when the card comes to it.
        let mut pages = [memory; PAGES];
        pages[20] = 0x70_dead_0000;
        let length = (PAGES * 4096) as u64;
        let list = PageList { pages: &pages, page_shift: 12, first_offset: 0, length };
        // SAFETY: the pages are the peer's buffer, and one that is not there.
        #[allow(unsafe_code)]
        let mr = unsafe { y.pd.reg_pages(&list, 0, all()) }.expect("a region");
        let sge = [x.sge(0, PAGES * 4096)];
        let wr = x.remote(1, WqeOpcode::READ, &sge, y, 0);
        x.post(&[SendWr { remote_addr: 0, rkey: mr.rkey(), ..wr }]);
        x.expect_status(1, CqeStatus::REM_OP_ERR);
    });
}

#[test]
fn page_lists_that_do_not_fit_are_refused() {
    let net = Net::new(1);
    let y = Peer::new(&net.open(0), small());
    let iova = y.mr.addr();
    let good = PageList { pages: &[iova, iova + 8192], page_shift: 12, first_offset: 100, length: 8000 };
    let wrong = [
        PageList { pages: &[iova], ..good },
        PageList { pages: &[iova, iova, iova], ..good },
        PageList { pages: &[iova, iova + 8], ..good },
        PageList { first_offset: 4096, ..good },
        PageList { page_shift: 11, ..good },
        PageList { page_shift: 63, ..good },
        PageList { length: 0, ..good },
    ];
    // SAFETY: the pages are the peer's buffer.
    #[allow(unsafe_code)]
    let register = |list: &PageList<'_>| unsafe { y.pd.reg_pages(list, 0, all()) };
    for (n, list) in wrong.iter().enumerate() {
        assert!(register(list).is_err(), "list {n}");
    }
    register(&good).expect("a region");
}
