//! Every opcode once on every transport that has it, data checked, through the driver.

use std::time::{Duration, Instant};

use driver::{Bind, Data, SendFlags, SendWr};
use fpga_regs::regs::FeatureSet;
use fpga_regs::{Access, CqeStatus, QpType, WqeOpcode};

use super::lab::{driver_failed, failed, Check, Lab, Stop};
use crate::board::admin::PATIENCE;
use crate::board::pair::{Pair, QKEY};

/// Where the sender's data is in the region, and where the receiver's.
const FROM: usize = 0;
const TO: usize = 8192;
/// Bytes of a message: several packets at every MTU but the largest.
const BYTES: usize = 3000;
/// A UD message fits one packet of any MTU; a GRH precedes it.
const UD_BYTES: usize = 200;
const GRH: usize = 40;
/// Where atomics happen.
const CELL: usize = 16384;
const REGION: usize = 20480;
const IMM: u32 = 0x1234_5678;

pub fn opcodes(lab: &mut Lab<'_>) -> Check {
    let device = lab.device()?;
    let features = device.features();
    let mut done = Vec::new();
    for (kind, feature, opcodes) in [
        (
            QpType::RC,
            FeatureSet::RC,
            &[
                WqeOpcode::NOP,
                WqeOpcode::SEND,
                WqeOpcode::SEND_WITH_IMM,
                WqeOpcode::WRITE,
                WqeOpcode::WRITE_WITH_IMM,
                WqeOpcode::READ,
                WqeOpcode::CMP_SWAP,
                WqeOpcode::FETCH_ADD,
                WqeOpcode::BIND_MW,
                WqeOpcode::SEND_WITH_INV,
                WqeOpcode::LOCAL_INV,
            ][..],
        ),
        (
            QpType::UC,
            FeatureSet::UC,
            &[WqeOpcode::SEND, WqeOpcode::SEND_WITH_IMM, WqeOpcode::WRITE, WqeOpcode::WRITE_WITH_IMM][..],
        ),
        (QpType::UD, FeatureSet::UD, &[WqeOpcode::SEND, WqeOpcode::SEND_WITH_IMM][..]),
    ] {
        if !features.contains(feature) {
            continue;
        }
        let pair = Pair::new(&device, kind, 1, REGION);
        let mut pair =
            pair.map_err(|error| driver_failed(format!("two {kind} QPs are connected"), error, "MODIFY_QP"))?;
        let count = opcodes.iter().filter(|opcode| features.contains(needs(**opcode))).count();
        let mut window = None;
        for &opcode in opcodes.iter().filter(|opcode| features.contains(needs(**opcode))) {
            one(&mut pair, kind, opcode, &mut window)?;
        }
        done.push(format!("{count} on {kind}"));
    }
    Ok(done.join(", "))
}

/// The feature that an opcode needs.
fn needs(opcode: WqeOpcode) -> FeatureSet {
    match opcode {
        WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD => FeatureSet::ATOMICS,
        WqeOpcode::BIND_MW => FeatureSet::MW_TYPE2,
        WqeOpcode::SEND_WITH_INV | WqeOpcode::LOCAL_INV => {
            FeatureSet(FeatureSet::MW_TYPE2.0 | FeatureSet::INVALIDATE.0)
        }
        _ => FeatureSet::empty(),
    }
}

/// A byte of the pattern.
fn fill(at: usize) -> u8 {
    (at * 131 + at / 256 + 17) as u8
}

type Window = Option<(std::sync::Arc<driver::Mw<crate::board::device::AnyCard>>, u32)>;

fn one(pair: &mut Pair, kind: QpType, opcode: WqeOpcode, window: &mut Window) -> Result<(), Stop> {
    let what = format!("{opcode} on {kind} completes with SUCCESS and does what it says");
    let look =
        format!("the WQE's opcode {} ({:#04x}): verbena decode wqe; the CQE's syndrome", opcode, opcode.0);
    let ud = kind == QpType::UD;
    let bytes = if ud { UD_BYTES } else { BYTES };
    let region = pair.region.bytes();
    for at in 0..TO {
        region[FROM + at] = fill(at);
        region[TO + at] = 0;
    }
    region[CELL..CELL + 8].copy_from_slice(&1000u64.to_le_bytes());
    let atomic = matches!(opcode, WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD);
    let own = match opcode {
        WqeOpcode::READ => pair.region.sge(TO, bytes),
        _ if atomic => pair.region.sge(TO, 8),
        _ => pair.region.sge(FROM, bytes),
    };
    let remote = match opcode {
        WqeOpcode::READ => FROM,
        _ if atomic => CELL,
        _ => TO,
    };
    let sges = [own];
    let receives = matches!(
        opcode,
        WqeOpcode::SEND | WqeOpcode::SEND_WITH_IMM | WqeOpcode::SEND_WITH_INV | WqeOpcode::WRITE_WITH_IMM
    );
    let run = |pair: &Pair, window: &mut Window| -> anyhow::Result<_> {
        let ah = if ud { Some(pair.pd.create_ah(&pair.a.way(&pair.b))?) } else { None };
        let has_data = !matches!(opcode, WqeOpcode::NOP | WqeOpcode::BIND_MW | WqeOpcode::LOCAL_INV);
        let mut wr: SendWr<'_> = pair.wr(opcode, if has_data { &sges } else { &[] }, remote);
        wr.imm = IMM;
        (wr.compare_add, wr.swap) = (if opcode == WqeOpcode::CMP_SWAP { 1000 } else { 5 }, 77);
        (wr.ah, wr.remote_qpn, wr.remote_qkey) = (ah.as_ref(), pair.b.qp.qpn(), QKEY);
        if matches!(opcode, WqeOpcode::SEND_WITH_INV | WqeOpcode::LOCAL_INV) || opcode == WqeOpcode::BIND_MW {
            let key = bind(pair, opcode, window, &mut wr)?;
            wr.imm = key;
        }
        if receives {
            let length = if ud { bytes + GRH } else { bytes };
            let at = if ud { TO - GRH } else { TO };
            pair.b.recv(2, &[pair.region.sge(at, length)])?;
        }
        pair.a.post(&wr)?;
        let sent = pair.a.wait()?;
        let received =
            if receives && sent.status == CqeStatus::SUCCESS { Some(pair.b.wait()?) } else { None };
        Ok((sent, received, wr.imm))
    };
    let (sent, received, imm) = run(pair, window).map_err(|error| driver_failed(&*what, error, &look))?;
    for wc in [Some(sent), received].into_iter().flatten() {
        if wc.status != CqeStatus::SUCCESS {
            return failed(what, format!("{} (syndrome {:#04x})", wc.status, wc.vendor_err), look);
        }
    }
    if let Some(wc) = received {
        let length = if opcode == WqeOpcode::WRITE_WITH_IMM || !ud { bytes } else { bytes + GRH };
        if wc.byte_len as usize != length {
            return failed(
                what,
                format!("byte_len {}, {length} were sent", wc.byte_len),
                "Cqe.byte_len (byte 12)",
            );
        }
        if opcode != WqeOpcode::SEND && wc.imm != imm {
            return failed(what, format!("imm {:#x}, {imm:#x} was sent", wc.imm), "Cqe.imm (byte 16)");
        }
    }
    // A UC sender does not wait for the receiver, and a WRITE gives that no completion.
    let patience = if kind == QpType::UC && !receives { PATIENCE } else { Duration::ZERO };
    let until = Instant::now() + patience;
    loop {
        match check_memory(pair, opcode, bytes, atomic) {
            Ok(()) => return Ok(()),
            Err(came) if Instant::now() >= until => return failed(what, came, look),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Binds a window to the receiver for the opcodes that take its key away; its key.
fn bind(pair: &Pair, opcode: WqeOpcode, window: &mut Window, wr: &mut SendWr<'_>) -> anyhow::Result<u32> {
    let who = if opcode == WqeOpcode::SEND_WITH_INV { &pair.b } else { &pair.a };
    let mw = pair.pd.alloc_mw(true)?;
    let old = mw.rkey();
    let key = old & !0xff | (old.wrapping_add(1) & 0xff);
    let bind = Bind {
        addr: pair.region.addr(TO),
        length: 4096,
        mr_lkey: pair.region.mr.lkey(),
        mw_rkey: old,
        access: Access::REMOTE_WRITE | Access::REMOTE_READ,
    };
    *window = Some((mw, key));
    if opcode == WqeOpcode::BIND_MW {
        wr.bind = Some(bind);
        return Ok(key);
    }
    let first = SendWr {
        wr_id: 3,
        opcode: WqeOpcode::BIND_MW,
        flags: SendFlags::SIGNALED,
        imm: key,
        bind: Some(bind),
        data: Data::Sges(&[]),
        ..SendWr::default()
    };
    who.post(&first)?;
    let wc = who.wait()?;
    anyhow::ensure!(wc.status == CqeStatus::SUCCESS, "binding a window before it: {}", wc.status);
    Ok(key)
}

/// What is in memory afterwards.
fn check_memory(pair: &mut Pair, opcode: WqeOpcode, bytes: usize, atomic: bool) -> Result<(), String> {
    let region = pair.region.bytes();
    let word = |at: usize| u64::from_le_bytes(region[at..at + 8].try_into().expect("eight bytes"));
    if atomic {
        let result = if opcode == WqeOpcode::CMP_SWAP { 77 } else { 1005 };
        if (word(TO), word(CELL)) != (1000, result) {
            return Err(format!(
                "the old value came as {}, the cell is {}; 1000 and {result} were expected",
                word(TO),
                word(CELL)
            ));
        }
        return Ok(());
    }
    if matches!(opcode, WqeOpcode::NOP | WqeOpcode::BIND_MW | WqeOpcode::LOCAL_INV) {
        return Ok(());
    }
    if let Some(at) = (0..bytes).find(|at| region[TO + at] != fill(*at)) {
        return Err(format!("byte {at} is {:#04x}, {:#04x} was sent", region[TO + at], fill(at)));
    }
    match region[TO + bytes] {
        0 => Ok(()),
        byte => Err(format!("the byte after the message was written with {byte:#04x}")),
    }
}
