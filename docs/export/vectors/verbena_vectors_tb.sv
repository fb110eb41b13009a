// Generated from the crate `fpga-regs` of Verbena by `verbena export`; do not edit.
// All numbers are little endian: bit 0 is the lowest bit of byte 0.

/* verilator lint_off WIDTH */
// +dir=DIRECTORY names where the hex files are; else they are read from here.
module verbena_vectors_tb;
  import verbena_pkg::*;

  string dir = ".";
  string where;
  int compared = 0;
  int failed = 0;
  int next = 0;

  function automatic void compare(string field, logic [127:0] got, logic [127:0] want);
    compared++;
    if (got !== want) begin
      failed++;
      $display("%s: %s is %0h, not %0h", where, field, got, want);
    end
  endfunction

  logic [511:0] wqe_words [0:155];
  logic [127:0] recv_words [0:42];
  logic [511:0] cqe_words [0:101];
  logic [255:0] eqe_words [0:14];
  logic [511:0] command_words [0:47];
  logic [255:0] reply_words [0:114];
  logic [511:0] context_words [0:132];
  logic [63:0] parts [0:685];
  logic [127:0] fields [0:7838];

  function automatic void compare_wqe_ctrl_t(wqe_ctrl_t got);
    compare("WqeCtrl.opcode", got.opcode, fields[next++]);
    compare("WqeCtrl.ds", got.ds, fields[next++]);
    compare("WqeCtrl.signaled", got.signaled, fields[next++]);
    compare("WqeCtrl.solicited", got.solicited, fields[next++]);
    compare("WqeCtrl.fence", got.fence, fields[next++]);
    compare("WqeCtrl.inline", got.inline, fields[next++]);
    compare("WqeCtrl.ip_csum", got.ip_csum, fields[next++]);
    compare("WqeCtrl.l4_csum", got.l4_csum, fields[next++]);
    compare("WqeCtrl.vlan_insert", got.vlan_insert, fields[next++]);
    compare("WqeCtrl.reserved_23", got.reserved_23, 0);
    compare("WqeCtrl.num_sge", got.num_sge, fields[next++]);
    compare("WqeCtrl.index", got.index, fields[next++]);
    compare("WqeCtrl.vlan_tci", got.vlan_tci, fields[next++]);
    compare("WqeCtrl.length", got.length, fields[next++]);
    compare("WqeCtrl.imm", got.imm, fields[next++]);
  endfunction

  function automatic void compare_wqe_remote_t(wqe_remote_t got);
    compare("WqeRemote.remote_addr", got.remote_addr, fields[next++]);
    compare("WqeRemote.rkey", got.rkey, fields[next++]);
    compare("WqeRemote.srqn", got.srqn, fields[next++]);
    compare("WqeRemote.reserved_120", got.reserved_120, 0);
  endfunction

  function automatic void compare_wqe_atomic_t(wqe_atomic_t got);
    compare("WqeAtomic.compare_add", got.compare_add, fields[next++]);
    compare("WqeAtomic.swap", got.swap, fields[next++]);
  endfunction

  function automatic void compare_wqe_address_t(wqe_address_t got);
    compare("WqeAddress.dgid", got.dgid, fields[next++]);
    compare("WqeAddress.dmac", got.dmac, fields[next++]);
    compare("WqeAddress.sgid_index", got.sgid_index, fields[next++]);
    compare("WqeAddress.port", got.port, fields[next++]);
    compare("WqeAddress.dest_qpn", got.dest_qpn, fields[next++]);
    compare("WqeAddress.qkey", got.qkey, fields[next++]);
    compare("WqeAddress.flow_label", got.flow_label, fields[next++]);
    compare("WqeAddress.traffic_class", got.traffic_class, fields[next++]);
    compare("WqeAddress.hop_limit", got.hop_limit, fields[next++]);
    compare("WqeAddress.udp_sport", got.udp_sport, fields[next++]);
    compare("WqeAddress.vlan", got.vlan, fields[next++]);
    compare("WqeAddress.vlan_present", got.vlan_present, fields[next++]);
    compare("WqeAddress.reserved_337", got.reserved_337, 0);
    compare("WqeAddress.static_rate", got.static_rate, fields[next++]);
    compare("WqeAddress.sl", got.sl, fields[next++]);
    compare("WqeAddress.reserved_360", got.reserved_360, 0);
  endfunction

  function automatic void compare_wqe_sge_t(wqe_sge_t got);
    compare("WqeSge.addr", got.addr, fields[next++]);
    compare("WqeSge.length", got.length, fields[next++]);
    compare("WqeSge.lkey", got.lkey, fields[next++]);
  endfunction

  function automatic void compare_wqe_bind_t(wqe_bind_t got);
    compare("WqeBind.addr", got.addr, fields[next++]);
    compare("WqeBind.length", got.length, fields[next++]);
    compare("WqeBind.mr_lkey", got.mr_lkey, fields[next++]);
    compare("WqeBind.mw_rkey", got.mw_rkey, fields[next++]);
    compare("WqeBind.access", got.access, fields[next++]);
    compare("WqeBind.reserved_200", got.reserved_200, 0);
  endfunction

  function automatic void compare_wqe_tso_t(wqe_tso_t got);
    compare("WqeTso.mss", got.mss, fields[next++]);
    compare("WqeTso.header_length", got.header_length, fields[next++]);
    compare("WqeTso.reserved_32", got.reserved_32, 0);
    compare("WqeTso.header0", got.header0, fields[next++]);
    compare("WqeTso.header1", got.header1, fields[next++]);
    compare("WqeTso.header2", got.header2, fields[next++]);
    compare("WqeTso.header3", got.header3, fields[next++]);
    compare("WqeTso.header4", got.header4, fields[next++]);
    compare("WqeTso.header5", got.header5, fields[next++]);
    compare("WqeTso.header6", got.header6, fields[next++]);
    compare("WqeTso.header7", got.header7, fields[next++]);
    compare("WqeTso.header8", got.header8, fields[next++]);
    compare("WqeTso.header9", got.header9, fields[next++]);
    compare("WqeTso.header10", got.header10, fields[next++]);
    compare("WqeTso.header11", got.header11, fields[next++]);
    compare("WqeTso.header12", got.header12, fields[next++]);
    compare("WqeTso.header13", got.header13, fields[next++]);
    compare("WqeTso.header14", got.header14, fields[next++]);
    compare("WqeTso.header15", got.header15, fields[next++]);
  endfunction

  function automatic void compare_recv_head_t(recv_head_t got);
    compare("RecvHead.num_sge", got.num_sge, fields[next++]);
    compare("RecvHead.reserved_8", got.reserved_8, 0);
    compare("RecvHead.next", got.next, fields[next++]);
    compare("RecvHead.index", got.index, fields[next++]);
    compare("RecvHead.length", got.length, fields[next++]);
    compare("RecvHead.reserved_96", got.reserved_96, 0);
  endfunction

  function automatic void compare_cqe_t(cqe_t got);
    compare("Cqe.wqe_index", got.wqe_index, fields[next++]);
    compare("Cqe.qpn", got.qpn, fields[next++]);
    compare("Cqe.reserved_56", got.reserved_56, 0);
    compare("Cqe.srcqp", got.srcqp, fields[next++]);
    compare("Cqe.reserved_88", got.reserved_88, 0);
    compare("Cqe.byte_len", got.byte_len, fields[next++]);
    compare("Cqe.imm", got.imm, fields[next++]);
    compare("Cqe.grh", got.grh, fields[next++]);
    compare("Cqe.has_imm", got.has_imm, fields[next++]);
    compare("Cqe.inv", got.inv, fields[next++]);
    compare("Cqe.recv", got.recv, fields[next++]);
    compare("Cqe.ip_csum_ok", got.ip_csum_ok, fields[next++]);
    compare("Cqe.vlan", got.vlan, fields[next++]);
    compare("Cqe.l4_csum_ok", got.l4_csum_ok, fields[next++]);
    compare("Cqe.hashed", got.hashed, fields[next++]);
    compare("Cqe.opcode", got.opcode, fields[next++]);
    compare("Cqe.status", got.status, fields[next++]);
    compare("Cqe.syndrome", got.syndrome, fields[next++]);
    compare("Cqe.timestamp", got.timestamp, fields[next++]);
    compare("Cqe.sl", got.sl, fields[next++]);
    compare("Cqe.frame_kind", got.frame_kind, fields[next++]);
    compare("Cqe.pkey_index", got.pkey_index, fields[next++]);
    compare("Cqe.vlan_tci", got.vlan_tci, fields[next++]);
    compare("Cqe.marked", got.marked, fields[next++]);
    compare("Cqe.reserved_305", got.reserved_305, 0);
    compare("Cqe.generation", got.generation, fields[next++]);
    compare("Cqe.srqn", got.srqn, fields[next++]);
    compare("Cqe.reserved_376", got.reserved_376, 0);
    compare("Cqe.mark", got.mark, fields[next++]);
    compare("Cqe.reserved_416", got.reserved_416, 0);
    compare("Cqe.phase", got.phase, fields[next++]);
    compare("Cqe.reserved_505", got.reserved_505, 0);
  endfunction

  function automatic void compare_eqe_t(eqe_t got);
    compare("Eqe.kind", got.kind, fields[next++]);
    compare("Eqe.port", got.port, fields[next++]);
    compare("Eqe.reserved_16", got.reserved_16, 0);
    compare("Eqe.object", got.object, fields[next++]);
    compare("Eqe.timestamp", got.timestamp, fields[next++]);
    compare("Eqe.data", got.data, fields[next++]);
    compare("Eqe.reserved_160", got.reserved_160, 0);
    compare("Eqe.phase", got.phase, fields[next++]);
    compare("Eqe.reserved_249", got.reserved_249, 0);
  endfunction

  function automatic void compare_command_t(command_t got);
    compare("Command.opcode", got.opcode, fields[next++]);
    compare("Command.tag", got.tag, fields[next++]);
    compare("Command.object", got.object, fields[next++]);
    compare("Command.in_iova", got.in_iova, fields[next++]);
    compare("Command.in_len", got.in_len, fields[next++]);
    compare("Command.out_len", got.out_len, fields[next++]);
    compare("Command.out_iova", got.out_iova, fields[next++]);
    compare("Command.param0", got.param0, fields[next++]);
    compare("Command.param1", got.param1, fields[next++]);
    compare("Command.param2", got.param2, fields[next++]);
    compare("Command.param3", got.param3, fields[next++]);
  endfunction

  function automatic void compare_reply_t(reply_t got);
    compare("Reply.tag", got.tag, fields[next++]);
    compare("Reply.status", got.status, fields[next++]);
    compare("Reply.syndrome", got.syndrome, fields[next++]);
    compare("Reply.object", got.object, fields[next++]);
    compare("Reply.value0", got.value0, fields[next++]);
    compare("Reply.value1", got.value1, fields[next++]);
    compare("Reply.reserved_192", got.reserved_192, 0);
    compare("Reply.phase", got.phase, fields[next++]);
    compare("Reply.reserved_249", got.reserved_249, 0);
  endfunction

  function automatic void compare_qp_context_t(qp_context_t got);
    compare("QpContext.state", got.state, fields[next++]);
    compare("QpContext.qp_type", got.qp_type, fields[next++]);
    compare("QpContext.port", got.port, fields[next++]);
    compare("QpContext.mtu", got.mtu, fields[next++]);
    compare("QpContext.pd", got.pd, fields[next++]);
    compare("QpContext.send_cq", got.send_cq, fields[next++]);
    compare("QpContext.recv_cq", got.recv_cq, fields[next++]);
    compare("QpContext.srq", got.srq, fields[next++]);
    compare("QpContext.has_srq", got.has_srq, fields[next++]);
    compare("QpContext.sq_sig_all", got.sq_sig_all, fields[next++]);
    compare("QpContext.reserved_162", got.reserved_162, 0);
    compare("QpContext.page", got.page, fields[next++]);
    compare("QpContext.sq_iova", got.sq_iova, fields[next++]);
    compare("QpContext.rq_iova", got.rq_iova, fields[next++]);
    compare("QpContext.sq_log", got.sq_log, fields[next++]);
    compare("QpContext.rq_log", got.rq_log, fields[next++]);
    compare("QpContext.rq_stride_log", got.rq_stride_log, fields[next++]);
    compare("QpContext.access", got.access, fields[next++]);
    compare("QpContext.pkey_index", got.pkey_index, fields[next++]);
    compare("QpContext.retry_cnt", got.retry_cnt, fields[next++]);
    compare("QpContext.rnr_retry", got.rnr_retry, fields[next++]);
    compare("QpContext.timeout", got.timeout, fields[next++]);
    compare("QpContext.min_rnr_timer", got.min_rnr_timer, fields[next++]);
    compare("QpContext.max_rd_atomic", got.max_rd_atomic, fields[next++]);
    compare("QpContext.max_dest_rd_atomic", got.max_dest_rd_atomic, fields[next++]);
    compare("QpContext.dest_qpn", got.dest_qpn, fields[next++]);
    compare("QpContext.qkey", got.qkey, fields[next++]);
    compare("QpContext.sq_psn", got.sq_psn, fields[next++]);
    compare("QpContext.rq_psn", got.rq_psn, fields[next++]);
    compare("QpContext.sgid_index", got.sgid_index, fields[next++]);
    compare("QpContext.hop_limit", got.hop_limit, fields[next++]);
    compare("QpContext.traffic_class", got.traffic_class, fields[next++]);
    compare("QpContext.sl", got.sl, fields[next++]);
    compare("QpContext.flow_label", got.flow_label, fields[next++]);
    compare("QpContext.dgid", got.dgid, fields[next++]);
    compare("QpContext.dmac", got.dmac, fields[next++]);
    compare("QpContext.udp_sport", got.udp_sport, fields[next++]);
    compare("QpContext.max_inline", got.max_inline, fields[next++]);
    compare("QpContext.max_send_sge", got.max_send_sge, fields[next++]);
    compare("QpContext.max_recv_sge", got.max_recv_sge, fields[next++]);
    compare("QpContext.sq_draining", got.sq_draining, fields[next++]);
    compare("QpContext.strip_vlan", got.strip_vlan, fields[next++]);
    compare("QpContext.scatter_fcs", got.scatter_fcs, fields[next++]);
    compare("QpContext.reserved_851", got.reserved_851, 0);
    compare("QpContext.qpn", got.qpn, fields[next++]);
    compare("QpContext.xrcd", got.xrcd, fields[next++]);
    compare("QpContext.table_number", got.table_number, fields[next++]);
    compare("QpContext.hash_fields", got.hash_fields, fields[next++]);
    compare("QpContext.hash_function", got.hash_function, fields[next++]);
    compare("QpContext.reserved_1000", got.reserved_1000, 0);
    compare("QpContext.hash_key0", got.hash_key0, fields[next++]);
    compare("QpContext.hash_key1", got.hash_key1, fields[next++]);
    compare("QpContext.hash_key2", got.hash_key2, fields[next++]);
    compare("QpContext.hash_key3", got.hash_key3, fields[next++]);
    compare("QpContext.hash_key4", got.hash_key4, fields[next++]);
    compare("QpContext.rate_limit", got.rate_limit, fields[next++]);
    compare("QpContext.max_burst", got.max_burst, fields[next++]);
    compare("QpContext.typical_packet", got.typical_packet, fields[next++]);
    compare("QpContext.reserved_1424", got.reserved_1424, 0);
  endfunction

  function automatic void compare_cq_context_t(cq_context_t got);
    compare("CqContext.ring_iova", got.ring_iova, fields[next++]);
    compare("CqContext.ci_iova", got.ci_iova, fields[next++]);
    compare("CqContext.log_size", got.log_size, fields[next++]);
    compare("CqContext.vector", got.vector, fields[next++]);
    compare("CqContext.page", got.page, fields[next++]);
    compare("CqContext.ignore_overrun", got.ignore_overrun, fields[next++]);
    compare("CqContext.stamped", got.stamped, fields[next++]);
    compare("CqContext.reserved_162", got.reserved_162, 0);
    compare("CqContext.event_count", got.event_count, fields[next++]);
    compare("CqContext.event_period", got.event_period, fields[next++]);
    compare("CqContext.reserved_208", got.reserved_208, 0);
  endfunction

  function automatic void compare_srq_context_t(srq_context_t got);
    compare("SrqContext.pd", got.pd, fields[next++]);
    compare("SrqContext.reserved_32", got.reserved_32, 0);
    compare("SrqContext.ring_iova", got.ring_iova, fields[next++]);
    compare("SrqContext.log_size", got.log_size, fields[next++]);
    compare("SrqContext.stride_log", got.stride_log, fields[next++]);
    compare("SrqContext.page", got.page, fields[next++]);
    compare("SrqContext.limit", got.limit, fields[next++]);
    compare("SrqContext.max_sge", got.max_sge, fields[next++]);
    compare("SrqContext.reserved_200", got.reserved_200, 0);
    compare("SrqContext.xrcd", got.xrcd, fields[next++]);
    compare("SrqContext.cq", got.cq, fields[next++]);
    compare("SrqContext.reserved_288", got.reserved_288, 0);
  endfunction

  function automatic void compare_eq_context_t(eq_context_t got);
    compare("EqContext.ring_iova", got.ring_iova, fields[next++]);
    compare("EqContext.log_size", got.log_size, fields[next++]);
    compare("EqContext.vector", got.vector, fields[next++]);
    compare("EqContext.reserved_80", got.reserved_80, 0);
  endfunction

  function automatic void compare_mr_context_t(mr_context_t got);
    compare("MrContext.pd", got.pd, fields[next++]);
    compare("MrContext.access", got.access, fields[next++]);
    compare("MrContext.mode", got.mode, fields[next++]);
    compare("MrContext.page_shift", got.page_shift, fields[next++]);
    compare("MrContext.reserved_56", got.reserved_56, 0);
    compare("MrContext.va", got.va, fields[next++]);
    compare("MrContext.length", got.length, fields[next++]);
    compare("MrContext.iova", got.iova, fields[next++]);
    compare("MrContext.first_offset", got.first_offset, fields[next++]);
    compare("MrContext.reserved_288", got.reserved_288, 0);
  endfunction

  function automatic void compare_mw_context_t(mw_context_t got);
    compare("MwContext.pd", got.pd, fields[next++]);
    compare("MwContext.mw_type", got.mw_type, fields[next++]);
    compare("MwContext.access", got.access, fields[next++]);
    compare("MwContext.bound", got.bound, fields[next++]);
    compare("MwContext.reserved_49", got.reserved_49, 0);
    compare("MwContext.rkey", got.rkey, fields[next++]);
    compare("MwContext.mr_lkey", got.mr_lkey, fields[next++]);
    compare("MwContext.qpn", got.qpn, fields[next++]);
    compare("MwContext.reserved_152", got.reserved_152, 0);
    compare("MwContext.addr", got.addr, fields[next++]);
    compare("MwContext.length", got.length, fields[next++]);
    compare("MwContext.reserved_320", got.reserved_320, 0);
  endfunction

  function automatic void compare_port_context_t(port_context_t got);
    compare("PortContext.link_up", got.link_up, fields[next++]);
    compare("PortContext.enabled", got.enabled, fields[next++]);
    compare("PortContext.rx_pause", got.rx_pause, fields[next++]);
    compare("PortContext.tx_pause", got.tx_pause, fields[next++]);
    compare("PortContext.reserved_4", got.reserved_4, 0);
    compare("PortContext.gid_index", got.gid_index, fields[next++]);
    compare("PortContext.gid_type", got.gid_type, fields[next++]);
    compare("PortContext.vlan_present", got.vlan_present, fields[next++]);
    compare("PortContext.reserved_25", got.reserved_25, 0);
    compare("PortContext.speed_mbps", got.speed_mbps, fields[next++]);
    compare("PortContext.mtu_active", got.mtu_active, fields[next++]);
    compare("PortContext.mtu_max", got.mtu_max, fields[next++]);
    compare("PortContext.mac", got.mac, fields[next++]);
    compare("PortContext.vlan", got.vlan, fields[next++]);
    compare("PortContext.gid", got.gid, fields[next++]);
    compare("PortContext.reserved_320", got.reserved_320, 0);
  endfunction

  function automatic void compare_flow_context_t(flow_context_t got);
    compare("FlowContext.kind", got.kind, fields[next++]);
    compare("FlowContext.port", got.port, fields[next++]);
    compare("FlowContext.precedence", got.precedence, fields[next++]);
    compare("FlowContext.dont_trap", got.dont_trap, fields[next++]);
    compare("FlowContext.drop", got.drop, fields[next++]);
    compare("FlowContext.marked", got.marked, fields[next++]);
    compare("FlowContext.counted", got.counted, fields[next++]);
    compare("FlowContext.by_vlan", got.by_vlan, fields[next++]);
    compare("FlowContext.reserved_37", got.reserved_37, 0);
    compare("FlowContext.ip_version", got.ip_version, fields[next++]);
    compare("FlowContext.tags", got.tags, fields[next++]);
    compare("FlowContext.tags_mask", got.tags_mask, fields[next++]);
    compare("FlowContext.mark", got.mark, fields[next++]);
    compare("FlowContext.reserved_96", got.reserved_96, 0);
    compare("FlowContext.dmac", got.dmac, fields[next++]);
    compare("FlowContext.smac", got.smac, fields[next++]);
    compare("FlowContext.ether_type", got.ether_type, fields[next++]);
    compare("FlowContext.vlan_tci", got.vlan_tci, fields[next++]);
    compare("FlowContext.src_ip", got.src_ip, fields[next++]);
    compare("FlowContext.dst_ip", got.dst_ip, fields[next++]);
    compare("FlowContext.flow_label", got.flow_label, fields[next++]);
    compare("FlowContext.src_port", got.src_port, fields[next++]);
    compare("FlowContext.dst_port", got.dst_port, fields[next++]);
    compare("FlowContext.protocol", got.protocol, fields[next++]);
    compare("FlowContext.traffic_class", got.traffic_class, fields[next++]);
    compare("FlowContext.hop_limit", got.hop_limit, fields[next++]);
    compare("FlowContext.reserved_600", got.reserved_600, 0);
    compare("FlowContext.dmac_mask", got.dmac_mask, fields[next++]);
    compare("FlowContext.smac_mask", got.smac_mask, fields[next++]);
    compare("FlowContext.ether_type_mask", got.ether_type_mask, fields[next++]);
    compare("FlowContext.vlan_tci_mask", got.vlan_tci_mask, fields[next++]);
    compare("FlowContext.src_ip_mask", got.src_ip_mask, fields[next++]);
    compare("FlowContext.dst_ip_mask", got.dst_ip_mask, fields[next++]);
    compare("FlowContext.flow_label_mask", got.flow_label_mask, fields[next++]);
    compare("FlowContext.src_port_mask", got.src_port_mask, fields[next++]);
    compare("FlowContext.dst_port_mask", got.dst_port_mask, fields[next++]);
    compare("FlowContext.protocol_mask", got.protocol_mask, fields[next++]);
    compare("FlowContext.traffic_class_mask", got.traffic_class_mask, fields[next++]);
    compare("FlowContext.hop_limit_mask", got.hop_limit_mask, fields[next++]);
    compare("FlowContext.reserved_1112", got.reserved_1112, 0);
  endfunction

  function automatic void compare_table_context_t(table_context_t got);
    compare("TableContext.entries_iova", got.entries_iova, fields[next++]);
    compare("TableContext.log_size", got.log_size, fields[next++]);
    compare("TableContext.reserved_72", got.reserved_72, 0);
  endfunction

  function automatic void compare_lag_context_t(lag_context_t got);
    compare("LagContext.mode", got.mode, fields[next++]);
    compare("LagContext.select", got.select, fields[next++]);
    compare("LagContext.rate", got.rate, fields[next++]);
    compare("LagContext.link_up", got.link_up, fields[next++]);
    compare("LagContext.active", got.active, fields[next++]);
    compare("LagContext.reserved_26", got.reserved_26, 0);
    compare("LagContext.qps", got.qps, fields[next++]);
    compare("LagContext.lacp_received", got.lacp_received, fields[next++]);
    compare("LagContext.lacp_sent", got.lacp_sent, fields[next++]);
    compare("LagContext.actor_state", got.actor_state, fields[next++]);
    compare("LagContext.partner_state", got.partner_state, fields[next++]);
    compare("LagContext.partner_port", got.partner_port, fields[next++]);
    compare("LagContext.partner_key", got.partner_key, fields[next++]);
    compare("LagContext.partner_priority", got.partner_priority, fields[next++]);
    compare("LagContext.partner", got.partner, fields[next++]);
    compare("LagContext.aggregator", got.aggregator, fields[next++]);
    compare("LagContext.reserved_312", got.reserved_312, 0);
  endfunction

  function automatic void compare_ethernet_limits_t(ethernet_limits_t got);
    compare("EthernetLimits.max_tables", got.max_tables, fields[next++]);
    compare("EthernetLimits.max_table_entries", got.max_table_entries, fields[next++]);
    compare("EthernetLimits.max_wq", got.max_wq, fields[next++]);
    compare("EthernetLimits.hash_fields", got.hash_fields, fields[next++]);
    compare("EthernetLimits.max_tso", got.max_tso, fields[next++]);
    compare("EthernetLimits.min_rate_limit", got.min_rate_limit, fields[next++]);
    compare("EthernetLimits.max_rate_limit", got.max_rate_limit, fields[next++]);
    compare("EthernetLimits.reserved_224", got.reserved_224, 0);
  endfunction

  function automatic void compare_card_limits_t(card_limits_t got);
    compare("CardLimits.max_qp", got.max_qp, fields[next++]);
    compare("CardLimits.max_qp_wr", got.max_qp_wr, fields[next++]);
    compare("CardLimits.max_sge", got.max_sge, fields[next++]);
    compare("CardLimits.max_sge_rd", got.max_sge_rd, fields[next++]);
    compare("CardLimits.max_inline", got.max_inline, fields[next++]);
    compare("CardLimits.max_cq", got.max_cq, fields[next++]);
    compare("CardLimits.max_cqe", got.max_cqe, fields[next++]);
    compare("CardLimits.max_mr", got.max_mr, fields[next++]);
    compare("CardLimits.max_mr_size", got.max_mr_size, fields[next++]);
    compare("CardLimits.max_pd", got.max_pd, fields[next++]);
    compare("CardLimits.max_qp_rd_atom", got.max_qp_rd_atom, fields[next++]);
    compare("CardLimits.max_qp_init_rd_atom", got.max_qp_init_rd_atom, fields[next++]);
    compare("CardLimits.max_srq", got.max_srq, fields[next++]);
    compare("CardLimits.max_srq_wr", got.max_srq_wr, fields[next++]);
    compare("CardLimits.max_srq_sge", got.max_srq_sge, fields[next++]);
    compare("CardLimits.max_mw", got.max_mw, fields[next++]);
    compare("CardLimits.max_ah", got.max_ah, fields[next++]);
    compare("CardLimits.max_mcast_grp", got.max_mcast_grp, fields[next++]);
    compare("CardLimits.max_mcast_qp_attach", got.max_mcast_qp_attach, fields[next++]);
    compare("CardLimits.ports", got.ports, fields[next++]);
    compare("CardLimits.gid_table_len", got.gid_table_len, fields[next++]);
    compare("CardLimits.pkey_table_len", got.pkey_table_len, fields[next++]);
    compare("CardLimits.clock_khz", got.clock_khz, fields[next++]);
    compare("CardLimits.page_size_cap", got.page_size_cap, fields[next++]);
    compare("CardLimits.fw_ver", got.fw_ver, fields[next++]);
    compare("CardLimits.eq_count", got.eq_count, fields[next++]);
    compare("CardLimits.part_id", got.part_id, fields[next++]);
    compare("CardLimits.max_res_rd_atom", got.max_res_rd_atom, fields[next++]);
    compare("CardLimits.max_total_mcast_qp_attach", got.max_total_mcast_qp_attach, fields[next++]);
  endfunction

  function automatic void compare_page_entry_t(page_entry_t got);
    compare("PageEntry.addr", got.addr, fields[next++]);
  endfunction

  function automatic logic [2047:0] window(int entry, int first);
    window = '0;
    case (entry)
      0: for (int i = 0; i < 4 && first + i < $size(wqe_words); i++)
        window[i * 512 +: 512] = wqe_words[first + i];
      1: for (int i = 0; i < 16 && first + i < $size(recv_words); i++)
        window[i * 128 +: 128] = recv_words[first + i];
      2: for (int i = 0; i < 4 && first + i < $size(cqe_words); i++)
        window[i * 512 +: 512] = cqe_words[first + i];
      3: for (int i = 0; i < 8 && first + i < $size(eqe_words); i++)
        window[i * 256 +: 256] = eqe_words[first + i];
      4: for (int i = 0; i < 4 && first + i < $size(command_words); i++)
        window[i * 512 +: 512] = command_words[first + i];
      5: for (int i = 0; i < 8 && first + i < $size(reply_words); i++)
        window[i * 256 +: 256] = reply_words[first + i];
      6: for (int i = 0; i < 4 && first + i < $size(context_words); i++)
        window[i * 512 +: 512] = context_words[first + i];
      default: $fatal(1, "there is no file %0d", entry);
    endcase
  endfunction

  function automatic void compare_part(logic [63:0] part);
    logic [2047:0] bits = window(part[47:32], part[31:16]) >> (part[15:0] * 8);
    where = $sformatf("file %0d, word %0d, byte %0d", part[47:32], part[31:16], part[15:0]);
    case (part[63:48])
      0: compare_wqe_ctrl_t(bits[127:0]);
      1: compare_wqe_remote_t(bits[127:0]);
      2: compare_wqe_atomic_t(bits[127:0]);
      3: compare_wqe_address_t(bits[383:0]);
      4: compare_wqe_sge_t(bits[127:0]);
      5: compare_wqe_bind_t(bits[255:0]);
      6: compare_wqe_tso_t(bits[1151:0]);
      7: compare_recv_head_t(bits[127:0]);
      8: compare_cqe_t(bits[511:0]);
      9: compare_eqe_t(bits[255:0]);
      10: compare_command_t(bits[511:0]);
      11: compare_reply_t(bits[255:0]);
      12: compare_qp_context_t(bits[2047:0]);
      13: compare_cq_context_t(bits[511:0]);
      14: compare_srq_context_t(bits[511:0]);
      15: compare_eq_context_t(bits[255:0]);
      16: compare_mr_context_t(bits[511:0]);
      17: compare_mw_context_t(bits[511:0]);
      18: compare_port_context_t(bits[511:0]);
      19: compare_flow_context_t(bits[1151:0]);
      20: compare_table_context_t(bits[127:0]);
      21: compare_lag_context_t(bits[511:0]);
      22: compare_ethernet_limits_t(bits[255:0]);
      23: compare_card_limits_t(bits[1023:0]);
      24: compare_page_entry_t(bits[63:0]);
      default: $fatal(1, "there is no format %0d", part[63:48]);
    endcase
  endfunction

  initial begin
    void'($value$plusargs("dir=%s", dir));
    $readmemh({dir, "/wqe.hex"}, wqe_words);
    $readmemh({dir, "/recv.hex"}, recv_words);
    $readmemh({dir, "/cqe.hex"}, cqe_words);
    $readmemh({dir, "/eqe.hex"}, eqe_words);
    $readmemh({dir, "/command.hex"}, command_words);
    $readmemh({dir, "/reply.hex"}, reply_words);
    $readmemh({dir, "/context.hex"}, context_words);
    $readmemh({dir, "/parts.hex"}, parts);
    $readmemh({dir, "/fields.hex"}, fields);
    for (int i = 0; i < 686; i++) compare_part(parts[i]);
    if (next != 7839) $fatal(1, "%0d fields were left", 7839 - next);
    if (failed != 0) $fatal(1, "%0d of %0d fields differ", failed, compared);
    $display("%0d fields agree", compared);
    $finish;
  end
endmodule
