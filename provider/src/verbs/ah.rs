//! Address handles and address vectors.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use driver::{Ah as DriverAh, AhAttr};
use rdma_sys::*;

use super::card;
use super::context::Context;
use super::errno::object;
use super::object::Object;
use super::pd::Pd;

#[repr(C)]
struct Ah {
    ibv: ibv_ah,
    driver: DriverAh,
    /// As long as there is an address handle, its domain stays.
    _pd: Arc<card::Pd>,
}

impl Object for Ah {}

/// The driver's part of an address handle.
///
/// # Safety
/// `ah` must be null or a live address handle of this provider.
#[inline]
pub unsafe fn driver_ah<'a>(ah: *const ibv_ah) -> Option<&'a DriverAh> {
    // SAFETY: `ibv` is the first field.
    unsafe { ah.cast::<Ah>().as_ref() }.map(|ah| &ah.driver)
}

/// An address vector as the driver wants it. The LID fields mean nothing on Ethernet. Fields of the packet that are
/// narrower than those of the struct take their low bits, as on cards: programs fill in 32 random bits as flow label,
/// and the `sl` of a received datagram, which says more than a service level.
pub fn attr_of(attr: &ibv_ah_attr) -> AhAttr {
    AhAttr {
        grh: attr.is_global != 0,
        // SAFETY: every bit pattern is valid for the raw bytes of a GID.
        dgid: unsafe { attr.grh.dgid.raw },
        sgid_index: attr.grh.sgid_index,
        flow_label: attr.grh.flow_label & 0xf_ffff,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        sl: attr.sl & 7,
        port: attr.port_num,
        static_rate: attr.static_rate,
    }
}

/// An address vector as verbs lay it out.
pub fn ibv_attr_of(attr: &AhAttr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: attr.dgid },
            flow_label: attr.flow_label,
            sgid_index: attr.sgid_index,
            hop_limit: attr.hop_limit,
            traffic_class: attr.traffic_class,
        },
        dlid: 0,
        sl: attr.sl,
        src_path_bits: 0,
        static_rate: attr.static_rate,
        is_global: attr.grh.into(),
        port_num: attr.port,
    }
}

/// `ibv_create_ah`: asks the card for the peer's Ethernet address.
///
/// # Safety
/// Called by libibverbs with a live protection domain and valid attributes.
pub unsafe extern "C" fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    object(|| {
        // SAFETY: as the caller promises.
        let (context, driver_pd, attr) = unsafe { ((*pd).context, &Pd::of(pd).driver, &*attr) };
        let driver = driver_pd.create_ah(&attr_of(attr))?;
        let ibv = ibv_ah { context, pd, handle: 0 };
        // SAFETY: an open context.
        let objects = &unsafe { Context::of(context) }.objects;
        Ok(objects.add(Ah { ibv, driver, _pd: driver_pd.clone() }).cast())
    })
}

/// `ibv_destroy_ah`.
///
/// # Safety
/// Called by libibverbs with a live address handle.
pub unsafe extern "C" fn destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: comes from create_ah. Posted work requests hold a copy of what they need.
    unsafe { Context::of((*ah).context).objects.end(ah.cast::<Ah>(), || Ok(())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_vectors_survive_both_ways() {
        let attr = AhAttr {
            grh: true,
            dgid: *b"0123456789abcdef",
            sgid_index: 3,
            flow_label: 0x12345,
            hop_limit: 64,
            traffic_class: 7,
            sl: 5,
            port: 2,
            static_rate: 1,
        };
        assert_eq!(attr_of(&ibv_attr_of(&attr)), attr);
        let wider = AhAttr { flow_label: 0xfff1_2345, sl: 0xd, ..attr };
        assert_eq!(attr_of(&ibv_attr_of(&wider)), attr);
    }
}
