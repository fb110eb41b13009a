//! The cards that a program sees.

use std::ffi::CString;
use std::path::PathBuf;

use super::context::card_index;

/// Where devices of libibverbs are described.
const CLASS: &str = "/sys/class/infiniband_verbs";

/// Number and directory in sysfs of each card that `verbena run` has put in view, in order.
pub fn in_view() -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(CLASS) else { return Vec::new() };
    let number = |dir: &PathBuf| {
        let name = std::fs::read_to_string(dir.join("ibdev")).ok()?;
        card_index(&CString::new(name.trim()).ok()?)
    };
    let dirs = entries.flatten().map(|entry| entry.path());
    let mut cards: Vec<_> = dirs.filter_map(|dir| Some((number(&dir)?, dir))).collect();
    cards.sort();
    cards
}
