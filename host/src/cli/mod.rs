//! The door for people: the command line.
//!
//! ```text
//!  args ──► context (configuration, running gateway?) ──► one module a command ──► door ──► HTTP, or the same routes here
//!                                                              └──► out: results to stdout, the rest to stderr
//! ```
//!
//! No command holds a rule about engines or turns: it asks a gateway and renders what it says.

mod args;
mod chat;
mod check;
mod context;
mod doctor;
mod door;
mod edited;
mod enable;
mod error;
mod gateway;
mod inspect;
mod install;
mod live;
mod new;
mod out;
mod plugins;
mod release;
mod repair;
mod replay;
mod running;
mod say;
mod select;
mod sessions;
mod shell;
mod sse;
mod store;
mod subagents;
mod supervisor;
mod turn;
mod uninstall;
mod update;

pub use args::*;
pub use error::{CliError, Verdict};

use clap::Parser;
use context::Context;
use out::Out;
use std::process::ExitCode;

/// Parses the command line, runs the command, and gives the exit code. Builds the runtime.
pub fn main() -> ExitCode {
    // Clap prints usage and help itself, and ends with 2 or 0.
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Verdict::Wrong.code()));
        }
    };
    let out = Out::new(cli.common.json);
    if let Some(usage) = without_json(&cli.command).filter(|_| cli.common.json) {
        return ExitCode::from(out.error(&CliError::Usage(usage.into())).code());
    }
    // Of the commands themselves, whatever is configured.
    if let Command::Completions { shell } = cli.command {
        return ExitCode::from(shell::completions(out, shell).code());
    }
    if let Command::Man { dir } = &cli.command {
        return ExitCode::from(shell::man(out, dir).unwrap_or_else(|error| out.error(&error)).code());
    }
    crate::observe::init_tracing(crate::observe::LogFormat::from_env(), log_filter(&cli.command));
    // A folder for an author needs no configuration, and must not fail on one that is wrong.
    let cli = match cli {
        Cli { command: Command::Plugins(PluginsCommand::New(args)), .. } => {
            let verdict = new::run(&out, args).unwrap_or_else(|error| out.error(&error));
            return ExitCode::from(verdict.code());
        }
        other => other,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(source) => return ExitCode::from(out.error(&CliError::Start { what: "the runtime", source }).code()),
    };
    let (verdict, threads_left_behind) = match Context::load(&cli.common, &overrides(&cli), out) {
        Ok(context) => {
            let verdict = runtime.block_on(run(&context, cli.command)).unwrap_or_else(|error| out.error(&error));
            (verdict, context.threads_left_behind())
        }
        Err(error) => (out.error(&error), false),
    };
    if threads_left_behind {
        crate::slot::exit_now(i32::from(verdict.code()));
    }
    // What is left on the runtime waits for nothing that matters: a terminal, or a connection that is idle.
    runtime.shutdown_background();
    ExitCode::from(verdict.code())
}

/// What to say of a command that has no JSON.
fn without_json(command: &Command) -> Option<&'static str> {
    match command {
        Command::Chat(_) => {
            Some("chat is for people and has no JSON; `engineroom turn --json` is one turn for programs")
        }
        Command::Completions { .. } => Some("completions are a script for a shell and have no JSON"),
        _ => None,
    }
}

/// Flags of the command that stand for values of the configuration.
fn overrides(cli: &Cli) -> crate::config::Overrides {
    let mut overrides = cli.common.overrides();
    if let Command::Gateway(GatewayArgs { listen: Some(listen) }) = &cli.command {
        overrides.set("--listen", "gateway.listen", listen.as_str());
    }
    overrides
}

async fn run(context: &Context, command: Command) -> Result<Verdict, CliError> {
    match command {
        Command::Gateway(_) => gateway::run(context).await,
        Command::Chat(args) => chat::run(context, args).await,
        Command::Turn(args) => turn::run(context, args).await,
        Command::Replay(args) => replay::run(context, args).await,
        Command::Doctor => doctor::run(context).await,
        Command::Plugins(command) => plugins::run(context, command).await,
        Command::Sessions(command) => sessions::run(context, command).await,
        Command::Store(command) => store::run(context, &command).await,
        // Done before there is a context.
        Command::Completions { .. } | Command::Man { .. } => Ok(Verdict::Well),
    }
}

/// What the log tells when `ENGINEROOM_LOG` does not say otherwise: a command reports its own errors, so only what happens on
/// the way is logged, and `doctor` tells all that by itself.
fn log_filter(command: &Command) -> &'static str {
    match command {
        Command::Gateway(_) => "info",
        Command::Doctor => "off",
        _ => "warn",
    }
}
