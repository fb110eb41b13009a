//! The sizes of a QP's rings, from the capabilities asked for.

use fpga_regs::regs::FeatureSet;
use fpga_regs::{QpContext, QpType, MAX_INLINE, MAX_SGE, WQE_BLOCK, WQE_UNIT};

use crate::card::Card;
use crate::device::Device;
use crate::dma::Dma;
use crate::error::{within, Error, Result};
use crate::qp_attr::{QpCaps, QpInit};
use crate::rq_ring::RqSize;
use crate::sq_ring::SqSize;
use crate::sq_shape;

/// Sizes of both rings, and the capabilities that they grant.
pub(crate) struct Sizes {
    pub caps: QpCaps,
    pub sq: SqSize,
    pub rq: RqSize,
}

impl Sizes {
    /// Checks what was asked for against the card's limits, and rounds it.
    pub fn new<C: Card>(dev: &Device<C>, init: &QpInit<C>) -> Result<Sizes> {
        let limits = dev.limits();
        let mut caps = init.caps;
        let takes_frames = matches!(init.qp_type, QpType::RAW_PACKET | QpType::WQ);
        if init.offloads.strip_vlan {
            dev.need(FeatureSet::VLAN, "removal of VLAN tags")?;
            if !takes_frames {
                return Err(Error::Unsupported("removal of VLAN tags by a QP that receives no frames"));
            }
        }
        if init.offloads.scatter_fcs {
            dev.need(FeatureSet::SCATTER_FCS, "frames with their check sequence")?;
            if !takes_frames {
                return Err(Error::Unsupported("check sequences of a QP that receives no frames"));
            }
        }
        if init.offloads.tso {
            dev.need(FeatureSet::TSO, "TCP that the card cuts into frames")?;
            if init.qp_type != QpType::RAW_PACKET {
                return Err(Error::Unsupported(
                    "TCP that the card cuts into frames, of a QP that sends none",
                ));
            }
        }
        match init.qp_type {
            QpType::RC => dev.need(FeatureSet::RC, "an RC QP")?,
            QpType::UC => dev.need(FeatureSet::UC, "a UC QP")?,
            QpType::UD => dev.need(FeatureSet::UD, "a UD QP")?,
            QpType::XRC_SEND => dev.need(FeatureSet::XRC, "an XRC QP")?,
            QpType::RAW_PACKET => {
                dev.need(FeatureSet::RAW_ETH, "a raw packet QP")?;
                if init.srq.is_some() {
                    return Err(Error::Unsupported("an SRQ of a raw packet QP"));
                }
            }
            QpType::WQ => dev.need(FeatureSet::RSS, "a receive work queue")?,
            other => {
                return Err(Error::Invalid(format!(
                    "QP type {other}: this driver has RC, UC, UD, RAW_PACKET and XRC_SEND"
                )))
            }
        }
        if init.srq.is_some() || init.qp_type == QpType::XRC_SEND {
            caps.max_recv_wr = 0;
            caps.max_recv_sge = 0;
        }
        let max_sge = limits.max_sge().min(MAX_SGE as u32);
        within("max_send_wr of a QP", caps.max_send_wr, limits.max_qp_wr())?;
        within("max_recv_wr of a QP", caps.max_recv_wr, limits.max_qp_wr())?;
        within("max_send_sge of a QP", caps.max_send_sge, max_sge)?;
        within("max_recv_sge of a QP", caps.max_recv_sge, max_sge)?;
        let most_inline = limits.max_inline().min(MAX_INLINE as u32);
        within("max_inline_data of a QP", caps.max_inline, most_inline)?;
        let unit = WQE_UNIT as u32;
        let data = caps.max_send_sge.max(caps.max_inline.div_ceil(unit));
        let each = WQE_BLOCK as u32 / unit;
        let blocks = (sq_shape::head_units(init.qp_type, init.offloads.tso) + data).div_ceil(each);
        // Inline data may use all room of the WQE.
        let room = (blocks * each).saturating_sub(sq_shape::inline_head_units(init.qp_type)) * unit;
        caps.max_inline = room.min(most_inline).max(caps.max_inline);
        let sq = SqSize {
            log: (caps.max_send_wr.max(1) * blocks).next_power_of_two().trailing_zeros(),
            max_count: caps.max_send_wr,
            max_inline: caps.max_inline as u16,
            max_sge: caps.max_send_sge as u8,
        };
        let rq = RqSize {
            log: caps.max_recv_wr.max(1).next_power_of_two().trailing_zeros(),
            stride_log: fpga_regs::recv_stride_log(caps.max_recv_sge as usize),
            max_count: caps.max_recv_wr,
            max_sge: caps.max_recv_sge as u8,
        };
        Ok(Sizes { caps, sq, rq })
    }

    fn rq_stride(&self) -> usize {
        1 << self.rq.stride_log
    }

    /// Offset of the receive ring: after the send ring, aligned to its entries and to a cache line.
    pub fn rq_offset(&self) -> usize {
        (WQE_BLOCK << self.sq.log).next_multiple_of(self.rq_stride().max(64))
    }

    /// Bytes of both rings.
    pub fn bytes(&self) -> usize {
        self.rq_offset() + (self.rq_stride() << self.rq.log)
    }

    /// The context with all sizes and addresses filled in.
    pub fn context<C: Card>(&self, memory: &Dma<C>) -> QpContext {
        QpContext::new()
            .with_sq_iova(memory.iova())
            .with_sq_log(self.sq.log as u8)
            .with_rq_iova(memory.iova() + self.rq_offset() as u64)
            .with_rq_log(self.rq.log as u8)
            .with_rq_stride_log(self.rq.stride_log)
            .with_max_inline(self.caps.max_inline)
            .with_max_send_sge(self.caps.max_send_sge as u8)
            .with_max_recv_sge(self.caps.max_recv_sge as u8)
    }
}
