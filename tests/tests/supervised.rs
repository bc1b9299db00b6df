//! What systemd hears of a gateway: a socket of the test stands where systemd's would.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![cfg(target_os = "linux")]

use engineroom_tests::Setup;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// Often enough for a test; a unit says a minute.
const WATCHDOG_USEC: &str = "150000";

struct Systemd {
    socket: UnixDatagram,
    heard: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Systemd {
    /// Listens for what gateways of this folder say.
    fn of(setup: Setup) -> (Systemd, Setup) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let setup = setup.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", WATCHDOG_USEC);
        (Systemd { socket, heard: Vec::new(), _folder: folder }, setup)
    }

    /// The next message that holds `line`; what comes before it is kept.
    fn hears(&mut self, line: &str) -> String {
        let mut bytes = [0; 4096];
        loop {
            let count = self.socket.recv(&mut bytes).unwrap_or_else(|e| panic!("{line}: {e}; heard: {:?}", self.heard));
            let message = String::from_utf8(bytes[..count].to_vec()).unwrap();
            self.heard.push(message.clone());
            if message.lines().any(|said| said == line) {
                return message;
            }
        }
    }
}

#[test]
fn systemd_hears_that_it_listens_that_all_is_well_and_that_it_stops() {
    let (mut systemd, setup) = Systemd::of(Setup::new());
    let gateway = setup.start();
    let ready = systemd.hears("READY=1");
    assert!(ready.contains("STATUS=legacy serves at http://127.0.0.1:"), "{ready}");
    assert_eq!(systemd.heard.len(), 1, "{:?}", systemd.heard);
    assert_eq!(gateway.client().get("/readyz").status, 200);
    systemd.hears("WATCHDOG=1");
    systemd.hears("WATCHDOG=1");
    assert!(!systemd.heard.iter().any(|message| message.contains("STOPPING=1")), "{:?}", systemd.heard);
    gateway.signal("TERM");
    let stopping = systemd.hears("STOPPING=1");
    // Twice the drain of 10 s, and some seconds to let go.
    assert!(stopping.contains("EXTEND_TIMEOUT_USEC=50000000"), "{stopping}");
    assert!(gateway.wait().success());
}

#[test]
fn the_watchdog_hears_nothing_of_a_gateway_that_only_a_restart_helps() {
    let strict = "[plugins.policy.contextEngine]\non_failure = \"strict\"";
    let (mut systemd, setup) = Systemd::of(Setup::new().select("absent").toml(strict));
    let gateway = setup.start();
    systemd.hears("READY=1");
    assert_eq!(gateway.client().get("/healthz").status, 503);
    systemd.socket.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
    let heard = systemd.socket.recv(&mut [0; 4096]);
    assert!(heard.is_err(), "{heard:?}");
    assert!(gateway.stderr().contains("the watchdog is not told"), "{}", gateway.stderr());
    gateway.signal("TERM");
    systemd.socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    systemd.hears("STOPPING=1");
}
