//! Flow rules: what a program gives (`rte_flow.h`), and the functions that a driver has for it (`rte_flow_driver.h`).

use std::ffi::{c_char, c_int, c_void};

use super::ethdev::EthDev;

/// `struct rte_flow_attr`.
#[repr(C)]
pub struct Attr {
    /// The table that the rule is in.
    pub group: u32,
    /// 0 is the best.
    pub priority: u32,
    /// Bits of `INGRESS`, `EGRESS`, `TRANSFER`; the others are reserved.
    pub directions: u32,
}

impl Attr {
    /// Of frames that the port receives.
    pub const INGRESS: u32 = 1 << 0;
    /// Of frames that the port sends.
    pub const EGRESS: u32 = 1 << 1;
    /// Of frames that an embedded switch passes on.
    pub const TRANSFER: u32 = 1 << 2;
}

/// `struct rte_flow_item`: a header of the frames of a rule.
#[repr(C)]
pub struct Item {
    /// `RTE_FLOW_ITEM_TYPE_*`.
    pub kind: c_int,
    /// The header's values; null: any.
    pub spec: *const c_void,
    /// The last values of a range; null: none.
    pub last: *const c_void,
    /// Which bits of the values count; null: those that the type says.
    pub mask: *const c_void,
}

/// `RTE_FLOW_ITEM_TYPE_*`.
pub mod item {
    #![allow(missing_docs)]
    pub const END: i32 = 0;
    pub const VOID: i32 = 1;
    pub const ETH: i32 = 6;
    pub const VLAN: i32 = 7;
    pub const IPV4: i32 = 8;
    pub const IPV6: i32 = 9;
    pub const UDP: i32 = 11;
    pub const TCP: i32 = 12;
}

/// `struct rte_flow_action`: what happens to the frames of a rule.
#[repr(C)]
pub struct Action {
    /// `RTE_FLOW_ACTION_TYPE_*`.
    pub kind: c_int,
    /// What the type needs.
    pub conf: *const c_void,
}

/// `RTE_FLOW_ACTION_TYPE_*`.
pub mod action {
    #![allow(missing_docs)]
    pub const END: i32 = 0;
    pub const VOID: i32 = 1;
    pub const MARK: i32 = 4;
    pub const QUEUE: i32 = 6;
    pub const DROP: i32 = 7;
    pub const COUNT: i32 = 8;
    pub const RSS: i32 = 9;
}

/// `struct rte_flow_action_rss`.
#[repr(C)]
pub struct ActionRss {
    /// `enum rte_eth_hash_function`: 0 the driver's own, 1 Toeplitz, 3 symmetric Toeplitz.
    pub function: c_int,
    /// Which of the headers of a tunnel: 0 the driver's choice, 1 the outermost.
    pub level: u32,
    /// Bits of `RTE_ETH_RSS_*`; 0: the driver's choice.
    pub kinds: u64,
    /// Bytes of the key.
    pub key_len: u32,
    /// Number of queues.
    pub queue_num: u32,
    /// The key; null: the driver's own.
    pub key: *const u8,
    /// The queues.
    pub queues: *const u16,
}

/// `struct rte_flow_query_count`: what a rule has counted.
#[repr(C)]
pub struct QueryCount {
    /// [`QueryCount::RESET`] when it is asked; what is known when it is answered.
    pub bits: u32,
    /// Frames.
    pub hits: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl QueryCount {
    /// The next one is to count from zero.
    pub const RESET: u32 = 1 << 0;
    /// `hits` and `bytes` are known.
    pub const KNOWN: u32 = 1 << 1 | 1 << 2;
}

/// `struct rte_flow_error`: why a rule was refused.
#[repr(C)]
pub struct FlowError {
    /// [`Cause`].
    pub kind: c_int,
    /// The program's object that is the cause.
    pub cause: *const c_void,
    /// What to do.
    pub message: *const c_char,
}

/// `enum rte_flow_error_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Cause {
    Unspecified = 1,
    Handle = 2,
    Group = 3,
    Priority = 4,
    Ingress = 5,
    Egress = 6,
    Transfer = 7,
    Attr = 8,
    ItemSpec = 10,
    ItemLast = 11,
    ItemMask = 12,
    Item = 13,
    ActionNum = 14,
    ActionConf = 15,
    Action = 16,
}

type Check =
    unsafe extern "C" fn(*mut EthDev, *const Attr, *const Item, *const Action, *mut FlowError) -> c_int;
type Query =
    unsafe extern "C" fn(*mut EthDev, *mut c_void, *const Action, *mut c_void, *mut FlowError) -> c_int;
type Create =
    unsafe extern "C" fn(*mut EthDev, *const Attr, *const Item, *const Action, *mut FlowError) -> *mut c_void;

/// `struct rte_flow_ops`, as long as the longest of all releases. What is zero, ethdev refuses as not supported.
#[repr(C)]
pub struct FlowOps {
    /// Whether a rule could be made.
    pub validate: Check,
    /// Makes a rule; null if it is refused.
    pub create: Create,
    /// Ends a rule.
    pub destroy: unsafe extern "C" fn(*mut EthDev, *mut c_void, *mut FlowError) -> c_int,
    /// Ends all.
    pub flush: unsafe extern "C" fn(*mut EthDev, *mut FlowError) -> c_int,
    /// Reads what a rule has counted.
    pub query: Query,
    /// Has the port receive what rules name, and no more.
    pub isolate: unsafe extern "C" fn(*mut EthDev, c_int, *mut FlowError) -> c_int,
    pub(crate) others: [usize; 34],
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Attr>() == 12 && size_of::<Item>() == 32 && size_of::<Action>() == 16);
    assert!(size_of::<ActionRss>() == 40 && offset_of!(ActionRss, queues) == 32);
    assert!(size_of::<FlowError>() == 24 && size_of::<QueryCount>() == 24);
    assert!(size_of::<FlowOps>() == 320 && offset_of!(FlowOps, isolate) == 40);
};
