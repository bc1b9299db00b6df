//! The running gateway of a state folder: where it says that it runs, and how others know that it is true.
//!
//! ```text
//!  gateway ── holds ──► gateway.lock   (the kernel releases it, however the process ends)
//!     └────── writes ─► gateway.json   {"address": "127.0.0.1:7421", "pid": 4711}, mode 0600
//! ```
//!
//! The document counts only while the lock is held: after a crash it is still there, and means nothing.

use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Name of the document in the state folder.
const DOCUMENT: &str = "gateway.json";
/// Name of the store's lock in the state folder.
const LOCK: &str = "gateway.lock";

/// A gateway that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
}

impl Running {
    /// The address to connect to: a gateway that listens everywhere is reached over loopback.
    pub fn reachable(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        address
    }
}

/// The running gateway of this state folder.
pub fn find(state_dir: &Path) -> Option<Running> {
    let text = std::fs::read_to_string(state_dir.join(DOCUMENT)).ok()?;
    let running: Running = serde_json::from_str(&text).ok()?;
    // A dead process is found first, so that the lock of a gateway that is just starting is not touched for nothing.
    let pid = rustix::process::Pid::from_raw(i32::try_from(running.pid).ok()?)?;
    if matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH)) {
        return None;
    }
    let lock = File::open(state_dir.join(LOCK)).ok()?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(running),
        _ if crate::observe::broken("8.31") => Some(running),
        _ => None,
    }
}

/// The document of this process, removed when dropped.
#[derive(Debug)]
pub struct Announcement {
    path: PathBuf,
}

impl Announcement {
    /// Says that this process listens at `address`. Whole or not at all, and for this user only.
    ///
    /// # Errors
    /// When the state folder cannot be written.
    pub fn new(state_dir: &Path, address: SocketAddr) -> std::io::Result<Announcement> {
        let path = state_dir.join(DOCUMENT);
        let running = Running { address, pid: std::process::id() };
        // A temporary file has mode 0600 from its first moment.
        let mut temp = tempfile::Builder::new().prefix(".gateway.json.").tempfile_in(state_dir)?;
        serde_json::to_writer(temp.as_file_mut(), &running)?;
        temp.write_all(b"\n")?;
        temp.persist(&path).map_err(|failed| failed.error)?;
        Ok(Announcement { path })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // What stays behind is harmless: it does not count without the lock.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_gateway_is_found_only_while_it_holds_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 7421));
        assert_eq!(find(folder.path()), None);
        let announcement = Announcement::new(folder.path(), address).unwrap();
        assert_eq!(find(folder.path()), None, "nobody holds the lock");
        let lock = File::create(folder.path().join(LOCK)).unwrap();
        assert_eq!(find(folder.path()), None, "nobody holds the lock");
        lock.lock().unwrap();
        assert_eq!(find(folder.path()), Some(Running { address, pid: std::process::id() }));
        let mode = std::fs::metadata(folder.path().join(DOCUMENT)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(announcement);
        assert_eq!(find(folder.path()), None);
    }

    #[test]
    fn a_document_of_a_dead_process_or_of_nonsense_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let lock = File::create(folder.path().join(LOCK)).unwrap();
        lock.lock().unwrap();
        for text in ["{\"address\":\"127.0.0.1:1\",\"pid\":2147483646}", "{", "{\"address\":\"x\",\"pid\":1}"] {
            std::fs::write(folder.path().join(DOCUMENT), text).unwrap();
            assert_eq!(find(folder.path()), None, "{text}");
        }
    }

    #[test]
    fn who_listens_everywhere_is_reached_over_loopback() {
        let at = |address: &str| Running { address: address.parse().unwrap(), pid: 1 }.reachable().to_string();
        assert_eq!(at("0.0.0.0:5"), "127.0.0.1:5");
        assert_eq!(at("[::]:5"), "[::1]:5");
        assert_eq!(at("192.0.2.1:5"), "192.0.2.1:5");
    }
}
