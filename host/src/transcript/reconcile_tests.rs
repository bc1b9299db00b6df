use super::*;
use crate::transcript::branch::tests::entry;
use crate::transcript::{Branch, CompactionBody};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A branch from a sketch such as `U1 A1 c i(A2) A3`: `c` a compaction, `i(…)` made inside the gateway. Ids count from 1.
fn branch(sketch: &str) -> Vec<Arc<Entry>> {
    let mut out: Vec<Arc<Entry>> = Vec::new();
    for (at, word) in sketch.split_whitespace().enumerate() {
        let id = at as u64 + 1;
        let text = word.trim_start_matches("i(").trim_end_matches(')');
        let mut made = Entry::clone(&entry(id, id - 1, role_of(text), text));
        if word == "c" {
            made.digest = 0;
            made.body = EntryBody::Compaction(CompactionBody {
                summary: "s".into(),
                first_kept: 1,
                tokens_before: 2,
                tokens_after: 1,
                trigger: "budget".into(),
                by: "builtin".into(),
            });
        } else if word.starts_with("i(") {
            made.flags |= stored_flags::INTERNAL;
        }
        out.push(Arc::new(made));
    }
    out
}

fn role_of(word: &str) -> Role {
    match word.chars().next() {
        Some('A') => Role::Assistant,
        Some('T') => Role::Tool,
        _ => Role::User,
    }
}

fn client(sketch: &str) -> Vec<Message> {
    sketch.split_whitespace().map(|word| Message::text_of(role_of(word), word)).collect()
}

fn check(stored: &str, sent: &str, kind: Kind, keep: usize, branch_at: EntryId) {
    let client = client(sent);
    let found = reconcile(&branch(stored), &client);
    let append_from = if kind == Kind::Same { client.len() } else { keep };
    assert_eq!(found, Reconciled { kind, keep, branch_at, append_from }, "{stored} | {sent}");
}

#[test]
fn the_same_prefix_appends_the_rest() {
    check("", "U1", Kind::Append, 0, 0);
    check("", "U1 A1 U2", Kind::Append, 0, 0);
    check("U1 A1", "U1 A1 U2", Kind::Append, 2, 2);
    check("U1 A1 c", "U1 A1 U2", Kind::Append, 2, 3);
    check("U1", "U1 U2", Kind::Append, 1, 1);
    check("U1 A1", "U1 A1 T1", Kind::Append, 2, 2);
    check("U1 i(A1) i(T1) A2", "U1 A2 U2", Kind::Append, 2, 4);
}

#[test]
fn a_shorter_or_edited_prefix_branches_there() {
    check("U1 A1 U2 A2", "U1 A1 U2x", Kind::Branch, 2, 2);
    check("U1 A1 U2 A2", "U1x", Kind::Branch, 0, 0);
    check("U1 A1 U2 A2", "U1 A1", Kind::Branch, 2, 2);
    check("U1 A1 U2 A2", "U1", Kind::Branch, 1, 1);
    check("U1 A1 U2 A2", "U1 A1x U2 A2 U3", Kind::Branch, 1, 1);
    check("U1 A1 U2 A2", "", Kind::Branch, 0, 0);
}

#[test]
fn without_the_last_reply_it_is_made_anew() {
    check("U1 A1 U2 A2", "U1 A1 U2", Kind::Regenerate, 3, 3);
    check("U1 A1", "U1", Kind::Regenerate, 1, 1);
    check("U1 A1 T1 A2", "U1 A1 T1", Kind::Regenerate, 3, 3);
    check("U1 A1 T1 A2", "U1", Kind::Regenerate, 1, 1);
    check("U1 i(A1) i(T1) A2", "U1", Kind::Regenerate, 1, 1);
    // Only an assistant message left off behind another one: nobody asks for anything.
    check("U1 A1 A2", "U1 A1", Kind::Branch, 2, 2);
}

#[test]
fn an_equal_history_asks_for_the_last_reply_again() {
    check("U1 A1", "U1 A1", Kind::Same, 1, 1);
    check("U1 A1 U2", "U1 A1 U2", Kind::Same, 3, 3);
    check("U1 A1 T1 A2", "U1 A1 T1 A2", Kind::Same, 3, 3);
    check("U1 i(A1) i(T1) A2", "U1 A2", Kind::Same, 1, 1);
    check("U1 i(A1) i(T1)", "U1", Kind::Same, 1, 1);
    check("", "", Kind::Same, 0, 0);
    check("A1", "A1", Kind::Same, 0, 0);
}

#[test]
fn compactions_are_skipped_and_stay_before_what_branches() {
    check("U1 A1 c U2 A2", "U1 A1 U2 A2 U3", Kind::Append, 4, 5);
    check("U1 A1 c U2 A2", "U1 A1 U2x", Kind::Branch, 2, 3);
    check("U1 A1 c U2 A2", "U1 A1x", Kind::Branch, 1, 1);
    check("U1 c A1", "U1", Kind::Regenerate, 1, 2);
    check("U1 c A1", "U1 A1", Kind::Same, 1, 2);
    check("U1 c i(A1) i(T1) c A2", "U1", Kind::Regenerate, 1, 2);
    check("c U1 A1", "U1x", Kind::Branch, 0, 1);
}

#[test]
fn one_user_message_alone_is_a_delta() {
    assert!(!is_full_history(&client("U1")));
    assert!(!is_full_history(&[]));
    assert!(is_full_history(&client("U1 U2")));
    assert!(is_full_history(&client("A1")));
    assert!(is_full_history(&client("T1")));
    assert!(is_full_history(&client("U1 A1 U2")));
}

/// A session as the turn keeps it: the active branch, and every entry that was ever written.
#[derive(Default)]
struct Session {
    branch: Branch,
    written: BTreeMap<EntryId, Arc<Entry>>,
}

impl Session {
    fn push(&mut self, message: &Message) {
        let id = self.written.len() as u64 + 1;
        let made = entry(id, self.branch.head(), message.role, &message.text());
        assert!(self.branch.push(Arc::clone(&made)));
        self.written.insert(id, made);
    }

    /// One turn by full history, answered with `answer`; what the client then holds.
    fn turn(&mut self, mut history: Vec<Message>, answer: &str) -> Vec<Message> {
        let found = reconcile(self.branch.entries(), &history);
        if found.branch_at != self.branch.head() {
            assert!(self.branch.branch_at(found.branch_at));
        }
        for message in &history[found.append_from..] {
            self.push(message);
        }
        if found.kind == Kind::Same {
            history.truncate(found.keep);
        }
        let answer = Message::text_of(Role::Assistant, answer);
        self.push(&answer);
        history.push(answer);
        history
    }

    fn shows(&self) -> Vec<u128> {
        self.branch.entries().iter().filter(|entry| is_shown(entry)).map(|entry| entry.digest).collect()
    }

    fn heads(&self) -> usize {
        self.written.keys().filter(|id| !self.written.values().any(|entry| entry.parent == **id)).count()
    }
}

fn user(text: impl Into<String>) -> Message {
    Message::text_of(Role::User, text)
}

#[test]
fn thirty_full_histories_leave_sixty_entries_and_one_edit_leaves_two_branches() {
    let mut session = Session::default();
    let mut history = Vec::new();
    for turn in 0..30 {
        // The same words every time: position counts, not only text.
        history.push(user("go on"));
        history = session.turn(history, if turn % 2 == 0 { "yes" } else { "no" });
    }
    assert_eq!((session.written.len(), session.heads()), (60, 1));
    history.truncate(20);
    history.push(user("go back"));
    session.turn(history, "well");
    assert_eq!((session.written.len(), session.heads()), (62, 2));
    assert_eq!(session.branch.len(), 22);
}

#[derive(Debug, Clone)]
enum Step {
    Say(u8),
    Regenerate,
    Repeat,
    Edit { at: usize, text: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => any::<u8>().prop_map(Step::Say),
        1 => Just(Step::Regenerate),
        1 => Just(Step::Repeat),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(at, text)| Step::Edit { at, text }),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn any_number_of_full_histories_leaves_two_entries_a_turn(texts in proptest::collection::vec(("[ab]{0,2}", "[ab]{0,2}"), 1..40)) {
        let mut session = Session::default();
        let mut history = Vec::new();
        for (ask, answer) in &texts {
            history.push(user(ask.as_str()));
            history = session.turn(history, answer);
        }
        prop_assert_eq!(session.written.len(), texts.len() * 2);
        prop_assert_eq!(session.heads(), 1);
    }

    #[test]
    fn one_edit_anywhere_leaves_two_branches(turns in 1usize..20, at in any::<usize>()) {
        let mut session = Session::default();
        let mut history = Vec::new();
        for turn in 0..turns {
            history.push(user(format!("ask {turn}")));
            history = session.turn(history, "answer");
        }
        let at = (at % turns) * 2;
        history.truncate(at);
        history.push(user("edited"));
        session.turn(history, "answer");
        prop_assert_eq!(session.heads(), 2);
        prop_assert_eq!(session.written.len(), turns * 2 + 2);
    }

    /// Whatever a client does, the active branch is what it holds, and nothing that was written is lost or written twice.
    #[test]
    fn the_active_branch_is_always_what_the_client_holds(steps in steps()) {
        let mut session = Session::default();
        let mut history: Vec<Message> = vec![user("first")];
        history = session.turn(history, "hello");
        let mut answers = 0u32;
        for step in steps {
            let before = session.written.len();
            let mut sent = history.clone();
            let new = match step {
                Step::Say(text) => {
                    sent.push(user(format!("{text}")));
                    2
                }
                Step::Regenerate => {
                    sent.pop();
                    1
                }
                Step::Repeat => 1,
                Step::Edit { at, text } => {
                    let users: Vec<usize> = (0..sent.len()).filter(|i| sent[*i].role == Role::User).collect();
                    let at = users[at % users.len()];
                    sent.truncate(at);
                    sent.push(user(format!("edit {before} {text}")));
                    2
                }
            };
            answers += 1;
            history = session.turn(sent, &format!("answer {answers}"));
            prop_assert_eq!(session.written.len(), before + new);
            let held: Vec<u128> = history.iter().map(Message::digest).collect();
            prop_assert_eq!(session.shows(), held);
        }
    }
}

/// A branch and a client's history in JSON; `"internal": true` marks the gateway's own messages.
fn check_json(stored: serde_json::Value, sent: serde_json::Value, keep: usize, branch_at: EntryId) {
    let entries: Vec<Arc<Entry>> = stored
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(at, value)| {
            let mut value = value.clone();
            let internal = value.as_object_mut().unwrap().remove("internal").is_some();
            let message: Message = serde_json::from_value(value).unwrap();
            let mut made = Entry::clone(&entry(at as u64 + 1, at as u64, message.role, ""));
            made.flags = if internal { stored_flags::INTERNAL } else { 0 };
            made.digest = message.digest();
            made.body = EntryBody::Message(Arc::new(message));
            Arc::new(made)
        })
        .collect();
    let client: Vec<Message> = serde_json::from_value(sent.clone()).unwrap();
    let found = reconcile(&entries, &client);
    assert_eq!((found.keep, found.branch_at), (keep, branch_at), "{stored} | {sent}");
}

#[test]
fn an_answer_of_several_steps_is_compared_as_the_client_got_it() {
    use serde_json::json;
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": id, "arguments": "{}"}});
    let user = json!({"role": "user", "content": "U"});
    let stored = json!([
        user,
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call("a")], "internal": true},
        {"role": "tool", "tool_call_id": "a", "content": "r", "internal": true},
        {"role": "assistant", "content": "It is so."},
    ]);
    let next = json!({"role": "user", "content": "V"});
    check_json(stored.clone(), json!([user, {"role": "assistant", "content": "Let me see.\n\nIt is so."}, next]), 2, 4);
    check_json(stored.clone(), json!([user, {"role": "assistant", "content": "It is so."}, next]), 2, 4);
    check_json(stored, json!([user, {"role": "assistant", "content": "It is not so."}, next]), 1, 1);
}

#[test]
fn a_message_with_calls_of_both_sides_is_known_by_the_clients_calls() {
    use serde_json::json;
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": id, "arguments": "{}"}});
    let user = json!({"role": "user", "content": "U"});
    let stored = json!([
        user,
        {"role": "assistant", "content": "x", "tool_calls": [call("ours"), call("theirs")]},
        {"role": "tool", "tool_call_id": "ours", "content": "r", "internal": true},
    ]);
    let answered = json!({"role": "assistant", "content": "x", "tool_calls": [call("theirs")]});
    let result = json!({"role": "tool", "tool_call_id": "theirs", "content": "s"});
    check_json(stored.clone(), json!([user, answered, result]), 2, 3);
    let mut longer = stored;
    longer.as_array_mut().unwrap().push(result.clone());
    longer.as_array_mut().unwrap().push(json!({"role": "assistant", "content": "done"}));
    check_json(longer.clone(), json!([user, answered, result]), 3, 4);
    // The client leaves its result off: the gateway's own stays with its call.
    check_json(longer, json!([user, answered, {"role": "user", "content": "W"}]), 2, 3);
}
