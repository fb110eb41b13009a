//! What a program asks about an identifier: addresses, paths, and the attributes of its QP.

use libc::{EINVAL, ENODATA, ENOSPC, ENOSYS};

use super::address::{Address, IB};
use super::ids::Result;
use super::param;
use super::tables::*;
use crate::env::Env;

/// Bytes of `rdma_ucm_event_resp`.
pub const EVENT: usize = 336;
/// Bytes of `ib_uverbs_qp_attr`.
pub const QP_ATTR: usize = 144;
/// Bytes of `ib_path_rec_data`.
pub const PATH_DATA: usize = 72;
/// Its flags of a primary path in both directions, for management packets too.
pub const PRIMARY: u32 = 0b10_1011;
const QUERY_ROUTE: usize = 208;
const QUERY_ADDR: usize = 280;
/// The device has no number.
const NO_INDEX: u32 = u32::MAX;

/// `ib_qp_state`.
mod qp_state {
    pub const INIT: u32 = 1;
    pub const RTR: u32 = 2;
    pub const RTS: u32 = 3;
}

/// Attribute masks, `IB_QP_...`.
mod mask {
    /// State, access flags, P_Key index, port.
    pub const INIT: u32 = 0x39;
    /// State, P_Key index, port, Q_Key.
    pub const INIT_UD: u32 = 0x71;
    /// State, address, MTU, receive PSN, destination.
    pub const RTR: u32 = 0x10_1181;
    /// READs to answer, RNR timer.
    pub const RTR_RC: u32 = 0x2_8000;
    /// State, send PSN.
    pub const RTS: u32 = 0x1_0001;
    /// Time-out, retries, READs to ask for.
    pub const RTS_RC: u32 = 0x2e00;
}

/// Access flags, `IB_ACCESS_...`.
const REMOTE_WRITE: u32 = 2;
const REMOTE_READ_AND_ATOMIC: u32 = 4 | 8;

/// Puts values into a structure of bytes.
struct Structure(Vec<u8>);

impl Structure {
    fn new(bytes: usize) -> Structure {
        Structure(vec![0; bytes])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn u32(&mut self, at: usize, value: u32) -> &mut Self {
        self.put(at, &value.to_ne_bytes())
    }

    /// As much as there is room for.
    fn finish(self, room: usize) -> Vec<u8> {
        let mut bytes = self.0;
        bytes.truncate(room);
        bytes
    }
}

impl<E: Env> Manager<'_, E> {
    fn has_path(&mut self, slot: u16) -> bool {
        let id = self.id(slot);
        id.way.known.get() && matches!(id.state, state::ROUTED | state::CONNECT | state::DISCONNECT)
    }

    /// GUID of the card as in memory of a big-endian machine, and the port's number; zeros without a card.
    fn device(&mut self, slot: u16) -> ([u8; 8], u8) {
        let way = self.id(slot).way;
        match way.known.get() {
            true => (self.guids.node(way.from.card), way.from.port + 1),
            false => ([0; 8], 0),
        }
    }

    /// QUERY_ROUTE.
    pub fn query_route(&mut self, slot: u16, room: usize) -> Result<Vec<u8>> {
        // Older programs know nothing of the last eight bytes.
        if room < QUERY_ROUTE - 8 {
            return Err(ENOSPC);
        }
        let (guid, port) = self.device(slot);
        let path = self.has_path(slot);
        let sgid = self.sgid(slot);
        let Id { way, source, destination, mtu, lifetime, .. } = *self.id(slot);
        let mut it = Structure::new(QUERY_ROUTE);
        it.put(136, &source.bytes()[..source.bytes().len().min(28)]);
        it.put(164, &destination.bytes()[..destination.bytes().len().min(28)]);
        if way.known.get() {
            it.put(0, &guid);
            match path {
                true => it.put(8, &param::path_rec(&way, &sgid, mtu, lifetime)),
                // Only the GIDs, and the P_Key.
                false => it.put(8, &way.dgid).put(24, &sgid).put(60, &[0xff, 0xff]),
            };
            it.u32(192, path.into()).put(196, &[port]);
        }
        it.u32(200, NO_INDEX);
        Ok(it.finish(room))
    }

    /// QUERY.
    pub fn query(&mut self, slot: u16, option: u32, room: usize) -> Result<Vec<u8>> {
        match option {
            0 => self.query_addresses(slot, room, false),
            1 => self.query_paths(slot, room),
            2 => self.query_addresses(slot, room, true),
            // Service records, of which only InfiniBand has some.
            3 if room < 4 => Err(ENOSPC),
            3 => Err(ENODATA),
            _ => Err(ENOSYS),
        }
    }

    fn query_addresses(&mut self, slot: u16, room: usize, gids: bool) -> Result<Vec<u8>> {
        if room < QUERY_ADDR - 8 {
            return Err(ENOSPC);
        }
        let (guid, port) = self.device(slot);
        let sgid = self.sgid(slot);
        let Id { way, mut source, mut destination, .. } = *self.id(slot);
        let mut it = Structure::new(QUERY_ADDR);
        it.put(0, &guid).put(8, &[port]);
        if way.known.get() {
            it.put(10, &[0xff, 0xff]);
        }
        if gids {
            let services = [source, destination].map(|address| self.service(slot, &address));
            let known = way.known.get();
            let of = |address: Address, gid: &[u8; 16], service| match address.family() {
                IB => address,
                _ => ib_address(if known { gid } else { &[0; 16] }, known, service),
            };
            (source, destination) = (of(source, &sgid, services[0]), of(destination, &way.dgid, services[1]));
        }
        it.put(12, &(source.bytes().len() as u16).to_ne_bytes());
        it.put(14, &(destination.bytes().len() as u16).to_ne_bytes());
        it.put(16, source.bytes()).put(144, destination.bytes());
        it.u32(272, NO_INDEX);
        Ok(it.finish(room))
    }

    fn query_paths(&mut self, slot: u16, room: usize) -> Result<Vec<u8>> {
        if room < 8 {
            return Err(ENOSPC);
        }
        let (path, sgid) = (self.has_path(slot), self.sgid(slot));
        let Id { way, mtu, lifetime, .. } = *self.id(slot);
        let mut it = Structure::new(8);
        it.u32(0, path.into());
        if path && room >= 8 + PATH_DATA {
            it.0.extend(param::path_data(&way, &sgid, mtu, lifetime));
        }
        Ok(it.0)
    }

    /// INIT_QP_ATTR: what the QP of a connection needs for its next state.
    pub fn init_qp_attr(&mut self, slot: u16, qp_state: u32) -> Result<Vec<u8>> {
        let id = *self.id(slot);
        if !id.way.known.get() {
            return Err(EINVAL);
        }
        let mut it = Structure::new(QP_ATTR);
        it.u32(4, qp_state);
        let port = id.way.from.port + 1;
        if id.qp_type == qp_type::UD {
            let qkey = self.qkey(slot);
            it.u32(0, mask::INIT_UD).u32(20, qkey).put(133, &[port]);
            return Ok(it.0);
        }
        let rc = id.qp_type == qp_type::RC;
        let connecting = !matches!(id.comm, comm::IDLE | comm::TIMEWAIT | comm::DREQ_SENT | comm::DREQ_RCVD);
        let reads = if id.responder_resources != 0 { REMOTE_READ_AND_ATOMIC } else { 0 };
        // The peer's QP is known.
        let answered = connecting && !matches!(id.comm, comm::REQ_SENT | comm::MRA_REQ_RCVD);
        match qp_state {
            qp_state::INIT if id.comm == comm::IDLE && id.state != state::CONNECT => {
                it.u32(0, mask::INIT).put(133, &[port]);
            }
            qp_state::INIT if connecting => {
                it.u32(0, mask::INIT).u32(36, REMOTE_WRITE | reads).put(133, &[port]);
            }
            qp_state::RTR if answered => {
                it.u32(0, mask::RTR | if rc { mask::RTR_RC } else { 0 });
                it.u32(12, id.mtu.into()).u32(24, id.rq_psn).u32(32, id.remote_qpn);
                it.put(40, &param::ah_attr(&id.way)).put(131, &[id.responder_resources]);
            }
            qp_state::RTS if answered => {
                let timeout = if id.ack_timeout_set.get() { id.ack_timeout } else { id.qp_timeout };
                it.u32(0, mask::RTS | if rc { mask::RTS_RC } else { 0 });
                it.u32(28, id.sq_psn).put(130, &[id.initiator_depth]);
                it.put(134, &[timeout, id.retry_count, id.rnr_retry_count]);
            }
            _ => return Err(EINVAL),
        }
        Ok(it.0)
    }
}

/// A `sockaddr_ib` of a GID and a service.
fn ib_address(gid: &[u8; 16], has_pkey: bool, service: u64) -> Address {
    let mut raw = [0; 48];
    raw[..2].copy_from_slice(&IB.to_ne_bytes());
    if has_pkey {
        raw[2..4].copy_from_slice(&[0xff, 0xff]);
    }
    raw[8..24].copy_from_slice(gid);
    raw[24..32].copy_from_slice(&service.to_be_bytes());
    Address::read(&raw)
}
