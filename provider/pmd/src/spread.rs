//! Which receive queue gets a frame (RSS): a hash of its fields, and a redirection table.

use std::sync::Arc;

use driver::{Card, Device, Error, Pd, Qp, Result, Table};
use fpga_regs::{HashFields, HASH_KEY, SUITE_KEY};

/// Most receive queues of a port.
pub const RX_QUEUES: u16 = 64;
/// Entries of the redirection table.
pub const ENTRIES: usize = 128;

/// `RTE_ETH_RSS_*` of IPv4, its fragments and its other protocols; of its TCP; of its UDP.
const IPV4: u64 = 1 << 2 | 1 << 3 | 1 << 7;
const IPV4_TCP: u64 = 1 << 4;
const IPV4_UDP: u64 = 1 << 5;
/// The same of IPv6, each with its kind for packets with extension headers, of which the card takes the same addresses.
const IPV6: u64 = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 15;
const IPV6_TCP: u64 = 1 << 10 | 1 << 16;
const IPV6_UDP: u64 = 1 << 11 | 1 << 17;
/// All kinds of packets that can be hashed.
pub const KINDS: u64 = IPV4 | IPV4_TCP | IPV4_UDP | IPV6 | IPV6_TCP | IPV6_UDP;

/// The fields that the card hashes for these kinds. The card takes ports of either version of IP, and addresses of all
/// packets of one, so it may hash more than was asked for.
fn fields(kinds: u64) -> HashFields {
    [
        (IPV4 | IPV4_TCP | IPV4_UDP, HashFields::SRC_IPV4 | HashFields::DST_IPV4),
        (IPV6 | IPV6_TCP | IPV6_UDP, HashFields::SRC_IPV6 | HashFields::DST_IPV6),
        (IPV4_TCP | IPV6_TCP, HashFields::SRC_PORT_TCP | HashFields::DST_PORT_TCP),
        (IPV4_UDP | IPV6_UDP, HashFields::SRC_PORT_UDP | HashFields::DST_PORT_UDP),
    ]
    .into_iter()
    .filter(|(of, _)| kinds & of != 0)
    .fold(HashFields::default(), |all, (_, fields)| all | fields)
}

/// Entries of a table over which frames of a rule are spread.
const MOST_ENTRIES: usize = 512;

/// A queue pair that spreads frames over the entries of a table by a hash of these kinds of packets.
pub fn group<C: Card>(
    device: &Arc<Device<C>>,
    pd: &Arc<Pd<C>>,
    entries: &[Arc<Qp<C>>],
    kinds: u64,
    key: &[u8; HASH_KEY],
) -> Result<Group<C>> {
    let table = device.create_table(entries)?;
    Ok(Group { qp: pd.create_hash_qp(&table, fields(kinds), key)?, table })
}

/// The entries of a table that spreads frames evenly over these queues, of which there is at least one.
pub fn evenly<C: Card>(queues: &[Arc<Qp<C>>]) -> Vec<Arc<Qp<C>>> {
    // A table has a power of two: a larger one is more even.
    let entries = match queues.len() {
        exactly if exactly.is_power_of_two() => exactly,
        other => (4 * other.next_power_of_two()).clamp(ENTRIES, MOST_ENTRIES),
    };
    queues.iter().cycle().take(entries).cloned().collect()
}

/// The receive queues of a port by their numbers, those that are there.
pub type Receiving<C> = [Option<Arc<Qp<C>>>];

/// The queues of these numbers.
pub fn numbered<C: Card>(queues: &Receiving<C>, numbers: &[u16]) -> Result<Vec<Arc<Qp<C>>>> {
    let queue = |&n: &u16| {
        let queue = queues.get(usize::from(n)).ok_or_else(|| {
            Error::Invalid(format!("there is no receive queue {n}: the port has {}", queues.len()))
        })?;
        queue.clone().ok_or_else(|| Error::Invalid(format!("receive queue {n} is not set up")))
    };
    numbers.iter().map(queue).collect()
}

/// A table whose entries are the queues of these numbers in turn gets those that were made anew. Where there is none now, it
/// keeps the old one, to which nothing comes.
pub fn requeue<C: Card>(table: &Table<C>, numbers: &[u16], queues: &Receiving<C>) -> Result<()> {
    let now = |(old, &n): (Arc<Qp<C>>, &u16)| queues.get(usize::from(n)).cloned().flatten().unwrap_or(old);
    let entries: Vec<_> = table.queues().into_iter().zip(numbers.iter().cycle()).map(now).collect();
    table.modify(&entries)
}

/// What gives frames to queues.
pub struct Group<C: Card> {
    /// What the rules name.
    pub qp: Arc<Qp<C>>,
    /// The queue of each entry.
    pub table: Arc<Table<C>>,
}

/// How a port spreads frames.
pub struct Spread {
    /// The key of the hash.
    pub key: [u8; HASH_KEY],
    /// Kinds of packets that are hashed; the others have the hash 0.
    pub kinds: u64,
    /// The queue of each entry.
    pub entries: [u16; ENTRIES],
}

impl Default for Spread {
    fn default() -> Self {
        Spread { key: SUITE_KEY, kinds: 0, entries: [0; ENTRIES] }
    }
}

impl Spread {
    /// Entries that name the queues in turn.
    pub fn even(&mut self, queues: u16) {
        self.entries = std::array::from_fn(|n| n as u16 % queues.max(1));
    }

    /// The work queue of each entry.
    pub fn queues<C: Card>(&self, queues: &Receiving<C>) -> Result<Vec<Arc<Qp<C>>>> {
        numbered(queues, &self.entries)
    }
}
