//! The fixture engine that fails as it is told, ready to be dropped into a plugins folder.

use crate::{Setup, built, library_name};
use serde_json::Value;

impl Setup {
    /// Drops `chaos` with this configuration (a JSON object) and selects it. Deadlines are short, so that a hang costs little.
    pub fn chaos(self, config: &Value) -> Setup {
        let bytes = std::fs::read(built().library("chaos")).expect("the fixture");
        self.chaos_bytes(&bytes, config)
    }

    /// The same with other bytes.
    pub fn chaos_bytes(self, bytes: &[u8], config: &Value) -> Setup {
        let mut lines =
            String::from("[plugins.entries.chaos]\nisolation = \"in-process\"\n[plugins.entries.chaos.config]\n");
        for (key, value) in config.as_object().expect("an object") {
            // A JSON string, number, boolean or list of them is the same in TOML.
            lines.push_str(&format!("{key} = {value}\n"));
        }
        lines.push_str("[plugins.deadlines]\nregister_ms = 1000\nfactory_ms = 1000\nprobe_ms = 8000\n");
        for hook in [
            "bootstrap",
            "maintain",
            "ingest",
            "ingest_batch",
            "after_turn",
            "commit_turn",
            "assemble",
            "compact",
            "on_session_ended",
            "dispose",
        ] {
            lines.push_str(&format!("{hook}_ms = 400\n"));
        }
        self.file(&library_name("chaos"), bytes).select("chaos").toml(&lines)
    }

    /// Drops `chaos` with this configuration and selects its memory provider, not its engine. Deadlines are short.
    pub fn chaos_memory(self, config: &Value) -> Setup {
        let bytes = std::fs::read(built().library("chaos")).expect("the fixture");
        let mut lines = String::from("[plugins.entries.chaos.config]\n");
        for (key, value) in config.as_object().expect("an object") {
            lines.push_str(&format!("{key} = {value}\n"));
        }
        lines.push_str("[plugins.deadlines]\nfactory_ms = 1000\nprobe_ms = 8000\n");
        for hook in ["memory_prompt", "memory_search", "memory_append", "dispose"] {
            lines.push_str(&format!("{hook}_ms = 400\n"));
        }
        self.file(&library_name("chaos"), &bytes).memory("chaos").toml(&lines)
    }

    /// Drops a copy of `chaos` in which `from` is overwritten by `to`, padded with NULs, and selects it.
    pub fn chaos_patched(self, from: &str, to: &str) -> Setup {
        assert!(to.len() <= from.len(), "the patch must fit");
        let mut bytes = std::fs::read(built().library("chaos")).expect("the fixture");
        let places: Vec<usize> = bytes
            .windows(from.len())
            .enumerate()
            .filter(|(_, w)| *w == from.as_bytes())
            .map(|(place, _)| place)
            .collect();
        assert!(!places.is_empty(), "{from:?} is not in the library");
        for place in places {
            bytes[place..place + from.len()].fill(0);
            bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
        }
        self.chaos_bytes(&bytes, &serde_json::json!({"mode": "none"}))
    }

    /// Drops a copy of `chaos` whose switch stands on `word`, and selects it.
    pub fn chaos_switched(self, word: &str) -> Setup {
        self.chaos_patched(&format!("CHAOS-SWITCH={}", "\0".repeat(32)), &format!("CHAOS-SWITCH={word}"))
    }
}
