//! Packet buffers (mbufs) and their pools, with the functions that DPDK has in its headers only.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

/// `RTE_PKTMBUF_HEADROOM`: bytes kept free before a received packet.
pub const HEADROOM: u16 = 128;
/// `RTE_MAX_LCORE`: threads with another number have no cache.
pub const MAX_LCORE: u32 = 128;
/// Bytes of `struct rte_mempool`, after whose caches its private data is.
pub const POOL: usize = 192;
/// Objects in a cache, at most.
const CACHE_OBJECTS: usize = 1024;
/// `RTE_MEMPOOL_CACHE_MAX_SIZE`: the most that is taken from a cache at once.
pub const CACHE_MAX: usize = 512;

/// `RTE_MBUF_F_RX_VLAN` and `RTE_MBUF_F_RX_VLAN_STRIPPED`: its tag is in `vlan_tci` only.
pub const RX_VLAN_STRIPPED: u64 = 1 << 0 | 1 << 6;
/// `RTE_MBUF_F_RX_RSS_HASH`: there is a hash.
pub const RX_RSS_HASH: u64 = 1 << 1;
/// `RTE_MBUF_F_RX_FDIR` and `RTE_MBUF_F_RX_FDIR_ID`: there is the mark of a flow rule.
pub const RX_MARKED: u64 = 1 << 2 | 1 << 13;
/// `RTE_MBUF_F_RX_IP_CKSUM_GOOD`; without it or its opposite, it is unknown.
pub const RX_IP_CKSUM_GOOD: u64 = 1 << 7;
/// `RTE_MBUF_F_RX_L4_CKSUM_GOOD`.
pub const RX_L4_CKSUM_GOOD: u64 = 1 << 8;
/// `RTE_MBUF_F_TX_TCP_SEG`: it is TCP that is to be cut into frames.
pub const TX_TCP_SEG: u64 = 1 << 50;
/// `RTE_MBUF_F_TX_L4_MASK`: which checksum of layer 4 is asked for; 2, SCTP, is not announced.
pub const TX_L4_MASK: u64 = 3 << 52;
/// `RTE_MBUF_F_TX_TCP_CKSUM`.
pub const TX_TCP_CKSUM: u64 = 1 << 52;
/// `RTE_MBUF_F_TX_UDP_CKSUM`.
pub const TX_UDP_CKSUM: u64 = 3 << 52;
/// `RTE_MBUF_F_TX_IP_CKSUM`: the checksum of IPv4 is asked for.
pub const TX_IP_CKSUM: u64 = 1 << 54;
/// `RTE_MBUF_F_TX_VLAN`: a tag with `vlan_tci` is to be inserted.
pub const TX_VLAN: u64 = 1 << 57;
/// `RTE_MBUF_F_EXTERNAL`: its buffer is not in its pool. It is so as long as the pool is there.
pub const EXTERNAL: u64 = 1 << 61;

/// `struct rte_mbuf`: a piece of a packet.
#[repr(C, align(64))]
pub struct Mbuf {
    /// Start of its buffer.
    pub buf_addr: *mut u8,
    buf_iova: u64,
    /// Where the data begins in the buffer.
    pub data_off: u16,
    refcnt: u16,
    /// Pieces of the packet; counts in its first piece.
    pub nb_segs: u16,
    /// The port that it was received at.
    pub port: u16,
    /// Flags of offloads.
    pub ol_flags: u64,
    /// What kind of packet it is, if known.
    pub packet_type: u32,
    /// Bytes of the packet; counts in its first piece.
    pub pkt_len: u32,
    /// Bytes of this piece.
    pub data_len: u16,
    /// Tag control information of a tag that was removed, or is to be inserted.
    pub vlan_tci: u16,
    /// The hash by which it came to its queue.
    pub rss_hash: u32,
    /// The mark of a flow rule (`hash.fdir.hi`).
    pub mark: u32,
    vlan_tci_outer: u16,
    /// Bytes of the buffer, with headroom.
    pub buf_len: u16,
    /// The pool that it is of.
    pub pool: *mut Mempool,
    /// The next piece of the packet.
    pub next: *mut Mbuf,
    /// Bits of [`Lengths`].
    pub(crate) tx_offload: u64,
    shared_info: usize,
    private_size: u16,
    timesync: u16,
    dynamic: [u32; 9],
}

/// `struct rte_mempool`, as far as it is used.
#[repr(C)]
pub struct Mempool {
    name: [c_char; 56],
    flags: u32,
    socket: c_int,
    size: u32,
    pub(crate) cache_size: u32,
    elt_size: u32,
    header_size: u32,
    trailer_size: u32,
    private_data_size: u32,
    pub(crate) ops_index: u32,
    pub(crate) local_cache: *mut Cache,
}

/// `struct rte_mempool_cache`.
#[repr(C, align(64))]
pub(crate) struct Cache {
    pub(crate) size: u32,
    flush: u32,
    pub(crate) len: u32,
    pub(crate) objects: Aligned,
}

#[repr(C, align(64))]
pub(crate) struct Aligned([*mut c_void; CACHE_OBJECTS]);

/// `struct rte_mempool_ops`.
#[repr(C, align(64))]
pub(crate) struct Ops {
    name: [c_char; 32],
    alloc: usize,
    free: usize,
    enqueue: usize,
    pub(crate) dequeue: unsafe extern "C" fn(*mut Mempool, *mut *mut c_void, u32) -> c_int,
    others: [usize; 8],
}

/// `struct rte_mempool_ops_table`: the kinds of pools.
#[repr(C, align(64))]
pub struct OpsTable {
    lock: u32,
    count: u32,
    pub(crate) ops: [Ops; 16],
}

const _: () = {
    use std::mem::offset_of;
    assert!(
        size_of::<Mbuf>() == 128
            && offset_of!(Mbuf, buf_len) == 54
            && offset_of!(Mbuf, rss_hash) == 44
            && offset_of!(Mbuf, mark) == 48
            && offset_of!(Mbuf, vlan_tci) == 42
            && offset_of!(Mbuf, next) == 64
    );
    assert!(offset_of!(Mempool, local_cache) == 96 && offset_of!(Mempool, ops_index) == 88);
    assert!(size_of::<Cache>() == 8256 && size_of::<Ops>() == 128 && size_of::<OpsTable>() == 2112);
};

thread_local! {
    /// `rte_lcore_id()`: the number of this thread, in a variable that each has of its own.
    static LCORE: *const c_int = super::dpdk::of_this_thread(c"per_lcore__lcore_id");
}

fn lcore() -> u32 {
    // SAFETY: null, or this thread's own variable.
    LCORE.with(|&id| unsafe { id.as_ref() }.map_or(MAX_LCORE, |&id| id as u32))
}

/// Sets `rte_errno`, a variable of each thread.
pub fn set_errno(errno: c_int) {
    // SAFETY: null, or this thread's own variable.
    if let Some(at) = unsafe { super::dpdk::of_this_thread(c"per_lcore__rte_errno").as_mut() } {
        *at = errno;
    }
}

/// Bytes of the headers of a packet that is to be cut into frames, and of the data in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Of Ethernet.
    pub l2: usize,
    /// Of IP.
    pub l3: usize,
    /// Of TCP.
    pub l4: usize,
    /// Most bytes of data in a frame.
    pub mss: u16,
}

impl Lengths {
    /// Those in the `tx_offload` of an mbuf.
    #[inline]
    pub(crate) fn of(tx_offload: u64) -> Lengths {
        let bits = |at: u32, count: u32| (tx_offload >> at) as usize & ((1 << count) - 1);
        Lengths { l2: bits(0, 7), l3: bits(7, 9), l4: bits(16, 8), mss: bits(24, 16) as u16 }
    }
}

impl Mempool {
    /// Takes as many objects as `objects` has room for (`rte_mempool_get_bulk`); false if there are too few.
    ///
    /// # Safety
    /// `pool` must be a live pool, and the objects be used as what the pool holds.
    pub unsafe fn take<T>(pool: *mut Mempool, objects: &mut [*mut T]) -> bool {
        let lcore = lcore();
        // SAFETY: a live pool, which has a cache for each thread if it has any; only this thread uses its own.
        unsafe {
            if (*pool).cache_size == 0 || lcore >= MAX_LCORE || objects.len() > CACHE_MAX {
                return Mempool::dequeue(pool, objects.as_mut_ptr().cast(), objects.len());
            }
            let cache = (*pool).local_cache.add(lcore as usize);
            let cached: *mut *mut c_void = (&raw mut (*cache).objects).cast();
            let have = (*cache).len as usize;
            if have < objects.len() {
                let wanted = (*cache).size as usize + objects.len() - have;
                // Where there are not enough to fill the cache again, there may be enough for this.
                let missing = objects.len() - have;
                let more = have + wanted <= CACHE_OBJECTS && Mempool::dequeue(pool, cached.add(have), wanted);
                let taken = if more { wanted } else { missing };
                if !more && !Mempool::dequeue(pool, cached.add(have), missing) {
                    return false;
                }
                (*cache).len += taken as u32;
            }
            // The newest first: they are still in the processor's cache.
            for object in objects.iter_mut() {
                (*cache).len -= 1;
                *object = (*cached.add((*cache).len as usize)).cast();
            }
        }
        true
    }

    unsafe fn dequeue(pool: *mut Mempool, objects: *mut *mut c_void, count: usize) -> bool {
        // SAFETY: a live pool names ops that are registered.
        unsafe {
            let ops = &(*super::pool_kinds()).ops[(*pool).ops_index as usize];
            (ops.dequeue)(pool, objects, count as u32) == 0
        }
    }
}

impl Mbuf {
    /// The lengths of its headers.
    #[inline]
    pub fn lengths(&self) -> Lengths {
        Lengths::of(self.tx_offload)
    }

    /// Whether a packet has all the pieces that it says, each within its buffer, and they its length: what else a program hands
    /// over is not read.
    ///
    /// # Safety
    /// The packet and those of its pieces that are there must be live mbufs.
    #[inline]
    pub unsafe fn is_whole(packet: *const Mbuf) -> bool {
        // SAFETY: as the caller promises.
        unsafe {
            let (mut piece, mut length) = (&*packet, 0);
            for left in (0..(*packet).nb_segs).rev() {
                if u32::from(piece.data_off) + u32::from(piece.data_len) > u32::from(piece.buf_len) {
                    return false;
                }
                length += u32::from(piece.data_len);
                if left != 0 {
                    let Some(next) = piece.next.as_ref() else { return false };
                    piece = next;
                }
            }
            length == (*packet).pkt_len
        }
    }

    /// Copies `length` bytes of a packet, from byte `skip` of it on.
    ///
    /// # Safety
    /// The packet must be a [whole](Mbuf::is_whole) one that has these bytes, and `to` have room for them.
    #[inline]
    pub unsafe fn copy(packet: *const Mbuf, skip: u32, to: *mut u8, length: u32) {
        let (mut mbuf, mut skip, mut done) = (packet, skip, 0);
        while done < length {
            // SAFETY: as the caller promises.
            unsafe {
                let piece = &*mbuf;
                let skipped = skip.min(piece.data_len.into());
                let here = (u32::from(piece.data_len) - skipped).min(length - done);
                let from = piece.buf_addr.add(usize::from(piece.data_off) + skipped as usize);
                std::ptr::copy_nonoverlapping(from, to.add(done as usize), here as usize);
                skip -= skipped;
                done += here;
                mbuf = piece.next;
            }
        }
    }

    /// Bytes that a received packet has room for in a buffer of this pool.
    ///
    /// # Safety
    /// `pool` must be a live pool of mbufs.
    pub unsafe fn room(pool: *mut Mempool) -> u16 {
        // SAFETY: a live pool: its private data begins with the size of the buffers.
        unsafe {
            let caches = if (*pool).cache_size == 0 { 0 } else { size_of::<Cache>() * MAX_LCORE as usize };
            (*pool.byte_add(POOL + caches).cast::<u16>()).saturating_sub(HEADROOM)
        }
    }

    /// Where a received packet begins.
    ///
    /// # Safety
    /// `mbuf` must be a live mbuf.
    pub unsafe fn start(mbuf: *mut Mbuf) -> *mut u8 {
        // SAFETY: a live mbuf.
        unsafe { (*mbuf).buf_addr.add(usize::from(HEADROOM)) }
    }

    /// Frees the mbufs with all their pieces. The array stays as it is: a program may send what is in it once more, of which it
    /// has another reference.
    ///
    /// # Safety
    /// They must be whole packets of the caller's, or null.
    pub unsafe fn free(mbufs: &[*mut Mbuf]) {
        // SAFETY: as the caller promises; DPDK only reads the array.
        unsafe { super::rte_pktmbuf_free_bulk(mbufs.as_ptr().cast_mut(), mbufs.len() as u32) };
    }
}
