//! What ethdev calls about rules.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut, without_provenance_mut};

use driver::{Card, Error, FlowCount};
use fpga_regs::FlowContext;

use super::action::{read as read_actions, Actions};
use super::pattern;
use super::{Refusal, Result};
use crate::abi::ethdev::EthDev;
use crate::abi::flow::{action, Action, Attr, Cause, FlowError, FlowOps, Item, QueryCount};
use crate::abi::mbuf::set_errno;
use crate::dev::{with, Dev};
use crate::spread::RX_QUEUES;

/// What a program asks for, checked against the port.
///
/// # Safety
/// Called by ethdev with what a program gives it: lists that end, each element with the structure of its type.
unsafe fn read<C: Card>(
    dev: &Dev<'_, C>,
    (attr, items, actions): (*const Attr, *const Item, *const Action),
) -> Result<(u32, FlowContext, Actions)> {
    // SAFETY: as the caller promises; ethdev passes null on.
    let (priority, rule, does) = unsafe {
        let attr = attr.as_ref().ok_or(Refusal::invalid(Cause::Attr, c"attributes are missing"))?;
        if items.is_null() {
            return Err(Refusal::invalid(Cause::Item, c"the pattern is missing"));
        }
        if actions.is_null() {
            return Err(Refusal::invalid(Cause::ActionNum, c"the actions are missing"));
        }
        (pattern::priority(attr)?, pattern::read(items)?, read_actions(actions)?)
    };
    // SAFETY: ethdev's own. A port that is not configured yet may still get as many queues as there can be.
    let queues = match unsafe { (*dev.data).nb_rx_queues } {
        0 => RX_QUEUES,
        some => some,
    };
    if does.target.queues().iter().any(|&queue| queue >= queues) {
        let why = c"there is no such receive queue: they count from 0 to the number configured";
        return Err(Refusal::invalid(Cause::ActionConf, why).of(actions));
    }
    Ok((priority, rule.with_port(dev.port.number), does))
}

/// Calls with the port of a device. What is refused is told to the program, also in `rte_errno`; 0, or a negative errno value.
///
/// # Safety
/// As [`with`]; `error` is null or a structure.
unsafe fn telling<C: Card>(
    dev: *mut EthDev,
    error: *mut FlowError,
    call: impl FnOnce(&mut Dev<'_, C>) -> Result<()>,
) -> c_int {
    let mut refused = None;
    // SAFETY: as the caller promises.
    let status = unsafe {
        with::<C>(dev, "a flow rule", |dev| {
            refused = call(dev).err();
            Ok(())
        })
    };
    let refusal = match (status, refused) {
        (0, None) => return 0,
        (0, Some(refusal)) => refusal,
        (status, _) => {
            let message = c"the driver failed: the log says why";
            Refusal { errno: -status, cause: Cause::Unspecified, object: null(), message }
        }
    };
    // SAFETY: as the caller promises.
    if let Some(error) = unsafe { error.as_mut() } {
        *error = FlowError {
            kind: refusal.cause as c_int,
            cause: refusal.object,
            message: refusal.message.as_ptr(),
        };
    }
    set_errno(refusal.errno);
    -refusal.errno
}

unsafe extern "C" fn validate<C: Card>(
    dev: *mut EthDev,
    attr: *const Attr,
    items: *const Item,
    actions: *const Action,
    error: *mut FlowError,
) -> c_int {
    // SAFETY: called by ethdev.
    unsafe {
        telling::<C>(dev, error, |dev| {
            let (priority, rule, _) = read(dev, (attr, items, actions))?;
            dev.port.flows.check(priority, rule)
        })
    }
}

unsafe extern "C" fn create<C: Card>(
    dev: *mut EthDev,
    attr: *const Attr,
    items: *const Item,
    actions: *const Action,
    error: *mut FlowError,
) -> *mut c_void {
    let made = Cell::new(null_mut());
    // SAFETY: called by ethdev.
    unsafe {
        telling::<C>(dev, error, |dev| {
            let (priority, rule, actions) = read(dev, (attr, items, actions))?;
            let queues = dev.work_queues();
            let handle = dev.port.add_flow(priority, rule, actions, &queues)?;
            made.set(without_provenance_mut(handle));
            Ok(())
        });
    }
    made.get()
}

unsafe extern "C" fn destroy<C: Card>(dev: *mut EthDev, flow: *mut c_void, error: *mut FlowError) -> c_int {
    // SAFETY: called by ethdev; the handle is a number that is looked up.
    unsafe { telling::<C>(dev, error, |dev| dev.port.flows.remove(flow.addr())) }
}

unsafe extern "C" fn query<C: Card>(
    dev: *mut EthDev,
    flow: *mut c_void,
    action: *const Action,
    data: *mut c_void,
    error: *mut FlowError,
) -> c_int {
    // SAFETY: called by ethdev with an action, and the structure that its type is answered with; null is passed on.
    unsafe {
        telling::<C>(dev, error, |dev| {
            if action.as_ref().is_none_or(|action| action.kind != action::COUNT) {
                return Err(Refusal::unsupported(Cause::Action, c"rules answer to count only").of(action));
            }
            let Some(answer) = data.cast::<QueryCount>().as_mut() else {
                return Err(Refusal::invalid(Cause::Unspecified, c"there is no place for the answer"));
            };
            let reset = answer.bits & QueryCount::RESET != 0;
            let FlowCount { frames, bytes } = dev.port.flows.count(flow.addr(), reset)?;
            *answer = QueryCount { bits: answer.bits | QueryCount::KNOWN, hits: frames, bytes };
            Ok(())
        })
    }
}

unsafe extern "C" fn flush<C: Card>(dev: *mut EthDev, error: *mut FlowError) -> c_int {
    // SAFETY: called by ethdev.
    unsafe { telling::<C>(dev, error, |dev| dev.port.flows.clear()) }
}

unsafe extern "C" fn isolate<C: Card>(dev: *mut EthDev, set: c_int, error: *mut FlowError) -> c_int {
    let failed = |error: Error| {
        let message = c"the card refuses the port's own rules: the log says why";
        crate::abi::log(&format!("flow isolation: {error}"));
        Refusal { errno: error.errno(), cause: Cause::Unspecified, object: null(), message }
    };
    // SAFETY: called by ethdev.
    unsafe {
        telling::<C>(dev, error, |dev| dev.port.want(|wanted| wanted.isolated = set != 0).map_err(failed))
    }
}

/// `flow_ops_get`.
pub unsafe extern "C" fn get<C: Card>(_dev: *mut EthDev, ops: *mut *const c_void) -> c_int {
    let table: &FlowOps = const {
        &FlowOps {
            validate: validate::<C>,
            create: create::<C>,
            destroy: destroy::<C>,
            flush: flush::<C>,
            query: query::<C>,
            isolate: isolate::<C>,
            others: [0; 34],
        }
    };
    // SAFETY: called by ethdev with room for the pointer.
    unsafe { *ops = std::ptr::from_ref(table).cast() };
    0
}
