//! What is fuzzed, and what must hold: each target takes bytes of a stranger and panics when a property is hurt.
//!
//! `cargo xtask fuzz` runs the targets under libFuzzer with coverage of the gateway's own code; `tests/corpus.rs` replays the
//! corpora and every crash that was ever found as plain tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a target tells what it found by a panic")]

mod alloc;
mod targets;

pub use alloc::Counting;

/// One target.
#[derive(Debug)]
pub struct Target {
    /// Its name: that of its folders, too.
    pub name: &'static str,
    /// Memory that an input may take at once: so much in all, and so much for each of its bytes.
    memory: (usize, usize),
    run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "library", memory: (8 << 20, 64), run: targets::library::library },
    Target { name: "manifest", memory: (8 << 20, 256), run: targets::library::manifest },
    Target { name: "config", memory: (2 << 20, 512), run: targets::config::config },
    Target { name: "request", memory: (1 << 20, 256), run: targets::request::request },
    Target { name: "path", memory: (1 << 18, 64), run: targets::path::path },
    Target { name: "replay", memory: (1 << 20, 512), run: targets::replay::replay },
    Target { name: "frames", memory: (1 << 18, 64), run: targets::worker::frames },
    Target { name: "control", memory: (1 << 18, 256), run: targets::worker::control },
    Target { name: "lane", memory: (4 << 20, 64), run: targets::worker::lanes },
    Target { name: "ledger", memory: (1 << 21, 512), run: targets::ledger::ledger },
    Target { name: "probe", memory: (1 << 18, 256), run: targets::probe::probe },
];

impl Target {
    /// The target of this name.
    ///
    /// # Panics
    /// When there is none.
    pub fn named(name: &str) -> &'static Target {
        TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("no such target: {name:?}"))
    }

    /// Checks one input.
    ///
    /// # Panics
    /// When a property does not hold.
    pub fn check(&self, data: &[u8]) {
        let most = self.memory.0 + self.memory.1 * data.len();
        let took = alloc::peak(|| (self.run)(data));
        assert!(took <= most, "{} bytes of input took {took} bytes of memory at once; {most} are allowed", data.len());
    }
}
