//! What a library says about itself, as the rest of the host sees it.

use super::cause::Cause;
use super::report::StageFailure;
use engine_abi::{manifest as section, wire};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Id of the built-in engine, which only the core registers.
pub const RESERVED_ENGINE: &str = "legacy";
/// Value of the memory slot that means: none.
const RESERVED_MEMORY: &str = "none";

/// How the host enters the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Door {
    /// By the root module, whose layout is compared type by type.
    Rust,
    /// By the versioned entry symbol.
    C,
}

/// What a panic in the library does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PanicMode {
    /// It unwinds, and the guard in the library catches it.
    Unwind,
    /// It ends the process.
    Abort,
}

/// A manifest that was parsed and checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Manifest {
    /// Id of the plugin: key of `[plugins.entries]`, `allow` and `deny`.
    pub plugin_id: String,
    /// Engine ids that it registers.
    pub engines: Vec<String>,
    /// Memory provider ids that it registers.
    pub memory: Vec<String>,
    /// `context-engine` or `memory`.
    pub kind: String,
    /// Contract version.
    pub contract: String,
    /// What a panic does.
    pub panic: PanicMode,
    /// The door.
    pub door: Door,
    /// JSON Schema of the configuration; `{}` when it has none.
    pub config_schema: Value,
    /// Name for people; the plugin id when it has none.
    pub name: String,
    /// Version of the plugin, as its author counts.
    pub version: Option<String>,
    /// What it does, one line.
    pub description: Option<String>,
    /// What it was built with.
    pub sdk: Option<String>,
}

/// Reads the manifest's section.
///
/// # Errors
/// [`Cause::BadManifest`], [`Cause::BadSchema`], or [`Cause::OtherContract`] when an unreadable manifest at least says that.
pub(super) fn parse(bytes: &[u8]) -> Result<Manifest, StageFailure> {
    let raw = section::parse(bytes).map_err(|error| {
        // Another contract may well have another manifest: its version explains more than its first strange key.
        match contract_of(bytes) {
            Some(found) if found != wire::CONTRACT_VERSION => other_contract(&found),
            _ => StageFailure::new(Cause::BadManifest, "the manifest cannot be understood").because(error),
        }
    })?;
    let config_schema = match raw.config_schema.as_deref() {
        None => json!({}),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            StageFailure::new(Cause::BadSchema, "the configuration schema in the manifest is not JSON").because(error)
        })?,
    };
    Ok(Manifest {
        name: raw.name.unwrap_or_else(|| raw.plugin.clone()),
        plugin_id: raw.plugin,
        engines: raw.engines,
        memory: raw.memory,
        kind: raw.kind,
        contract: raw.contract,
        panic: match raw.panic {
            section::Panic::Unwind => PanicMode::Unwind,
            section::Panic::Abort => PanicMode::Abort,
        },
        door: match raw.door {
            section::Door::Rust => Door::Rust,
            section::Door::C => Door::C,
        },
        config_schema,
        version: raw.version,
        description: raw.description,
        sdk: raw.sdk,
    })
}

fn contract_of(bytes: &[u8]) -> Option<String> {
    let body = bytes.get(section::HEADER_LEN..)?;
    let value = body.split(|byte| *byte == 0).find_map(|part| part.strip_prefix(b"contract="))?;
    let value = std::str::from_utf8(value).ok()?;
    (!value.is_empty() && value.len() <= 32 && !value.contains(char::is_control)).then(|| value.to_owned())
}

fn other_contract(found: &str) -> StageFailure {
    StageFailure::new(
        Cause::OtherContract,
        format!("the library was made for contract {found}; this gateway has contract {}", wire::CONTRACT_VERSION),
    )
}

impl Manifest {
    /// Is this something that this host can run in its own process?
    ///
    /// # Errors
    /// [`Cause::OtherContract`], [`Cause::PanicAbort`], [`Cause::BadIds`].
    pub(super) fn check(&self) -> Result<(), StageFailure> {
        if self.contract != wire::CONTRACT_VERSION {
            return Err(other_contract(&self.contract));
        }
        if self.panic == PanicMode::Abort {
            let message = format!(
                "plugin {} is built with panic = \"abort\" and cannot run in the gateway's process",
                self.plugin_id
            );
            return Err(StageFailure::new(Cause::PanicAbort, message));
        }
        let reserved = self
            .engines
            .iter()
            .find(|id| *id == RESERVED_ENGINE)
            .or_else(|| self.memory.iter().find(|id| *id == RESERVED_MEMORY));
        if let Some(id) = reserved {
            let message = format!("plugin {} wants the id `{id}`, which is reserved", self.plugin_id);
            return Err(StageFailure::new(Cause::BadIds, message));
        }
        // Ids become names of folders, where these two mean something else.
        if let Some(id) = self.ids().find(|id| id.starts_with('.')) {
            return Err(StageFailure::new(Cause::BadIds, format!("the id `{id}` begins with a dot")));
        }
        Ok(())
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.plugin_id).chain(&self.engines).chain(&self.memory).map(String::as_str)
    }

    #[cfg(test)]
    pub(super) fn sample(id: &str) -> Manifest {
        Manifest {
            plugin_id: id.into(),
            engines: vec![id.into()],
            memory: Vec::new(),
            kind: "context-engine".into(),
            contract: wire::CONTRACT_VERSION.into(),
            panic: PanicMode::Unwind,
            door: Door::C,
            config_schema: json!({}),
            name: id.into(),
            version: None,
            description: None,
            sdk: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(parts: &[&str]) -> Vec<u8> {
        let body: String = parts.iter().map(|part| format!("{part}\0")).collect();
        let mut bytes = section::MAGIC.to_vec();
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body.as_bytes());
        bytes
    }

    fn good(contract: &str) -> Vec<u8> {
        let contract = format!("contract={contract}");
        section(&["plugin=w", "engines=w,w2", "kind=context-engine", &contract, "panic=unwind", "door=c"])
    }

    #[test]
    fn reads_what_the_host_needs_and_fills_in_the_rest() {
        let manifest = parse(&good(wire::CONTRACT_VERSION)).unwrap();
        assert_eq!(manifest.engines, ["w", "w2"]);
        assert_eq!((manifest.name.as_str(), &manifest.config_schema), ("w", &json!({})));
        manifest.check().unwrap();
    }

    #[test]
    fn names_both_contract_versions() {
        let failure = parse(&good("9.9")).unwrap().check().unwrap_err();
        assert_eq!(failure.code, Cause::OtherContract.code());
        assert!(failure.message.contains("9.9") && failure.message.contains(wire::CONTRACT_VERSION));
    }

    #[test]
    fn a_strange_manifest_of_another_contract_is_first_of_all_another_contract() {
        let failure = parse(&section(&["plugin=w", "contract=2.0", "hooks=all"])).unwrap_err();
        assert_eq!(failure.code, Cause::OtherContract.code());
        let failure = parse(&section(&["plugin=w", "hooks=all"])).unwrap_err();
        assert_eq!(failure.code, Cause::BadManifest.code());
    }

    #[test]
    fn refuses_abort_and_reserved_ids() {
        let sample = || Manifest::sample("w");
        let code = |manifest: Manifest| manifest.check().unwrap_err().code;
        assert_eq!(code(Manifest { panic: PanicMode::Abort, ..sample() }), Cause::PanicAbort.code());
        assert_eq!(code(Manifest { engines: vec!["legacy".into()], ..sample() }), Cause::BadIds.code());
        assert_eq!(code(Manifest { memory: vec!["none".into()], ..sample() }), Cause::BadIds.code());
        assert_eq!(code(Manifest { plugin_id: "..".into(), ..sample() }), Cause::BadIds.code());
    }
}
