//! Which card this provider drives, and where to find it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use driver::Card as _;

/// The backend: a card that lives in a shared segment.
pub type Card = model::attach::SegmentCard;
/// An open card function.
pub type Device = driver::Device<Card>;
/// Protection domain.
pub type Pd = driver::Pd<Card>;
/// Memory region.
pub type Mr = driver::Mr<Card>;
/// Memory window.
pub type Mw = driver::Mw<Card>;
/// Completion queue.
pub type Cq = driver::Cq<Card>;
/// Shared receive queue.
pub type Srq = driver::Srq<Card>;
/// Queue pair.
pub type Qp = driver::Qp<Card>;

/// The interrupt vector of the events.
const VECTOR: u32 = 0;

/// Sleeps until there may be an event, [`wake_events`] is called, or the time is over.
pub fn wait_for_events(device: &Device, timeout: Duration) -> driver::Result<()> {
    device.card().wait_interrupt(VECTOR, timeout)?;
    Ok(())
}

/// Ends [`wait_for_events`] of another thread, or its next one.
pub fn wake_events(device: &Device) {
    device.card().wake(VECTOR);
}

/// The socket of the net's keeper: `VERBENA_SOCKET`, or what the device's directory in sysfs says
/// (`verbena/socket`, written by the launcher), or that of the user's default net.
pub fn socket_path(device_dir: &Path) -> PathBuf {
    pick_socket(std::env::var_os("VERBENA_SOCKET"), device_dir)
}

fn pick_socket(socket: Option<OsString>, device_dir: &Path) -> PathBuf {
    if let Some(socket) = socket.filter(|socket| !socket.is_empty()) {
        return socket.into();
    }
    match std::fs::read_to_string(device_dir.join("verbena/socket")) {
        Ok(text) if !text.trim().is_empty() => text.trim().into(),
        _ => model::attach::default_socket("default"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_net() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(pick_socket(Some("/a/b.sock".into()), dir.path()), PathBuf::from("/a/b.sock"));
        let default = pick_socket(None, dir.path());
        assert!(default.ends_with("default.sock"));
        assert_eq!(pick_socket(Some(OsString::new()), dir.path()), default);
        std::fs::create_dir(dir.path().join("verbena")).unwrap();
        std::fs::write(dir.path().join("verbena/socket"), "/run/net.sock\n").unwrap();
        assert_eq!(pick_socket(None, dir.path()), PathBuf::from("/run/net.sock"));
    }
}
