//! The operations of this provider; for all others libibverbs answers `EOPNOTSUPP`.

use super::{
    ah, bind, context, cq, cq_ex, device, dm, flow, fork, mr, mw, parent_domain, pd, post, qp, qp_modify,
    rss, srq, wq, xrc,
};
use crate::abi::private::verbs_context_ops;

/// What every context of this provider can do.
pub static OPS: verbs_context_ops = verbs_context_ops {
    advise_mr: Some(mr::advise_mr),
    alloc_dm: Some(dm::alloc_dm),
    alloc_mw: Some(mw::alloc_mw),
    alloc_null_mr: Some(mr::alloc_null_mr),
    alloc_parent_domain: Some(parent_domain::alloc_parent_domain),
    alloc_pd: Some(pd::alloc_pd),
    alloc_td: Some(parent_domain::alloc_td),
    attach_mcast: Some(qp_modify::attach_mcast),
    bind_mw: Some(bind::bind_mw),
    close_xrcd: Some(xrc::close_xrcd),
    create_ah: Some(ah::create_ah),
    create_cq: Some(cq::create_cq),
    create_cq_ex: Some(cq_ex::create_cq_ex),
    create_flow: Some(flow::create_flow),
    create_qp: Some(qp::create_qp),
    create_qp_ex: Some(xrc::create_qp_ex),
    create_rwq_ind_table: Some(rss::create_rwq_ind_table),
    create_srq: Some(srq::create_srq),
    create_srq_ex: Some(xrc::create_srq_ex),
    create_wq: Some(wq::create_wq),
    dealloc_mw: Some(mw::dealloc_mw),
    dealloc_pd: Some(pd::dealloc_pd),
    dealloc_td: Some(parent_domain::dealloc_td),
    dereg_mr: Some(mr::dereg_mr),
    destroy_ah: Some(ah::destroy_ah),
    destroy_cq: Some(cq::destroy_cq),
    destroy_flow: Some(flow::destroy_flow),
    destroy_qp: Some(qp::destroy_qp),
    destroy_rwq_ind_table: Some(rss::destroy_rwq_ind_table),
    destroy_srq: Some(srq::destroy_srq),
    destroy_wq: Some(wq::destroy_wq),
    detach_mcast: Some(qp_modify::detach_mcast),
    free_context: Some(context::free_context),
    free_dm: Some(dm::free_dm),
    get_srq_num: Some(srq::get_srq_num),
    modify_cq: Some(cq::modify_cq),
    modify_qp: Some(qp_modify::modify_qp),
    modify_srq: Some(srq::modify_srq),
    modify_wq: Some(wq::modify_wq),
    open_qp: Some(xrc::open_qp),
    open_xrcd: Some(xrc::open_xrcd),
    poll_cq: Some(cq::poll_cq),
    post_recv: Some(post::post_recv),
    post_send: Some(post::post_send),
    post_srq_recv: Some(post::post_srq_recv),
    query_device_ex: Some(device::query_device_ex),
    query_ece: Some(qp::query_ece),
    query_port: Some(device::query_port),
    query_qp: Some(qp_modify::query_qp),
    query_rt_values: Some(device::query_rt_values),
    query_srq: Some(srq::query_srq),
    reg_dm_mr: Some(dm::reg_dm_mr),
    reg_mr: Some(mr::reg_mr),
    req_notify_cq: Some(cq::req_notify_cq),
    rereg_mr: Some(mr::rereg_mr),
    resize_cq: Some(cq::resize_cq),
    set_ece: Some(qp::set_ece),
    ..verbs_context_ops::NONE
};

/// What the child of a fork can do with its parent's contexts: ask for the card's limits, and have memory of the card.
pub static IN_CHILD: verbs_context_ops = verbs_context_ops {
    alloc_dm: Some(dm::alloc_dm),
    free_dm: Some(dm::free_dm),
    query_device_ex: Some(device::query_device_ex),
    ..fork::REFUSED
};
