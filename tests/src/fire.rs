//! A disk that fails at the n-th operation, for once or for ever, under the clients of the crash rounds.

use crate::crash::{Broken, Manner, Session};
use crate::model::MockModel;
use crate::{Gateway, Setup, built, crash};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const WINDOW: u32 = 2_600;

/// The plan of the preloaded library: see `tests/fixtures/powercut/src/fault.rs`.
#[derive(Debug)]
pub struct Fire {
    plan: PathBuf,
}

impl Fire {
    /// Preloads the library into every command of `setup`, with the state folder under it.
    pub fn under(setup: Setup) -> (Setup, Fire) {
        let path = setup.path().canonicalize().expect("the folder");
        let plan = path.join("plan");
        let shim = built().library("fixture_powercut");
        let setup =
            setup.env("LD_PRELOAD", shim).env("POWERCUT_FOLDER", path.join("state")).env("POWERCUT_PLAN", &plan);
        (setup, Fire { plan })
    }

    /// From now on this fails, counted from here.
    pub fn set(&self, plan: &str) {
        let _ = std::fs::remove_file(self.mark());
        let half = self.plan.with_extension("half");
        std::fs::write(&half, plan).expect("the plan");
        std::fs::rename(&half, &self.plan).expect("its name");
    }

    /// Nothing fails any more.
    pub fn clear(&self) {
        let _ = std::fs::remove_file(&self.plan);
    }

    /// Something failed since the plan was set.
    pub fn fired(&self) -> bool {
        self.mark().exists()
    }

    fn mark(&self) -> PathBuf {
        let mut name = self.plan.clone().into_os_string();
        name.push(".fired");
        name.into()
    }
}

/// A gateway on a disk that can fail, with a client of each kind.
pub struct Burning {
    /// The folder.
    pub setup: Setup,
    /// The disk.
    pub fire: Fire,
    _model: MockModel,
    sessions: Vec<Session>,
}

impl Default for Burning {
    fn default() -> Self {
        Burning::new()
    }
}

impl Burning {
    /// In order so far.
    pub fn new() -> Burning {
        let model = crash::scripted();
        let setup = Setup::new()
            .recorder(&json!({"tools": [{"name": "peek", "answer": "it is there"}]}))
            .toml(&model.toml(WINDOW))
            .toml("[compaction]\nkeep_recent_tokens = 400\nreserve_tokens = 300\n");
        let (setup, fire) = Fire::under(setup);
        let kinds = [Manner::Keyed, Manner::Streamed, Manner::Edits, Manner::Short, Manner::House];
        let sessions = kinds.iter().enumerate().map(|(n, manner)| Session::new(n, *manner, 5)).collect();
        Burning { setup, fire, _model: model, sessions }
    }

    /// Each client takes a step; the errors that they saw.
    fn step(&mut self, gateway: &Gateway, what: &str) -> Vec<String> {
        let mut errors = Vec::new();
        for session in &mut self.sessions {
            match session.step(gateway.client()) {
                Ok(()) => {}
                Err(Broken::Refused(why)) => errors.push(why),
                Err(Broken::Gone) => panic!("{what}: nobody answers: {}", gateway.stderr()),
            }
        }
        errors
    }

    /// What the clients were told is there, and every session goes on.
    fn sound(&mut self, gateway: &mut Gateway, what: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let ready = gateway.client().get("/readyz");
            if ready.status == 200 {
                break;
            }
            assert!(Instant::now() < until, "{what}: it does not heal: {}", ready.body);
            std::thread::sleep(Duration::from_millis(20));
        }
        for session in &mut self.sessions {
            session.check(gateway.client(), what);
            session.use_again(gateway.client(), what);
        }
        assert!(gateway.is_alive(), "{what}: {}", gateway.stderr());
        assert!(!gateway.stderr().contains("panicked"), "{what}: {}", gateway.stderr());
    }

    /// The n-th operation fails once, for n from 1 until nothing fails any more; how many were tried.
    pub fn once(&mut self, kind: &str, error: &str) -> usize {
        let mut gateway = self.setup.start();
        self.sound(&mut gateway, "before");
        let (mut n, mut tried) = (1, 0);
        loop {
            let what = format!("{kind}@{n} {error}");
            self.fire.set(&what);
            self.step(&gateway, &what);
            let fired = self.fire.fired();
            self.fire.clear();
            self.sound(&mut gateway, &what);
            if !fired {
                break;
            }
            tried += 1;
            n += 1 + n / 10;
            assert!(n < 3_000, "{kind}: it never ends");
        }
        let (status, said) = gateway.stop_and_hear();
        assert!(status.success(), "{said}");
        tried
    }

    /// Everything from now on fails. Clear errors, degraded, no session held; then all is well again without a restart.
    pub fn for_ever(&mut self, kind: &str, error: &str) -> BTreeSet<String> {
        let mut gateway = self.setup.start();
        self.sound(&mut gateway, "before");
        let what = format!("{kind}@1+ {error}");
        self.fire.set(&what);
        let mut codes = BTreeSet::new();
        for _ in 0..2 {
            for why in self.step(&gateway, &what) {
                let code = why.find("\"CE").map(|at| why[at + 1..at + 6].to_owned());
                codes.insert(code.unwrap_or_else(|| panic!("{what}: an error without a code: {why}")));
                assert!(why.contains("hint"), "{what}: an error without a hint: {why}");
            }
        }
        assert!(self.fire.fired(), "{what}: nothing failed");
        let ready = gateway.client().get("/readyz");
        assert_eq!(ready.status, 503, "{what}: {}", ready.body);
        let told = ready.json();
        assert_eq!(told["status"], "degraded", "{what}: {told}");
        assert!(
            told["code"].as_str().is_some_and(|code| code.starts_with("CE4")) && told["hint"].is_string(),
            "{told}"
        );
        // Reading goes on.
        assert_eq!(gateway.client().get("/api/sessions").status, 200, "{what}");
        let doctor = self.setup.cli(&["doctor", "--json"]);
        assert_eq!(doctor.code, Some(1), "{what}: {doctor:?}");
        let store = &doctor.json()["findings"];
        assert!(store.to_string().contains(told["code"].as_str().unwrap_or("?")), "{what}: {store}");
        self.fire.clear();
        self.sound(&mut gateway, &what);
        let (status, said) = gateway.stop_and_hear();
        assert!(status.success(), "{said}");
        codes
    }

    /// The n-th operation of a command that opens the store and closes it fails, for each n; how many were tried.
    pub fn at_start(&mut self, kind: &str, error: &str) -> usize {
        let mut gateway = self.setup.start();
        self.sound(&mut gateway, "before");
        // Killed, so that there is a log to take up.
        gateway.kill();
        let (mut n, mut tried) = (1, 0);
        loop {
            let what = format!("{kind}@{n} {error}");
            self.fire.set(&what);
            let list = self.setup.cli(&["sessions", "list", "--json"]);
            let fired = self.fire.fired();
            self.fire.clear();
            assert!(!list.stderr.contains("panicked") && list.code.is_some_and(|code| code < 3), "{what}: {list:?}");
            match list.code {
                Some(0) => assert!(list.stdout.contains("keyed-0"), "{what}: not told what there is: {list:?}"),
                _ => {
                    let told = format!("{}{}", list.stdout, list.stderr);
                    assert!(told.contains("CE4") && told.contains("hint"), "{what}: {list:?}");
                }
            }
            let again = self.setup.cli(&["sessions", "list", "--json"]);
            assert!(again.code == Some(0) && again.stdout.contains("keyed-0"), "{what}: {again:?}");
            if !fired {
                break;
            }
            tried += 1;
            n += 1 + n / 8;
        }
        let mut gateway = self.setup.start();
        self.sound(&mut gateway, "at the end");
        gateway.kill();
        tried
    }
}
