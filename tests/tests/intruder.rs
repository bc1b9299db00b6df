//! An engine that attacks: what it tries in its constructor, in `register`, in its factory and in a hook, where it runs apart
//! from the gateway. That each attempt works where nothing confines it is shown beside it, in `tests/fixtures/intruder`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

use engineroom_tests::{Setup, built, library_name};
use serde_json::{Value, json};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;

/// What the intruder looks for in its environment.
const SECRET: &str = "swordfish-of-the-operator";
const MARK: &[u8] = b"INTRUDER-AIM=";
const ROOM: usize = 256;

/// An operator's folder with everything in it that the intruder aims at.
struct Target {
    setup: Setup,
    tcp: TcpListener,
    udp: UdpSocket,
    _door: UnixListener,
}

impl Target {
    fn new(entry: &str) -> Target {
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        let setup = Setup::new();
        let root = setup.path();
        let door = UnixListener::bind(root.join("door")).unwrap();
        std::fs::create_dir_all(root.join("state/engines/other/main")).unwrap();
        for file in ["victim", "state/engines/other/main/secret"] {
            std::fs::write(root.join(file), "of somebody else").unwrap();
        }
        let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let aim = format!("{}\n{tcp_port}\n{udp_port}", root.display());
        let setup = setup
            .file(&library_name("intruder"), &aimed(&aim))
            .select("intruder")
            .toml(&format!("[plugins.entries.intruder]\n{entry}\n"))
            .env("OPERATOR_TOKEN", SECRET);
        Target { setup, tcp, udp, _door: door }
    }

    /// Nothing came in at the doors, and what belongs to others is as it was.
    fn is_untouched(&self) {
        assert!(self.tcp.accept().is_err(), "a connection");
        assert!(self.udp.recv(&mut [0; 8]).is_err(), "a datagram");
        let root = self.setup.path();
        for file in ["victim", "state/engines/other/main/secret"] {
            assert_eq!(std::fs::read_to_string(root.join(file)).unwrap(), "of somebody else");
        }
        for file in ["evil", "plugins/evil.so"] {
            assert!(!root.join(file).exists(), "{file}");
        }
    }
}

/// The library, with what it aims at written into it.
fn aimed(aim: &str) -> Vec<u8> {
    assert!(aim.len() <= ROOM, "{aim}");
    let mut bytes = std::fs::read(built().library("intruder")).unwrap();
    let whole: Vec<u8> = MARK.iter().copied().chain([0; ROOM]).collect();
    let place = bytes.windows(whole.len()).position(|window| window == whole).expect("the place for the aim");
    let from = place + MARK.len();
    bytes[from..from + aim.len()].copy_from_slice(aim.as_bytes());
    bytes
}

/// True, and said, where the system lacks a layer: there the intruder gets out by design, and `doctor` says so.
fn is_lacking(setup: &Setup) -> bool {
    let sandbox = setup.cli(&["doctor", "--json"]).json()["sandbox"].clone();
    let lacking = sandbox["lacks"] != json!([]);
    if lacking {
        eprintln!("skipped: this system lacks {}", sandbox["lacks"]);
    }
    lacking
}

/// Nothing worked in any of the stages, and all that an honest engine does did.
fn assert_contained(told: &str, stages: &[&str]) {
    for stage in stages {
        let head = format!("{stage}: 0 of ");
        let rest = told.split(&head).nth(1).unwrap_or_else(|| panic!("{stage} got out: {told}"));
        assert!(rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(" []"), "{stage} got out: {told}");
    }
    assert!(told.contains("honest: []"), "an honest engine could not do: {told}");
}

#[test]
fn in_its_probe_an_engine_gets_out_at_no_stage() {
    let target = Target::new("config = { probe = true }");
    if is_lacking(&Setup::new()) {
        return;
    }
    let gateway = target.setup.start();
    let status = gateway.client().get("/api/engines").json();
    let plugin = plugin(&status);
    let told = plugin["failure"].to_string();
    assert_contained(&told, &["constructor", "register", "factory", "assemble"]);
    assert!(plugin["sandbox"]["landlock"].as_u64() > Some(0) && plugin["sandbox"]["seccomp"] == true, "{plugin}");
    target.is_untouched();
}

#[test]
fn in_its_worker_an_engine_gets_out_at_no_stage() {
    let target = Target::new("isolation = \"process\"");
    if is_lacking(&Setup::new()) {
        return;
    }
    let gateway = target.setup.start();
    // What it tried is told as the error of its hook; another engine answers.
    let answer = gateway.client().say("one", "hello");
    assert_eq!(answer.engine(), Some("legacy"), "{}", answer.text());
    let status = gateway.client().get("/api/engines").json();
    let quarantine = &engine(&status)["quarantine"];
    assert_eq!(quarantine["at"], "assemble", "{quarantine}");
    assert_contained(&quarantine["reason"].to_string(), &["constructor", "register", "factory", "assemble"]);
    target.is_untouched();
}

#[test]
fn a_file_that_is_dropped_by_hand_serves_in_a_worker_and_doctor_says_so() {
    let setup = Setup::new().isolation("auto").library("window").select("window");
    let gateway = setup.start();
    assert_eq!(gateway.client().say("one", "hello").engine(), Some("window"));
    let status = gateway.client().get("/api/engines").json();
    let window = status["engines"].as_array().unwrap().iter().find(|one| one["id"] == "window").unwrap();
    let placement = &window["library"]["placement"];
    assert_eq!((&placement["isolation"], &placement["bundled"]), (&json!("process"), &json!(false)), "{window}");
    let pid = window["worker"]["pid"].as_u64().unwrap();
    assert_ne!(pid, u64::from(gateway.pid()));
    let said = setup.cli(&["doctor"]).stdout;
    assert!(said.contains(&format!("worker {pid} (not bundled, pinned or signed; once you trust it like the gateway itself: `engineroom plugins install")), "{said}");
    let listed = setup.cli(&["plugins", "list"]).stdout;
    assert!(listed.contains("worker (not bundled"), "{listed}");
}

#[test]
fn a_system_call_of_another_processor_kills_the_probe_and_is_named() {
    if !cfg!(target_arch = "x86_64") || is_lacking(&Setup::new()) {
        return;
    }
    let target = Target::new("config = { probe = true, foreign_call = true }");
    let gateway = target.setup.start();
    let status = gateway.client().get("/api/engines").json();
    let quarantine = engine(&status)["quarantine"].clone();
    assert_eq!(quarantine["diagnostic"], "CE251", "{quarantine}");
    assert!(
        quarantine["reason"].as_str().unwrap().contains("SIGSYS (forbidden system call) in assemble"),
        "{quarantine}"
    );
}

#[test]
fn what_an_entry_grants_is_open_and_nothing_beside_it() {
    if is_lacking(&Setup::new()) {
        return;
    }
    let target = Target::new(
        "config = { probe = true }\nlimits = { network = true, read = [\"plugins.toml\"], open_files = 1024 }",
    );
    let gateway = target.setup.start();
    let told = plugin(&gateway.client().get("/api/engines").json())["failure"].to_string();
    // Sockets to other programs stay closed, with the network too.
    for stage in ["constructor", "assemble"] {
        let rest = told.split(&format!("{stage}: 4 of ")).nth(1).unwrap_or_else(|| panic!("{told}"));
        let list = rest.split(['[', ']']).nth(1).unwrap();
        assert_eq!(list, "read-config tcp udp open-files", "{told}");
    }
}

fn plugin(status: &Value) -> &Value {
    status["plugins"].as_array().unwrap().iter().find(|one| one["plugin_id"] == "intruder").unwrap()
}

fn engine(status: &Value) -> &Value {
    status["engines"].as_array().unwrap().iter().find(|one| one["id"] == "intruder").unwrap()
}

#[test]
fn an_entry_that_asks_for_a_whole_sandbox_gets_it_or_is_refused() {
    let target = Target::new("isolation = \"process\"\nconfig = { probe = true }\nlimits = { sandbox = \"required\" }");
    let lacking = is_lacking(&Setup::new());
    let gateway = target.setup.start();
    let status = gateway.client().get("/api/engines").json();
    let plugin = plugin(&status);
    // With all of it in force the probe comes as far as its hooks.
    let code = if lacking { "CE255" } else { "CE294" };
    assert_eq!(plugin["failure"]["code"], code, "{plugin}");
}
