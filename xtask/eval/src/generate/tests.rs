//! Sessions are the same for the same seed, and are what they are said to be.

use super::*;
use engineroom::transcript::Role;
use std::collections::BTreeSet;

fn options(seed: u64, entries: usize) -> Options {
    Options { seed, entries, turns: 61, instructions: 60, wording: Wording::All }
}

fn bytes(session: &Session) -> String {
    let messages = &session.recording.messages;
    messages
        .iter()
        .map(|said| format!("{:?} {:?} {}\n", said.id, said.time_ms, serde_json::to_string(&said.message).unwrap()))
        .collect()
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_seed_gives_others() {
    let one = Session::make(&options(7, 300));
    assert_eq!(bytes(&one), bytes(&Session::make(&options(7, 300))));
    assert_ne!(bytes(&one), bytes(&Session::make(&options(8, 300))));
    assert_ne!(one.instructions, Session::make(&options(8, 300)).instructions);
}

#[test]
fn a_longer_session_begins_with_the_shorter() {
    let (short, long) = (Session::make(&options(3, 200)), Session::make(&options(3, 500)));
    assert_eq!(short.recording.messages[..], long.recording.messages[..short.recording.messages.len()]);
}

#[test]
fn tool_results_have_their_share_of_the_tokens() {
    for seed in 0..20 {
        let session = Session::make(&options(seed, 700));
        let share = session.tool_share();
        assert!((0.51..=0.55).contains(&share), "seed {seed}: {share}");
        assert!(session.loops.iter().all(|calls| *calls <= 40), "seed {seed}");
        assert!(session.loops.contains(&1) && session.loops.iter().any(|calls| *calls > 8), "seed {seed}");
    }
}

#[test]
fn pairs_are_whole_and_ids_and_times_rise() {
    let session = Session::make(&options(11, 600));
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut last = 0;
    for (at, said) in session.recording.messages.iter().enumerate() {
        assert_eq!(said.id.as_deref(), Some(format!("e{}", at + 1).as_str()));
        assert!(said.time_ms.unwrap() > last);
        last = said.time_ms.unwrap();
        match said.message.role {
            Role::Tool => assert!(
                open.remove(said.message.tool_call_id.as_ref().unwrap()),
                "answers a call of the message before"
            ),
            _ => assert!(open.is_empty(), "all calls are answered first"),
        }
        open.extend(said.message.tool_calls.iter().map(|call| call.id.clone()));
    }
    assert!(open.is_empty());
    let turns: Vec<usize> = (0..session.recording.messages.len())
        .filter(|at| session.recording.messages[*at].message.role == Role::User)
        .collect();
    assert_eq!(turns, session.turns);
}

#[test]
fn instructions_are_unique_and_stand_in_their_turns() {
    for wording in [Wording::All, Wording::Open, Wording::HeldOut] {
        for seed in 0..10 {
            let session = Session::make(&Options { wording, turns: 61, ..options(seed, 100) });
            let texts: BTreeSet<&str> = session.instructions.iter().map(|one| one.text.as_str()).collect();
            assert_eq!((session.instructions.len(), texts.len()), (60, 60));
            for one in &session.instructions {
                let said = session.recording.messages[session.turns[one.turn]].message.text();
                assert!(said.contains(&one.text), "{} is not in {said}", one.text);
                assert!(one.turn < 60);
                assert!(!one.text.contains(['{', '|']), "{}", one.text);
            }
            let languages: BTreeSet<&str> = session.instructions.iter().map(|one| one.language).collect();
            let places: BTreeSet<Place> = session.instructions.iter().map(|one| one.place).collect();
            assert_eq!(languages.len(), 3);
            assert!(places.len() >= 4, "{places:?}");
        }
    }
}

#[test]
fn no_phrase_has_an_open_choice() {
    for seed in 0..30 {
        let session = Session::make(&options(seed, 150));
        for said in &session.recording.messages {
            if said.message.role == Role::User {
                let text = said.message.text();
                assert!(!["{noun}", "{name}", "{0}", "{file}", "(|"].iter().any(|slot| text.contains(slot)), "{text}");
            }
        }
    }
}
