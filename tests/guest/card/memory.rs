//! Which of this program's memory the cards can read and write, and which they cannot.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use driver::{Mr, PageList, SendWr, Sge, Wc};
use fpga_regs::{Access, CqeStatus, WqeOpcode};
use tests::{connect, Buffer, Options, Peer};

use crate::Card;

type Side = Peer<driver::backend::vfio::Vfio>;
type Region = std::sync::Arc<Mr<driver::backend::vfio::Vfio>>;

/// All access rights.
fn all() -> Access {
    Options::default().access
}

/// WRITE, READ, SEND and the atomics from a to b and from b to a, every byte compared.
pub fn both_ways(a: &Card, b: &Card) -> driver::Result<()> {
    let (mut x, mut y) = connect(a, b, Options::default());
    let bytes = x.options.bytes;
    for round in 0..2u8 {
        let half = bytes / 2;
        x.buffer.pattern(round * 2 + 1);
        y.buffer.fill(0);
        let sge = [x.sge(0, half)];
        x.completes(x.remote(1, WqeOpcode::WRITE, &sge, &y, half));
        assert!(y.buffer[half..] == x.buffer[..half], "what was written");
        assert!(y.buffer[..half].iter().all(|byte| *byte == 0), "what was not");
        y.buffer.pattern(round * 2 + 2);
        let sge = [x.sge(half, half)];
        x.completes(x.remote(2, WqeOpcode::READ, &sge, &y, 0));
        assert!(x.buffer[half..] == y.buffer[..half], "what was read");
        // An odd offset and an odd length.
        y.recv(3, &[y.sge(4097, 5001)]);
        let sge = [x.sge(1, 4999)];
        x.completes(x.wr(4, WqeOpcode::SEND, &sge));
        assert_eq!(y.expect(3).byte_len, 4999);
        assert!(y.buffer[4097..4097 + 4999] == x.buffer[1..5000], "what was sent");
        y.buffer[64..72].copy_from_slice(&41u64.to_le_bytes());
        let sge = [x.sge(0, 8)];
        x.completes(SendWr { compare_add: 1, ..x.remote(5, WqeOpcode::FETCH_ADD, &sge, &y, 64) });
        assert_eq!((&x.buffer[..8], &y.buffer[64..72]), (&41u64.to_le_bytes()[..], &42u64.to_le_bytes()[..]));
        std::mem::swap(&mut x, &mut y);
    }
    Ok(())
}

fn region(side: &Side, buffer: &Buffer, at: usize, len: usize) -> driver::Result<Region> {
    assert!(at + len <= buffer.len());
    // SAFETY: the callers keep the buffer until the region is gone.
    unsafe { side.pd.reg_mr(buffer.addr(at) as *mut u8, len, buffer.addr(at), all()) }
}

/// Writes 64 bytes of `value` from x's buffer to an address of y's. Returns the completion's status.
fn write(x: &mut Side, value: u8, addr: u64, rkey: u32) -> Wc {
    x.buffer[..64].fill(value);
    let sge = [x.sge(0, 64)];
    let wr = SendWr { remote_addr: addr, rkey, ..x.wr(value.into(), WqeOpcode::WRITE, &sge) };
    x.post(&[wr]);
    x.wait()
}

/// The same page in two regions, a region inside another, and memory that changes under an address.
pub fn regions(a: &Card, b: &Card) -> driver::Result<()> {
    const PAGE: usize = 4096;
    let (mut x, y) = connect(a, b, Options::default());
    let buffer = Buffer::new(16 * PAGE);
    let outer = region(&y, &buffer, 0, 16 * PAGE)?;
    let inner = region(&y, &buffer, 4 * PAGE, PAGE)?;
    let overlap = region(&y, &buffer, 4 * PAGE + 100, 8 * PAGE)?;
    let mut check = |mr: &Region, at: usize, value: u8| {
        let wc = write(&mut x, value, buffer.addr(at), mr.rkey());
        assert_eq!(wc.status, CqeStatus::SUCCESS);
        assert!(buffer[at..at + 64].iter().all(|byte| *byte == value), "at {at:#x}: {value}");
    };
    check(&outer, 4 * PAGE, 1);
    check(&inner, 4 * PAGE, 2);
    check(&overlap, 4 * PAGE + 100, 3);
    outer.destroy()?;
    check(&inner, 4 * PAGE + 1000, 4);
    check(&overlap, 12 * PAGE, 5);
    // Other memory at the addresses of a former region.
    // SAFETY: a new mapping in the place of pages of `buffer` that no region holds.
    let fresh = unsafe {
        libc::mmap(
            buffer.addr(PAGE) as *mut _,
            2 * PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    assert_ne!(fresh, libc::MAP_FAILED);
    let again = region(&y, &buffer, PAGE, 2 * PAGE)?;
    check(&again, PAGE + 8, 6);
    inner.destroy()?;
    check(&overlap, 5 * PAGE, 7);
    overlap.destroy()?;
    check(&again, 2 * PAGE, 8);
    again.destroy()?;
    // Many at once, then all are deregistered.
    for _ in 0..3 {
        let held =
            (0..16).map(|page| region(&y, &buffer, page * PAGE, PAGE)).collect::<driver::Result<Vec<_>>>()?;
        check(&held[9], 9 * PAGE, 9);
        held.iter().try_for_each(|mr| mr.destroy())?;
    }
    Ok(())
}

/// Registers huge pages, and prints how long ordinary ones of the same size take.
pub fn huge(a: &Card, b: &Card) -> driver::Result<()> {
    const BYTES: usize = 64 << 20;
    let (mut x, y) = connect(a, b, Options::default());
    let timed = |flags: i32| -> driver::Result<(Duration, u64, Region)> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE | flags;
        // SAFETY: a new mapping of the kernel's choice, which stays until the program ends.
        let ptr = unsafe {
            libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        assert_ne!(ptr, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let start = Instant::now();
        // SAFETY: the mapping stays.
        let mr = unsafe { y.pd.reg_mr(ptr.cast(), BYTES, ptr as u64, all())? };
        Ok((start.elapsed(), ptr as u64, mr))
    };
    let (small, _, mr) = timed(0)?;
    mr.destroy()?;
    let (large, addr, mr) = timed(libc::MAP_HUGETLB)?;
    assert_eq!(write(&mut x, 7, addr + BYTES as u64 - 64, mr.rkey()).status, CqeStatus::SUCCESS);
    // SAFETY: the last bytes of the mapping; the card has written them.
    let last = unsafe { std::slice::from_raw_parts((addr as usize + BYTES - 64) as *const u8, 64) };
    assert!(last.iter().all(|byte| *byte == 7));
    mr.destroy()?;
    println!("64 MiB registered in {small:?} as small pages, in {large:?} as huge ones");
    Ok(())
}

/// A region with unmapped addresses: the card must get nothing, and report it.
pub fn outside(a: &Card, b: &Card) -> driver::Result<()> {
    /// No memory is ever mapped at this address.
    const NOWHERE: u64 = 0x70_dead_0000;
    let (x, y) = connect(a, b, Options::default());
    let list = PageList { pages: &[NOWHERE], page_shift: 12, first_offset: 0, length: 4096 };
    // SAFETY: these pages are not mapped on purpose.
    let bad = unsafe { x.pd.reg_pages(&list, 0x1000, all())? };
    let sge = [Sge { addr: 0x1000, length: 64, lkey: bad.lkey() }];
    x.post(&[x.remote(1, WqeOpcode::WRITE, &sge, &y, 0)]);
    let wc = x.wait();
    println!("DMA read from {NOWHERE:#x}: {}", wc.status);
    assert_ne!(wc.status, CqeStatus::SUCCESS);
    assert!(y.buffer.iter().all(|byte| *byte == 0), "nothing came");
    let (x, y) = connect(a, b, Options::default());
    // SAFETY: as above.
    let bad = unsafe { y.pd.reg_pages(&list, 0x1000, all())? };
    let sge = [x.sge(0, 64)];
    x.post(&[SendWr { remote_addr: 0x1000, rkey: bad.rkey(), ..x.wr(2, WqeOpcode::WRITE, &sge) }]);
    let wc = x.wait();
    println!("DMA write to {NOWHERE:#x}: {}", wc.status);
    assert_ne!(wc.status, CqeStatus::SUCCESS);
    // Both cards keep working.
    both_ways(a, b)
}

/// Registers `mib` MiB.
pub fn pin(a: &Card, mib: usize) -> driver::Result<()> {
    let buffer = Buffer::new(mib << 20);
    let pd = a.alloc_pd()?;
    // SAFETY: the buffer outlives the region.
    unsafe { pd.reg_mr(buffer.addr(0) as *mut u8, buffer.len(), buffer.addr(0), all()) }?.destroy()
}
