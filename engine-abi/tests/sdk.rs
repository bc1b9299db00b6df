//! An engine as an author writes it, driven through its function table.
#![allow(clippy::panic, clippy::unwrap_used, reason = "the engine panics on purpose, and helpers of tests may")]

use engine_abi::testing::{Engine, Line};
use engine_abi::wire::{commit_status, semantics, status};
use engine_abi::*;

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    fails_at: u64,
    mode: String,
}

/// Keeps the text of every entry in its store.
struct Notes {
    settings: Settings,
}

struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a payload that panics");
    }
}

#[hooks]
impl ContextEngine for Notes {
    type Config = Settings;

    fn create(settings: Settings, _: &Factory) -> Result<Self> {
        assert!(settings.mode != "factory panics", "the factory panics");
        Ok(Notes { settings })
    }
    fn info(&self) -> Info {
        Info::new("notes", "Notes")
    }
    fn ingest(&self, context: &Context, entry: &Entry) -> Result<bool> {
        if entry.id() == self.settings.fails_at {
            return Err(Error::new("this entry is not for me"));
        }
        context.store().put(format!("note/{:04}", entry.id()), entry.text());
        context.store().commit()?;
        Ok(true)
    }
    fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly> {
        match self.settings.mode.as_str() {
            "panics" => panic!("{} of {}", "the middle", "assemble"),
            "panics badly" => std::panic::panic_any(Bomb),
            "hands an error on" => {
                context.engine_store().require_equal("never", "written");
                context.engine_store().commit()?;
            }
            "unwritten" => {
                context.store().put("lost", "1");
                return Err(Error::new("after a write"));
            }
            _ => {}
        }
        context.store().put("note/0002", "changed in this call");
        context.store().delete("note/0003");
        let notes = context.store().scan("note/", None, 3)?;
        let text: Vec<_> = notes.iter().map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect();
        let history = request.history();
        let last = history.heads().len() - 1;
        Ok(Assembly::new()
            .keep(&history.heads()[..1])
            .message(Message::user(text.join("|")))
            .keep(&history.heads()[last..])
            .volatile_prompt(history.entry(last)?.text().to_uppercase()))
    }
    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
    fn maintain(&self, _: &Context, _: &MaintainRequest) -> Result<Maintained> {
        Ok(Maintained::default())
    }
    fn dispose(&self, _: &Context) -> Result<()> {
        assert!(self.settings.mode != "dispose panics", "dispose panics");
        Ok(())
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        assert!(self.settings.mode != "drop panics", "the drop panics");
    }
}

fn notes(config: &str) -> Engine {
    Engine::new::<Notes>(config).unwrap()
}

fn turn(ids: std::ops::Range<u64>) -> Vec<Line> {
    ids.map(|id| Line::user(id, &format!("text {id}"))).collect()
}

#[test]
fn only_the_hooks_that_stand_in_the_impl_or_come_with_taking_turns_in_are_in_the_table() {
    let engine = notes("{}");
    let table = engine.table();
    assert!(table.maintain.is_some() && table.commit_turn.is_some() && table.dispose.is_some());
    assert!(table.bootstrap.is_some(), "catching up comes with taking turns in");
    assert!(table.after_turn.is_none() && table.ingest_batch.is_none() && table.tools.is_none());
    assert_eq!(engine.info().unwrap().transcript_semantics, semantics::DURABLE);
}

#[test]
fn the_default_commit_takes_a_turn_once() {
    let engine = notes("{}");
    assert_eq!(engine.commit("key 1", &turn(1..4)), Ok(commit_status::COMMITTED));
    assert_eq!(engine.stored_keys(), 4);
    assert_eq!(engine.commit("key 1", &turn(1..4)), Ok(commit_status::DUPLICATE));
    assert_eq!(engine.commit("key 2", &turn(4..6)), Ok(commit_status::COMMITTED));
    assert_eq!(engine.stored_keys(), 7);
}

#[test]
fn a_turn_that_fails_in_the_middle_leaves_nothing_behind() {
    let engine = notes(r#"{"fails_at": 3}"#);
    let failure = engine.commit("key", &turn(1..4)).unwrap_err();
    assert_eq!((failure.status, failure.reason.as_str()), (status::ERROR, "this entry is not for me"));
    assert_eq!(engine.stored_keys(), 0, "not even of the entries before, although ingest asked to commit them");
}

#[test]
fn a_hook_sees_its_own_writes_and_pushes_pieces_in_order() {
    let engine = notes("{}");
    engine.commit("key", &turn(1..6)).unwrap();
    let history = turn(1..6);
    let assembled = engine.assemble(&history, None).unwrap();
    let seen = testing::Piece::Message(wire::role::USER, "text 1|changed in this call|text 4".into());
    assert_eq!(assembled.pieces, [testing::Piece::Span(1, 1), seen, testing::Piece::Span(5, 5)]);
    assert_eq!(assembled.volatile_prompt_addition.as_deref(), Some("TEXT 5"));
    assert_eq!(assembled.estimated_tokens, u64::from(history[0].tokens + history[4].tokens));
}

#[test]
fn panics_are_contained_wherever_they_start() {
    let history = turn(1..2);
    let failure = notes(r#"{"mode": "panics"}"#).assemble(&history, None).unwrap_err();
    assert_eq!((failure.status, failure.reason.as_str()), (status::PANIC, "panicked: the middle of assemble"));
    let failure = notes(r#"{"mode": "panics badly"}"#).assemble(&history, None).unwrap_err();
    assert_eq!(failure.status, status::PANIC);

    let failure = Engine::new::<Notes>(r#"{"mode": "factory panics"}"#).err().unwrap();
    assert_eq!((failure.status, failure.reason.as_str()), (status::PANIC, "panicked: the factory panics"));
    let failure = notes(r#"{"mode": "dispose panics"}"#).dispose().unwrap_err();
    assert_eq!(failure.reason, "panicked: dispose panics");
    let failure = notes(r#"{"mode": "drop panics"}"#).dispose().unwrap_err();
    assert_eq!((failure.status, failure.reason.as_str()), (status::PANIC, "panicked: the drop panics"));
}

#[test]
fn an_error_of_a_service_is_handed_on_with_its_token() {
    let failure = notes(r#"{"mode": "hands an error on"}"#).assemble(&turn(1..2), None).unwrap_err();
    assert_eq!(failure.service_token, 7);
    assert_eq!(failure.reason, "engineroom.store/1: a condition of the batch does not hold");
}

#[test]
fn the_writes_of_a_hook_that_fails_are_dropped() {
    let engine = notes(r#"{"mode": "unwritten"}"#);
    engine.assemble(&turn(1..2), None).unwrap_err();
    assert_eq!(engine.stored_keys(), 0);
}

#[test]
fn a_configuration_that_does_not_fit_is_told() {
    let failure = Engine::new::<Notes>(r#"{"mood": "bad"}"#).err().unwrap();
    assert_eq!(failure.status, status::ERROR);
    assert!(failure.reason.starts_with("the configuration does not fit: unknown field `mood`"), "{}", failure.reason);
}

#[test]
fn a_compaction_can_be_left_to_the_host() {
    let compacted = notes("{}").compact(&turn(1..4), Some(10)).unwrap();
    assert_eq!(compacted.summary.as_deref(), Some("a summary by the host"));
    assert_eq!(compacted.first_kept_entry_id, 3);
}
