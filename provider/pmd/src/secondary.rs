//! What ethdev calls in DPDK's secondary processes (`dpdk-proc-info`, `dpdk-dumpcap`): they have the primary process do it, which
//! alone has the card open. What a function reads or writes is in memory of DPDK meanwhile, which both have.
//!
//! A secondary process neither receives nor sends: its queues are in the primary one's own memory. To capture is no matter of
//! drivers: the primary process copies its frames into a ring.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use fpga_regs::HASH_KEY;
use verbena::verbs::card::Card;

use crate::abi::ethdev::{EthDev, EthDevData, EthDevOps, FlowControl, RssConf, Stats, Xstat, XstatName};
use crate::abi::info::{DevInfo, RxqInfo, TxqInfo};
use crate::abi::mbuf::Mbuf;
use crate::abi::processes::{Message, Replies};
use crate::abi::{self, log};
use crate::{hash, info, ops, queues};

/// By which both processes know these messages.
const NAME: &CStr = c"net_verbena";
/// Of the questions, and of what is shared beside them: raise it when these change. Both processes must have the same.
const VERSION: u16 = 1;
/// How long a process waits for what it has asked for.
const LIMIT: Duration = Duration::from_secs(5);

/// What a secondary process asks for. The answer is 0, or an errno value where the question is not understood.
#[repr(C)]
#[derive(Clone, Copy)]
struct Question {
    /// [`VERSION`].
    version: u16,
    /// What is to be done: one of [`call`].
    call: u16,
    /// A queue, a length or a switch.
    number: u32,
    /// Whose address names the device: all processes have it there. What is in it is zeroed when the port is closed.
    data: *mut EthDevData,
    /// What has become of it. A process that can ask can also write all memory of DPDK, so this is trusted.
    outcome: *mut Outcome,
    /// What is read or written; null for nothing.
    list: *mut c_void,
}

/// What a function has returned, once it has: an answer alone may be that of the question before, for which nobody waits any more.
#[repr(C, align(64))]
struct Outcome(AtomicI32);

impl Outcome {
    /// Nothing yet.
    const NONE: c_int = c_int::MIN;

    /// What the function has returned, if it does before that time.
    fn wait(&self, until: Instant) -> Option<c_int> {
        loop {
            match self.0.load(Ordering::Acquire) {
                Outcome::NONE if Instant::now() >= until => return None,
                Outcome::NONE => std::thread::sleep(Duration::from_millis(1)),
                status => return Some(status),
            }
        }
    }
}

/// What can be asked for, by the names of ethdev's functions.
mod call {
    pub const LINK_UPDATE: u16 = 0;
    pub const DEV_INFOS_GET: u16 = 1;
    pub const STATS_GET: u16 = 2;
    pub const STATS_RESET: u16 = 3;
    pub const XSTATS_GET: u16 = 4;
    pub const XSTATS_GET_NAMES: u16 = 5;
    pub const RXQ_INFO_GET: u16 = 6;
    pub const TXQ_INFO_GET: u16 = 7;
    pub const FLOW_CTRL_GET: u16 = 8;
    pub const RSS_HASH_CONF_GET: u16 = 9;
    pub const PROMISCUOUS: u16 = 10;
    pub const ALLMULTICAST: u16 = 11;
}

/// A hash with room for its key.
#[repr(C)]
struct Hash {
    conf: RssConf,
    key: [u8; HASH_KEY],
}

/// A device of the primary process.
struct Served(*mut EthDev);
// SAFETY: a device is used in any thread: all that the calls use is in its port, below a mutex, or a number that is read whole.
unsafe impl Send for Served {}

/// The devices of the primary process, by the address of their data. Who answers a question holds this, so that no device goes
/// meanwhile.
static SERVED: Mutex<BTreeMap<usize, Served>> = Mutex::new(BTreeMap::new());

fn served() -> MutexGuard<'static, BTreeMap<usize, Served>> {
    SERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on secondary processes can ask for a device.
///
/// # Safety
/// `dev` must be a device of this driver, until it is [forgotten](forget).
pub unsafe fn serve(dev: *mut EthDev) {
    static REGISTERED: Once = Once::new();
    // SAFETY: a function that stays. A DPDK without secondary processes refuses it, and nobody asks.
    REGISTERED.call_once(|| _ = unsafe { abi::rte_mp_action_register(NAME.as_ptr(), answer) });
    // SAFETY: as the caller promises.
    served().insert(unsafe { EthDev::data(dev) }.addr(), Served(dev));
}

/// No process can ask for a device any more.
///
/// # Safety
/// `dev` must be a device of this driver.
pub unsafe fn forget(dev: *mut EthDev) {
    // SAFETY: as the caller promises.
    served().remove(&unsafe { EthDev::data(dev) }.addr());
}

unsafe extern "C" fn answer(message: *const Message, from: *const c_void) -> c_int {
    // SAFETY: called by DPDK with a message, to be answered in any case; any bytes are a question, as bytes.
    unsafe {
        let question = Message::content::<Question>(message);
        let answer = match question.filter(|question| question.version == VERSION) {
            Some(question) => {
                let status = match served().get(&question.data.addr()) {
                    Some(dev) => answered(dev.0, &question),
                    None => -libc::ENODEV,
                };
                (*question.outcome).0.store(status, Ordering::Release);
                0
            }
            None => -libc::EINVAL,
        };
        abi::rte_mp_reply(&mut Message::new(NAME, answer), from.cast())
    }
}

/// # Safety
/// `dev` must be a device of the primary process, and the list what [`operations`] give for that call.
unsafe fn answered(dev: *mut EthDev, &Question { call, number, list, .. }: &Question) -> c_int {
    let (queue, on) = (number as u16, number != 0);
    // SAFETY: as the caller promises.
    unsafe {
        match call {
            call::LINK_UPDATE => info::link_update::<Card>(dev, number as c_int),
            call::DEV_INFOS_GET => info::infos::<Card>(dev, list.cast()),
            call::STATS_GET => info::stats::<Card>(dev, list.cast()),
            call::STATS_RESET => info::stats_reset::<Card>(dev),
            call::XSTATS_GET => info::counters::<Card>(dev, list.cast(), number),
            call::XSTATS_GET_NAMES => info::counter_names::<Card>(dev, list.cast(), number),
            call::RXQ_INFO_GET => {
                queues::rx_info::<Card>(dev, queue, list.cast());
                0
            }
            call::TXQ_INFO_GET => {
                queues::tx_info::<Card>(dev, queue, list.cast());
                0
            }
            call::FLOW_CTRL_GET => ops::pause_get::<Card>(dev, list.cast()),
            call::RSS_HASH_CONF_GET => {
                let hash = list.cast::<Hash>();
                (*hash).conf.key = (&raw mut (*hash).key).cast();
                hash::get::<Card>(dev, &raw mut (*hash).conf)
            }
            call::PROMISCUOUS if on => ops::promiscuous_on::<Card>(dev),
            call::PROMISCUOUS => ops::promiscuous_off::<Card>(dev),
            call::ALLMULTICAST if on => ops::groups_on::<Card>(dev),
            call::ALLMULTICAST => ops::groups_off::<Card>(dev),
            _ => -libc::ENOTSUP,
        }
    }
}

/// Sends a question, and gives an answer; `None` if none comes in time. One thread at a time may ask.
fn sent(question: Question) -> Option<c_int> {
    let (mut message, mut replies) = (Message::new(NAME, question), Replies::none());
    let limit = libc::timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
    // SAFETY: structures of DPDK's, which it fills, and messages that it allocates with `malloc`.
    unsafe {
        let sent = abi::rte_mp_request_sync(&mut message, &mut replies, &limit) == 0;
        let answered = sent && replies.answered == 1;
        let answer = if answered { Message::content(replies.messages) } else { None };
        libc::free(replies.messages.cast());
        answer
    }
}

/// Has the primary process do a call, with a copy of what is at `list`, which it may change.
///
/// # Safety
/// `dev` must be a device of this driver, and `list` have `count` of what the call reads or writes; or be null.
unsafe fn ask<T>(dev: *mut EthDev, call: u16, number: u32, list: *mut T, count: usize) -> c_int {
    const { assert!(align_of::<T>() <= align_of::<Outcome>()) };
    static ONE: Mutex<()> = Mutex::new(());
    let count = if list.is_null() { 0 } else { count };
    let bytes = size_of::<Outcome>() + count * size_of::<T>();
    // SAFETY: as the caller promises, and memory of DPDK with as much room.
    unsafe {
        let outcome = abi::rte_zmalloc(NAME.as_ptr(), bytes, align_of::<Outcome>() as u32).cast::<Outcome>();
        if outcome.is_null() {
            return -libc::ENOMEM;
        }
        outcome.write(Outcome(AtomicI32::new(Outcome::NONE)));
        let mut copy: *mut T = null_mut();
        if count != 0 {
            copy = outcome.add(1).cast();
            copy.copy_from_nonoverlapping(list, count);
        }
        let data = EthDev::data(dev);
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + LIMIT;
        let question = Question { version: VERSION, call, number, data, outcome, list: copy.cast() };
        let status = match sent(question) {
            Some(0) => (*outcome).wait(until),
            Some(error) => {
                log(
                    "DPDK's primary process has another version of this driver: start both with the same one",
                );
                Some(error)
            }
            None => None,
        };
        drop(one);
        let Some(status) = status else {
            log("DPDK's primary process does not answer: is it still running?");
            // It may still write to the memory, which therefore stays.
            return -libc::ETIMEDOUT;
        };
        if count != 0 {
            list.copy_from_nonoverlapping(copy, count);
        }
        abi::rte_free(outcome.cast());
        status
    }
}

/// Defines functions of ethdev that ask for a call: with a number, and with so many of what is at a pointer.
macro_rules! asks {
    ($($name:ident($dev:ident $(, $arg:ident: $type:ty)*) = $call:ident, $number:expr, $list:expr, $count:expr;)*) => { $(
        unsafe extern "C" fn $name($dev: *mut EthDev $(, $arg: $type)*) -> c_int {
            // SAFETY: called by ethdev for a device of this driver, with what the function of that name has.
            unsafe { ask($dev, call::$call, $number, $list, $count) }
        }
    )* };
}

const NOTHING: *mut u8 = null_mut();

asks! {
    link_update(dev, wait: c_int) = LINK_UPDATE, wait as u32, NOTHING, 0;
    infos(dev, info: *mut DevInfo) = DEV_INFOS_GET, 0, info, 1;
    stats(dev, stats: *mut Stats) = STATS_GET, 0, stats, 1;
    stats_reset(dev) = STATS_RESET, 0, NOTHING, 0;
    counters(dev, list: *mut Xstat, room: u32) = XSTATS_GET, room, list, room as usize;
    counter_names(dev, list: *mut XstatName, room: u32) = XSTATS_GET_NAMES, room, list, room as usize;
    pause(dev, conf: *mut FlowControl) = FLOW_CTRL_GET, 0, conf, 1;
    promiscuous_on(dev) = PROMISCUOUS, 1, NOTHING, 0;
    promiscuous_off(dev) = PROMISCUOUS, 0, NOTHING, 0;
    groups_on(dev) = ALLMULTICAST, 1, NOTHING, 0;
    groups_off(dev) = ALLMULTICAST, 0, NOTHING, 0;
}

unsafe extern "C" fn rx_info(dev: *mut EthDev, queue: u16, info: *mut RxqInfo) {
    /// More than a `struct rte_mempool` and its private data: without name, size and room. No error can be told, and
    /// `dpdk-proc-info` reads the pool's name in any case.
    static NO_POOL: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];
    // SAFETY: called by ethdev for a device of this driver, with a structure.
    unsafe {
        ask(dev, call::RXQ_INFO_GET, queue.into(), info, 1);
        if (*info).pool.is_null() {
            (*info).pool = (&raw const NO_POOL).cast_mut().cast();
        }
    }
}

unsafe extern "C" fn tx_info(dev: *mut EthDev, queue: u16, info: *mut TxqInfo) {
    // SAFETY: as above.
    unsafe { ask(dev, call::TXQ_INFO_GET, queue.into(), info, 1) };
}

unsafe extern "C" fn hash(dev: *mut EthDev, conf: *mut RssConf) -> c_int {
    // SAFETY: called by ethdev with a structure, and room for a key if there is one.
    unsafe {
        let asked = RssConf { key: null_mut(), key_len: HASH_KEY as u8, kinds: 0 };
        let mut hash = Hash { conf: asked, key: [0; HASH_KEY] };
        let status = ask(dev, call::RSS_HASH_CONF_GET, 0, &mut hash, 1);
        if status == 0 {
            let conf = &mut *conf;
            if !conf.key.is_null() && usize::from(conf.key_len) >= HASH_KEY {
                conf.key.cast::<[u8; HASH_KEY]>().write(hash.key);
            }
            (conf.key_len, conf.kinds) = (hash.conf.key_len, hash.conf.kinds);
        }
        status
    }
}

/// There is nothing of this process to free.
unsafe extern "C" fn close(_: *mut EthDev) -> c_int {
    0
}

/// The functions of a device in a secondary process. ethdev refuses the others as not supported.
pub fn operations() -> EthDevOps {
    EthDevOps {
        dev_close: Some(close),
        link_update: Some(link_update),
        promiscuous_enable: Some(promiscuous_on),
        promiscuous_disable: Some(promiscuous_off),
        allmulticast_enable: Some(groups_on),
        allmulticast_disable: Some(groups_off),
        stats_get: Some(stats),
        stats_reset: Some(stats_reset),
        xstats_get: Some(counters),
        xstats_reset: Some(stats_reset),
        xstats_get_names: Some(counter_names),
        dev_infos_get: Some(infos),
        rxq_info_get: Some(rx_info),
        txq_info_get: Some(tx_info),
        flow_ctrl_get: Some(pause),
        rss_hash_conf_get: Some(hash),
        ..EthDevOps::default()
    }
}

/// Gives a device of a secondary process the functions of its data path, which say why there is none.
///
/// # Safety
/// `dev` must be a device of ethdev that nobody else of this process uses yet.
pub unsafe fn data_path(dev: *mut EthDev) {
    unsafe extern "C" fn refuse(_: *mut c_void, _: *mut *mut Mbuf, _: u16) -> u16 {
        static SAID: Once = Once::new();
        let why = "a secondary process of DPDK neither receives nor sends: have its primary process do that";
        SAID.call_once(|| log(why));
        0
    }
    // SAFETY: as the caller promises.
    unsafe {
        (*dev).rx_pkt_burst = Some(refuse);
        (*dev).tx_pkt_burst = Some(refuse);
    }
}
