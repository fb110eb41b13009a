//! The verbs: translation between libibverbs' structs and the driver, and nothing else.

pub mod ah;
pub mod card;
pub mod context;
pub mod cq;
pub mod cq_ex;
pub mod device;
pub mod errno;
pub mod event_pipe;
pub mod event_state;
pub mod events;
pub mod fork;
pub mod mr;
pub mod mw;
pub mod ops;
pub mod pd;
pub mod post;
pub mod qp;
pub mod qp_ex;
pub mod qp_modify;
pub mod srq;
pub mod timeline;
pub mod wr_builder;
