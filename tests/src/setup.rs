//! An operator's folder: `plugins.toml`, `plugins/`, `state/`.

use crate::{Gateway, built};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// File name of a shared library on this system.
pub fn library_name(name: &str) -> String {
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// A folder in the making. It is removed when it and every gateway that was started in it are dropped.
#[derive(Debug)]
pub struct Setup {
    folder: Arc<tempfile::TempDir>,
    slot: String,
    memory: Option<String>,
    isolation: &'static str,
    sections: Vec<String>,
    environment: Vec<(String, String)>,
    open_files: Option<u32>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup::new()
    }
}

impl Setup {
    /// An empty plugins folder, the offline model, `legacy`.
    pub fn new() -> Setup {
        Setup::at(&std::env::temp_dir())
    }

    /// The same under `parent`.
    pub fn at(parent: &Path) -> Setup {
        let folder = tempfile::Builder::new().prefix("engineroom-").tempdir_in(parent).expect("a folder");
        std::fs::create_dir(folder.path().join("plugins")).expect("a plugins folder");
        Setup {
            folder: Arc::new(folder),
            slot: "\"legacy\"".into(),
            memory: None,
            isolation: "in-process",
            sections: Vec::new(),
            environment: Vec::new(),
            open_files: None,
        }
    }

    /// Selects an engine.
    pub fn select(mut self, id: &str) -> Setup {
        self.slot = Value::from(id).to_string();
        self
    }

    /// Selects a chain.
    pub fn chain(mut self, ids: &[&str]) -> Setup {
        self.slot = Value::from(ids.to_vec()).to_string();
        self
    }

    /// Selects a memory provider.
    pub fn memory(mut self, id: &str) -> Setup {
        self.memory = Some(Value::from(id).to_string());
        self
    }

    /// Where plugins run whose entry does not say so; without it in-process, which `ENGINEROOM_PLUGINS_ISOLATION` in the
    /// environment of the tests overrides: `process` runs them all in workers.
    pub fn isolation(mut self, isolation: &'static str) -> Setup {
        self.isolation = isolation;
        self
    }

    /// For tests that kill the gateway again and again: two kills in a row while a hook runs look like an engine that crashes.
    pub fn killed_often(self) -> Setup {
        self.env("ENGINEROOM_PLUGINS_CRASH_LEDGER", "false")
    }

    /// Appends lines to `plugins.toml`, whole sections.
    pub fn toml(mut self, lines: &str) -> Setup {
        self.sections.push(lines.to_owned());
        self
    }

    /// Sets an environment variable for every command of this folder.
    pub fn env(mut self, name: &str, value: impl AsRef<Path>) -> Setup {
        self.environment.push((name.to_owned(), value.as_ref().display().to_string()));
        self
    }

    /// Drops a built library into the plugins folder.
    pub fn library(self, name: &str) -> Setup {
        let bytes = std::fs::read(built().library(name)).expect("a built library");
        self.file(&library_name(name), &bytes)
    }

    /// Drops bytes into the plugins folder, mode 0644.
    pub fn file(self, name: &str, bytes: &[u8]) -> Setup {
        self.drop_in(name, bytes);
        self
    }

    /// As [`Setup::file`], later: written beside and renamed, as an operator's tool does.
    pub fn drop_in(&self, name: &str, bytes: &[u8]) {
        let path = self.plugins().join(name);
        let half = path.with_extension("half");
        std::fs::write(&half, bytes).expect("a plugin file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&half, mode).expect("its mode");
        std::fs::rename(&half, &path).expect("its name");
    }

    /// Lets every command of this folder have only so many open files.
    pub fn open_files(mut self, most: u32) -> Setup {
        self.open_files = Some(most);
        self
    }

    /// Keeps the folder as long as the answer lives.
    pub(crate) fn keep(&self) -> Arc<tempfile::TempDir> {
        Arc::clone(&self.folder)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The plugins folder.
    pub fn plugins(&self) -> PathBuf {
        self.path().join("plugins")
    }

    /// The state folder.
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Writes `plugins.toml` as it stands.
    pub fn write_config(&self) -> PathBuf {
        let path = self.path().join("plugins.toml");
        let text = format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\nstate_dir = \"state\"\n\n[plugins]\ndir = \"plugins\"\n\
             isolation = \"{}\"\n\n[plugins.slots]\ncontextEngine = {}\n{}\n{}\n",
            self.isolation,
            self.slot,
            self.memory.as_ref().map(|id| format!("memory = {id}\n")).unwrap_or_default(),
            self.sections.join("\n")
        );
        std::fs::write(&path, text).expect("plugins.toml");
        path
    }

    /// A command of the gateway's binary in this folder, configuration written.
    pub fn command(&self, args: &[&str]) -> Command {
        let config = self.write_config();
        let mut command = match self.open_files {
            None => Command::new(built().engineroom()),
            Some(most) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("ulimit -n {most}; exec \"$0\" \"$@\"")).arg(built().engineroom());
                shell
            }
        };
        command.current_dir(self.path()).args(args).arg("--config").arg(config);
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn cli(&self, args: &[&str]) -> Cli {
        let output = self.command(args).output().expect("the binary starts");
        Cli {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts the gateway and waits until it listens.
    pub fn start(&self) -> Gateway {
        Gateway::start(self)
    }
}

/// What a command said.
#[derive(Debug)]
pub struct Cli {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Cli {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("not JSON ({e}): {self:?}"))
    }
}
