//! Each kind of invalid result, and what is not one.

use super::fake::*;
use super::scene::*;
use crate::slot::*;
use engine_abi::wire::{status, *};

/// Lets an engine answer `assemble` by `act`; its result on [`conversation`], or the reason of the quarantine.
async fn answer(act: impl Fn(&Called<'_>) -> u32 + Send + Sync + 'static) -> Result<Vec<Item>, String> {
    answer_to(conversation(), act).await
}

async fn answer_to(
    input: AssembleInput,
    act: impl Fn(&Called<'_>) -> u32 + Send + Sync + 'static,
) -> Result<Vec<Item>, String> {
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, act));
    let lease = lease(&bench.slot);
    let result = lease.engine().segment(context(), move |segment| segment.assemble(&input)).await.unwrap();
    match result {
        Ok(output) => {
            assert!(lease.engine().in_service());
            Ok(output.items)
        }
        Err(failure) => {
            assert_eq!(
                (failure.kind, failure.code),
                (FailureKind::InvalidResult, DegradedCode::InvalidResult),
                "{failure}"
            );
            assert!(failure.quarantined);
            Err(failure.reason)
        }
    }
}

/// The answer is invalid for a reason that holds `word`.
async fn check(word: &str, act: impl Fn(&Called<'_>) -> u32 + Send + Sync + 'static) {
    let reason = answer(act).await.unwrap_err();
    assert!(reason.contains(word), "{word:?} is not in {reason:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_resolve_to_places_in_the_view_and_messages_stand_between_them() {
    let items = answer(|called| {
        called.span(10, 10);
        called.message(role::USER, Str::new("a note"), Str::NONE, &[]);
        called.span(20, 40);
        called.assembled()
    });
    let items = items.await.unwrap();
    assert_eq!(items[0], Item::Span { start: 0, end: 1 });
    assert!(matches!(&items[1], Item::Message(message) if message.text() == "a note"));
    assert_eq!(items[2..], [Item::Span { start: 1, end: 4 }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_may_place_the_current_turn_once() {
    let placed = answer(|called| {
        called.span(10, 40);
        called.span(50, 50);
        called.message(role::USER, Str::new("after"), Str::NONE, &[]);
        called.assembled()
    });
    let placed = placed.await.unwrap();
    assert_eq!(placed[..2], [Item::Span { start: 0, end: 4 }, Item::CurrentTurn]);
    let in_one = answer(|called| {
        called.span(10, 50);
        called.assembled()
    });
    assert_eq!(in_one.await.unwrap(), [Item::Span { start: 0, end: 4 }, Item::CurrentTurn]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_at_all_is_a_valid_prompt() {
    assert_eq!(answer(|c| c.assembled()).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_out_of_range_or_order_are_invalid() {
    check("not in the history", |c| c.span(15, 40) | c.assembled()).await;
    check("not in the history", |c| c.span(10, 45) | c.assembled()).await;
    check("not in the history", |c| c.span(60, 60) | c.assembled()).await;
    check("runs backwards", |c| c.span(40, 10) | c.assembled()).await;
    check("goes back", |c| c.span(20, 40) | c.span(10, 10) | c.assembled()).await;
    check("goes back", |c| c.span(10, 40) | c.span(40, 40) | c.assembled()).await;
    check("goes back", |c| c.span(50, 50) | c.span(10, 40) | c.assembled()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_current_turn_twice_is_invalid() {
    check("more than once", |c| c.span(50, 50) | c.span(50, 50) | c.assembled()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn split_tool_pairs_are_invalid() {
    check("\"c1\" is shown without its result", |c| c.span(10, 20) | c.assembled()).await;
    check("\"c1\" is shown without its call", |c| c.span(30, 40) | c.assembled()).await;
    check("\"c1\" is shown without its result", |c| {
        c.span(10, 20);
        c.message(role::USER, Str::new("between"), Str::NONE, &[]);
        c.span(30, 40);
        c.assembled()
    })
    .await;
    check("\"x\" is shown without its call", |c| {
        c.message(role::TOOL, Str::new("r"), Str::new("x"), &[]);
        c.assembled()
    })
    .await;
    check("\"x\" is shown without its result", |c| {
        let call = ToolCallV1 { id: Str::new("x"), name: Str::new("t"), arguments: Str::new("{}") };
        c.message(role::ASSISTANT, Str::NONE, Str::NONE, &[call]);
        c.assembled()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_pairs_are_valid_in_pieces_and_as_the_engines_own() {
    let pieces = answer(|c| {
        c.span(10, 20);
        c.span(30, 40);
        c.assembled()
    });
    assert_eq!(pieces.await.unwrap().len(), 2);
    let own = answer(|c| {
        let call = ToolCallV1 { id: Str::new("x"), name: Str::new("t"), arguments: Str::new("{}") };
        c.message(role::ASSISTANT, Str::NONE, Str::NONE, &[call]);
        c.message(role::TOOL, Str::new("r"), Str::new("x"), &[]);
        c.span(10, 20);
        c.message(role::TOOL, Str::new("shorter"), Str::new("c1"), &[]);
        c.span(40, 40);
        c.assembled()
    });
    assert_eq!(own.await.unwrap().len(), 5, "an engine may replace a result");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_current_turn_of_tool_results_needs_its_calls() {
    let input = || {
        let mut input = conversation();
        input.view = view(vec![user("a"), calls("c1"), answers("c1")]);
        input.len = 2;
        input.prompt = None;
        input
    };
    let kept = answer_to(input(), |c| c.span(10, 20) | c.assembled());
    assert_eq!(kept.await.unwrap(), [Item::Span { start: 0, end: 2 }]);
    let cut = answer_to(input(), |c| c.span(10, 10) | c.assembled());
    assert!(cut.await.unwrap_err().contains("without its call"));
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_not_utf8_are_invalid_although_the_engine_ignores_the_refusal() {
    static BAD: [u8; 2] = [0xff, 0xfe];
    fn bad() -> Str {
        Str { ptr: BAD.as_ptr(), len: BAD.len() }
    }
    check("not UTF-8", |c| {
        assert_eq!(c.message(role::USER, bad(), Str::NONE, &[]), status::INVALID);
        c.assembled()
    })
    .await;
    check("systemPromptAddition is not UTF-8", |c| {
        c.assembled_with(AssembleResultV1 { system_prompt_addition: bad(), ..ASSEMBLED });
        status::OK
    })
    .await;
    check("at most", |c| {
        let huge = Str { ptr: BAD.as_ptr(), len: usize::MAX };
        c.assembled_with(AssembleResultV1 { volatile_prompt_addition: huge, ..ASSEMBLED });
        status::OK
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_codes_and_roles_are_invalid() {
    check("unknown role 7", |c| {
        c.message(7, Str::new("system?"), Str::NONE, &[]);
        c.assembled()
    })
    .await;
    check("promptAuthority", |c| {
        c.assembled_with(AssembleResultV1 { prompt_authority: 9, ..ASSEMBLED });
        status::OK
    })
    .await;
    check("contextProjection.mode", |c| {
        c.assembled_with(AssembleResultV1 { projection_mode: 9, ..ASSEMBLED });
        status::OK
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_owed_is_missed() {
    check("owes", |_| status::OK).await;
    check("owes", |c| c.span(10, 40)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_does_not_belong_to_the_hook_is_refused_and_changes_nothing() {
    let items = answer(|c| {
        let commit = CommitResultV1 { status: commit_status::COMMITTED, reserved: 0 };
        assert_eq!((c.sink().commit)(c.call.frame, &raw const commit), status::INVALID);
        c.assembled()
    });
    assert!(items.await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_committed_or_duplicate() {
    for (code, expected) in
        [(1, Ok(CommitStatus::Committed)), (2, Ok(CommitStatus::Duplicate)), (3, Err(())), (0, Err(()))]
    {
        let commits =
            move |c: &Called<'_>| (c.sink().commit)(c.call.frame, &CommitResultV1 { status: code, reserved: 0 });
        let (bench, _) = serving(Fake::new().on(Hook::CommitTurn, commits));
        let input = CommitInput {
            advancement_key: "k".into(),
            logical_turn_id: "t".into(),
            admission: Anchor::default(),
            terminal: Anchor::default(),
            entries: Vec::new(),
        };
        let result = lease(&bench.slot).engine().segment(context(), move |s| s.commit_turn(&input)).await.unwrap();
        match (result, expected) {
            (Ok(status), Ok(expected)) => assert_eq!(status, Some(expected)),
            (Err(failure), Err(())) => assert_eq!(failure.kind, FailureKind::InvalidResult),
            (result, expected) => panic!("status {code}: {result:?}, expected {expected:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_keeps_from_an_entry_that_it_was_shown() {
    for (kept, valid) in [(0, true), (20, true), (25, false)] {
        let (bench, _) = serving(Fake::new().on(Hook::Compact, move |c| compacted(c, kept)));
        let result = lease(&bench.slot).engine().segment(context(), |s| s.compact(&compact_args())).await.unwrap();
        assert_eq!(result.is_ok(), valid, "{kept}: {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_checked_one_by_one() {
    fn give(c: &Called<'_>, name: &'static str, parameters: &'static str) -> u32 {
        let tool = ToolV1 { name: Str::new(name), description: Str::new("d"), parameters_json: Str::new(parameters) };
        (c.sink().tool)(c.call.frame, &raw const tool)
    }
    for (tools, valid) in [
        (&[("a", "{}"), ("b-1", "{\"type\":\"object\"}")][..], true),
        (&[("not a name", "{}")], false),
        (&[("a", "[]")], false),
        (&[("a", "{")], false),
        (&[("a", "{}"), ("a", "{}")], false),
    ] {
        let gives = move |c: &Called<'_>| {
            for (name, parameters) in tools {
                give(c, name, parameters);
            }
            status::OK
        };
        let (bench, _) = serving(Fake::new().on(Hook::Tools, gives));
        let result = lease(&bench.slot).engine().segment(context(), Segment::tools).await.unwrap();
        assert_eq!(result.is_ok(), valid, "{tools:?}: {result:?}");
    }
}
