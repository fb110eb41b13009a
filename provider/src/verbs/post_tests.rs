use super::*;

const RC: ibv_qp_type::Type = ibv_qp_type::IBV_QPT_RC;

fn wr(opcode: ibv_wr_opcode::Type) -> ibv_send_wr {
    // SAFETY: zero is a valid value of all fields.
    let mut wr: ibv_send_wr = unsafe { std::mem::zeroed() };
    wr.opcode = opcode;
    wr
}

fn translated(wr: &ibv_send_wr, qp_type: ibv_qp_type::Type) -> Result<SendWr<'_>> {
    let mut found = None;
    let keep = |wr: &_| {
        found = Some(*wr);
        Ok(())
    };
    // SAFETY: the tests' requests are valid.
    unsafe { translate(wr, qp_type, keep)? };
    Ok(found.expect("pushed"))
}

#[test]
fn flags_keep_their_meaning() {
    assert_eq!(send_flags(0), SendFlags::empty());
    assert_eq!(send_flags(ibv_send_flags::IBV_SEND_FENCE.0), SendFlags::FENCE);
    assert_eq!(send_flags(ibv_send_flags::IBV_SEND_SIGNALED.0), SendFlags::SIGNALED);
    assert_eq!(send_flags(ibv_send_flags::IBV_SEND_SOLICITED.0), SendFlags::SOLICITED);
    assert_eq!(send_flags(INLINE | IP_CSUM), SendFlags::empty());
}

#[test]
fn opcodes_keep_their_meaning() {
    for (theirs, ours) in [
        (ibv_wr_opcode::IBV_WR_RDMA_WRITE, WqeOpcode::WRITE),
        (ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM, WqeOpcode::WRITE_WITH_IMM),
        (ibv_wr_opcode::IBV_WR_SEND, WqeOpcode::SEND),
        (ibv_wr_opcode::IBV_WR_SEND_WITH_IMM, WqeOpcode::SEND_WITH_IMM),
        (ibv_wr_opcode::IBV_WR_RDMA_READ, WqeOpcode::READ),
        (ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP, WqeOpcode::CMP_SWAP),
        (ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD, WqeOpcode::FETCH_ADD),
        (ibv_wr_opcode::IBV_WR_LOCAL_INV, WqeOpcode::LOCAL_INV),
        (ibv_wr_opcode::IBV_WR_SEND_WITH_INV, WqeOpcode::SEND_WITH_INV),
    ] {
        assert_eq!(translated(&wr(theirs), RC).unwrap().opcode, ours);
    }
    assert_eq!(translated(&wr(ibv_wr_opcode::IBV_WR_TSO), RC).err(), Some(Errno::EINVAL));
}

#[test]
fn unions_are_read_by_opcode() {
    let mut atomic = wr(ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP);
    atomic.wr.atomic = atomic_t { remote_addr: 1, compare_add: 2, swap: 3, rkey: 4 };
    let out = translated(&atomic, RC).unwrap();
    assert_eq!((out.remote_addr, out.compare_add, out.swap, out.rkey), (1, 2, 3, 4));

    let mut write = wr(ibv_wr_opcode::IBV_WR_RDMA_WRITE);
    write.wr.rdma = rdma_t { remote_addr: 5, rkey: 6 };
    let out = translated(&write, RC).unwrap();
    assert_eq!((out.remote_addr, out.rkey), (5, 6));

    let mut ud = wr(ibv_wr_opcode::IBV_WR_SEND);
    ud.wr.ud = ud_t { ah: std::ptr::null_mut(), remote_qpn: 7, remote_qkey: 8 };
    let out = translated(&ud, ibv_qp_type::IBV_QPT_UD).unwrap();
    assert_eq!((out.remote_qpn, out.remote_qkey), (7, 8));
    assert!(out.ah.is_none());

    write.qp_type.xrc = xrc_t { remote_srqn: 9 };
    let out = translated(&write, ibv_qp_type::IBV_QPT_XRC_SEND).unwrap();
    assert_eq!((out.remote_addr, out.rkey, out.remote_srqn), (5, 6, 9));
    assert_eq!(translated(&write, RC).unwrap().remote_srqn, 0, "only XRC has SRQs to name");
}

#[test]
fn bad_requests_are_refused() {
    let mut bad = wr(ibv_wr_opcode::IBV_WR_SEND);
    bad.num_sge = -1;
    assert_eq!(translated(&bad, RC).err(), Some(Errno::EINVAL));
    bad.num_sge = 1;
    assert_eq!(translated(&bad, RC).err(), Some(Errno::EINVAL), "a list of null");
    bad.num_sge = 0;
    bad.send_flags = IP_CSUM;
    assert_eq!(translated(&bad, RC).err(), Some(Errno::EINVAL), "checksums of RoCE");
    let raw = ibv_qp_type::IBV_QPT_RAW_PACKET;
    let frame = translated(&bad, raw).unwrap();
    assert_eq!((frame.opcode, frame.flags), (WqeOpcode::RAW_ETH, CHECKSUMS));
    bad.send_flags = 0;
    assert_eq!(translated(&bad, raw).unwrap().flags, SendFlags::empty());
    let write = wr(ibv_wr_opcode::IBV_WR_RDMA_WRITE);
    assert_eq!(translated(&write, raw).err(), Some(Errno::EINVAL), "a frame has no address to write to");
}
