//! A small card for tests of the data path: it accepts every command, remembers contexts, and writes
//! completions only as the test says, or for every WQE at once.
#![allow(unsafe_code)]

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::collections::HashMap;
use std::sync::atomic::{fence, AtomicU32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use driver::{CardError, Device, DmaMemory, Hints, Interrupts, Memory, Registers};
use fpga_regs::regs::{self, gid, port, FeatureSet, GidAttr, Status};
use fpga_regs::*;

use super::script;

/// The fake card.
pub struct Fake {
    features: FeatureSet,
    state: Mutex<State>,
    /// Complete every signaled send as soon as its doorbell rings.
    pub immediate: bool,
}

#[derive(Default)]
struct State {
    regs: HashMap<u32, u64>,
    admin_head: u32,
    numbers: u32,
    free_qpns: Vec<u32>,
    objects: HashMap<(u16, u32), Vec<u8>>,
    commands: Vec<Command>,
    refuse: HashMap<u16, AdminStatus>,
    produced: HashMap<u32, u32>,
    consumed: HashMap<u32, u32>,
    events: u32,
    bells: Vec<(u32, u64)>,
    maps: Vec<(u64, usize, bool)>,
    relaxed: Vec<u32>,
}

/// Reads DMA memory: addresses are those of this process.
pub fn read<const N: usize>(iova: u64) -> [u8; N] {
    // SAFETY: tests pass addresses that the driver has put into contexts.
    unsafe { std::ptr::read_volatile(iova as *const [u8; N]) }
}

/// Reads a word that a thread of the driver may be writing: [`read`] takes it byte by byte.
fn word(iova: u64) -> u32 {
    // SAFETY: as in `read`; the driver aligns its records.
    u32::from_le(unsafe { (*(iova as *const AtomicU32)).load(Ordering::Acquire) })
}

/// Writes an entry, its last byte, which holds the phase bit, after the others.
fn publish(iova: u64, bytes: &[u8]) {
    let last = bytes.len() - 1;
    // SAFETY: as in `read`.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), iova as *mut u8, last);
        fence(Ordering::Release);
        (*((iova as *mut u8).add(last) as *const AtomicU8)).store(bytes[last], Ordering::Release);
    }
}

/// A device on a fake card.
pub fn open() -> Arc<Device<Fake>> {
    open_with(script::features(), false)
}

/// A device on a fake card with these features, which completes sends at once or never.
pub fn open_with(features: FeatureSet, immediate: bool) -> Arc<Device<Fake>> {
    Device::open(Fake { immediate, ..bare(features) }).unwrap()
}

/// A fake card that is not opened.
pub fn bare(features: FeatureSet) -> Fake {
    Fake { features, state: Mutex::default(), immediate: false }
}

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Objects that a CREATE or ALLOC opcode has made and that were not destroyed.
    pub fn objects(&self, opcode: AdminOpcode) -> usize {
        self.state().objects.keys().filter(|(kind, _)| *kind == opcode.0).count()
    }

    /// The context of an object.
    pub fn context(&self, opcode: AdminOpcode, number: u32) -> Vec<u8> {
        self.state().objects[&(opcode.0, number)].clone()
    }

    /// The context of a QP.
    pub fn qp(&self, qpn: u32) -> QpContext {
        QpContext::from_slice(&self.context(AdminOpcode::CREATE_QP, qpn)).unwrap()
    }

    /// Changes a QP's state without the driver's knowledge.
    pub fn set_qp_state(&self, qpn: u32, to: QpState) {
        let mut state = self.state();
        let bytes = state.objects.get_mut(&(AdminOpcode::CREATE_QP.0, qpn)).unwrap();
        *bytes = QpContext::from_slice(bytes).unwrap().with_state(to).as_bytes().to_vec();
    }

    /// All commands so far.
    pub fn commands(&self) -> Vec<Command> {
        self.state().commands.clone()
    }

    /// From now on this opcode is refused.
    pub fn refuse(&self, opcode: AdminOpcode, status: AdminStatus) {
        self.state().refuse.insert(opcode.0, status);
    }

    /// All doorbells since the last call.
    pub fn bells(&self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.state().bells)
    }

    /// Memory that is mapped now.
    pub fn maps(&self) -> Vec<(u64, usize, bool)> {
        self.state().maps.clone()
    }

    /// Arguments of `relax` since the last call.
    pub fn relaxed(&self) -> Vec<u32> {
        std::mem::take(&mut self.state().relaxed)
    }

    /// Bytes of the send ring of a QP.
    pub fn send_ring(&self, qpn: u32) -> Vec<u8> {
        let context = self.qp(qpn);
        (0..1u64 << context.sq_log()).flat_map(|block| read::<64>(context.sq_iova() + block * 64)).collect()
    }

    /// Writes a completion into a CQ.
    pub fn complete(&self, cqn: u32, cqe: Cqe) {
        complete(&mut self.state(), cqn, cqe);
    }

    /// The consumer index that the driver has recorded.
    pub fn consumer(&self, cqn: u32) -> u32 {
        let context = CqContext::from_slice(&self.context(AdminOpcode::CREATE_CQ, cqn)).unwrap();
        word(context.ci_iova())
    }

    /// Writes an event.
    pub fn event(&self, eqe: Eqe) {
        let mut state = self.state();
        let (_, bytes) =
            state.objects.iter().find(|((kind, _), _)| *kind == AdminOpcode::CREATE_EQ.0).unwrap();
        let context = EqContext::from_slice(bytes).unwrap();
        let index = state.events;
        state.events += 1;
        let phase = index >> context.log_size() & 1 == 0;
        let at = u64::from(index & ((1 << context.log_size()) - 1)) * Eqe::BYTES as u64;
        publish(context.ring_iova() + at, eqe.with_phase(phase).as_bytes());
    }
}

fn complete(state: &mut State, cqn: u32, cqe: Cqe) {
    let context = CqContext::from_slice(&state.objects[&(AdminOpcode::CREATE_CQ.0, cqn)]).unwrap();
    let index = *state.produced.entry(cqn).or_default();
    let size = 1u32 << context.log_size();
    let consumer = word(context.ci_iova());
    assert!(index.wrapping_sub(consumer) < size, "the test overruns CQ {cqn}");
    state.produced.insert(cqn, index.wrapping_add(1));
    let phase = index & size == 0;
    let at = u64::from(index & (size - 1)) * Cqe::BYTES as u64;
    publish(context.ring_iova() + at, cqe.with_phase(phase).as_bytes());
}

/// The commands, executed while the doorbell is written.
fn run_commands(state: &mut State, producer: u32) {
    while state.admin_head != producer {
        let n = state.admin_head;
        state.admin_head += 1;
        let command = Command::from_bytes(&read(state.regs[&regs::ASQ_BASE] + u64::from(n % 64) * 64));
        state.commands.push(command);
        let mut reply = Reply::new().with_tag(command.tag()).with_phase(n / 64 % 2 == 0);
        match state.refuse.get(&command.opcode().0) {
            Some(status) => reply.set_status(*status),
            None => execute(state, &command, &mut reply),
        }
        publish(state.regs[&regs::ACQ_BASE] + u64::from(n % 64) * 32, reply.as_bytes());
    }
}

fn input(command: &Command) -> Vec<u8> {
    (0..u64::from(command.in_len())).map(|at| read::<1>(command.in_iova() + at)[0]).collect()
}

fn output(command: &Command, bytes: &[u8]) {
    assert!(bytes.len() <= command.out_len() as usize);
    for (at, byte) in bytes.iter().enumerate() {
        // SAFETY: the driver's own mailbox.
        unsafe { *((command.out_iova() as *mut u8).add(at)) = *byte };
    }
}

fn execute(state: &mut State, command: &Command, reply: &mut Reply) {
    use AdminOpcode as Op;
    let object = command.object();
    let made = |opcode: AdminOpcode| (opcode.0, object);
    match command.opcode() {
        Op::QUERY_CARD => output(command, script::limits().as_bytes()),
        Op::ALLOC_PAGE => reply.set_object(1),
        Op::RESOLVE => match command.gid()[15] {
            0xee => reply.set_status(AdminStatus::NOT_FOUND),
            last => *reply = reply.with_mac([2, 0x56, 0x42, 0, 0, last]),
        },
        Op::ATTACH_MCAST | Op::DETACH_MCAST | Op::MODIFY_SRQ | Op::MODIFY_CQ => (),
        Op::MODIFY_MR => drop(state.objects.insert(made(Op::CREATE_MR), input(command))),
        Op::QUERY_QP => output(command, &state.objects[&made(Op::CREATE_QP)]),
        Op::QUERY_SRQ => output(command, &state.objects[&made(Op::CREATE_SRQ)]),
        Op::MODIFY_QP => {
            let old = QpContext::from_slice(&state.objects[&made(Op::CREATE_QP)]).unwrap();
            let new = QpContext::from_slice(&input(command)).unwrap();
            // What is needed of the old context to find the rings stays.
            let new = new
                .with_state(QpState(command.param1() as u8))
                .with_sq_iova(old.sq_iova())
                .with_sq_log(old.sq_log())
                .with_rq_iova(old.rq_iova())
                .with_rq_log(old.rq_log())
                .with_rq_stride_log(old.rq_stride_log())
                .with_send_cq(old.send_cq())
                .with_recv_cq(old.recv_cq());
            state.objects.insert(made(Op::CREATE_QP), new.as_bytes().to_vec());
            if new.state() == QpState::RESET {
                state.consumed.remove(&object);
            }
        }
        Op::RESIZE_CQ => resize(state, object, &CqContext::from_slice(&input(command)).unwrap()),
        Op::FREE_PD => drop(state.objects.remove(&made(Op::ALLOC_PD))),
        Op::DESTROY_MR => drop(state.objects.remove(&made(Op::CREATE_MR))),
        Op::DESTROY_MW => drop(state.objects.remove(&made(Op::CREATE_MW))),
        Op::DESTROY_CQ => drop(state.objects.remove(&made(Op::CREATE_CQ))),
        Op::DESTROY_SRQ => drop(state.objects.remove(&made(Op::CREATE_SRQ))),
        Op::DESTROY_QP => {
            state.objects.remove(&made(Op::CREATE_QP));
            // Its place is taken again at once, under another name.
            state.free_qpns.push((object + (1 << 16)) & 0xff_ffff);
        }
        Op::CREATE_EQ => {
            state.objects.insert((Op::CREATE_EQ.0, 0), input(command));
        }
        opcode => {
            let free = if opcode == Op::CREATE_QP { state.free_qpns.pop() } else { None };
            state.numbers += u32::from(free.is_none());
            let number = free.unwrap_or(state.numbers);
            reply.set_object(number);
            state.objects.insert((opcode.0, number), input(command));
        }
    }
}

/// Moves what was not consumed; the running indices go on.
fn resize(state: &mut State, cqn: u32, new: &CqContext) {
    let key = (AdminOpcode::CREATE_CQ.0, cqn);
    let old = CqContext::from_slice(&state.objects[&key]).unwrap();
    let consumer = word(old.ci_iova());
    let producer = state.produced.get(&cqn).copied().unwrap_or_default();
    state.objects.insert(key, new.as_bytes().to_vec());
    state.produced.insert(cqn, consumer);
    for index in consumer..producer {
        let at = u64::from(index & ((1 << old.log_size()) - 1)) * Cqe::BYTES as u64;
        complete(state, cqn, Cqe::from_bytes(&read(old.ring_iova() + at)));
    }
}

/// Completes every signaled WQE up to the doorbell's index.
fn run_sends(state: &mut State, bell: SqDoorbell) {
    let Some(bytes) = state.objects.get(&(AdminOpcode::CREATE_QP.0, bell.qpn())) else { return };
    let context = QpContext::from_slice(bytes).unwrap();
    let mut index = state.consumed.get(&bell.qpn()).copied().unwrap_or_default();
    while index != bell.index() {
        let at = u64::from(index & ((1 << context.sq_log()) - 1)) * WQE_BLOCK as u64;
        let ctrl = WqeCtrl::from_bytes(&read(context.sq_iova() + at));
        assert_eq!(ctrl.index(), index as u16, "a WQE is where its index says");
        if ctrl.signaled() {
            let cqe = Cqe::new().with_qpn(bell.qpn()).with_wqe_index(index).with_byte_len(ctrl.length());
            complete(state, context.send_cq(), cqe);
        }
        index = index.wrapping_add(ctrl.blocks());
    }
    state.consumed.insert(bell.qpn(), index);
}

/// The one GID of the card's first port.
const GID: u32 = port::gid_entry(0, 1);

impl Registers for Fake {
    fn read32(&self, offset: u32) -> u32 {
        const VALID: u32 = GID + gid::GID_ATTR;
        const FIRST: u32 = GID + gid::GID;
        match offset {
            regs::ID => regs::ID_VALUE,
            regs::VERSION => regs::VERSION_VALUE,
            regs::CONTROL => 0,
            regs::STATUS => Status(0).with_ready(true).0,
            VALID => GidAttr(0).with_valid(true).0,
            FIRST => 0xfe80,
            _ => self.state().regs.get(&offset).copied().unwrap_or_default() as u32,
        }
    }

    fn write32(&self, offset: u32, value: u32) {
        let mut state = self.state();
        state.regs.insert(offset, value.into());
        if offset == regs::ASQ_DOORBELL {
            run_commands(&mut state, value);
        }
    }

    fn read64(&self, offset: u32) -> u64 {
        match offset {
            regs::FEATURES => self.features.0,
            _ => self.state().regs.get(&offset).copied().unwrap_or_default(),
        }
    }

    fn write64(&self, offset: u32, value: u64) {
        self.state().regs.insert(offset, value);
    }

    fn doorbell(&self, offset: u32, value: u64) {
        let mut state = self.state();
        state.bells.push((offset, value));
        if self.immediate && offset % DOORBELL_PAGE_BYTES == DOORBELL_SQ {
            run_sends(&mut state, SqDoorbell(value));
        }
    }
}

impl Memory for Fake {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        let len = bytes.next_multiple_of(4096);
        // SAFETY: the layout is not empty.
        let ptr = unsafe { alloc_zeroed(Layout::from_size_align(len, 4096).unwrap()) };
        Ok(DmaMemory { ptr, iova: ptr as u64, len })
    }

    fn free(&self, memory: DmaMemory) {
        // SAFETY: from `alloc`, with the same layout.
        unsafe { dealloc(memory.ptr, Layout::from_size_align(memory.len, 4096).unwrap()) }
    }

    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
        self.state().maps.push((addr as u64, len, writable));
        Ok(addr as u64)
    }

    fn unmap(&self, iova: u64, _addr: *mut u8, len: usize) {
        let mut state = self.state();
        let at = state.maps.iter().position(|map| (map.0, map.1) == (iova, len)).expect("was mapped");
        state.maps.remove(at);
    }
}

impl Interrupts for Fake {
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        assert_eq!(vector, 0);
        std::thread::sleep(timeout.min(Duration::from_millis(1)));
        Ok(false)
    }
}

impl Hints for Fake {
    fn relax(&self, empty_polls: u32) {
        self.state().relaxed.push(empty_polls);
    }
}
