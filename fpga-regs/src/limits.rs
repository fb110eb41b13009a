//! What the card can do: the answer to QUERY_CARD.

layout! {
    /// Limits of the card.
    CardLimits: 128 {
        /// Most QPs.
        max_qp set_max_qp with_max_qp (u32 @ 0);
        /// Most WQEs outstanding on a queue.
        max_qp_wr set_max_qp_wr with_max_qp_wr (u32 @ 4);
        /// Most SGEs of a WQE.
        max_sge set_max_sge with_max_sge (u32 @ 8);
        /// Most SGEs of a READ.
        max_sge_rd set_max_sge_rd with_max_sge_rd (u32 @ 12);
        /// Most bytes of inline data.
        max_inline set_max_inline with_max_inline (u32 @ 16);
        /// Most CQs.
        max_cq set_max_cq with_max_cq (u32 @ 20);
        /// Most entries of a CQ.
        max_cqe set_max_cqe with_max_cqe (u32 @ 24);
        /// Most MRs.
        max_mr set_max_mr with_max_mr (u32 @ 28);
        /// Most bytes of an MR.
        max_mr_size set_max_mr_size with_max_mr_size (u64 @ 32);
        /// Most PDs.
        max_pd set_max_pd with_max_pd (u32 @ 40);
        /// Most READs and atomics outstanding at a QP as target.
        max_qp_rd_atom set_max_qp_rd_atom with_max_qp_rd_atom (u32 @ 44);
        /// Most READs and atomics outstanding at a QP as initiator.
        max_qp_init_rd_atom set_max_qp_init_rd_atom with_max_qp_init_rd_atom (u32 @ 48);
        /// Most SRQs.
        max_srq set_max_srq with_max_srq (u32 @ 52);
        /// Most WQEs of an SRQ.
        max_srq_wr set_max_srq_wr with_max_srq_wr (u32 @ 56);
        /// Most SGEs of an SRQ's WQE.
        max_srq_sge set_max_srq_sge with_max_srq_sge (u32 @ 60);
        /// Most memory windows.
        max_mw set_max_mw with_max_mw (u32 @ 64);
        /// Most address handles.
        max_ah set_max_ah with_max_ah (u32 @ 68);
        /// Most multicast groups.
        max_mcast_grp set_max_mcast_grp with_max_mcast_grp (u32 @ 72);
        /// Most QPs of a multicast group.
        max_mcast_qp_attach set_max_mcast_qp_attach with_max_mcast_qp_attach (u32 @ 76);
        /// Ports.
        ports set_ports with_ports (u32 @ 80);
        /// Entries of a port's GID table.
        gid_table_len set_gid_table_len with_gid_table_len (u32 @ 84);
        /// Entries of a port's P_Key table.
        pkey_table_len set_pkey_table_len with_pkey_table_len (u32 @ 88);
        /// Clock of the timestamps in kHz.
        clock_khz set_clock_khz with_clock_khz (u32 @ 92);
        /// Page sizes that page lists may have, one bit each.
        page_size_cap set_page_size_cap with_page_size_cap (u64 @ 96);
        /// Firmware: major << 32 | minor << 16 | patch.
        fw_ver set_fw_ver with_fw_ver (u64 @ 104);
        /// Event queues of a function.
        eq_count set_eq_count with_eq_count (u32 @ 112);
        /// Part number to present to software.
        part_id set_part_id with_part_id (u32 @ 116);
        /// Most READs and atomics outstanding at the card as target.
        max_res_rd_atom set_max_res_rd_atom with_max_res_rd_atom (u32 @ 120);
        /// Most multicast attachments in all.
        max_total_mcast_qp_attach set_max_total_mcast_qp_attach
            with_max_total_mcast_qp_attach (u32 @ 124);
    }
}
