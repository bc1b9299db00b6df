//! The fixture engine that writes down every call, ready to be dropped into a plugins folder, and what it wrote.

use crate::{Setup, built, library_name};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where the engine may write, below the operator's folder.
const FOLDER: &str = "recorder";
/// Where it writes down its calls, in there.
const LOG: &str = "calls.jsonl";
/// Longest wait for a call that is made off the reply's path.
const PATIENCE: Duration = Duration::from_secs(20);

impl Setup {
    /// Drops `recorder` with this configuration (a JSON object, see `tests/fixtures/recorder/src/config.rs`) and selects it.
    /// What it writes down is [`Setup::calls`].
    pub fn recorder(self, config: &Value) -> Setup {
        self.recorder_granted(config, &["sessions"])
    }

    /// The same with other grants.
    pub fn recorder_granted(self, config: &Value, grants: &[&str]) -> Setup {
        let mut config = config.clone();
        let folder = self.path().join(FOLDER);
        std::fs::create_dir_all(&folder).expect("the folder of the calls");
        config["log"] = json!(folder.join(LOG));
        let bytes = std::fs::read(built().library("recorder")).expect("the fixture");
        // In a worker it may write where it is told to, and only there.
        let lines = format!(
            "[plugins.entries.recorder]\ngrants = {}\nconfig = {}\n[plugins.entries.recorder.limits]\nwrite = [{}]\n",
            json!(grants),
            toml(&config),
            json!(folder)
        );
        self.file(&library_name("recorder"), &bytes).select("recorder").toml(&lines)
    }

    /// What `recorder` wrote down so far.
    pub fn calls(&self) -> Calls {
        Calls { path: self.path().join(FOLDER).join(LOG) }
    }
}

/// What the fixture engine wrote down.
#[derive(Debug, Clone)]
pub struct Calls {
    path: PathBuf,
}

impl Calls {
    /// Every line, oldest first.
    pub fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        // A line may be just under way.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("a line of the recorder")).collect()
    }

    /// The same where the process was killed while it wrote: a line that was cut short is left out.
    pub fn lines_leniently(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The calls (not what was done in them) of one hook.
    pub fn of(&self, hook: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["hook"] == hook && line.get("did").is_none()).collect()
    }

    /// What hooks did with the host's services: the results of this deed.
    pub fn did(&self, deed: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["did"] == deed).map(|line| line["result"].clone()).collect()
    }

    /// Names of the hooks in the order in which they were called.
    pub fn hooks(&self) -> Vec<String> {
        let name = |line: &Value| line["hook"].as_str().expect("a hook").to_owned();
        self.lines().iter().filter(|line| line.get("did").is_none()).map(name).collect()
    }

    /// Waits until `hook` was called `count` times at least, and gives its calls.
    pub fn wait_for(&self, hook: &str, count: usize) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let calls = self.of(hook);
            if calls.len() >= count {
                return calls;
            }
            assert!(Instant::now() < deadline, "{hook} was not called {count} times: {:?}", self.hooks());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Forgets what was written so far.
    pub fn clear(&self) {
        std::fs::write(&self.path, "").expect("the log");
    }
}

/// A JSON value as TOML writes it inline; members that are null are left out.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| format!("{} = {}", Value::from(key.as_str()), toml(value)))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
