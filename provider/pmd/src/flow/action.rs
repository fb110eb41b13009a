//! What a rule does with its frames.
#![allow(unsafe_code)]

use std::ffi::c_int;

use fpga_regs::{FlowContext, HASH_KEY};

use super::{Refusal, Result};
use crate::abi::flow::{action, Action, ActionRss, Cause};
use crate::spread::KINDS;

/// Most actions that are read.
const MOST_ACTIONS: usize = 64;
/// Most queues that frames are spread over: entries of a table of the card.
const MOST_QUEUES: u32 = 512;

/// `RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ`: both directions of a flow have the same hash.
const SYMMETRIC: c_int = 3;
/// Hash functions that a rule may ask for: any, Toeplitz, and that.
const FUNCTIONS: [c_int; 3] = [0, 1, SYMMETRIC];

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actions {
    /// Where frames go.
    pub target: Target,
    /// What they are marked with.
    pub mark: Option<u32>,
    /// They are counted.
    pub counts: bool,
}

impl Actions {
    /// A rule for the card that names frames, and does this with them.
    pub fn on(&self, names: &FlowContext) -> FlowContext {
        names
            .with_drop(self.target == Target::Drop)
            .with_marked(self.mark.is_some())
            .with_mark(self.mark.unwrap_or_default())
            .with_counted(self.counts)
    }
}

/// Where frames go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Nowhere.
    Drop,
    /// To one of these queues, by a hash of these kinds of packets.
    Queues {
        /// Numbers of receive queues, at least one.
        queues: Vec<u16>,
        /// Bits of `RTE_ETH_RSS_*`.
        kinds: u64,
        /// The key; the port's own if there is none.
        key: Option<[u8; HASH_KEY]>,
    },
}

impl Target {
    /// # Safety
    /// As [`read`].
    unsafe fn of(action: &Action) -> Result<Target> {
        if action.kind == action::DROP {
            return Ok(Target::Drop);
        }
        if !matches!(action.kind, action::QUEUE | action::RSS) {
            let why = c"actions are queue, rss, drop, mark and count";
            return Err(Refusal::unsupported(Cause::Action, why));
        }
        if action.conf.is_null() {
            return Err(Refusal::invalid(Cause::ActionConf, c"to which queue?"));
        }
        if action.kind == action::QUEUE {
            // SAFETY: as the caller promises: `struct rte_flow_action_queue`.
            let queue = unsafe { action.conf.cast::<u16>().read_unaligned() };
            return Ok(Target::Queues { queues: vec![queue], kinds: 0, key: None });
        }
        // SAFETY: as the caller promises.
        let rss = unsafe { &*action.conf.cast::<ActionRss>() };
        let why = match () {
            () if !FUNCTIONS.contains(&rss.function) => Some(c"the card's hash function is Toeplitz"),
            () if rss.level > 1 => Some(c"the card hashes the outermost headers"),
            () if rss.kinds & !KINDS != 0 => Some(c"the card does not hash all of these types"),
            () => None,
        };
        if let Some(why) = why {
            return Err(Refusal::unsupported(Cause::ActionConf, why));
        }
        if rss.queue_num == 0 || rss.queue_num > MOST_QUEUES || rss.queues.is_null() {
            return Err(Refusal::invalid(Cause::ActionConf, c"frames are spread over 1 to 512 queues"));
        }
        // A key without bytes is none, as testpmd gives it.
        let key = match rss.key_len as usize {
            _ if rss.key.is_null() => None,
            0 => None,
            // SAFETY: as the caller promises.
            HASH_KEY => Some(unsafe { rss.key.cast::<[u8; HASH_KEY]>().read_unaligned() }),
            _ => return Err(Refusal::invalid(Cause::ActionConf, c"a key has 40 bytes")),
        };
        let key = if rss.function == SYMMETRIC { Some(symmetric(key)?) } else { key };
        // SAFETY: as the caller promises.
        let queues = unsafe { std::slice::from_raw_parts(rss.queues, rss.queue_num as usize) }.to_vec();
        let kinds = if rss.kinds == 0 { KINDS } else { rss.kinds };
        Ok(Target::Queues { queues, kinds, key })
    }

    /// The numbers of its queues.
    pub fn queues(&self) -> &[u16] {
        match self {
            Target::Drop => &[],
            Target::Queues { queues, .. } => queues,
        }
    }
}

/// A key by which both directions of a flow have the same hash: one that repeats 16 bits, as addresses and ports begin at
/// multiples of them.
fn symmetric(key: Option<[u8; HASH_KEY]>) -> Result<[u8; HASH_KEY]> {
    let key = key.unwrap_or_else(|| std::array::from_fn(|n| [0x6d, 0x5a][n % 2]));
    if key.chunks(2).any(|pair| pair != &key[..2]) {
        let why = c"the card hashes both directions alike with a key that repeats its first two bytes only";
        return Err(Refusal::unsupported(Cause::ActionConf, why));
    }
    Ok(key)
}

/// What a list of actions does.
///
/// # Safety
/// `actions` must be a list that ends in `END`, each with the structure of its type.
pub unsafe fn read(actions: *const Action) -> Result<Actions> {
    let (mut target, mut mark, mut counts) = (None, None, false);
    for n in 0..MOST_ACTIONS {
        // SAFETY: as the caller promises.
        let action = unsafe { &*actions.add(n) };
        match action.kind {
            action::END => {
                let none = || Refusal::invalid(Cause::ActionNum, c"an action is missing: queue, rss or drop");
                return target.map(|target| Actions { target, mark, counts }).ok_or_else(none);
            }
            action::VOID => {}
            action::MARK if action.conf.is_null() => {
                return Err(Refusal::invalid(Cause::ActionConf, c"with which mark?").of(action));
            }
            // SAFETY: as the caller promises: `struct rte_flow_action_mark`.
            action::MARK => mark = Some(unsafe { action.conf.cast::<u32>().read_unaligned() }),
            // A rule has one counter, whatever its number.
            action::COUNT => counts = true,
            _ => {
                // SAFETY: as the caller promises.
                let next = unsafe { Target::of(action) }.map_err(|refusal| refusal.of(action))?;
                if target.replace(next).is_some() {
                    let why = c"frames go to one place: give one action";
                    return Err(Refusal::unsupported(Cause::ActionNum, why).of(action));
                }
            }
        }
    }
    Err(Refusal::invalid(Cause::Unspecified, c"actions without an end"))
}
