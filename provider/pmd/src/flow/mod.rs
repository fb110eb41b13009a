//! `rte_flow`: rules of a program, which become flow rules of the card.
//!
//! [`pattern`] and [`action`] read what the program gives, [`rules`] keeps the rules of a port, and [`ops`] is what ethdev
//! calls.

pub mod action;
pub mod ops;
pub mod pattern;
pub mod rules;

use std::ffi::{c_void, CStr};
use std::ptr::null;

use crate::abi::flow::Cause;

/// Why a rule is refused.
#[derive(Debug)]
pub struct Refusal {
    /// A positive errno value.
    pub errno: i32,
    /// The part of the rule that is the cause.
    pub cause: Cause,
    /// The program's object that is the cause, or null.
    pub object: *const c_void,
    /// What to do.
    pub message: &'static CStr,
}

impl Refusal {
    /// What makes no sense.
    pub fn invalid(cause: Cause, message: &'static CStr) -> Self {
        Refusal { errno: libc::EINVAL, cause, object: null(), message }
    }

    /// What the card does not do.
    pub fn unsupported(cause: Cause, message: &'static CStr) -> Self {
        Refusal { errno: libc::ENOTSUP, cause, object: null(), message }
    }

    /// The same, because of an object of the program.
    pub fn of<T>(self, object: *const T) -> Self {
        Refusal { object: object.cast(), ..self }
    }
}

/// A result that is refused with a reason.
pub type Result<T> = std::result::Result<T, Refusal>;
