//! A memory provider as an author writes it, driven through its function table.
#![allow(clippy::panic, clippy::unwrap_used, reason = "the provider panics on purpose, and helpers of tests may")]

use engine_abi::testing::{Folders, Memory};
use engine_abi::wire::status;
use engine_abi::*;

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    mode: String,
}

/// Keeps lines in its store.
struct Lines(Settings);

#[hooks]
impl MemoryProvider for Lines {
    type Config = Settings;

    fn create(settings: Settings, factory: &Factory) -> Result<Self> {
        assert!(settings.mode != "factory panics", "the factory panics");
        assert!(factory.workspace_dir().is_none() || factory.state_dir().is_dir());
        Ok(Lines(settings))
    }
    fn info(&self) -> Info {
        Info::new("lines", "Lines")
    }
    fn prompt_section(&self, _: &Context, request: &PromptSectionRequest) -> Result<Option<String>> {
        if self.0.mode == "silent" {
            return Ok(None);
        }
        Ok(Some(format!("{} {:?}", request.available_tools().join(","), request.citations_mode())))
    }
    fn search(&self, context: &Context, query: &str, limit: usize) -> Result<Vec<MemoryHit>> {
        match self.0.mode.as_str() {
            "panics" => panic!("in {query}"),
            "fails" => return Err(Error::new("no luck")),
            _ => {}
        }
        let found = context.engine_store().scan("line/", None, limit)?;
        let hit = |(key, value): (Vec<u8>, Vec<u8>)| {
            MemoryHit::new(String::from_utf8_lossy(&key), String::from_utf8_lossy(&value), 0.5).at(7)
        };
        Ok(found.into_iter().map(hit).collect())
    }
    fn append(&self, context: &Context, text: &str) -> Result<()> {
        context.engine_store().put(format!("line/{text}"), text);
        Ok(())
    }
    fn dispose(&self, _: &Context) -> Result<()> {
        assert!(self.0.mode != "dispose panics", "dispose panics");
        Ok(())
    }
}

/// Has only what every provider must have.
struct Bare;

#[hooks]
impl MemoryProvider for Bare {
    type Config = serde::de::IgnoredAny;
    fn create(_: Self::Config, _: &Factory) -> Result<Self> {
        Ok(Bare)
    }
    fn info(&self) -> Info {
        Info::new("bare", "Bare")
    }
    fn search(&self, _: &Context, _: &str, _: usize) -> Result<Vec<MemoryHit>> {
        Ok(Vec::new())
    }
}

fn lines(mode: &str) -> Memory {
    Memory::new::<Lines>(&format!("{{\"mode\": \"{mode}\"}}")).unwrap()
}

#[test]
fn what_was_appended_is_found_with_its_score_and_time() {
    let memory = lines("");
    memory.append("one").unwrap();
    memory.append("two").unwrap();
    let hits = memory.search("any", 1).unwrap();
    assert_eq!(hits, [MemoryHit { id: "line/one".into(), text: "one".into(), score: 0.5, time_ms: Some(7) }]);
    assert_eq!(memory.search("any", 10).unwrap().len(), 2);
}

#[test]
fn a_section_is_made_for_the_tools_and_citations_of_a_run() {
    assert_eq!(lines("").prompt_section(&["a", "b"], CitationsMode::Off).unwrap().as_deref(), Some("a,b Off"));
    assert_eq!(lines("silent").prompt_section(&[], CitationsMode::Auto).unwrap(), None);
}

#[test]
fn only_the_hooks_that_stand_in_the_impl_are_in_the_table() {
    let bare = Memory::new::<Bare>("{}").unwrap();
    assert!(bare.table().search.is_some() && bare.table().append.is_none() && !bare.has_prompt_section());
    assert!(lines("").table().append.is_some() && lines("").has_prompt_section());
}

#[test]
fn failures_and_panics_become_a_status_and_a_reason() {
    let failure = lines("fails").search("x", 1).unwrap_err();
    assert_eq!((failure.status, failure.reason.as_str()), (status::ERROR, "no luck"));
    let failure = lines("panics").search("x", 1).unwrap_err();
    assert_eq!((failure.status, failure.reason.as_str()), (status::PANIC, "panicked: in x"));
    let failure = Memory::new::<Lines>(r#"{"mode": "factory panics"}"#).err().unwrap();
    assert_eq!((failure.status, failure.reason.as_str()), (status::PANIC, "panicked: the factory panics"));
    assert_eq!(lines("dispose panics").dispose().unwrap_err().status, status::PANIC);
}

#[test]
fn a_factory_is_told_its_folders() {
    let folder = tempfile::tempdir().unwrap();
    let folders = Folders { state: Some(folder.path()), workspace: Some(folder.path()) };
    Memory::within::<Lines>("{}", folders).unwrap();
}
