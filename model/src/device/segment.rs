//! RAW_TSO: TCP that the card cuts into frames. Each is sent as one of RAW_ETH is; what was sent of the message is
//! `cur_offset` of its queue pair.

use fpga_regs::{CqeStatus, Syndrome, MAX_FRAME, MAX_TSO_HEADER};

use super::gather::{malformed, LocalError};
use super::raw::{with_room, Outgoing, Part};
use super::wqe::Wqe;
use super::Device;
use crate::env::Env;
use crate::wire::ethernet::{self, MIN_FRAME};
use crate::wire::segments::{self, Template};
use crate::wire::Ethernet;

/// Most bytes of a message that is cut into frames.
pub(super) const MAX_TSO: u32 = 1 << 16;

impl Device {
    /// The next frame of a RAW_TSO.
    pub(super) fn take_segment(
        &mut self,
        q: usize,
        wqe: &Wqe,
        env: &mut impl Env,
    ) -> Result<Outgoing, LocalError> {
        let too_long = LocalError { status: CqeStatus::LOC_LEN_ERR, syndrome: Syndrome::MESSAGE_TOO_LONG };
        if wqe.ctrl.inline() {
            return Err(malformed());
        }
        let tso = wqe.tso(env)?;
        let (mss, header) = (u32::from(tso.mss()), tso.header());
        let header = header.get(..tso.header_length().into()).ok_or_else(malformed)?;
        let template = Template::of(header).filter(|_| mss != 0).ok_or_else(malformed)?;
        let length = wqe.ctrl.length();
        let tag = wqe.ctrl.vlan_insert().then(|| wqe.ctrl.vlan_tci());
        let tag_bytes = if tag.is_some() { Ethernet::TAG_BYTES } else { 0 };
        let head = template.bytes();
        if length > MAX_TSO || mss.min(length) + (head + tag_bytes) as u32 > MAX_FRAME {
            return Err(too_long);
        }
        // Its WQE may have another length by now.
        let offset = self.qps[q].req.cur_offset.min(length);
        let data = mss.min(length - offset);
        let end = offset + data;
        let (payload, _) = self.gather_pieces(q, wqe, offset, data, env)?;
        let untagged = head + data as usize;
        let payload = with_room((untagged + tag_bytes).max(MIN_FRAME), |bytes| {
            bytes[..head].copy_from_slice(header);
            let read = env.payload(&payload, &mut bytes[head..untagged]);
            env.drop_payload(&payload);
            let part = segments::Part { nth: offset / mss, offset, last: end == length };
            template.finish(&mut bytes[..untagged], part);
            if let Some(tci) = tag {
                ethernet::insert_tag(&mut bytes[..untagged + tag_bytes], tci);
            }
            read.map(|()| env.stash(bytes))
        })?;
        let part = if end == length { Part::Rest } else { Part::Until(end) };
        Ok(Outgoing { payload, inline: false, blocks: wqe.blocks(), part })
    }
}

const _: () = assert!(MAX_TSO_HEADER < MAX_FRAME as usize);
