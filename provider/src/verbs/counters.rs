//! Counters of flow rules (`ibv_create_counters(3)`).
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use driver::FlowCount;
use fpga_regs::regs::FeatureSet;
use rdma_sys::*;

use super::card;
use super::context::Context;
use super::errno::{object, status, Errno, Result};
use super::object::Object;

/// A set of counters, which a program reads at once.
#[repr(C)]
struct Counters {
    ibv: ibv_counters,
    counted: Arc<Counted>,
}

impl Object for Counters {}

/// What the rules count that name a set of counters: their sum, as the kernel's drivers have it.
#[derive(Default)]
pub struct Counted(Mutex<State>);

#[derive(Default)]
struct State {
    /// What is counted at each index.
    points: BTreeMap<u32, ibv_counter_description::Type>,
    flows: Vec<Arc<card::Flow>>,
    /// By rules that have ended.
    ended: FlowCount,
}

fn sum(a: FlowCount, b: FlowCount) -> FlowCount {
    FlowCount { frames: a.frames + b.frames, bytes: a.bytes + b.bytes }
}

impl Counted {
    /// Those of a set.
    ///
    /// # Safety
    /// `counters` must be null or live.
    pub unsafe fn of(counters: *mut ibv_counters) -> Result<Arc<Counted>> {
        // SAFETY: as the caller promises; `ibv` is the first field.
        unsafe { counters.cast::<Counters>().as_ref() }.map(|set| set.counted.clone()).ok_or(Errno::EINVAL)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rule counts here, too.
    pub fn begin(&self, flow: &Arc<card::Flow>) {
        self.lock().flows.push(flow.clone());
    }

    /// Ends a rule; what it has counted stays.
    pub fn end(&self, flow: &Arc<card::Flow>) -> Result<()> {
        let mut state = self.lock();
        let count = flow.count()?;
        flow.destroy()?;
        state.flows.retain(|other| !Arc::ptr_eq(other, flow));
        state.ended = sum(state.ended, count);
        Ok(())
    }
}

/// `ibv_create_counters`.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn create_counters(
    context: *mut ibv_context,
    attr: *mut ibv_counters_init_attr,
) -> *mut ibv_counters {
    object(|| {
        // SAFETY: as the caller promises.
        let (open, asked) = unsafe { (Context::of(context), (*attr).comp_mask) };
        Errno::EOPNOTSUPP
            .when(asked != 0 || !open.device_here()?.features().contains(FeatureSet::FLOW_COUNT))?;
        let ibv = ibv_counters { context };
        Ok(open.objects.add(Counters { ibv, counted: Arc::default() }).cast())
    })
}

/// `ibv_destroy_counters`: EBUSY while a rule counts there.
///
/// # Safety
/// Called by a program with live counters.
pub unsafe extern "C" fn destroy_counters(counters: *mut ibv_counters) -> c_int {
    // SAFETY: live counters.
    unsafe {
        Context::of((*counters).context).objects.end(counters.cast::<Counters>(), || {
            Errno(libc::EBUSY).when(!Counted::of(counters)?.lock().flows.is_empty())
        })
    }
}

/// `ibv_attach_counters_point_flow`: says what an index counts. Which rules count is said when these are made
/// (`IBV_FLOW_SPEC_ACTION_COUNT`): EOPNOTSUPP for one that is there already, as on mlx5.
///
/// # Safety
/// Called by a program with live counters and valid attributes.
pub unsafe extern "C" fn attach_counters_point_flow(
    counters: *mut ibv_counters,
    attr: *mut ibv_counter_attach_attr,
    flow: *mut ibv_flow,
) -> c_int {
    use ibv_counter_description::{IBV_COUNTER_BYTES, IBV_COUNTER_PACKETS};
    status(|| {
        // SAFETY: as the caller promises.
        let (counted, attr) = unsafe { (Counted::of(counters)?, &*attr) };
        Errno::EOPNOTSUPP.when(!flow.is_null() || attr.comp_mask != 0)?;
        Errno::EINVAL.when(!matches!(attr.counter_desc, IBV_COUNTER_PACKETS | IBV_COUNTER_BYTES))?;
        counted.lock().points.insert(attr.index, attr.counter_desc);
        Ok(())
    })
}

/// `ibv_read_counters`: EINVAL without a value for each index.
///
/// # Safety
/// Called by a program with live counters and room for `count` values.
pub unsafe extern "C" fn read_counters(
    counters: *mut ibv_counters,
    values: *mut u64,
    count: u32,
    flags: u32,
) -> c_int {
    status(|| {
        Errno::EOPNOTSUPP
            .when(flags & !ibv_read_counters_flags::IBV_READ_COUNTERS_ATTR_PREFER_CACHED.0 != 0)?;
        // SAFETY: as the caller promises.
        let counted = unsafe { Counted::of(counters)? };
        let state = counted.lock();
        Errno::EINVAL.when(state.points.keys().any(|&index| index >= count))?;
        let mut all = state.ended;
        for flow in &state.flows {
            all = sum(all, flow.count()?);
        }
        for (&index, &what) in &state.points {
            let value =
                if what == ibv_counter_description::IBV_COUNTER_BYTES { all.bytes } else { all.frames };
            // SAFETY: as the caller promises.
            unsafe { values.add(index as usize).write(value) };
        }
        Ok(())
    })
}
