//! Sessions through the engine's function table, over a store that fails and in instances that come and go.
//!
//! What a model reads of a session is compared with what it reads from an engine that lived through the same conversation without
//! any trouble.

use crate::Recall;
use engine_abi::testing::{Engine, Fault, Line, Spawn, Talk, World};
use engine_abi::wire::commit_status;
use proptest::prelude::*;

const ID: &str = "session";
const KEY: &str = "test:session";

fn engine(world: &World) -> Engine {
    Engine::within::<Recall>("{}", world).unwrap()
}

fn talk(engine: &Engine) -> Talk<'_> {
    engine.talk(ID, KEY)
}

fn tool(talk: &Talk<'_>, name: &str, arguments: &str) -> String {
    talk.call_tool(name, arguments).unwrap().text
}

/// All that the tools tell of a session.
fn told(talk: &Talk<'_>) -> String {
    [
        ("recall_expand", r#"{"numbers": "1-90"}"#),
        ("recall_search", r#"{"mode": "regex", "query": "tea|boat|never", "limit": 30}"#),
        ("recall_search", r#"{"query": "green tea on the boat", "limit": 30}"#),
        ("recall_pin", r#"{"action": "list"}"#),
    ]
    .map(|(name, arguments)| tool(talk, name, arguments))
    .join("\n----\n")
}

/// What is stored of a session, but for who wrote it and what it looked like.
fn stored(world: &World) -> Vec<(Vec<u8>, Vec<u8>)> {
    world.stored(Some(ID)).into_iter().filter(|(key, _)| key != b"m" && key != b"s").collect()
}

/// A turn with a tool call. Its ids begin at `first`.
fn turn(first: u64, what: u32) -> Vec<Line> {
    const SAID: [&str; 5] = [
        "Never book a flight before noon.",
        "I drink green tea.",
        "Where is the boat?",
        "The boat lies at quay 7; always knock first.",
        "Thanks.",
    ];
    let said = SAID[what as usize % SAID.len()];
    let time = i64::try_from(first).unwrap() * 1000;
    vec![
        Line::user(first, said).at(time),
        Line::assistant(first + 1, "I look.").calling("c", "look", &format!("{{\"n\":{first}}}")).at(time + 1),
        // Some results do not fit into one value of the store.
        Line::tool(first + 2, &format!("tea {first}\nboat {what}{}", " x1".repeat(if what == 4 { 3_000 } else { 0 })))
            .answering("c")
            .at(time + 2),
        Line::assistant(first + 3, &format!("Noted {first}: {said}")).at(time + 3),
    ]
}

/// What happens to a session.
#[derive(Clone, Debug)]
enum Event {
    /// A turn that this engine serves.
    Turn(u32),
    /// A turn that another engine serves; this one reads of it at its next turn.
    Missed(u32),
    /// The last turn is said again, differently: its entries leave the branch.
    Again(u32),
}

/// What goes wrong, or is merely in the way, before an event.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// The process ends; what it knew is gone.
    Restart,
    /// The batch of the commit is lost.
    Lost,
    /// The batch of the commit is written, and nobody says so.
    Unknown,
    /// A look at the session, in the middle of the turn.
    Look,
    /// The commit is given up.
    Cancelled(u64),
    /// Catching up is given up.
    CatchUpCancelled(u64),
    /// Something is asked for in another session, which takes the memory.
    Elsewhere,
}

/// The conversation as the host has it.
#[derive(Default)]
struct Host {
    branch: Vec<Line>,
    next: u64,
    turns: u64,
}

impl Host {
    fn play(&mut self, world: &World, engine: &mut Option<Engine>, event: &Event, trouble: Trouble, config: &str) {
        if let (Event::Again(_), true) = (event, self.branch.len() >= 4) {
            self.branch.truncate(self.branch.len() - 4);
        }
        let (Event::Turn(what) | Event::Missed(what) | Event::Again(what)) = event;
        let turn = turn(self.next + 10, *what);
        self.next += 10;
        self.turns += 1;
        if let Event::Missed(_) = event {
            self.branch.extend(turn);
            world.set_transcript(KEY, &self.branch);
            return;
        }
        let before = self.branch.clone();
        self.branch.extend(turn.clone());
        world.set_transcript(KEY, &self.branch);
        if let Trouble::Restart = trouble {
            drop(engine.take());
        }
        let engine = engine.get_or_insert_with(|| Engine::within::<Recall>(config, world).unwrap());
        let talk = talk(engine);
        if let Trouble::CatchUpCancelled(checks) = trouble {
            // It may also come to its end.
            let _ = talk.clone().cancelled_after(checks).bootstrap(turn[0].id);
        }
        if let Trouble::Elsewhere = trouble {
            engine.talk("other", "test:other").commit("other", &[Line::user(1, "tea elsewhere")]).unwrap();
        }
        talk.bootstrap(turn[0].id).unwrap();
        talk.assemble(&before, Some(&turn[0]), Some(4_000)).unwrap();
        if let Trouble::Look = trouble {
            talk.assemble(&self.branch, None, Some(4_000)).unwrap();
            told(&talk);
        }
        let key = self.turns.to_string();
        match trouble {
            Trouble::Lost => world.plan_batches([Some(Fault::Lost)]),
            Trouble::Unknown => world.plan_batches([Some(Fault::Unknown)]),
            Trouble::Cancelled(checks) => drop(talk.clone().cancelled_after(checks).commit(&key, &turn)),
            _ => {}
        }
        if let Trouble::Lost | Trouble::Unknown = trouble {
            talk.commit(&key, &turn).unwrap_err();
            world.plan_batches([]);
        }
        // The host offers it again until it is taken.
        let committed = talk.commit(&key, &turn).unwrap();
        if let Trouble::Unknown = trouble {
            assert_eq!(committed, commit_status::DUPLICATE);
        }
    }
}

fn events() -> impl Strategy<Value = Vec<(Event, Trouble)>> {
    let event = prop_oneof![
        4 => (0_u32..5).prop_map(Event::Turn),
        1 => (0_u32..5).prop_map(Event::Missed),
        1 => (0_u32..5).prop_map(Event::Again),
    ];
    let trouble = prop_oneof![
        2 => Just(Trouble::None),
        1 => Just(Trouble::Restart),
        1 => Just(Trouble::Lost),
        1 => Just(Trouble::Unknown),
        1 => Just(Trouble::Look),
        1 => (0_u64..3).prop_map(Trouble::Cancelled),
        1 => (1_u64..5).prop_map(Trouble::CatchUpCancelled),
        1 => Just(Trouble::Elsewhere),
    ];
    prop::collection::vec((event, trouble), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_happens_to_it_a_session_is_what_was_said(events in events(), config in prop_oneof![
        Just("{}"), Just(r#"{"memory_mb": 0}"#)
    ]) {
        let (calm, troubled) = (World::default(), World::default());
        let (mut easy, mut tried) = (Host::default(), Host::default());
        let (mut lived, mut engine) = (None, None);
        for (event, trouble) in &events {
            easy.play(&calm, &mut lived, event, Trouble::None, "{}");
            tried.play(&troubled, &mut engine, event, *trouble, config);
            if let (Some(lived), Some(engine)) = (&lived, &engine) {
                prop_assert_eq!(told(&talk(lived)), told(&talk(engine)), "after {:?}", (event, trouble));
            }
        }
        prop_assert_eq!(stored(&calm), stored(&troubled));
        let anew = self::engine(&troubled);
        talk(&anew).bootstrap(0).unwrap();
        if let Some(lived) = &lived {
            talk(lived).bootstrap(0).unwrap();
            prop_assert_eq!(told(&talk(lived)), told(&talk(&anew)));
        }
    }

    #[test]
    fn what_was_stored_can_be_lost_in_any_way(turns in 1_u32..9, at in any::<prop::sample::Index>(), how in 0_u8..5) {
        let world = World::default();
        let (mut host, mut first) = (Host::default(), None);
        for what in 0..turns {
            host.play(&world, &mut first, &Event::Turn(what), Trouble::None, "{}");
        }
        let before = told(&talk(first.as_ref().unwrap()));
        drop(first);
        let pairs = world.stored(Some(ID));
        let (key, value) = &pairs[at.index(pairs.len())];
        match how {
            0 => world.tamper(ID, key, None),
            1 => world.tamper(ID, key, Some(&value[..value.len() / 2])),
            2 => world.tamper(ID, b"m", Some(b"\x63another format")),
            3 => world.tamper(ID, b"m", None),
            _ => world.drop_scope(ID),
        }
        let engine = engine(&world);
        talk(&engine).bootstrap(0).unwrap();
        prop_assert_eq!(&told(&talk(&engine)), &before);
        drop(engine);
        let engine = self::engine(&world);
        talk(&engine).bootstrap(0).unwrap();
        prop_assert_eq!(&told(&talk(&engine)), &before, "and stays so");
    }
}

#[test]
fn a_turn_that_comes_after_a_later_one_has_the_next_number() {
    let world = World::default();
    let engine = engine(&world);
    let talk = talk(&engine);
    let (older, newer) = (turn(10, 0), turn(20, 1));
    talk.commit("b", &newer).unwrap();
    talk.commit("a", &older).unwrap();
    assert!(tool(&talk, "recall_expand", r#"{"numbers": "5"}"#).contains("Never book"));
    assert_eq!(talk.commit("c", &older).unwrap(), commit_status::COMMITTED);
    assert!(!tool(&talk, "recall_expand", r#"{"numbers": "9"}"#).contains('>'), "it is not taken in twice");
    let told = told(&talk);
    assert_eq!(self::told(&self::talk(&self::engine(&world))), told);
}

#[test]
fn what_another_engine_rewrote_is_read_anew() {
    for bootstrap in [false, true] {
        let world = World::default();
        let (mut host, mut engine) = (Host::default(), None);
        host.play(&world, &mut engine, &Event::Turn(0), Trouble::None, "{}");
        host.play(&world, &mut engine, &Event::Turn(3), Trouble::None, "{}");
        // What follows a rewritten entry has new ids, and counts as handed over.
        for line in &mut host.branch[2..] {
            line.id += 100;
        }
        host.branch[2].text = "[redacted]".to_owned();
        host.next += 200;
        world.hand_over(ID, 300);
        if bootstrap {
            host.play(&world, &mut engine, &Event::Missed(1), Trouble::None, "{}");
        }
        host.play(&world, &mut engine, &Event::Turn(2), Trouble::None, "{}");
        let engine = engine.unwrap();
        let read = tool(&talk(&engine), "recall_expand", r#"{"numbers": "1-90"}"#);
        assert_eq!(read.matches("[redacted]").count(), 1, "{bootstrap}: {read}");
        assert_eq!(read.matches("> The boat lies").count(), 2, "what was rewritten is kept, too: {read}");
    }
}

#[test]
fn of_a_deleted_session_nothing_is_left() {
    let world = World::default();
    let (mut host, mut first) = (Host::default(), None);
    for what in 0..3 {
        host.play(&world, &mut first, &Event::Turn(what), Trouble::None, "{}");
    }
    let engine = first.unwrap();
    talk(&engine).ended().unwrap();
    world.delete(ID, KEY);
    assert_eq!(world.stored_keys(), 0);
    for answer in [told(&talk(&engine)), told(&talk(&self::engine(&world)))] {
        assert!(!answer.contains("tea ") && !answer.contains("noon"), "{answer}");
    }
    assert_eq!(world.stored_keys(), 0);
}

#[test]
fn of_a_turn_that_is_not_stored_nothing_is_kept_and_its_history_can_be_searched() {
    let world = World::default();
    let engine = engine(&world);
    let talk = engine.talk("throw-away", "").ephemeral();
    let history = turn(10, 0);
    talk.assemble(&history, Some(&Line::user(0, "And now?")), Some(1_000)).unwrap();
    let found = tool(&talk, "recall_search", r#"{"mode": "regex", "query": "noon"}"#);
    assert!(found.contains("\n1 · ") && found.contains("before noon"), "{found}");
    assert!(tool(&talk, "recall_pin", r#"{"action": "list"}"#).contains("before noon"));
    talk.ingest(&Line::user(14, "And now?")).unwrap();
    talk.ended().unwrap();
    assert_eq!(world.stored_keys(), 0);
    assert!(!tool(&talk, "recall_search", r#"{"mode": "regex", "query": "noon"}"#).contains("before"));
}

#[test]
fn an_entry_that_was_only_seen_may_become_another() {
    let world = World::default();
    let engine = engine(&world);
    let talk = talk(&engine);
    talk.commit("a", &turn(10, 1)).unwrap();
    let seen = [turn(10, 1), turn(20, 0)].concat();
    talk.assemble(&seen, None, Some(1_000)).unwrap();
    let now = [turn(10, 1), turn(20, 3)].concat();
    talk.assemble(&now, None, Some(1_000)).unwrap();
    let read = tool(&talk, "recall_expand", r#"{"numbers": "1-8"}"#);
    assert!(read.contains("\n5 · ") && read.contains("The boat lies") && !read.contains("Never book"), "{read}");
}

#[test]
fn a_text_that_the_host_made_shorter_is_not_what_is_kept() {
    let world = World::default();
    let engine = engine(&world);
    let talk = talk(&engine);
    let turn = turn(10, 3);
    let mut pruned = turn.clone();
    pruned[2].text = "[pruned]".to_owned();
    // Seen before it is handed over.
    talk.assemble(&pruned, None, Some(1_000)).unwrap();
    talk.commit("a", &turn).unwrap();
    talk.assemble(&pruned, None, Some(1_000)).unwrap();
    let read = tool(&talk, "recall_expand", r#"{"numbers": 3}"#);
    assert!(read.contains("> tea 10\n> boat 3"), "{read}");
}

/// A session in which one pin was removed and another was added by the tool.
fn pinned(world: &World) -> (Host, Engine) {
    let (mut host, mut engine) = (Host::default(), None);
    for what in [0, 3, 1] {
        host.play(world, &mut engine, &Event::Turn(what), Trouble::None, "{}");
    }
    let engine = engine.unwrap();
    let talk = talk(&engine);
    let removed = tool(&talk, "recall_pin", r#"{"action": "remove", "number": 1}"#);
    assert!(removed.contains("before noon"), "{removed}");
    tool(&talk, "recall_pin", r#"{"action": "add", "text": "I drink green tea."}"#);
    (host, engine)
}

/// The history of a fork: copies under ids of the child's own.
fn copies(branch: &[Line]) -> Vec<Line> {
    branch.iter().cloned().map(|line| Line { id: line.id + 1_000, ..line }).collect()
}

fn pins(talk: &Talk<'_>) -> String {
    tool(talk, "recall_pin", r#"{"action": "list"}"#)
}

#[test]
fn a_fork_knows_what_its_parent_knew_and_an_isolated_child_nothing() {
    for restart in [false, true] {
        let world = World::default();
        let (host, mut engine) = pinned(&world);
        let parents = pins(&talk(&engine));
        if restart {
            drop(engine);
            engine = self::engine(&world);
        }
        let spawn = Spawn { child_id: "child", child_key: "test:child", fork: true };
        assert_ne!(talk(&engine).prepare_subagent(&spawn).unwrap(), 0);
        let alone = Spawn { child_id: "alone", child_key: "test:alone", fork: false };
        assert_eq!(talk(&engine).prepare_subagent(&alone).unwrap(), 0);
        if restart {
            drop(engine);
            engine = self::engine(&world);
        }
        world.set_transcript("test:child", &copies(&host.branch));
        let child = engine.talk("child", "test:child");
        child.bootstrap(0).unwrap();
        assert_eq!(pins(&child), parents);
        assert!(!parents.contains("noon") && parents.contains("green tea"), "{parents}");
        let read = |talk: &Talk<'_>| tool(talk, "recall_expand", r#"{"numbers": "1-90"}"#);
        assert_eq!(read(&child), read(&talk(&engine)));
        assert_eq!(world.stored(None), [], "nothing waits any more");

        world.set_transcript("test:alone", &[]);
        let alone = engine.talk("alone", "test:alone");
        alone.bootstrap(0).unwrap();
        assert_eq!(pins(&alone), "Nothing is pinned.\n");
        child.ended().unwrap();
        world.delete("child", "test:child");
        assert!(!pins(&child).contains("tea"));
        assert_eq!(pins(&talk(&engine)), parents, "the parent is as it was");
    }
}

#[test]
fn of_a_child_that_does_not_start_or_ends_early_nothing_is_left() {
    let world = World::default();
    let (_, engine) = pinned(&world);
    let parent = talk(&engine);
    let keys = ["test:a", "test:b", "test:c"];
    let handles: Vec<u64> = keys
        .iter()
        .map(|key| parent.prepare_subagent(&Spawn { child_id: key, child_key: key, fork: true }).unwrap())
        .collect();
    assert_eq!(world.stored(None).len(), 3);
    parent.rollback_subagent(handles[1]).unwrap();
    let left: Vec<_> = world.stored(None).into_iter().map(|(key, _)| String::from_utf8(key).unwrap()).collect();
    assert_eq!(left, ["fork/test:a", "fork/test:c"]);
    parent.subagent_ended("test:c").unwrap();
    engine.talk("test:a", "test:a").ended().unwrap();
    assert_eq!(world.stored(None), []);
}

#[test]
fn other_sessions_are_read_where_that_is_granted_and_vanish_with_them() {
    let world = World::default();
    let with = |config: &str| Engine::within::<Recall>(config, &world).unwrap();
    let all = r#"{"mode": "regex", "query": "quay", "session": "all"}"#;
    world.set_transcript(KEY, &[]);
    world.set_transcript("agent:main:harbour", &turn(10, 3));
    world.set_transcript("agent:main:tea", &turn(20, 1));
    let engine = with("{}");
    assert!(tool(&talk(&engine), "recall_search", all).contains("not switched that on"));
    let engine = with(r#"{"other_sessions": true}"#);
    let here = talk(&engine);
    assert!(here.tools().unwrap()[0].2.contains("session"));
    assert!(tool(&here, "recall_search", all).contains("must grant \"sessions\""));
    world.grant_sessions(true);
    let found = tool(&here, "recall_search", all);
    assert!(found.contains("\n1 · ") && found.contains(" · in session agent:main:harbour\n> The boat lies"), "{found}");
    let read = tool(&here, "recall_expand", r#"{"numbers": 1, "session": "agent:main:harbour"}"#);
    assert!(read.ends_with("> The boat lies at quay 7; always knock first.\n"), "{read}");
    assert!(tool(&here, "recall_expand", r#"{"numbers": 1, "session": "agent:main:moon"}"#).contains("no such other"));
    assert!(tool(&here, "recall_search", r#"{"mode": "regex", "query": "quay"}"#).contains("Nothing matches"));
    // What is said there later is found, and what is deleted there is not.
    world.set_transcript("agent:main:tea", &[turn(20, 1), turn(30, 3)].concat());
    let found = tool(&here, "recall_search", all);
    assert!(found.contains("in session agent:main:tea") && found.contains("in session agent:main:harbour"), "{found}");
    world.delete("harbour", "agent:main:harbour");
    let found = tool(&here, "recall_search", all);
    assert!(found.contains("in session agent:main:tea") && !found.contains("harbour"), "{found}");
    here.bootstrap(0).unwrap();
    assert!(!world.stored(Some(ID)).iter().any(|(_, value)| String::from_utf8_lossy(value).contains("quay")));
}
