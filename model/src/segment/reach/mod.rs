//! Reaching memory: where the bytes behind an IOVA are, and how the lock holder copies them.
//!
//! | file | idea |
//! |---|---|
//! | [`dma`] | one map of ranges for each member, and a cache of look-ups |
//! | [`ranges`] | the arithmetic of such a map: ranges that count their regions |
//! | [`private`] | copies between IOVAs; memory outside the segment is copied by the kernel |
//! | [`files`] | shared mappings of files: the lock holder maps the same file |
//! | [`lent`] | what the clients of a served card share with their server |
//! | [`ask`] | what they do not share: read and written by messages |
//! | `bounce`, `helper`, `pace` | large copies with the help of a thread of the owner |

pub mod ask;
pub mod bounce;
pub mod dma;
pub mod files;
pub(super) mod helper;
pub mod lent;
mod pace;
pub mod private;
pub mod ranges;
