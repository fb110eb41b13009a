//! What ethdev calls in DPDK's secondary processes (`dpdk-proc-info`, `dpdk-dumpcap`): they have the primary process do it, which
//! alone has the card open. What a function reads or writes is in memory of DPDK meanwhile, which both have.
//!
//! A secondary process neither receives nor sends: its queues are in the primary one's own memory. To capture is no matter of
//! drivers: the primary process copies its frames into a ring.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

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

/// What a secondary process asks for.
#[repr(C)]
#[derive(Clone, Copy)]
struct Question {
    /// Which of all questions of the process.
    turn: u64,
    /// Number of the port.
    port: u16,
    /// What is to be done: one of [`call`].
    call: u16,
    /// A queue, a length or a switch.
    number: u32,
    /// What is read or written; null for nothing. A process that can ask can also write all memory of DPDK, so this is trusted.
    memory: *mut c_void,
}

/// What the primary process answers.
#[repr(C)]
#[derive(Clone, Copy)]
struct Answer {
    /// The question's.
    turn: u64,
    /// What the function has returned.
    status: c_int,
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
// SAFETY: a device is used in any thread, as its port has a mutex.
unsafe impl Send for Served {}

/// The devices of the primary process, by port. Who answers a question holds this, so that no device goes meanwhile.
static SERVED: Mutex<BTreeMap<u16, Served>> = Mutex::new(BTreeMap::new());

fn served() -> MutexGuard<'static, BTreeMap<u16, Served>> {
    SERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
/// `dev` must be a device of ethdev.
unsafe fn port(dev: *mut EthDev) -> u16 {
    // SAFETY: as the caller promises.
    unsafe { (*EthDevData::more(EthDev::data(dev))).port_id }
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
    served().insert(unsafe { port(dev) }, Served(dev));
}

/// No process can ask for a device any more.
///
/// # Safety
/// `dev` must be a device of this driver.
pub unsafe fn forget(dev: *mut EthDev) {
    // SAFETY: as the caller promises.
    served().remove(&unsafe { port(dev) });
}

unsafe extern "C" fn answer(message: *const Message, from: *const c_void) -> c_int {
    // SAFETY: called by DPDK with a message, to be answered in any case; any bytes are a question, as bytes.
    unsafe {
        let Some(question) = Message::content::<Question>(message) else { return -1 };
        let status = match served().get(&question.port) {
            Some(dev) => answered(dev.0, &question),
            None => -libc::ENODEV,
        };
        let mut message = Message::new(NAME, Answer { turn: question.turn, status });
        abi::rte_mp_reply(&mut message, from.cast())
    }
}

/// # Safety
/// `dev` must be a device of the primary process, and the memory what [`operations`] give for that call.
unsafe fn answered(dev: *mut EthDev, &Question { call, number, memory, .. }: &Question) -> c_int {
    let (queue, on) = (number as u16, number != 0);
    // SAFETY: as the caller promises.
    unsafe {
        match call {
            call::LINK_UPDATE => info::link_update::<Card>(dev, number as c_int),
            call::DEV_INFOS_GET => info::infos::<Card>(dev, memory.cast()),
            call::STATS_GET => info::stats::<Card>(dev, memory.cast()),
            call::STATS_RESET => info::stats_reset::<Card>(dev),
            call::XSTATS_GET => info::counters::<Card>(dev, memory.cast(), number),
            call::XSTATS_GET_NAMES => info::counter_names::<Card>(dev, memory.cast(), number),
            call::RXQ_INFO_GET => {
                queues::rx_info::<Card>(dev, queue, memory.cast());
                0
            }
            call::TXQ_INFO_GET => {
                queues::tx_info::<Card>(dev, queue, memory.cast());
                0
            }
            call::FLOW_CTRL_GET => ops::pause_get::<Card>(dev, memory.cast()),
            call::RSS_HASH_CONF_GET => {
                let hash = memory.cast::<Hash>();
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

/// Sends a question, and gives its answer; `None` if there is none for five seconds. One thread at a time may ask.
fn sent(question: Question) -> Option<Answer> {
    let (mut message, mut replies) = (Message::new(NAME, question), Replies::none());
    let limit = libc::timespec { tv_sec: 5, tv_nsec: 0 };
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
    static TURN: Mutex<u64> = Mutex::new(0);
    let count = if list.is_null() { 0 } else { count };
    // SAFETY: as the caller promises, and memory of DPDK with as much room.
    unsafe {
        let memory: *mut T = match count {
            0 => null_mut(),
            _ => {
                abi::rte_zmalloc(NAME.as_ptr(), count * size_of::<T>(), align_of::<T>().max(64) as u32).cast()
            }
        };
        if count != 0 {
            if memory.is_null() {
                return -libc::ENOMEM;
            }
            memory.copy_from_nonoverlapping(list, count);
        }
        let mut turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        *turn += 1;
        let question = Question { turn: *turn, port: port(dev), call, number, memory: memory.cast() };
        let answer = sent(question);
        let Some(answer) = answer.filter(|answer| answer.turn == *turn) else {
            log("DPDK's primary process does not answer: is it still running?");
            // It may still write to the memory, which therefore stays.
            return -libc::ETIMEDOUT;
        };
        if count != 0 {
            list.copy_from_nonoverlapping(memory, count);
            abi::rte_free(memory.cast());
        }
        answer.status
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
    // SAFETY: called by ethdev for a device of this driver.
    unsafe { ask(dev, call::RXQ_INFO_GET, queue.into(), info, 1) };
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
