//! Addresses and numbers of a record as those of the model: another card has its memory elsewhere, and
//! numbers its objects as it likes.

use std::collections::{BTreeMap, HashMap};

use fpga_regs::*;

/// What a number is the number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// Protection domain.
    Pd,
    /// XRC domain.
    Xrcd,
    /// L_Key or R_Key.
    Key,
    /// Completion queue.
    Cq,
    /// Shared receive queue.
    Srq,
    /// Event queue.
    Eq,
    /// Queue pair.
    Qp,
    /// Doorbell page.
    Page,
}

impl Object {
    /// What the table of commands calls the number.
    pub fn called(text: &str) -> Option<Object> {
        Some(match text {
            "PD" => Object::Pd,
            "XRC domain" => Object::Xrcd,
            "CQN" => Object::Cq,
            "SRQN" => Object::Srq,
            "EQN" => Object::Eq,
            "QPN" => Object::Qp,
            "doorbell page" => Object::Page,
            key if key.starts_with("L_Key") || key.starts_with("R_Key") => Object::Key,
            _ => return None,
        })
    }

    /// What a field of a context, WQE or CQE is the number of.
    fn of_field(format: &str, field: &str) -> Option<Object> {
        Some(match (format, field) {
            (_, "pd") => Object::Pd,
            (_, "lkey" | "rkey" | "mr_lkey" | "mw_rkey") => Object::Key,
            (_, "xrcd") => Object::Xrcd,
            (_, "send_cq" | "recv_cq" | "cq") => Object::Cq,
            (_, "srq" | "srqn") => Object::Srq,
            ("CqContext", "vector") => Object::Eq,
            (_, "qpn" | "dest_qpn" | "srcqp") => Object::Qp,
            ("QpContext" | "CqContext" | "SrqContext", "page") => Object::Page,
            _ => return None,
        })
    }

    pub fn of_event(kind: EventKind) -> Option<Object> {
        Some(match kind {
            EventKind::COMPLETION | EventKind::CQ_ERR => Object::Cq,
            EventKind::SRQ_ERR | EventKind::SRQ_LIMIT => Object::Srq,
            EventKind::PORT_ACTIVE
            | EventKind::PORT_ERR
            | EventKind::GID_CHANGE
            | EventKind::DEVICE_FATAL => return None,
            _ => Object::Qp,
        })
    }
}

/// What is known of both sides.
#[derive(Default)]
pub struct Translation {
    memory: BTreeMap<u64, (u64, u64)>,
    numbers: HashMap<(Object, u32), u32>,
    gids: HashMap<[u8; 16], [u8; 16]>,
    macs: HashMap<[u8; 6], [u8; 6]>,
}

impl Translation {
    /// A range of memory of the record, and where it is here.
    pub fn memory(&mut self, iova: u64, len: u64, here: u64) {
        self.memory.insert(iova, (len, here));
    }

    /// A range is gone.
    pub fn forget(&mut self, iova: u64) {
        self.memory.remove(&iova);
    }

    /// The record's object has this number here.
    pub fn learn(&mut self, object: Object, number: u32, here: u32) {
        match object {
            // The lowest byte of a key is its variant, which software may choose.
            Object::Key => self
                .numbers
                .insert((object, number & !0xff), here.wrapping_sub(number & 0xff) & 0xff | here & !0xff),
            _ => self.numbers.insert((object, number), here),
        };
    }

    /// The record's GID is this one here.
    pub fn learn_gid(&mut self, gid: [u8; 16], here: [u8; 16]) {
        self.gids.insert(gid, here);
    }

    /// The record's Ethernet address is this one here.
    pub fn learn_mac(&mut self, mac: [u8; 6], here: [u8; 6]) {
        self.macs.insert(mac, here);
    }

    /// An address; one of no known range stays what it is.
    pub fn iova(&self, iova: u64) -> u64 {
        match self.memory.range(..=iova).next_back() {
            Some((start, (len, here))) if iova - start < *len => here + (iova - start),
            _ => iova,
        }
    }

    /// A number; one that is not known stays what it is.
    pub fn number(&self, object: Object, number: u32) -> u32 {
        if object == Object::Key {
            let known = self.numbers.get(&(object, number & !0xff));
            return known.map_or(number, |here| here & !0xff | here.wrapping_add(number) & 0xff);
        }
        self.numbers.get(&(object, number)).copied().unwrap_or(number)
    }

    /// Every address and number of a format's bytes.
    pub fn format(&self, format: &Format, bytes: &mut [u8]) {
        for field in format.fields {
            let whole = bytes.get(field.byte()..(field.bit + field.width).div_ceil(8));
            let Some(whole) = whole.map(<[u8]>::to_vec) else { continue };
            if let Some(gid) = <[u8; 16]>::try_from(&*whole).ok().and_then(|gid| self.gids.get(&gid)) {
                bytes[field.byte()..][..16].copy_from_slice(gid);
            }
            if field.name == "dmac" {
                if let Some(mac) = <[u8; 6]>::try_from(&*whole).ok().and_then(|mac| self.macs.get(&mac)) {
                    bytes[field.byte()..][..6].copy_from_slice(mac);
                }
            }
            let Some(value) = field.value(bytes) else { continue };
            if field.name.ends_with("iova") {
                field.put(bytes, self.iova(value).into());
            } else if let Some(object) = Object::of_field(format.name, field.name) {
                field.put(bytes, self.number(object, value as u32).into());
            }
        }
    }

    /// A command, without its mailbox.
    pub fn command(&self, command: Command) -> Command {
        let mut bytes = *command.as_bytes();
        self.format(&Command::FORMAT, &mut bytes);
        let mut command = Command::from_bytes(&bytes);
        if let Some(spec) = command.opcode().spec() {
            if let Some(object) = Object::called(spec.object) {
                command.set_object(self.number(object, command.object()));
            }
            if spec.params.iter().any(|param| param.kind == Kind::Gid) {
                let gid = command.gid();
                command = command.with_gid(self.gids.get(&gid).copied().unwrap_or(gid));
            }
        }
        if command.opcode() == AdminOpcode::CREATE_MW {
            command.set_param0(self.number(Object::Pd, command.param0() as u32).into());
        }
        command
    }

    /// A send WQE; one that makes no sense stays what it is.
    pub fn wqe(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let Some(ctrl) = WqeCtrl::from_slice(&bytes) else { return bytes };
        if WqeBuilder::parse(&bytes).is_err() {
            return bytes;
        }
        let opcode = ctrl.opcode();
        if matches!(opcode, WqeOpcode::SEND_WITH_INV | WqeOpcode::LOCAL_INV | WqeOpcode::BIND_MW) {
            let ctrl = ctrl.with_imm(self.number(Object::Key, ctrl.imm()));
            bytes[..WqeCtrl::BYTES].copy_from_slice(ctrl.as_bytes());
        }
        let mut at = WqeCtrl::BYTES;
        for segment in opcode.segments(ctrl.service()) {
            let format = segment.format();
            self.format(format, &mut bytes[at..at + format.bytes]);
            at += format.bytes;
        }
        if !ctrl.inline() {
            self.sges(&mut bytes[at..], ctrl.num_sge().into());
        }
        bytes
    }

    /// A receive WQE; none where its head is not whole.
    pub fn recv(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let count = RecvHead::from_slice(bytes)?.num_sge();
        let mut bytes = bytes.to_vec();
        self.sges(bytes.get_mut(RecvHead::BYTES..)?, count.into());
        Some(bytes)
    }

    fn sges(&self, bytes: &mut [u8], count: usize) {
        let entries = bytes.chunks_exact_mut(WqeSge::BYTES).take(count);
        entries.for_each(|entry| self.format(&WqeSge::FORMAT, entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_get_addresses_and_numbers_of_here() {
        let mut known = Translation::default();
        known.memory(0x1000, 0x1000, 0x7000_0000);
        known.learn(Object::Pd, 4, 1);
        known.learn(Object::Qp, 0x20005, 0x10002);
        let mut context = *QpContext::new().with_pd(4).with_sq_iova(0x1800).with_dest_qpn(0x20005).as_bytes();
        known.format(&QpContext::FORMAT, &mut context);
        let context = QpContext::from_bytes(&context);
        assert_eq!((context.pd(), context.sq_iova(), context.dest_qpn()), (1, 0x7000_0800, 0x10002));
        assert_eq!(known.iova(0x2000), 0x2000);
    }

    #[test]
    fn variants_of_keys_go_along() {
        let mut known = Translation::default();
        known.learn(Object::Key, 0x505, 0x203);
        assert_eq!(known.number(Object::Key, 0x505), 0x203);
        assert_eq!(known.number(Object::Key, 0x506), 0x204);
        assert_eq!(known.number(Object::Key, 0x504), 0x202);
        assert_eq!(known.number(Object::Key, 0x605), 0x605);
        let wqe = WqeBuilder::new(WqeOpcode::WRITE).remote(64, 0x505).sge(0, 8, 0x506).build().unwrap();
        let parts = WqeBuilder::parse(&known.wqe(&wqe)).unwrap();
        assert_eq!((parts.remote.rkey(), parts.sges[0].lkey()), (0x203, 0x204));
    }
}
