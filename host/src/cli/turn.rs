//! `turn`: one message, one answer.

use super::args::TurnArgs;
use super::context::Context;
use super::error::{CliError, Verdict};
use super::say::{Ask, say};
use std::io::Read;

pub(super) async fn run(context: &Context, args: TurnArgs) -> Result<Verdict, CliError> {
    let text = match args.text.as_slice() {
        [dash] if dash == "-" => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|source| CliError::Read { path: "standard input".into(), source })?;
            text
        }
        words => words.join(" "),
    };
    if text.trim().is_empty() {
        return Err(CliError::Usage("the message is empty".into()));
    }
    if args.session.as_deref().is_some_and(|key| key.trim().is_empty()) {
        return Err(CliError::Usage(
            "the session's key is empty; leave --session out for a turn that nothing is stored of".into(),
        ));
    }
    let out = context.out;
    let house = context.open().await?;
    let ask = Ask {
        model: context.model_name(args.model, args.session.as_deref()),
        session: args.session,
        system: args.system,
        text,
        idempotency_key: args.idempotency_key,
    };
    let outcome = say(&house.door, &ask, &mut |piece| {
        if !out.is_json() {
            out.piece(piece);
        }
    })
    .await;
    // The line of the answer is ended before anything else is said about it, an error included.
    if !out.is_json() {
        out.piece("\n");
    }
    let outcome = outcome.map(|said| {
        if out.is_json() {
            out.document(&said);
        } else if !said.tool_calls.is_empty() {
            out.document(&said.tool_calls);
        }
        match &said.degraded {
            Some(_) => out.warn(&said.served()),
            None if !out.is_json() => out.aside(&said.served()),
            None => {}
        }
    });
    house.close().await;
    outcome.map(|()| Verdict::Well)
}
