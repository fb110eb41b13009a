//! One side of a connection through the driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{
    Ah, AhAttr, Card, Cq, Data, Device, Mr, Pd, Qp, QpAttr, QpCaps, QpInit, SendFlags, SendWr, Sge, Srq, Wc,
};
use fpga_regs::{Access, CqeStatus, QpState, QpType, WqeOpcode};

use crate::Buffer;

/// How a connection is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Service.
    pub qp_type: QpType,
    /// Path MTU as `ibv_mtu` (1..=5).
    pub mtu: u8,
    /// Queue depths.
    pub depth: u32,
    /// SGEs of a WQE.
    pub sges: u32,
    /// Inline bytes.
    pub inline: u32,
    /// `timeout` attribute.
    pub timeout: u8,
    /// `retry_cnt` attribute.
    pub retry_cnt: u8,
    /// `rnr_retry` attribute.
    pub rnr_retry: u8,
    /// `min_rnr_timer` attribute.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding.
    pub rd_atomic: u8,
    /// First PSN to send.
    pub psn: u32,
    /// GID index.
    pub gid: u8,
    /// Port, from 1.
    pub port: u8,
    /// Bytes of the registered buffer.
    pub bytes: usize,
    /// Access of the buffer and the QP.
    pub access: Access,
    /// Bytes of the CQ.
    pub cqes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            qp_type: QpType::RC,
            mtu: 3,
            depth: 64,
            sges: 4,
            inline: 64,
            timeout: 8,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            rd_atomic: 4,
            psn: 0xff_fff0,
            gid: 1,
            port: 1,
            bytes: 1 << 20,
            access: Access::LOCAL_WRITE
                | Access::REMOTE_WRITE
                | Access::REMOTE_READ
                | Access::REMOTE_ATOMIC
                | Access::MW_BIND,
            cqes: 512,
        }
    }
}

/// One side: device, PD, CQ, QP and a registered buffer.
pub struct Peer<C: Card> {
    /// Queue pair.
    pub qp: Arc<Qp<C>>,
    /// The one CQ.
    pub cq: Arc<Cq<C>>,
    /// Region over all of `buffer`.
    pub mr: Arc<Mr<C>>,
    /// Memory.
    pub buffer: Buffer,
    /// Domain.
    pub pd: Arc<Pd<C>>,
    /// Device.
    pub device: Arc<Device<C>>,
    /// How it was made.
    pub options: Options,
}

impl<C: Card> Peer<C> {
    /// A QP in RESET on `device`.
    pub fn new(device: &Arc<Device<C>>, options: Options) -> Peer<C> {
        Self::with_srq(device, options, None)
    }

    /// A QP in RESET that receives from `srq`.
    pub fn with_srq(device: &Arc<Device<C>>, options: Options, srq: Option<Arc<Srq<C>>>) -> Peer<C> {
        Self::tuned(device, options, srq, |_| ())
    }

    /// As [`Peer::with_srq`], with other things to create the QP with.
    pub fn tuned(
        device: &Arc<Device<C>>,
        options: Options,
        srq: Option<Arc<Srq<C>>>,
        tune: impl FnOnce(&mut QpInit<C>),
    ) -> Peer<C> {
        let pd = match &srq {
            Some(srq) => srq.pd().clone(),
            None => device.alloc_pd().expect("a PD"),
        };
        let cq = device.create_cq(options.cqes, 0).expect("a CQ");
        let buffer = Buffer::new(options.bytes);
        // SAFETY: the buffer outlives the region (fields are dropped in order).
        #[allow(unused_unsafe)]
        let mr =
            unsafe { pd.reg_mr(buffer.addr(0) as *mut u8, options.bytes, buffer.addr(0), options.access) }
                .expect("an MR");
        let caps = QpCaps {
            max_send_wr: options.depth,
            max_recv_wr: options.depth,
            max_send_sge: options.sges,
            max_recv_sge: options.sges,
            max_inline: options.inline,
        };
        let mut init = QpInit { srq, ..QpInit::new(options.qp_type, &cq, caps) };
        tune(&mut init);
        let qp = pd.create_qp(&init).expect("a QP");
        Peer { qp, cq, mr, buffer, pd, device: device.clone(), options }
    }

    /// Another QP, with the same options, domain and CQ.
    pub fn another_qp(&self) -> Arc<Qp<C>> {
        let init = QpInit::new(self.options.qp_type, &self.cq, *self.qp.caps());
        self.pd.create_qp(&init).expect("a QP")
    }

    /// RESET to INIT.
    pub fn init(&self) {
        let o = &self.options;
        let attr = QpAttr {
            state: QpState::INIT,
            port: o.port,
            access: o.access.without(Access::MW_BIND),
            qkey: QKEY,
            ..Default::default()
        };
        self.qp.step(&attr).expect("INIT");
    }

    /// INIT to RTR.
    pub fn rtr(&self, dest_qpn: u32, dgid: [u8; 16], rq_psn: u32) {
        let o = &self.options;
        let attr = QpAttr {
            state: QpState::RTR,
            path_mtu: o.mtu,
            dest_qpn,
            rq_psn,
            max_dest_rd_atomic: o.rd_atomic,
            min_rnr_timer: o.min_rnr_timer,
            ah: self.av(dgid),
            ..Default::default()
        };
        self.qp.step(&attr).expect("RTR");
    }

    /// RTR to RTS.
    pub fn rts(&self) {
        let o = &self.options;
        let attr = QpAttr {
            state: QpState::RTS,
            sq_psn: o.psn,
            timeout: o.timeout,
            retry_cnt: o.retry_cnt,
            rnr_retry: o.rnr_retry,
            max_rd_atomic: o.rd_atomic,
            ..Default::default()
        };
        self.qp.step(&attr).expect("RTS");
    }

    /// RESET to RTS, connected with nobody.
    pub fn ready(&self) {
        self.init();
        self.rtr(0, [0; 16], 0);
        self.rts();
    }

    /// Address vector to a GID.
    pub fn av(&self, dgid: [u8; 16]) -> AhAttr {
        let o = &self.options;
        AhAttr { grh: true, dgid, sgid_index: o.gid, hop_limit: 64, port: o.port, ..Default::default() }
    }

    /// Own GID.
    pub fn gid(&self) -> [u8; 16] {
        self.device.gid(self.options.port, self.options.gid as u32).expect("a GID")
    }

    /// Registers bytes of the buffer once more. Keep the buffer until the region is gone.
    pub fn region(&self, at: usize, len: usize, access: Access) -> Arc<Mr<C>> {
        let addr = self.buffer.addr(at);
        // SAFETY: as said above.
        unsafe { self.pd.reg_mr(addr as *mut u8, len, addr, access) }.expect("a region")
    }

    /// An SGE of the buffer.
    pub fn sge(&self, at: usize, length: usize) -> Sge {
        Sge { addr: self.buffer.addr(at), length: length as u32, lkey: self.mr.lkey() }
    }

    /// A signaled work request.
    pub fn wr<'a>(&self, wr_id: u64, opcode: WqeOpcode, sges: &'a [Sge]) -> SendWr<'a> {
        SendWr { wr_id, opcode, flags: SendFlags::SIGNALED, data: Data::Sges(sges), ..Default::default() }
    }

    /// A signaled work request that names the peer's memory.
    pub fn remote<'a, D: Card>(
        &self,
        wr_id: u64,
        opcode: WqeOpcode,
        sges: &'a [Sge],
        peer: &Peer<D>,
        at: usize,
    ) -> SendWr<'a> {
        SendWr { remote_addr: peer.buffer.addr(at), rkey: peer.mr.rkey(), ..self.wr(wr_id, opcode, sges) }
    }

    /// Posts a chain.
    pub fn post(&self, wrs: &[SendWr<'_>]) {
        let mut post = self.qp.send();
        for wr in wrs {
            post.push(wr).expect("room in the send queue");
        }
        post.ring();
    }

    /// Posts a receive.
    pub fn recv(&self, wr_id: u64, sges: &[Sge]) {
        let mut post = self.qp.recv();
        post.push(wr_id, sges).expect("room in the receive queue");
        post.ring();
    }

    /// The next completion, within half a minute.
    pub fn wait(&self) -> Wc {
        self.wait_unless(|| false).expect("one of both")
    }

    /// The next completion, within half a minute; none if it is over before.
    pub fn wait_unless(&self, over: impl Fn() -> bool) -> Option<Wc> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let over = over();
            let found = self.poll();
            if found.is_some() || over {
                return found;
            }
            assert!(Instant::now() < until, "no completion within 30 s");
        }
    }

    /// The next completion, if there is one.
    pub fn poll(&self) -> Option<Wc> {
        let mut found = None;
        self.cq.poll(1, |wc| found = Some(wc)).expect("the CQ is well");
        found
    }

    /// The next completion, which must be a success of this request.
    pub fn expect(&self, wr_id: u64) -> Wc {
        self.expect_status(wr_id, CqeStatus::SUCCESS)
    }
}

/// The Q_Key of UD tests.
pub const QKEY: u32 = 0x1111_1111;

/// A request as a datagram for a queue pair, by its number.
pub fn datagram<'a>(ah: &'a Ah, remote_qpn: u32, wr: SendWr<'a>) -> SendWr<'a> {
    SendWr { ah: Some(ah), remote_qpn, remote_qkey: QKEY, ..wr }
}

/// Brings two new QPs to RTS, connected with each other.
pub fn connect<C: Card, D: Card>(
    a: &Arc<Device<C>>,
    b: &Arc<Device<D>>,
    options: Options,
) -> (Peer<C>, Peer<D>) {
    let (x, y) = (Peer::new(a, options), Peer::new(b, options));
    join(&x, &y);
    (x, y)
}

/// Connects two QPs in RESET with each other and brings them to RTS.
pub fn join<C: Card, D: Card>(x: &Peer<C>, y: &Peer<D>) {
    x.init();
    y.init();
    x.rtr(y.qp.qpn(), y.gid(), y.options.psn);
    y.rtr(x.qp.qpn(), x.gid(), x.options.psn);
    x.rts();
    y.rts();
}
