use super::*;
use crate::transcript::branch::tests::entry;
use crate::transcript::{CompactionBody, stored_flags};

fn record() -> SessionRecord {
    SessionRecord::new(1, "a", 0)
}

/// U1 A2 C3 U4 A5 U6, where C3 is a compaction.
fn branch() -> Branch {
    let mut branch = Branch::default();
    for id in 1..=6 {
        let parent = id - 1;
        let role = if id % 2 == 1 { Role::Assistant } else { Role::User };
        let next = match id {
            3 => {
                let body = CompactionBody {
                    summary: "s".into(),
                    first_kept: 2,
                    tokens_before: 1,
                    tokens_after: 1,
                    trigger: "budget".into(),
                    by: "builtin".into(),
                };
                Arc::new(Entry { body: EntryBody::Compaction(body), ..Entry::clone(&entry(3, 2, Role::User, "")) })
            }
            1 => entry(1, 0, Role::User, "text 1"),
            2 => entry(2, 1, Role::Assistant, "text 2"),
            _ => entry(id, parent, role, &format!("text {id}")),
        };
        assert!(branch.push(next));
    }
    branch
}

fn page_of(record: &SessionRecord, branch: &Branch, request: Request<'_>) -> Page {
    match read(record, branch, &request).unwrap() {
        Outcome::Page(page) => page,
        other @ Outcome::Reset { .. } => panic!("{other:?}"),
    }
}

fn ids(page: &Page) -> Vec<EntryId> {
    page.entries.iter().map(|entry| entry.id).collect()
}

#[test]
fn pages_give_every_message_once_in_order_and_end_quietly() {
    let (record, mut branch) = (record(), branch());
    let mut cursor: Option<String> = None;
    let mut seen = Vec::new();
    loop {
        let page =
            page_of(&record, &branch, Request { cursor: cursor.as_deref(), max_messages: 2, ..Default::default() });
        seen.extend(ids(&page));
        cursor = Some(page.cursor);
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen, [1, 2, 4, 5, 6]);
    let request = || Request { cursor: cursor.as_deref(), ..Default::default() };
    let page = page_of(&record, &branch, request());
    assert!(page.entries.is_empty() && !page.has_more);
    assert_eq!(Some(&page.cursor), cursor.as_ref());
    assert!(branch.push(entry(9, 6, Role::Assistant, "new")));
    assert_eq!(ids(&page_of(&record, &branch, request())), [9], "only what is new");
}

#[test]
fn a_page_keeps_its_byte_limit_and_says_what_a_large_message_needs() {
    let (record, mut branch) = (record(), branch());
    let one = serde_json::to_string(&Message::text_of(Role::User, "text 1")).unwrap().len();
    let page = page_of(&record, &branch, Request { max_bytes: one, ..Default::default() });
    assert_eq!((ids(&page), page.has_more, page.serialized_bytes, page.required_bytes), (vec![1], true, one, None));
    assert!(branch.push(entry(8, 6, Role::Assistant, &"x".repeat(5000))));
    let cursor = behind(&record, &branch, 6);
    let page = page_of(&record, &branch, Request { cursor: Some(&cursor), max_bytes: 100, ..Default::default() });
    assert!(page.entries.is_empty() && page.has_more);
    let needs = page.required_bytes.unwrap();
    assert!(needs > 5000);
    assert_eq!(page.cursor, cursor, "the cursor stands still");
    let page = page_of(&record, &branch, Request { cursor: Some(&cursor), max_bytes: needs, ..Default::default() });
    assert_eq!((ids(&page), page.has_more), (vec![8], false));
}

#[test]
fn limits_have_defaults_and_caps() {
    let record = record();
    let mut branch = Branch::default();
    for id in 1..=12_000 {
        assert!(branch.push(entry(id, id - 1, Role::User, "")));
    }
    let size =
        |max_messages| page_of(&record, &branch, Request { max_messages, max_bytes: MAX_BYTES, ..Default::default() });
    assert_eq!(size(0).entries.len(), DEFAULT_MESSAGES);
    assert_eq!(size(usize::MAX).entries.len(), MAX_MESSAGES);
    assert!(size(usize::MAX).has_more);
    let by_bytes = |max_bytes| {
        let mut branch = Branch::default();
        for id in 1..=70 {
            assert!(branch.push(entry(id, id - 1, Role::User, &"x".repeat(1 << 20))));
        }
        page_of(&record, &branch, Request { max_messages: 10_000, max_bytes, ..Default::default() })
    };
    assert_eq!(by_bytes(0).required_bytes.map(|bytes| bytes > DEFAULT_BYTES), Some(true));
    assert_eq!(by_bytes(usize::MAX).entries.len(), 63, "64 MiB, less what the JSON around each text takes");
}

#[test]
fn what_a_cursor_says_is_checked_and_resets_with_a_reason() {
    let (record, branch) = (record(), branch());
    let reset = |record: &SessionRecord, branch: &Branch, cursor: &str| match read(
        record,
        branch,
        &Request { cursor: Some(cursor), ..Default::default() },
    )
    .unwrap()
    {
        Outcome::Reset { cursor, reason } => {
            assert_eq!(
                ids(&page_of(record, branch, Request { cursor: Some(&cursor), ..Default::default() })).first(),
                branch.entries().first().map(|e| &e.id)
            );
            Some(reason)
        }
        Outcome::Page(_) => None,
    };
    let cursor = behind(&record, &branch, 5);
    assert_eq!(reset(&record, &branch, &cursor), None);
    for bad in ["", "c1", "c2.1.1.1.1", "c1.x.1.1.1", &format!("{cursor}.1"), "c1.1.1.0.4", "ü"] {
        assert_eq!(reset(&record, &branch, bad), Some(ResetReason::InvalidCursor), "{bad}");
    }
    let other = SessionRecord::new(1, "a", 0);
    assert_eq!(reset(&other, &branch, &cursor), Some(ResetReason::ScopeMismatch));
    let rewritten = SessionRecord { generation: record.generation + 1, ..record.clone() };
    assert_eq!(reset(&rewritten, &branch, &cursor), Some(ResetReason::GenerationMismatch));
    let mut shorter = branch.clone();
    assert!(shorter.branch_at(4));
    assert_eq!(reset(&record, &shorter, &cursor), Some(ResetReason::AnchorMissing));
    let moved = cursor.replace(".5.5", ".5.4");
    assert_ne!(moved, cursor);
    assert_eq!(reset(&record, &branch, &moved), Some(ResetReason::AnchorMoved));
}

#[test]
fn the_current_turn_is_fenced() {
    let (record, branch) = (record(), branch());
    let fenced = |cursor| Request { cursor, fence: Some(6), ..Default::default() };
    let page = page_of(&record, &branch, fenced(None));
    assert_eq!((ids(&page), page.has_more), (vec![1, 2, 4, 5], false));
    let at_the_fence = page_of(&record, &branch, fenced(Some(&page.cursor)));
    assert!(at_the_fence.entries.is_empty());
    let crossed = behind(&record, &branch, 6);
    assert_eq!(read(&record, &branch, &fenced(Some(&crossed))), Err(FenceError::Crossed { fence: 6 }));
    let fence = |fence| read(&record, &branch, &Request { fence: Some(fence), ..Default::default() });
    assert_eq!(fence(7), Err(FenceError::Missing { fence: 7 }));
    assert_eq!(fence(5), Err(FenceError::NotUser { fence: 5 }));
    assert_eq!(fence(3), Err(FenceError::NotUser { fence: 3 }));
}

#[test]
fn messages_made_inside_the_gateway_are_visible_to_engines() {
    let (record, mut branch) = (record(), branch());
    let internal = Entry { flags: stored_flags::INTERNAL, ..Entry::clone(&entry(7, 6, Role::Assistant, "call")) };
    assert!(branch.push(Arc::new(internal)));
    let cursor = behind(&record, &branch, 6);
    assert_eq!(ids(&page_of(&record, &branch, Request { cursor: Some(&cursor), ..Default::default() })), [7]);
    assert_eq!(behind(&record, &branch, 99), behind(&record, &branch, 0), "what is not on the branch starts over");
}
