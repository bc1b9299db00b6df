//! Sessions through the engine's function table, over a store that fails and in instances that come and go.
//!
//! What a model reads of a session is compared with what it reads from an engine that lived through the same conversation without
//! any trouble.

use crate::Recall;
use engine_abi::testing::{Engine, Fault, Line, Talk, World};
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
        Line::tool(first + 2, &format!("tea {first}\nboat {what}")).answering("c").at(time + 2),
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
    #![proptest_config(ProptestConfig::with_cases(40))]

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
    assert!(found.contains("#1") && found.contains("before noon"), "{found}");
    assert!(tool(&talk, "recall_pin", r#"{"action": "list"}"#).contains("before noon"));
    talk.ingest(&Line::user(14, "And now?")).unwrap();
    talk.ended().unwrap();
    assert_eq!(world.stored_keys(), 0);
    assert!(!tool(&talk, "recall_search", r#"{"mode": "regex", "query": "noon"}"#).contains("before"));
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
