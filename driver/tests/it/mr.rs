//! Memory regions and windows: flags, keys, mapping.
#![allow(unsafe_code)]

use driver::{Error, PageList, Region, Slots};
use fpga_regs::{Access, AdminOpcode, AdminStatus, MrContext, MrMode};

use crate::setup::Setup;

const ALL: Access = Access(0xf);

#[test]
fn a_region_is_mapped_and_described() {
    let setup = Setup::new();
    let mut memory = vec![0u8; 10_000];
    // SAFETY: the fake card does not touch it.
    let mr = unsafe { setup.pd.reg_mr(memory.as_mut_ptr(), 10_000, 0x7000_0000, ALL) }.unwrap();
    let context = setup.card().context(AdminOpcode::CREATE_MR, mr.lkey());
    let context = MrContext::from_slice(&context).unwrap();
    assert_eq!((context.pd(), context.access(), context.mode()), (setup.pd.pdn(), ALL, MrMode::DIRECT));
    assert_eq!((context.va(), context.length()), (0x7000_0000, 10_000));
    assert_eq!(context.iova(), memory.as_ptr() as u64);
    assert_eq!(mr.lkey(), mr.rkey());
    assert_eq!(setup.card().maps(), [(memory.as_ptr() as u64, 10_000, true)]);
    mr.destroy().unwrap();
    assert_eq!(setup.card().maps(), []);
    assert!(matches!(mr.destroy(), Err(Error::Destroyed("memory region"))));
}

#[test]
fn a_region_that_nobody_writes_is_mapped_for_reading() {
    let setup = Setup::new();
    let mut memory = [0u8; 64];
    // SAFETY: the fake card does not touch it.
    let mr = unsafe { setup.pd.reg_mr(memory.as_mut_ptr(), 64, 0, Access::REMOTE_READ) }.unwrap();
    assert!(!setup.card().maps()[0].2);
    drop(mr);
    assert_eq!(setup.card().maps(), []);
}

#[test]
fn wrong_arguments() {
    let setup = Setup::new();
    #[repr(align(4096))]
    struct Page([u8; 64]);
    let mut memory = Page([0; 64]);
    let at = memory.0.as_mut_ptr();
    // SAFETY: all are refused.
    let register = |len, va, access| unsafe { setup.pd.reg_mr(at, len, va, access) }.err().unwrap();
    for error in [
        register(64, 0, Access::REMOTE_WRITE),
        register(64, 0, Access::REMOTE_ATOMIC | Access::REMOTE_READ),
        register(64, 0, Access(0x80)),
        register(0, 0, ALL),
        register(1 << 41, 0, ALL),
        register(64, u64::MAX - 62, ALL),
    ] {
        assert_eq!(error.errno(), libc::EINVAL, "{error}");
    }
    assert_eq!(setup.card().maps(), []);
}

#[test]
fn a_refused_region_is_unmapped() {
    let setup = Setup::new();
    setup.card().refuse(AdminOpcode::CREATE_MR, AdminStatus::NO_RESOURCE);
    let mut memory = [0u8; 64];
    // SAFETY: it is refused.
    let error = unsafe { setup.pd.reg_mr(memory.as_mut_ptr(), 64, 0, ALL) }.err().unwrap();
    assert_eq!(error.errno(), libc::ENOMEM);
    assert_eq!(setup.card().maps(), []);
}

#[test]
fn a_region_that_is_bound_stays() {
    let setup = Setup::new();
    let mut memory = [0u8; 64];
    // SAFETY: the fake card does not touch it.
    let mr = unsafe { setup.pd.reg_mr(memory.as_mut_ptr(), 64, 0, ALL) }.unwrap();
    setup.card().refuse(AdminOpcode::DESTROY_MR, AdminStatus::IN_USE);
    assert_eq!(mr.destroy().unwrap_err().errno(), libc::EBUSY);
    assert_eq!(setup.card().maps().len(), 1);
    drop(mr);
    assert_eq!(setup.card().maps().len(), 1, "the card may still write to it");
}

#[test]
fn page_lists() {
    let setup = Setup::new();
    let list = PageList {
        pages: &[0x10_000, 0x30_000, 0x20_000],
        page_shift: 16,
        first_offset: 0x100,
        length: 0x20_000,
    };
    // SAFETY: the fake card does not touch it.
    let mr = unsafe { setup.pd.reg_pages(&list, 0x5000, ALL) }.unwrap();
    let context = MrContext::from_slice(&setup.card().context(AdminOpcode::CREATE_MR, mr.lkey())).unwrap();
    assert_eq!(
        (context.mode(), context.page_shift(), context.first_offset()),
        (MrMode::PAGE_LIST, 16, 0x100)
    );
    let pages: Vec<u64> =
        (0..3).map(|n| u64::from_le_bytes(crate::fake::read(context.iova() + n * 8))).collect();
    assert_eq!(pages, list.pages);
    mr.destroy().unwrap();
    for wrong in [
        PageList { page_shift: 11, ..list },
        PageList { page_shift: 200, ..list },
        PageList { first_offset: 0x10_000, ..list },
        PageList { pages: &[0x10_000, 0x30_000, 0x20_001], ..list },
        PageList { pages: &[0x10_000], ..list },
    ] {
        // SAFETY: all are refused.
        let error = unsafe { setup.pd.reg_pages(&wrong, 0x5000, ALL) }.err().unwrap();
        assert_eq!(error.errno(), libc::EINVAL, "{error}");
    }
}

#[test]
fn zero_based_regions_count_from_zero() {
    let setup = Setup::new();
    let mut memory = [0u8; 64];
    // SAFETY: the fake card does not touch it.
    let mr = unsafe { setup.pd.reg_mr(memory.as_mut_ptr(), 64, 0x9999, ALL | Access::ZERO_BASED) }.unwrap();
    assert_eq!(mr.wire_va(), 0);
}

#[test]
fn windows() {
    let setup = Setup::new();
    let mw = setup.pd.alloc_mw(true).unwrap();
    let command = *setup.card().commands().last().unwrap();
    assert_eq!(command.opcode(), AdminOpcode::CREATE_MW);
    assert_eq!((command.param0(), command.param1()), (setup.pd.pdn().into(), 2));
    assert!(mw.type2() && mw.rkey() != 0);
    mw.destroy().unwrap();
    assert!(matches!(mw.destroy(), Err(Error::Destroyed("memory window"))));
    drop(setup.pd.alloc_mw(false).unwrap());
    assert_eq!(setup.card().objects(AdminOpcode::CREATE_MW), 0);
}

#[test]
fn a_region_that_is_changed_keeps_its_key_and_gives_its_memory_back() {
    let setup = Setup::new();
    let (mut one, mut two) = ([0u8; 64], [0u8; 128]);
    // SAFETY: the fake card does not touch it.
    let mr = unsafe { setup.pd.reg_mr(one.as_mut_ptr(), 64, 0x9000, ALL) }.unwrap();
    let other = setup.device.alloc_pd().unwrap();
    let to =
        Region { addr: two.as_mut_ptr(), len: 128, wire_va: 0x8000, access: Access(5), on_demand: false };
    // SAFETY: as above.
    unsafe { mr.modify(&other, &to) }.unwrap();
    let command = *setup.card().commands().last().unwrap();
    assert_eq!((command.opcode(), command.object()), (AdminOpcode::MODIFY_MR, mr.lkey()));
    assert_eq!(command.param0(), 7);
    let context = MrContext::from_slice(&setup.card().context(AdminOpcode::CREATE_MR, mr.lkey())).unwrap();
    assert_eq!((context.pd(), context.va(), context.access()), (other.pdn(), 0x8000, Access(5)));
    assert_eq!(setup.card().maps(), [(two.as_ptr() as u64, 128, true)]);
    assert_eq!((mr.addr(), mr.length(), mr.pd().pdn()), (two.as_ptr() as u64, 128, other.pdn()));
    // On demand nothing is mapped.
    // SAFETY: as above.
    unsafe { mr.modify(&other, &Region { on_demand: true, ..to }) }.unwrap();
    assert_eq!(setup.card().maps(), []);
    // A refused change changes nothing.
    setup.card().refuse(AdminOpcode::MODIFY_MR, AdminStatus::IN_USE);
    // SAFETY: as above.
    let error = unsafe { mr.modify(&setup.pd, &Region { wire_va: 0, ..to }) }.unwrap_err();
    assert_eq!((error.errno(), mr.wire_va(), mr.pd().pdn()), (libc::EBUSY, 0x8000, other.pdn()));
    assert_eq!(setup.card().maps(), []);
}

#[test]
fn regions_without_memory_map_nothing() {
    let setup = Setup::new();
    let null = setup.pd.alloc_null_mr().unwrap();
    let context = MrContext::from_slice(&setup.card().context(AdminOpcode::CREATE_MR, null.lkey())).unwrap();
    assert_eq!((context.mode(), context.length()), (MrMode::NULL, u64::MAX));
    let all =
        Region { addr: std::ptr::null_mut(), len: usize::MAX, wire_va: 0, access: ALL, on_demand: true };
    // SAFETY: the fake card does not touch it.
    let mr = unsafe { setup.pd.register(&all) }.unwrap();
    let context = MrContext::from_slice(&setup.card().context(AdminOpcode::CREATE_MR, mr.lkey())).unwrap();
    assert_eq!((context.mode(), context.iova(), context.length()), (MrMode::ON_DEMAND, 0, u64::MAX));
    assert_eq!(setup.card().maps(), []);
    // SAFETY: it is refused.
    let error = unsafe { setup.pd.register(&Region { on_demand: false, ..all }) }.err().unwrap();
    assert_eq!(error.errno(), libc::EINVAL, "{error}");
}

#[test]
fn slots_are_one_region_and_apart() {
    let setup = Setup::new();
    let mut slots = Slots::<_, 192>::new(&setup.pd, 3).unwrap();
    let (first, last) = (slots.sge(0, 10), slots.sge(2, 192));
    assert_eq!((first.addr, last.addr), (slots.at(0) as u64, slots.at(0) as u64 + 2 * 192));
    assert_eq!((first.length, last.length, first.lkey), (10, 192, last.lkey));
    assert_eq!(setup.card().maps(), [(first.addr, 3 * 192, true)]);
    // SAFETY: the fake card does not touch them.
    unsafe { slots.bytes_mut(1).fill(7) };
    // SAFETY: as above.
    let [a, b, c] = [0, 1, 2].map(|slot| unsafe { slots.bytes(slot) });
    assert!(a == [0; 192] && b == [7; 192] && c == [0; 192]);
    drop(slots);
    assert_eq!(setup.card().maps(), []);
}

#[test]
#[should_panic(expected = "slot 3")]
fn there_is_no_slot_behind_the_last() {
    let setup = Setup::new();
    Slots::<_, 192>::new(&setup.pd, 3).unwrap().at(3);
}
