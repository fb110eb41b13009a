//! Doing again to a modelled card what a record says, event by event, and comparing what it does.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use fpga_regs::regs::{self, Control};
use fpga_regs::*;

use super::compare::{self, Difference};
use super::line::Line;
use super::rings::{Queue, Reachable, Rings};
use super::translate::{Object, Translation};
use crate::board::admin::wait;
use crate::board::device::AnyCard;
use crate::board::memory::Shared;

/// How long the model may take for what the card did.
const PATIENCE: Duration = Duration::from_millis(500);

/// What differs, if something does.
type Found = Option<Difference>;

/// A modelled card, and how far it is.
pub struct Player {
    card: AnyCard,
    memory: Reachable,
    given: HashMap<u64, Shared>,
    rings: Rings,
    known: Translation,
    /// What the model has written and the record has not shown yet.
    pending: Vec<Line>,
    /// Opcodes of outstanding commands, by index.
    opcodes: HashMap<u32, AdminOpcode>,
    /// Words of GIDs that were read: of the record and of the model.
    gids: HashMap<u32, (u32, u32)>,
    ignored: HashSet<String>,
}

impl Player {
    /// Nothing was done yet.
    pub fn new(card: AnyCard, ignored: Vec<String>) -> Player {
        Player {
            card,
            memory: Reachable::default(),
            given: HashMap::new(),
            rings: Rings::default(),
            known: Translation::default(),
            pending: Vec::new(),
            opcodes: HashMap::new(),
            gids: HashMap::new(),
            ignored: ignored.into_iter().collect(),
        }
    }

    /// What the model has done at the end of the record and the card has not.
    pub fn end(&mut self) -> Found {
        self.scan();
        self.missing()
    }

    /// Does one event; what differs.
    pub fn event(&mut self, line: &Line) -> Result<Found> {
        match line {
            Line::Memory { iova, len } => {
                let len = usize::try_from(*len).ok().filter(|len| *len <= 1 << 32);
                let len = len.context("more memory than a replay gives")?;
                // A page more: ranges of user memory begin anywhere in theirs.
                let memory = Shared::new(&self.card, len + 4096)?;
                let here = memory.iova + iova % 4096;
                let ptr = memory.ptr.wrapping_add((iova % 4096) as usize);
                self.memory.add(here, len, ptr);
                self.known.memory(*iova, len as u64, here);
                self.given.insert(*iova, memory);
            }
            Line::Gone { iova } => {
                self.memory.remove(self.known.iova(*iova));
                self.known.forget(*iova);
                self.given.remove(iova);
            }
            Line::Read { at, value } => return Ok(self.read(*at, *value)),
            Line::Write { at, value } => return Ok(self.write(*at, *value)),
            Line::Command { index, bytes, input } => self.command(*index, bytes, input)?,
            Line::Reply { index, bytes, output } => return self.reply(*index, bytes, output),
            Line::Wqe { qpn, index, bytes } => {
                let qpn = self.known.number(Object::Qp, *qpn);
                for (block, bytes) in self.known.wqe(bytes).chunks(WQE_BLOCK).enumerate() {
                    let index = index.wrapping_add(block as u32);
                    self.post(Queue::Send, qpn, index, bytes)?;
                }
            }
            Line::Recv { qpn, index, bytes } => {
                let qpn = self.known.number(Object::Qp, *qpn);
                self.post(Queue::Recv, qpn, *index, &self.recv(bytes)?)?;
            }
            Line::SrqRecv { srqn, index, bytes } => {
                let srqn = self.known.number(Object::Srq, *srqn);
                self.post(Queue::SharedRecv, srqn, *index, &self.recv(bytes)?)?;
            }
            Line::Bell { at, value } => self.bell(*at, *value)?,
            Line::Cqe { cqn, index, bytes } => return Ok(self.cqe(*cqn, *index, bytes)),
            Line::Eqe { eqn, index, bytes } => return Ok(self.eqe(*eqn, *index, bytes)),
            Line::Interrupt { vector, fired } => return self.interrupt(*vector, *fired),
        }
        Ok(None)
    }

    fn ignores(&self) -> impl Fn(&str) -> bool + use<> {
        let ignored = self.ignored.clone();
        move |name| ignored.contains(name)
    }

    /// Notes what the model has written.
    fn scan(&mut self) {
        let new = self.rings.scan(&self.memory);
        for line in &new {
            if let Line::Cqe { cqn, .. } = line {
                self.rings.consume(*cqn, &self.memory);
            }
        }
        self.pending.extend(new);
    }

    /// The first entry of the model that `is` it, as soon as it is there.
    fn find(&mut self, is: impl Fn(&Line) -> bool) -> Option<Line> {
        let card = self.card.clone();
        let at = wait(&card, PATIENCE, || {
            self.scan();
            self.pending.iter().position(&is)
        })?;
        Some(self.pending.remove(at))
    }

    fn read(&mut self, at: u32, value: u64) -> Found {
        let wide = regs::locate(at).is_some_and(|located| located.register.bytes == 8);
        let here = if wide { self.card.read64(at) } else { self.card.read32(at).into() };
        if compare::is_gid(at) {
            self.gids.insert(at, (value as u32, here as u32));
            self.learn_gid(at);
        }
        compare::register(at, here, value, &self.ignores())
    }

    /// As soon as all words of a GID were read, it is known on both sides.
    fn learn_gid(&mut self, at: u32) {
        let first = at & !0xf;
        let words: Option<Vec<(u32, u32)>> =
            (0..4).map(|word| self.gids.get(&(first + 4 * word)).copied()).collect();
        let Some(words) = words else { return };
        let (mut theirs, mut here) = ([0; 16], [0; 16]);
        for (at, (one, other)) in words.into_iter().enumerate() {
            theirs[4 * at..][..4].copy_from_slice(&one.to_le_bytes());
            here[4 * at..][..4].copy_from_slice(&other.to_le_bytes());
        }
        if theirs != [0; 16] && here != [0; 16] {
            self.known.learn_gid(theirs, here);
        }
    }

    fn write(&mut self, at: u32, value: u64) -> Found {
        let reset = at == regs::CONTROL && Control(value as u32).reset();
        if reset {
            self.scan();
            if let Some(missing) = self.missing() {
                return Some(missing);
            }
            self.opcodes.clear();
        }
        let value = match at {
            regs::ASQ_BASE | regs::ACQ_BASE => self.known.iova(value),
            _ => value,
        };
        self.rings.register(at, value, &self.memory);
        match regs::locate(at).is_some_and(|located| located.register.bytes == 8) {
            true => self.card.write64(at, value),
            false => self.card.write32(at, value as u32),
        }
        self.scan();
        None
    }

    fn command(&mut self, index: u32, bytes: &[u8], input: &[u8]) -> Result<()> {
        let command = Command::from_slice(bytes).context("a command has 64 bytes")?;
        let command = self.known.command(command);
        self.opcodes.insert(index, command.opcode());
        let mut input = input.to_vec();
        if let Some(format) = command.opcode().spec().and_then(|spec| spec.input) {
            self.known.format(format, &mut input);
        }
        let written = self.memory.write(self.rings.command_at(index), command.as_bytes())
            && (input.is_empty() || self.memory.write(command.in_iova(), &input));
        ensure!(written, "the command or its mailbox is outside the memory of the record");
        Ok(())
    }

    fn reply(&mut self, index: u32, bytes: &[u8], output: &[u8]) -> Result<Found> {
        let opcode = self.opcodes.get(&index).copied().unwrap_or_default();
        let what = format!("reply {index} to {opcode}");
        let got = Reply::from_slice(bytes).context("a reply has 32 bytes")?;
        let is = |line: &Line| matches!(line, Line::Reply { index: other, .. } if *other == index);
        let Some(Line::Reply { bytes: model, output: modelled, .. }) = self.find(is) else {
            return Ok(absent(what, format!("{got:?}")));
        };
        let reply = Reply::from_slice(&model).unwrap_or_default();
        let skip = ["object", "value0", "value1"];
        if let Some(found) =
            compare::entry(what.clone(), &Reply::FORMAT, &model, bytes, &skip, &self.ignores())
        {
            return Ok(Some(found));
        }
        let Some(spec) = opcode.spec().filter(|_| got.status() == AdminStatus::OK) else { return Ok(None) };
        if let Some(object) = Object::called(spec.result) {
            if object == Object::Page && got.object() >= DOORBELL_PAGES {
                let expected = format!("one of {DOORBELL_PAGES} pages");
                let (field, got) = ("object (byte 4)".to_owned(), format!("{:#x}", got.object()));
                return Ok(Some(Difference { what, field, expected, got }));
            }
            self.known.learn(object, got.object(), reply.object());
        }
        if opcode == AdminOpcode::RESOLVE {
            self.known.learn_mac(got.mac(), reply.mac());
        }
        let Some(format) = spec.output else { return Ok(None) };
        let mut output = output.to_vec();
        self.known.format(format, &mut output);
        let what = format!("mailbox of {opcode} (command {index}): {}", format.name);
        Ok(compare::entry(what, format, &modelled, &output, &[], &self.ignores()))
    }

    fn recv(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.known.recv(bytes).context("a receive WQE has at least 16 bytes")
    }

    fn post(&self, queue: Queue, number: u32, index: u32, bytes: &[u8]) -> Result<()> {
        let at = self.rings.slot(queue, number, index);
        let at = at.context("a work request of a queue that was not created")?;
        ensure!(self.memory.write(at, bytes), "the queue is outside the memory of the record");
        Ok(())
    }

    fn bell(&mut self, at: u32, value: u64) -> Result<()> {
        let page = at.checked_sub(DOORBELL_BASE).map(|at| at / DOORBELL_PAGE_BYTES);
        let page =
            page.filter(|page| *page < DOORBELL_PAGES).context("a doorbell outside the doorbell pages")?;
        let page = self.known.number(Object::Page, page);
        let at = at % DOORBELL_PAGE_BYTES;
        // Doorbells have the low 24 bits of a QPN.
        let number = (value & 0xff_ffff) as u32;
        let bell = Doorbell::decode(at, value);
        let object = match bell {
            Some(Doorbell::Send(_) | Doorbell::Recv(_)) => Object::Qp,
            Some(Doorbell::SharedRecv(_)) => Object::Srq,
            Some(Doorbell::Arm(_)) | None => Object::Cq,
        };
        let here = self.known.number(object, number);
        let mut value = value & !0xff_ffff | u64::from(here & 0xff_ffff);
        if let Some(Doorbell::Send(_)) = bell {
            // The model reads the WQE from the ring.
            value = SqDoorbell(value).with_pushed(false).with_slot(0).with_blocks(0).0;
        }
        let at = doorbell_page(page) + at;
        self.rings.bell(at, value, &self.memory);
        self.card.doorbell(at, value);
        self.scan();
        Ok(())
    }

    fn cqe(&mut self, cqn: u32, index: u32, bytes: &[u8]) -> Found {
        let what = format!("CQE {index} of CQ {cqn:#x}");
        let cqn = self.known.number(Object::Cq, cqn);
        let mut got = bytes.to_vec();
        self.known.format(&Cqe::FORMAT, &mut got);
        let wanted = Cqe::from_slice(&got)?;
        let phase = self.rings.cqe_phase(cqn, index);
        if let Some(difference) = wrong_phase(&what, "phase (byte 63)", phase, wanted.phase()) {
            return Some(difference);
        }
        let is = |line: &Line| match line {
            Line::Cqe { cqn: other, bytes, .. } if *other == cqn => {
                let cqe = Cqe::from_slice(bytes).unwrap_or_default();
                cqe.qpn() == wanted.qpn() & 0xff_ffff && cqe.recv() == wanted.recv()
            }
            _ => false,
        };
        let Some(Line::Cqe { bytes: model, .. }) = self.find(is) else {
            return absent(what, format!("{wanted:?}"));
        };
        let mut skip = vec!["timestamp", "generation", "phase"];
        if wanted.inv() {
            skip.push("imm");
        }
        compare::entry(what, &Cqe::FORMAT, &model, &got, &skip, &self.ignores())
    }

    fn eqe(&mut self, eqn: u32, index: u32, bytes: &[u8]) -> Found {
        let what = format!("EQE {index} of EQ {eqn}");
        let eqn = self.known.number(Object::Eq, eqn);
        let mut wanted = Eqe::from_slice(bytes)?;
        if let Some(object) = Object::of_event(wanted.kind()) {
            wanted.set_object(self.known.number(object, wanted.object()));
        }
        let phase = self.rings.eqe_phase(eqn, index);
        if let Some(difference) = wrong_phase(&what, "phase (byte 31)", phase, wanted.phase()) {
            return Some(difference);
        }
        let is = |line: &Line| matches!(line, Line::Eqe { eqn: other, .. } if *other == eqn);
        let Some(Line::Eqe { bytes: model, .. }) = self.find(is) else {
            return absent(what, format!("{wanted:?}"));
        };
        let skip = ["timestamp", "phase"];
        compare::entry(what, &Eqe::FORMAT, &model, wanted.as_bytes(), &skip, &self.ignores())
    }

    fn interrupt(&mut self, vector: u32, fired: bool) -> Result<Found> {
        let patience = if fired { PATIENCE } else { Duration::from_millis(20) };
        let here = self.card.wait_interrupt(vector, patience)?;
        let text = |fired: bool| if fired { "it fires" } else { "it does not fire" }.to_owned();
        Ok((here != fired).then(|| Difference {
            what: format!("interrupt vector {vector}"),
            field: String::new(),
            expected: text(here),
            got: text(fired),
        }))
    }

    /// What the model has done and the card has not.
    fn missing(&mut self) -> Found {
        let (what, expected) = match self.pending.first()? {
            Line::Reply { index, bytes, .. } => {
                let opcode = self.opcodes.get(index).copied().unwrap_or_default();
                (format!("reply {index} to {opcode}"), format!("{:?}", Reply::from_slice(bytes)?))
            }
            Line::Cqe { cqn, index, bytes } => {
                (format!("CQE {index} of CQ {cqn:#x}"), format!("{:?}", Cqe::from_slice(bytes)?))
            }
            Line::Eqe { eqn, index, bytes } => {
                (format!("EQE {index} of EQ {eqn}"), format!("{:?}", Eqe::from_slice(bytes)?))
            }
            _ => return None,
        };
        self.pending.clear();
        Some(Difference { what, field: String::new(), expected, got: "it never came".into() })
    }
}

/// What the card has done and the model does not.
fn absent(what: String, got: String) -> Found {
    let expected = format!("nothing within {} ms", PATIENCE.as_millis());
    Some(Difference { what, field: String::new(), expected, got })
}

/// An entry of the record has the phase that its place demands, if that is known.
fn wrong_phase(what: &str, field: &str, expected: Option<bool>, got: bool) -> Found {
    let expected = expected.filter(|expected| *expected != got)?;
    Some(Difference {
        what: what.to_owned(),
        field: field.to_owned(),
        expected: u8::from(expected).to_string(),
        got: u8::from(got).to_string(),
    })
}
