//! Receive side scaling: indirection tables of work queues, and the queue pairs that spread frames over them.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use fpga_regs::{HashFields, HASH_KEY};
use rdma_sys::*;

use super::context::Context;
use super::errno::{object, Errno, Result};
use super::object::Object;
use super::pd::Pd;
use super::wq::Wq;
use super::{card, qp};

/// Larger tables than any card's are not looked at.
const MOST_LOG: u32 = 16;

/// An indirection table.
#[repr(C)]
struct Table {
    ibv: ibv_rwq_ind_table,
    driver: Arc<card::Table>,
}

impl Object for Table {}

/// `ibv_create_rwq_ind_table`.
///
/// # Safety
/// Called by a program with an open context and valid attributes, which name live work queues.
pub unsafe extern "C" fn create_rwq_ind_table(
    context: *mut ibv_context,
    attr: *mut ibv_rwq_ind_table_init_attr,
) -> *mut ibv_rwq_ind_table {
    object(|| {
        // SAFETY: as the caller promises.
        let (open, attr) = unsafe { (Context::of(context), &*attr) };
        Errno::EOPNOTSUPP.when(attr.comp_mask != 0)?;
        Errno::EINVAL.when(attr.log_ind_tbl_size > MOST_LOG || attr.ind_tbl.is_null())?;
        // SAFETY: the program's list has this many entries.
        let list = unsafe { std::slice::from_raw_parts(attr.ind_tbl, 1 << attr.log_ind_tbl_size) };
        Errno::EINVAL.when(list.iter().any(|wq| wq.is_null()))?;
        // SAFETY: live work queues.
        let queues: Vec<_> = list.iter().map(|&wq| unsafe { Wq::of(wq) }.driver.clone()).collect();
        let driver = open.device.create_table(&queues)?;
        let number = driver.number() as c_int;
        let ibv = ibv_rwq_ind_table { context, ind_tbl_handle: number, ind_tbl_num: number, comp_mask: 0 };
        Ok(open.objects.add(Table { ibv, driver }).cast())
    })
}

/// `ibv_destroy_rwq_ind_table`: EBUSY while a queue pair uses it.
///
/// # Safety
/// Called by a program with a live table.
pub unsafe extern "C" fn destroy_rwq_ind_table(table: *mut ibv_rwq_ind_table) -> c_int {
    let this = table.cast::<Table>();
    // SAFETY: a live table, whose first field is `ibv`.
    unsafe { Context::of((*table).context).objects.end(this, || Ok((*this).driver.destroy()?)) }
}

/// What is hashed, and the key.
///
/// # Safety
/// The key is readable.
unsafe fn hash_of(conf: &ibv_rx_hash_conf) -> Result<(HashFields, [u8; HASH_KEY])> {
    Errno::EOPNOTSUPP
        .when(conf.rx_hash_function != ibv_rx_hash_function_flags::IBV_RX_HASH_FUNC_TOEPLITZ.0 as u8)?;
    Errno::EINVAL.when(usize::from(conf.rx_hash_key_len) != HASH_KEY || conf.rx_hash_key.is_null())?;
    // Fields of tunnels and of IPsec are others.
    let fields = u32::try_from(conf.rx_hash_fields_mask).map(HashFields);
    let fields = fields.ok().filter(|&fields| HashFields::ALL.contains(fields)).ok_or(Errno::EOPNOTSUPP)?;
    // SAFETY: as the caller promises.
    Ok((fields, unsafe { conf.rx_hash_key.cast::<[u8; HASH_KEY]>().read() }))
}

/// EINVAL and EOPNOTSUPP for attributes that make no sense or are not supported.
fn check(attr: &ibv_qp_init_attr_ex) -> Result<()> {
    use ibv_qp_init_attr_mask as mask;
    const NEEDED: u32 =
        mask::IBV_QP_INIT_ATTR_PD.0 | mask::IBV_QP_INIT_ATTR_IND_TABLE.0 | mask::IBV_QP_INIT_ATTR_RX_HASH.0;
    const CREATE_FLAGS: u32 = mask::IBV_QP_INIT_ATTR_CREATE_FLAGS.0;
    Errno::EOPNOTSUPP.when(
        attr.comp_mask & !(NEEDED | CREATE_FLAGS) != 0
            || attr.comp_mask & CREATE_FLAGS != 0 && attr.create_flags != 0
            || attr.qp_type != ibv_qp_type::IBV_QPT_RAW_PACKET,
    )?;
    let lacks = attr.comp_mask & NEEDED != NEEDED || attr.pd.is_null() || attr.rwq_ind_tbl.is_null();
    let queues = !attr.send_cq.is_null() || !attr.recv_cq.is_null() || !attr.srq.is_null();
    let ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, .. } = attr.cap;
    let queues = queues || [max_send_wr, max_recv_wr, max_send_sge, max_recv_sge] != [0; 4];
    match lacks || queues {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}

/// A queue pair whose frames go to the work queues of a table. It has no queues of its own, and no states.
///
/// # Safety
/// `context` is open, and all objects that `attr` names are live.
pub unsafe fn create_hash_qp(
    context: *mut ibv_context,
    attr: &mut ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp> {
    check(attr)?;
    // SAFETY: as the caller promises.
    let driver = unsafe {
        let (fields, key) = hash_of(&attr.rx_hash_conf)?;
        let table = &(*attr.rwq_ind_tbl.cast::<Table>()).driver;
        Pd::of(attr.pd).driver.create_hash_qp(table, fields, &key)?
    };
    attr.cap = qp::ibv_caps_of(driver.caps());
    let mut verbs = qp::blank(context, attr.qp_context, attr.qp_type, &driver);
    verbs.qp_ex.qp_base.pd = attr.pd;
    // SAFETY: as the caller promises.
    unsafe { qp::add(context, verbs, driver) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes() {
        // SAFETY: zero is a valid value of all fields.
        let mut attr: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        attr.qp_type = ibv_qp_type::IBV_QPT_RAW_PACKET;
        attr.comp_mask = 1 | 1 << 4 | 1 << 5;
        attr.pd = std::ptr::dangling_mut();
        assert_eq!(check(&attr), Err(Errno::EINVAL), "no table");
        attr.rwq_ind_tbl = std::ptr::dangling_mut();
        assert_eq!(check(&attr), Ok(()));
        attr.recv_cq = std::ptr::dangling_mut();
        assert_eq!(check(&attr), Err(Errno::EINVAL), "it has no queues");
        attr.recv_cq = std::ptr::null_mut();
        let sizes: [fn(&mut ibv_qp_cap) -> &mut u32; 4] = [
            |cap| &mut cap.max_send_wr,
            |cap| &mut cap.max_recv_wr,
            |cap| &mut cap.max_send_sge,
            |cap| &mut cap.max_recv_sge,
        ];
        for size in sizes {
            *size(&mut attr.cap) = 1;
            assert_eq!(check(&attr), Err(Errno::EINVAL), "nor their sizes");
            *size(&mut attr.cap) = 0;
        }
        attr.comp_mask = 1 | 1 << 4;
        assert_eq!(check(&attr), Err(Errno::EINVAL), "one without the other");
        attr.comp_mask = 1 | 1 << 3 | 1 << 4 | 1 << 5;
        assert_eq!(check(&attr), Err(Errno::EOPNOTSUPP), "TSO");
        attr.comp_mask = 1 | 1 << 4 | 1 << 5;
        attr.qp_type = ibv_qp_type::IBV_QPT_UD;
        assert_eq!(check(&attr), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn hashes() {
        let mut key: [u8; 41] = std::array::from_fn(|n| n as u8);
        let mut conf = ibv_rx_hash_conf {
            rx_hash_function: 1,
            rx_hash_key_len: 40,
            rx_hash_key: key.as_mut_ptr(),
            rx_hash_fields_mask: 3,
        };
        // SAFETY: the key is there.
        let of = |conf: &_| unsafe { hash_of(conf) };
        let (fields, found) = of(&conf).unwrap();
        assert_eq!((fields, &found[..]), (HashFields::SRC_IPV4 | HashFields::DST_IPV4, &key[..40]));
        for (function, len, mask, expected) in [
            (2, 40, 3, Errno::EOPNOTSUPP),
            (1, 41, 3, Errno::EINVAL),
            (1, 40, 1 << 31, Errno::EOPNOTSUPP),
            (1, 40, 1 << 40, Errno::EOPNOTSUPP),
        ] {
            (conf.rx_hash_function, conf.rx_hash_key_len) = (function, len);
            conf.rx_hash_fields_mask = mask;
            assert_eq!(of(&conf).err(), Some(expected));
        }
    }
}
