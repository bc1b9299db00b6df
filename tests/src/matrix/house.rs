//! The operator's folder of a cell: the chaos engine, its configuration, and a state with sessions from before.

use super::case::SHORT;
use super::spot::{Spot, Trigger, When};
use super::{Cell, Isolation};
use crate::{MockModel, Setup, built, library_name, model};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A session from before, long enough to be compacted.
pub const OLD: &str = "old";
/// Another, in which children begin.
pub const PARENT: &str = "agent:main:desk";
/// What was said in it, and must be there whatever happens.
pub const KEPT: &str = "My harbour pilot is called Marisol.";
/// A deadline that no busy machine misses, in ms.
const LONG: u64 = 15_000;
/// The name of the tool of the chaos engine.
const TOOL: &str = "chaos_echo";

/// What the cells of a run share: a model, and a state folder with sessions in it.
#[derive(Debug)]
pub struct House {
    model: MockModel,
    template: Setup,
}

impl House {
    /// Makes the sessions from before.
    pub fn new() -> House {
        let model = MockModel::start(|request, stream| {
            let offered = |tool: &Value| tool["function"]["name"] == TOOL;
            let asks =
                request["messages"].as_array().and_then(|all| all.last()).is_some_and(|last| last["role"] == "user");
            if asks && request["tools"].as_array().is_some_and(|tools| tools.iter().any(offered)) {
                let call = json!({"id": "call_1", "type": "function", "function": {"name": TOOL, "arguments": "{}"}});
                let said = json!({"role": "assistant", "content": null, "tool_calls": [call]});
                model::message(stream, said, "tool_calls");
            } else {
                model::answer(request, stream, "Understood.");
            }
        });
        let template = Setup::new().toml(&model.toml(32_000));
        let gateway = template.start();
        gateway.client().say(PARENT, KEPT).text();
        for n in 0..8 {
            gateway
                .client()
                .say(OLD, &format!("Note {n}: the ship Aurora-{n} berths at quay {n}. {}", "So it is. ".repeat(20)));
        }
        assert!(gateway.stop().success(), "the sessions from before");
        House { model, template }
    }

    /// The folder of a cell.
    pub fn of(&self, cell: Cell) -> Setup {
        let (case, spot) = (cell.case, cell.spot);
        let mut config = spot.config();
        config["mode"] = case.mode.into();
        config["hook"] = spot.hook.into();
        if case.ms > 0 {
            config["ms"] = case.ms.into();
        }
        if case.mode == "service-error" {
            // Three in a row are another thing.
            config["times"] = 1.into();
        }
        let timed = case.is_timed().then_some(spot);
        let mut setup = self.bare(cell.isolation, "chaos", &config).toml(&deadlines(timed));
        setup = if spot.memory { setup.memory("chaos") } else { setup.select("chaos") };
        if let Some(deed) = spot.deed() {
            setup = setup.recorder_granted(&json!({"do": {"assemble": [deed]}}), &["memory-append"]);
        }
        // The fewer descriptors there are the sooner none is left.
        if case.mode == "fds" { setup.open_files(256) } else { setup }
    }

    /// The same without the engine.
    pub fn without_engine(&self, of: &Setup) -> Setup {
        let setup = Setup::new().toml(&self.model.toml(32_000));
        copy(&of.state(), &setup.state());
        setup
    }

    /// A folder with the sessions from before.
    pub fn empty(&self) -> Setup {
        let setup = Setup::new().toml(&self.model.toml(32_000)).toml("[compaction]\nkeep_recent_tokens = 100\n");
        copy(&self.template.state(), &setup.state());
        setup
    }

    /// The same and one copy of the library under `id`, which nothing selects yet.
    pub fn bare(&self, isolation: Isolation, id: &str, config: &Value) -> Setup {
        self.empty().chaos_copy(id, isolation.as_str(), config)
    }
}

impl Default for House {
    fn default() -> Self {
        House::new()
    }
}

/// A line for each hook: a short deadline for the one that is late.
fn deadlines(timed: Option<&Spot>) -> String {
    let mut lines = String::from("[plugins.deadlines]\nregister_ms = 5000\nprobe_ms = 20000\n");
    for spot in super::SPOTS {
        let key = if spot.when == When::Start || spot.trigger == Trigger::Stop { spot.spelled } else { spot.hook };
        if spot.memory && matches!(spot.when, When::Start | When::Stop) {
            continue;
        }
        let late = timed.is_some_and(|timed| timed.hook == spot.hook || timed.spelled == key && timed.memory);
        lines.push_str(&format!("{key}_ms = {}\n", if late { SHORT } else { LONG }));
    }
    lines
}

impl Setup {
    /// Drops a copy of `chaos` as the plugin `id` (five letters), with this isolation and configuration (a JSON object).
    pub fn chaos_copy(self, id: &str, isolation: &str, config: &Value) -> Setup {
        let mut bytes = std::fs::read(built().library("chaos")).expect("the fixture");
        if id != "chaos" {
            for key in ["CHAOS-ID=", "plugin=", "engines=", "memory="] {
                overwrite(&mut bytes, format!("{key}chaos").as_bytes(), format!("{key}{id}").as_bytes());
            }
        }
        let mut lines = format!("[plugins.entries.{id}]\nisolation = \"{isolation}\"\n[plugins.entries.{id}.config]\n");
        for (key, value) in config.as_object().expect("an object") {
            // A JSON string, number, boolean or list of them is the same in TOML.
            lines.push_str(&format!("{key} = {value}\n"));
        }
        self.file(&library_name(id), &bytes).toml(&lines)
    }
}

/// Writes `to` wherever `from`, as long, stands.
fn overwrite(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len(), "ids have five letters");
    let places: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|(_, window)| *window == from).map(|(place, _)| place).collect();
    assert!(!places.is_empty(), "{} is not in the library", String::from_utf8_lossy(from));
    for place in places {
        bytes[place..place + to.len()].copy_from_slice(to);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a state folder");
    for entry in std::fs::read_dir(from).expect("a state folder").flatten() {
        let target: PathBuf = to.join(entry.file_name());
        let kind = entry.file_type().expect("its kind");
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target).expect("a file of the state");
        }
    }
}
