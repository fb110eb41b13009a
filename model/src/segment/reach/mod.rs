//! Reaching memory: where the bytes of an IOVA are, and how the lock holder copies them.
//!
//! | file | idea |
//! |---|---|
//! | [`dma`] | one map of ranges for each member, and a cache of look-ups |
//! | [`ranges`] | the arithmetic of such a map: ranges that count their regions |
//! | [`copy`] | copies between IOVAs: finds a way for each piece |
//! | [`kernel`] | copies by the kernel, of memory that stays where the program has it |
//! | [`offered_files`] | shared mappings of files that a member offers |
//! | [`file_views`] | such files, as the lock holder has mapped them |
//! | [`served_memory`] | what the client of a served card shares with its server |
//! | [`ask`] | what it does not share: read and written by messages |
//! | [`transfer`] | one copy, and how it fails |

pub mod ask;
mod copy;
pub mod dma;
pub(super) mod file_views;
pub(super) mod kernel;
pub mod offered_files;
pub mod ranges;
mod served_memory;
pub mod transfer;
