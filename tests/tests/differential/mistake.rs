//! What can be wrong with a request, and what comes of it.

use super::pair::{Pair, RC, TARGETS, UD, ZONE};
use super::request::*;
use tests::Random;

/// Work completion statuses of verbs.
pub mod status {
    pub const SUCCESS: u32 = 0;
    pub const LOCAL_PROTECTION: u32 = 4;
    pub const FLUSHED: u32 = 5;
    pub const INVALID_REQUEST: u32 = 9;
    pub const REMOTE_ACCESS: u32 = 10;
    pub const REMOTE_OPERATION: u32 = 11;
    pub const RETRY_EXCEEDED: u32 = 12;
    pub const RNR_RETRY_EXCEEDED: u32 = 13;
}
use status::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    LocalKey,
    LocalDomain,
    LocalBounds,
    LocalRight,
    RemoteKey,
    RemoteDomain,
    RemoteBounds,
    RemoteRight,
    WindowBounds,
    NoWindow,
    Unaligned,
    NoReceive,
    ShortReceive,
    ReceiveKey,
    WrongQkey,
    WrongQpn,
}

/// Which a message can have.
pub fn mistakes(kind: usize, opcode: usize, pair: &Pair, receiver: usize, length: usize) -> Vec<Mistake> {
    use Mistake::*;
    let mut all = vec![];
    if length > 0 {
        all.extend([LocalKey, LocalDomain, LocalBounds]);
        if matches!(opcode, READ | SWAP | ADD) {
            all.push(LocalRight);
        }
        if matches!(opcode, WRITE | WRITE_IMM | READ | SWAP | ADD) {
            all.extend([RemoteKey, RemoteDomain, RemoteBounds, RemoteRight]);
            if pair.index < 2 {
                all.push(if pair.window[receiver] == 0 { NoWindow } else { WindowBounds });
            }
        }
    }
    if matches!(opcode, SWAP | ADD) {
        all.push(Unaligned);
    }
    let own = !pair.srq[receiver];
    if matches!(opcode, SEND | SEND_IMM | WRITE_IMM) && own && !(kind == RC && pair.rnr_retry == 7) {
        all.push(NoReceive);
    }
    if matches!(opcode, SEND | SEND_IMM) && own && length > 1 {
        all.extend([ShortReceive, ReceiveKey]);
    }
    if kind == UD {
        all.extend([WrongQkey, WrongQpn]);
    }
    all
}

/// What it is for the sender of RC, InfiniBand 9.9 and 10.10; of UC and UD where `kind` is one of those: nobody tells
/// them of mistakes of the other side.
pub fn status_of(mistake: Mistake, kind: usize) -> u32 {
    use Mistake::*;
    match mistake {
        LocalKey | LocalDomain | LocalBounds | LocalRight => LOCAL_PROTECTION,
        _ if kind != RC => SUCCESS,
        RemoteKey | RemoteDomain | RemoteBounds | RemoteRight | WindowBounds | NoWindow => REMOTE_ACCESS,
        Unaligned | ShortReceive => INVALID_REQUEST,
        NoReceive => RNR_RETRY_EXCEEDED,
        ReceiveKey => REMOTE_OPERATION,
        WrongQkey | WrongQpn => SUCCESS,
    }
}

impl Mistake {
    /// Makes it in a request; those of the receiver are made where that posts.
    pub fn make(self, request: &mut Request, pair: &Pair, peer: usize, length: usize, random: &mut Random) {
        use Mistake::*;
        let Request { opcode, ref mut elements, ref mut remote, ref mut key, ref mut numbers, .. } = *request;
        match self {
            LocalKey => elements[0][2] = NO_KEY,
            LocalDomain => elements[0][2] = OTHER_DOMAIN,
            LocalRight => elements.iter_mut().for_each(|element| element[2] = READ_ONLY),
            LocalBounds => elements[0][0] = 8 * ZONE - elements[0][1] + 1,
            RemoteKey => *key = NO_KEY,
            RemoteDomain => *key = OTHER_DOMAIN,
            RemoteRight if opcode == READ => *key = NO_REMOTE,
            RemoteRight => *key = random.of(&[NO_REMOTE, READ_ONLY]),
            RemoteBounds => *remote = 8 * ZONE - if matches!(opcode, SWAP | ADD) { 0 } else { length / 2 },
            WindowBounds => {
                *key = WINDOW + pair.index;
                let bytes = pair.window[peer];
                *remote = pair.index * ZONE + TARGETS + bytes + 1 - length.min(bytes);
                if matches!(opcode, SWAP | ADD) {
                    // That they are not aligned would be another mistake.
                    *remote = remote.next_multiple_of(8);
                }
            }
            NoWindow => *key = WINDOW + pair.index,
            Unaligned => *remote += 1 + random.below(7),
            WrongQkey => numbers[1] = 1,
            WrongQpn => numbers[0] = -1,
            NoReceive | ShortReceive | ReceiveKey => {}
        }
    }
}
