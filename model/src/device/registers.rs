//! BAR0 of a function: what reads return and what writes do. Doorbell pages are the
//! environment's (a doorbell is a store to shared memory or a call).

use fpga_regs::regs::FeatureSet;
use fpga_regs::regs::{
    self, gid, port, Control, Features, Function as FunctionWord, GidAttr, GidVlan, Health, Id, Link,
    LinkState, PhysState, Status,
};
use fpga_regs::{mac_to_u64, GidType};

use super::defect::Defect;
use super::tables::{key_kind, EQS};
use super::Device;
use crate::dma::CARD_MEMORY;
use crate::env::Env;
use crate::gids::{GidTables, GID_TABLE_LEN};
use crate::packet::{PortId, PORTS};

/// What this model does truly.
pub const FEATURES: FeatureSet = FeatureSet(
    FeatureSet::RC.0
        | FeatureSet::UC.0
        | FeatureSet::UD.0
        | FeatureSet::SRQ.0
        | FeatureSet::ATOMICS.0
        | FeatureSet::MW_TYPE1.0
        | FeatureSet::MW_TYPE2.0
        | FeatureSet::INVALIDATE.0
        | FeatureSet::MULTICAST.0
        | FeatureSet::INLINE.0
        | FeatureSet::DIRECT_MR.0
        | FeatureSet::PAGE_LIST_MR.0
        | FeatureSet::RESIZE_CQ.0
        | FeatureSet::IPV4.0
        | FeatureSet::IPV6.0
        | FeatureSet::EVENT_VECTORS.0
        | FeatureSet::TIMESTAMP.0
        | FeatureSet::NULL_MR.0
        | FeatureSet::MODIFY_MR.0
        | FeatureSet::MODERATION.0
        | FeatureSet::ON_DEMAND.0
        | FeatureSet::ON_CARD_MEMORY.0
        | FeatureSet::XRC.0
        | FeatureSet::RAW_ETH.0
        | FeatureSet::FLOW.0
        | FeatureSet::FLOW_DROP.0
        | FeatureSet::VLAN_FILTER.0
        | FeatureSet::STRIP_VLAN.0
        | FeatureSet::TSO.0
        | FeatureSet::PACING.0
        | FeatureSet::SCATTER_FCS.0
        | FeatureSet::FRAME_KIND.0
        | FeatureSet::FLOW_MARK.0
        | FeatureSet::FLOW_COUNT.0
        | FeatureSet::PAUSE.0
        | FeatureSet::CHECKSUM.0
        | FeatureSet::VLAN.0
        | FeatureSet::RSS.0
        | FeatureSet::LAG.0
        | FeatureSet::PORT_ENABLE.0,
);

/// Largest path MTU.
const MTU_MAX: u64 = 4096;

impl Device {
    /// Reads a register of function `f`. What is not there reads zero.
    pub fn bar_read<E: Env>(&mut self, f: u16, offset: u32, env: &mut E) -> u64 {
        let guid = u64::from_be_bytes(self.guids.node(self.id));
        let id = self.id;
        let fun = &self.functions[f as usize];
        match offset {
            regs::ID => {
                let device = if self.defect == Defect::WrongIdentity { 0x10fb } else { regs::DEVICE_ID };
                Id(0).with_vendor(regs::VENDOR_ID).with_device(device).0 as u64
            }
            regs::VERSION => regs::VERSION_VALUE as u64,
            regs::FEATURES => {
                let mut has = FEATURES;
                if fun.remote.get() {
                    has = has.without(FeatureSet::ON_DEMAND);
                }
                Features(0).with_set(has).0
            }
            regs::SERIAL => guid,
            regs::FUNCTION => FunctionWord(0).with_index(f).with_card(id).0 as u64,
            regs::SCRATCH => fun.scratch as u64,
            regs::CONTROL => {
                Control(0).with_enable(fun.enabled.get()).with_reset(fun.resetting.get()).0 as u64
            }
            regs::STATUS => {
                Status(0)
                    .with_ready(fun.enabled.get() && fun.error_cause == 0)
                    .with_resetting(fun.resetting.get())
                    .with_error(fun.error_cause != 0)
                    .0 as u64
            }
            regs::HEALTH => {
                Health(fun.health).with_fatal(fun.error_cause != 0).with_heartbeat((env.now() >> 20) as u16).0
                    as u64
            }
            regs::ERROR_CAUSE => fun.error_cause as u64,
            regs::TIME => env.now(),
            regs::ASQ_BASE => fun.asq,
            regs::ACQ_BASE => fun.acq,
            regs::ADMIN_SIZE => fun.admin_log as u64,
            regs::ASQ_DOORBELL => fun.asq_tail as u64,
            regs::ACQ_CONSUMER => fun.acq_consumer as u64,
            regs::VECTORS => EQS as u64,
            regs::FUNCTIONS_OPEN..=regs::RECVS_WAITING => self.usage(offset, env) as u64,
            regs::MEMORY => CARD_MEMORY as u64,
            regs::VECTOR_MASK => fun.vector_mask as u64,
            regs::VECTOR_PENDING => fun.vector_pending as u64,
            _ if (regs::EQ_CONSUMER..regs::EQ_CONSUMER + 4 * EQS as u32).contains(&offset) => {
                fun.eqs[((offset - regs::EQ_CONSUMER) / 4) as usize].ci as u64
            }
            _ => self.read_port(offset, env),
        }
    }

    /// How much of the card is in use: counted when it is read, so that no other code keeps count.
    fn usage(&self, register: u32, env: &mut impl Env) -> u32 {
        let qps = self.tables.qp.range().filter(|&q| self.qps[q].used.get());
        let sends = |q: usize, env: &mut _| sq_waiting(self, q, env);
        match register {
            regs::FUNCTIONS_OPEN => {
                self.functions[self.tables.function.range()].iter().filter(|f| f.used.get()).count() as u32
            }
            regs::QPS_IN_USE => qps.count() as u32,
            regs::CQS_IN_USE => {
                self.cqs[self.tables.cq.range()].iter().filter(|cq| cq.used.get()).count() as u32
            }
            regs::KEYS_IN_USE => {
                let keys = self.keys[self.tables.key.range()].iter();
                keys.filter(|key| key.kind != key_kind::FREE).count() as u32
            }
            regs::SENDS_WAITING => qps.map(|q| sends(q, env)).sum(),
            regs::SENDS_DEEPEST => qps.map(|q| sends(q, env)).max().unwrap_or(0),
            regs::RECVS_WAITING => {
                let own = qps.filter(|&q| !self.qps[q].has_srq.get());
                own.map(|q| {
                    let waiting = env.bells(self.id).rq_producer(q).wrapping_sub(self.qps[q].resp.rq_ci);
                    waiting.min(self.qps[q].rq_mask + 1)
                })
                .sum()
            }
            _ => 0,
        }
    }

    fn read_port(&mut self, offset: u32, env: &mut impl Env) -> u64 {
        let Some(rest) = offset.checked_sub(port::PORT_BASE) else { return 0 };
        let (p, at) = ((rest / port::PORT_BYTES) as usize, rest % port::PORT_BYTES);
        if p >= PORTS {
            return 0;
        }
        let id = PortId { card: self.id, port: p as u8 };
        if at >= port::GID_TABLE {
            return read_gid(&self.gids, id, at - port::GID_TABLE);
        }
        match at {
            port::LINK => {
                let (up, changes) = self.shown_link(id.port, env.now());
                let (state, phys) = match up {
                    true => (LinkState::ACTIVE, PhysState::LINK_UP),
                    false if self.is_disabled(id.port) => (LinkState::DOWN, PhysState::DISABLED),
                    false => (LinkState::DOWN, PhysState::POLLING),
                };
                let link = Link(0).with_up(up).with_module(true).with_state(state).with_phys(phys);
                let (stops, asks) = (self.stops(id.port), self.asks_to_stop(id.port));
                let link = link.with_rx_pause(stops).with_tx_pause(asks);
                link.with_changes(changes).0 as u64
            }
            port::SPEED => self.port.mbps.into(),
            port::MAC => mac_to_u64(self.mac(id.port)),
            port::MTU => self.port.mtu.into(),
            port::MTU_MAX => MTU_MAX,
            port::GID_COUNT => GID_TABLE_LEN as u64,
            port::PKEY => 0xffff,
            port::TX_PACKETS..=port::TX_DISCARDS => self.counter(p as u8, at),
            _ => 0,
        }
    }

    /// A port counter: what its QPs have counted is added up when asked, so that the data path
    /// shares no line between processes.
    pub(crate) fn counter(&self, p: u8, register: u32) -> u64 {
        let own = self.counters[p as usize].get(register);
        let used = || self.qps[self.tables.qp.range()].iter().filter(|qp| qp.used.get());
        let (sent, received) = (used().filter(|qp| qp.leaves == p), used().filter(|qp| qp.arrives == p));
        // What was taken back makes the port's own part less than zero.
        own.wrapping_add(match register {
            port::TX_PACKETS => sent.map(|qp| qp.req.packets + qp.resp.tx_packets).sum::<u64>(),
            port::TX_BYTES => sent.map(|qp| qp.req.bytes + qp.resp.tx_bytes).sum(),
            port::RX_PACKETS => received.map(|qp| qp.resp.packets + qp.req.rx_packets).sum(),
            port::RX_BYTES => received.map(|qp| qp.resp.bytes + qp.req.rx_bytes).sum(),
            _ => 0,
        })
    }

    /// Writes a register of function `f`. Writes to what is read-only are ignored.
    pub fn bar_write(&mut self, f: u16, offset: u32, value: u64, env: &mut impl Env) {
        let fun = &mut self.functions[f as usize];
        let low = value as u32;
        match offset {
            regs::SCRATCH => fun.scratch = low,
            regs::CONTROL => {
                let control = Control(low);
                if control.reset() && self.defect == Defect::StuckReset {
                    fun.resetting = true.into();
                } else if control.reset() {
                    self.reset_function(f, env);
                } else {
                    fun.enabled = (control.enable()).into();
                }
            }
            regs::ASQ_BASE if !fun.enabled.get() => fun.asq = value,
            regs::ACQ_BASE if !fun.enabled.get() => fun.acq = value,
            regs::ADMIN_SIZE if !fun.enabled.get() => fun.admin_log = low.min(12) as u8,
            regs::ASQ_DOORBELL => {
                fun.asq_tail = low;
                self.run_admin(f, env);
            }
            regs::ACQ_CONSUMER => fun.acq_consumer = low,
            regs::VECTOR_MASK => {
                let released = fun.vector_pending & !low;
                fun.vector_mask = low;
                fun.vector_pending &= low;
                let card = self.id;
                (0..32).filter(|v| released & (1 << v) != 0).for_each(|v| env.interrupt(card, f, v));
            }
            regs::VECTOR_PENDING => fun.vector_pending &= !low,
            _ if (regs::EQ_CONSUMER..regs::EQ_CONSUMER + 4 * EQS as u32).contains(&offset) => {
                fun.eqs[((offset - regs::EQ_CONSUMER) / 4) as usize].ci = low;
            }
            _ => {}
        }
    }
}

/// Blocks of a send queue between what has completed and what was posted.
fn sq_waiting(card: &Device, q: usize, env: &mut impl Env) -> u32 {
    let waiting = env.bells(card.id).sq_producer(q).wrapping_sub(card.qps[q].req.ci);
    waiting.min(card.qps[q].sq_mask + 1)
}

fn read_gid(gids: &GidTables, port: PortId, at: u32) -> u64 {
    let index = at / gid::GID_ENTRY_BYTES;
    if index >= gid::GID_ENTRIES {
        return 0;
    }
    let entry = gids.entry(port, index as u8);
    match at % gid::GID_ENTRY_BYTES {
        word @ 0..=15 => {
            u32::from_le_bytes(entry.gid[word as usize & !3..][..4].try_into().expect("4 bytes")) as u64
        }
        gid::GID_ATTR if !entry.is_empty() => {
            let kind = if entry.v1.get() { GidType::ROCE_V1 } else { GidType::ROCE_V2 };
            GidAttr(0).with_valid(true).with_kind(kind).0.into()
        }
        gid::GID_VLAN if entry.vlan != 0 => GidVlan(0).with_present(true).with_id(entry.vlan).0.into(),
        _ => 0,
    }
}
