//! Two connected QPs of one card, with a registered region: port 1 with itself, or port 1 with port 2.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use driver::{AhAttr, Cq, Data, Device, Pd, Qp, QpAttr, QpCaps, QpInit, SendFlags, SendWr, Sge, Wc};
use fpga_regs::{Access, QpType, WqeOpcode};

use super::device::AnyCard;
use super::memory::Region;

/// How long one completion may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Work requests that may be outstanding on each queue.
pub const DEPTH: u32 = 128;

/// Q_Key of both QPs of a UD pair.
pub const QKEY: u32 = 0x1111_1111;

pub struct End {
    pub qp: Arc<Qp<AnyCard>>,
    pub cq: Arc<Cq<AnyCard>>,
    /// Its port, from 1.
    pub port: u8,
    gid: [u8; 16],
    gid_index: u8,
}

/// Two connected ends.
pub struct Pair {
    /// The sender.
    pub a: End,
    /// The receiver.
    pub b: End,
    /// Memory of both.
    pub region: Region,
    pub pd: Arc<Pd<AnyCard>>,
}

impl End {
    fn new(pd: &Arc<Pd<AnyCard>>, kind: QpType, port: u8) -> Result<End> {
        let device = pd.device();
        let cq = device.create_cq(2 * DEPTH, 0)?;
        let caps = QpCaps {
            max_send_wr: DEPTH,
            max_recv_wr: DEPTH,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline: 64,
        };
        let (gid_index, gid) = usable_gid(device, port)?;
        Ok(End { qp: pd.create_qp(&QpInit::new(kind, &cq, caps))?, cq, port, gid, gid_index })
    }

    /// The way to another end.
    pub fn way(&self, to: &End) -> AhAttr {
        AhAttr {
            grh: true,
            dgid: to.gid,
            sgid_index: self.gid_index,
            hop_limit: 64,
            port: self.port,
            ..AhAttr::default()
        }
    }

    fn connect(&self, to: &End, mtu: u8) -> driver::Result<()> {
        self.qp.bring_up(&QpAttr {
            port: self.port,
            qkey: QKEY,
            access: Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            ah: self.way(to),
            path_mtu: mtu,
            dest_qpn: to.qp.qpn(),
            max_dest_rd_atomic: 1,
            max_rd_atomic: 1,
            min_rnr_timer: 1,
            timeout: 10,
            retry_cnt: 3,
            rnr_retry: 3,
            ..QpAttr::default()
        })
    }

    /// Posts one work request; it completes with its `wr_id`.
    pub fn post(&self, wr: &SendWr<'_>) -> Result<()> {
        let mut post = self.qp.send();
        post.push(wr)?;
        post.ring();
        Ok(())
    }

    pub fn recv(&self, wr_id: u64, sges: &[Sge]) -> Result<()> {
        let mut post = self.qp.recv();
        post.push(wr_id, sges)?;
        post.ring();
        Ok(())
    }

    /// The next completion.
    pub fn wait(&self) -> Result<Wc> {
        let until = Instant::now() + PATIENCE;
        let mut found = None;
        loop {
            self.cq.poll(1, |wc| found = Some(wc))?;
            if let Some(wc) = found {
                return Ok(wc);
            }
            if Instant::now() > until {
                // The card may have gone, as one does whose server was killed.
                self.cq.device().check()?;
                bail!("no completion in CQ {:#x} within {} s", self.cq.cqn(), PATIENCE.as_secs());
            }
        }
    }
}

/// The GID to use at a port: the last of the valid ones, which is IPv4 where there is one.
pub fn usable_gid(device: &Device<AnyCard>, port: u8) -> Result<(u8, [u8; 16])> {
    let entries = (0..device.limits().gid_table_len().min(16)).rev();
    for index in entries {
        let gid = device.gid(port, index)?;
        if gid != [0; 16] {
            return Ok((index as u8, gid));
        }
    }
    Err(anyhow!("port {port} has no GID: its table is empty (verbena regs port{port}.gid0)"))
}

impl Pair {
    /// Connects two new QPs of type `kind`, of port 1 and of `port`, with `bytes` of memory.
    pub fn new(device: &Arc<Device<AnyCard>>, kind: QpType, port: u8, bytes: usize) -> Result<Pair> {
        let pd = device.alloc_pd().context("a protection domain")?;
        let region = Region::new(&pd, bytes).context("a memory region")?;
        let mtu = device.query_port(1)?.mtu_active;
        let code = (1..=5).rev().find(|code| 128 << code <= mtu).unwrap_or(1);
        let (a, b) = (End::new(&pd, kind, 1)?, End::new(&pd, kind, port)?);
        a.connect(&b, code).context("connecting the sender")?;
        b.connect(&a, code).context("connecting the receiver")?;
        Ok(Pair { a, b, region, pd })
    }

    /// A signaled work request of the sender whose remote side is byte `at` of the region.
    pub fn wr<'a>(&self, opcode: WqeOpcode, sges: &'a [Sge], at: usize) -> SendWr<'a> {
        SendWr {
            wr_id: 1,
            opcode,
            flags: SendFlags::SIGNALED,
            data: Data::Sges(sges),
            remote_addr: self.region.addr(at),
            rkey: self.region.mr.rkey(),
            ..SendWr::default()
        }
    }
}
