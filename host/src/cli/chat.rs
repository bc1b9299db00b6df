//! `chat`: a conversation at the terminal, streamed.

use super::args::ChatArgs;
use super::context::{Context, House};
use super::door::segment;
use super::error::{CliError, Verdict};
use super::out::{Tone, count};
use super::say::{Ask, say};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use serde_json::{Value, json};

const HELP: &str = "/engine  who serves     /context  what the model would see now     /compact [FOCUS]  summarise the older part\n\
                    /session KEY  another session     /quit  leave (also Ctrl-D)     Ctrl-C  stop an answer";

pub(super) async fn run(context: &Context, args: ChatArgs) -> Result<Verdict, CliError> {
    let house = context.open().await?;
    let outcome = talk(context, &house, args).await;
    house.close().await;
    outcome.map(|()| Verdict::Well)
}

async fn talk(context: &Context, house: &House<'_>, args: ChatArgs) -> Result<(), CliError> {
    let out = context.out;
    let mut session = args.session;
    out.aside(&format!("{}; session {session}; /help for more", engine_line(house).await?));
    let mut lines = Lines::new(context)?;
    loop {
        let (returned, line) = lines.next().await?;
        lines = returned;
        let Some(line) = line else { return Ok(()) };
        let text = line.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let outcome = match word {
            "" => Ok(()),
            "/quit" | "/exit" | "/q" => return Ok(()),
            "/help" => {
                out.aside(HELP);
                Ok(())
            }
            "/engine" => engine_line(house).await.map(|line| out.aside(&line)),
            "/session" if !rest.trim().is_empty() => {
                rest.trim().clone_into(&mut session);
                out.aside(&format!("session {session}"));
                Ok(())
            }
            "/session" => {
                out.aside(&format!("session {session}"));
                Ok(())
            }
            "/context" => super::sessions::context(&out, house, &session, &super::sessions::Ask::default()).await,
            "/compact" => compact(context, house, &session, rest.trim()).await,
            command if command.starts_with('/') => {
                out.warn(&format!("unknown command {command}; /help shows them"));
                Ok(())
            }
            _ => {
                let ask = Ask {
                    session: Some(session.clone()),
                    model: context.model_name(args.model.clone(), Some(&session)),
                    system: args.system.clone(),
                    text: text.to_owned(),
                    idempotency_key: None,
                };
                answer(context, house, &ask).await
            }
        };
        // One failed request does not end a conversation.
        if let Err(error) = outcome {
            out.error(&error);
        }
    }
}

async fn answer(context: &Context, house: &House<'_>, ask: &Ask) -> Result<(), CliError> {
    let out = context.out;
    let mut print = |piece: &str| out.piece(piece);
    let outcome = tokio::select! {
        outcome = say(&house.door, ask, &mut print) => outcome.map(Some),
        // Dropping the request tells the gateway that nobody waits any more.
        _ = tokio::signal::ctrl_c() => Ok(None),
    };
    out.piece("\n");
    match outcome? {
        Some(said) if said.degraded.is_some() => out.warn(&said.served()),
        Some(said) => out.aside(&said.served()),
        None => out.warn("stopped"),
    }
    Ok(())
}

async fn engine_line(house: &House<'_>) -> Result<String, CliError> {
    let status = house.door.get("/api/engines").await?;
    let text = |name: &str| status.get(name).and_then(Value::as_str).map(str::to_owned);
    let effective = text("effective").unwrap_or_else(|| "unknown".into());
    let chain: Vec<&str> =
        status.get("chain").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    Ok(match chain.first() {
        Some(selected) if *selected != effective => {
            format!("engine {effective} (selected: {selected}; `engineroom doctor` says why it is out)")
        }
        _ => format!("engine {effective}"),
    })
}

async fn compact(context: &Context, house: &House<'_>, session: &str, focus: &str) -> Result<(), CliError> {
    let body = if focus.is_empty() { json!({}) } else { json!({"focus": focus}) };
    let path = format!("/api/sessions/{}/compact", segment(session));
    let report = house.door.post(&path, &[], &body).await?;
    let number = |name: &str| count(report.get(name).and_then(Value::as_u64).unwrap_or(0));
    if report.get("compacted").and_then(Value::as_bool) == Some(true) {
        let line = format!("{} tokens before, {} after", number("tokensBefore"), number("tokensAfter"));
        context.out.note(&context.out.paint(Tone::Good, &line));
    } else {
        let reason = report.get("reason").and_then(Value::as_str).unwrap_or("nothing to compact");
        context.out.aside(&format!("not compacted: {reason}"));
    }
    Ok(())
}

/// Lines of the terminal. Reading blocks, so it happens off the async threads, and the reader travels there and back.
struct Lines {
    editor: rustyline::Editor<(), FileHistory>,
    history: Option<std::path::PathBuf>,
}

impl Lines {
    fn new(context: &Context) -> Result<Lines, CliError> {
        let editor = rustyline::Editor::new()
            .map_err(|error| CliError::Start { what: "the line editor", source: std::io::Error::other(error) })?;
        // What was typed is as private as the transcript, so it lives in the same folder, and only where that exists.
        let folder = &context.config().gateway.state_dir;
        let history = folder.is_dir().then(|| folder.join("chat-history"));
        let mut lines = Lines { editor, history };
        if let Some(path) = &lines.history {
            // The first time there is none.
            let _ = lines.editor.load_history(path);
        }
        Ok(lines)
    }

    async fn next(mut self) -> Result<(Lines, Option<String>), CliError> {
        let read = tokio::task::spawn_blocking(move || {
            let line = loop {
                match self.editor.readline("> ") {
                    Ok(line) => break Ok(Some(line)),
                    Err(ReadlineError::Interrupted) => {}
                    Err(ReadlineError::Eof) => break Ok(None),
                    Err(error) => break Err(error),
                }
            };
            if let (Ok(Some(text)), Some(path)) = (&line, &self.history)
                && !text.trim().is_empty()
            {
                // A history that cannot be kept is no reason to stop talking.
                let _ = self.editor.add_history_entry(text);
                let _ = self.editor.append_history(path);
            }
            (self, line)
        });
        let failed = |source| CliError::Start { what: "the line editor", source };
        let (lines, line) = read.await.map_err(|error| failed(std::io::Error::other(error)))?;
        Ok((lines, line.map_err(|error| failed(std::io::Error::other(error)))?))
    }
}
