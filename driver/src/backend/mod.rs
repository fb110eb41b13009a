//! Backends that belong to the driver itself; the model attaches itself from its own crate.

#[cfg(target_os = "linux")]
pub mod vfio;
#[cfg(target_os = "linux")]
pub mod vfio_user;
