//! What can be said on the command line.

use crate::config::Overrides;
use crate::scaffold::{Lang, Template};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A gateway that hosts context engines as native shared libraries.
#[derive(Debug, Parser)]
#[command(name = "engineroom", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 well, 1 something is degraded or failed, 2 wrong usage or configuration.")]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub common: Common,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// Configuration file [default: plugins.toml in the working folder, else the user's or the system's]
    #[arg(long, value_name = "FILE", global = true, env = "ENGINEROOM_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Override a value of the configuration, such as gateway.drain_ms=5000; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", global = true, value_parser = key_value)]
    pub sets: Vec<(String, String)>,
    /// State folder, instead of the configured one
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<String>,
    /// Print a JSON document for programs
    #[arg(long, global = true)]
    pub json: bool,
}

impl Common {
    /// The values that these flags set.
    pub fn overrides(&self) -> Overrides {
        let mut overrides = Overrides::default();
        for (key, value) in &self.sets {
            overrides.set("--set", key, value.as_str());
        }
        if let Some(dir) = &self.state_dir {
            overrides.set("--state-dir", "gateway.state_dir", dir.as_str());
        }
        overrides
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, such as gateway.drain_ms=5000".into()),
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the gateway
    Gateway(GatewayArgs),
    /// Talk to the model
    Chat(ChatArgs),
    /// Run one turn and print the answer
    Turn(TurnArgs),
    /// Run a recorded conversation through an engine and report what the model would have seen
    Replay(ReplayArgs),
    /// Say what is degraded or failed, why, and what to do
    Doctor,
    /// Context engines: what is there, what is in it, which one serves
    #[command(subcommand)]
    Plugins(PluginsCommand),
    /// Sessions: what is stored, what the model would see now
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// The database of the state folder: whether it is sound, and what to save of a damaged one
    #[command(subcommand)]
    Store(StoreCommand),
    /// Print the completions of a shell
    ///
    /// bash: engineroom completions bash > ~/.local/share/bash-completion/completions/engineroom
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write a manual page a command into a folder
    Man {
        /// The folder, such as ~/.local/share/man/man1; it is made when it is not there
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// `store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Read the whole database and say what is wrong with it; changes nothing
    Check,
    /// Take everything that can be read into a new database, and keep the damaged one under a name with the time
    ///
    /// The gateway must be stopped.
    Repair {
        /// Show what could be taken, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Write the database anew: nothing of what was deleted is in it, and it takes no more room than it needs
    ///
    /// The gateway must be stopped. It needs as much room again as the database takes.
    Shrink,
}

/// `gateway`.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// Address to listen on, instead of the configured one
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
}

/// `chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Session to go on with
    #[arg(long, value_name = "KEY", default_value = "agent:main:chat")]
    pub session: String,
    /// Model to name in the request [default: the configured one]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
}

/// `turn`.
#[derive(Debug, Args)]
pub struct TurnArgs {
    /// Session; without it nothing is stored
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Model to name in the request [default: the configured one]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Makes a repeated request with the same key a retry
    #[arg(long, value_name = "KEY", requires = "session")]
    pub idempotency_key: Option<String>,
    /// The message; "-" reads it from standard input
    #[arg(value_name = "TEXT", required = true)]
    pub text: Vec<String>,
}

/// Formats of recorded conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// {"messages": [...]} of the OpenAI API
    Openai,
    /// One message of the OpenAI API a line
    Jsonl,
    /// A LoCoMo data set
    Locomo,
}

/// `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recorded conversation
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Engine to run it through [default: the selected one]
    #[arg(long, value_name = "ID")]
    pub engine: Option<String>,
    /// Tokens that the history may cost [default: from the model's window]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: Option<u64>,
    /// Format of the file [default: told from its content]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// `plugins`.
#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// Make a folder with a working engine or memory provider, and everything that it is built from
    New(NewArgs),
    /// List the files of the plugins folder and what became of them
    List,
    /// Show what is in one file, without running a line of it
    Inspect {
        /// Plugin id, engine id, or a file
        #[arg(value_name = "ID|FILE")]
        what: String,
    },
    /// Check whether a library keeps the contract: it loads, answers, survives restarts, threads and failing services
    Check(CheckArgs),
    /// Forget a crash that is held against an engine, from the next start on
    Release {
        /// Id of an engine, a memory provider or a plugin
        id: String,
    },
    /// Put a library into the plugins folder and pin it, or link it where it lies
    ///
    /// Everything is checked before anything is changed: the file itself, who may write it, its signature, and a run in a child
    /// process. A running gateway goes on with what it has; its next start takes what was installed.
    Install(InstallArgs),
    /// Take what was installed again from where it came
    Update(UpdateArgs),
    /// Remove a plugin's library, and reset every slot that names something of it
    Uninstall(UninstallArgs),
    /// Let a plugin be loaded again
    Enable(EnableArgs),
    /// Keep a plugin from being loaded; its file, its configuration and its state stay
    Disable(EnableArgs),
    /// Put an engine, or a chain of engines, into the slot
    Select(SelectArgs),
}

/// `plugins install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// A library, an archive (.tar.gz) with one, https://…, or `npm:NAME[@VERSION]`
    ///
    /// A library that lies in the plugins folder already is pinned as it is.
    #[arg(value_name = "SOURCE")]
    pub source: String,
    /// Link a file or a folder where it lies, so that each start takes what was built since
    #[arg(short, long)]
    pub link: bool,
    /// SHA-256 of what is read or downloaded; a download needs it
    #[arg(long, value_name = "HEX")]
    pub sha256: Option<String>,
    /// Check and show what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `plugins update`.
#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// Plugin id, as `plugins list` shows it
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub id: Option<String>,
    /// Everything that was installed
    #[arg(long, conflicts_with = "id")]
    pub all: bool,
    /// Check and show what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `plugins uninstall`.
#[derive(Debug, Args)]
pub struct UninstallArgs {
    /// Plugin id, as `plugins list` shows it
    #[arg(value_name = "ID")]
    pub id: String,
    /// What becomes of the folders in which its engines keep things [default: asked on a terminal, else kept]
    #[arg(long, value_name = "WHAT")]
    pub state: Option<Leftover>,
    /// What becomes of [plugins.entries.ID] with its configuration
    #[arg(long, value_name = "WHAT", default_value = "keep")]
    pub entry: Leftover,
    /// Show what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// What becomes of what a plugin leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Leftover {
    /// It stays
    Keep,
    /// It goes
    Delete,
}

/// `plugins enable` and `plugins disable`.
#[derive(Debug, Args)]
pub struct EnableArgs {
    /// Plugin id, as `plugins list` shows it
    #[arg(value_name = "ID")]
    pub id: String,
    /// Show the change, and do not write it
    #[arg(long)]
    pub dry_run: bool,
}

/// `plugins select`.
#[derive(Debug, Args)]
pub struct SelectArgs {
    /// Engine ids, first choice first
    #[arg(value_name = "ID", required_unless_present = "memory")]
    pub chain: Vec<String>,
    /// Memory provider to put into the memory slot; "none" for none
    #[arg(long, value_name = "ID")]
    pub memory: Option<String>,
    /// Also ids that no library offers yet
    #[arg(long)]
    pub missing_ok: bool,
    /// Show the change, and do not write it
    #[arg(long)]
    pub dry_run: bool,
}

/// `plugins check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The library
    #[arg(value_name = "FILE", required_unless_present = "list")]
    pub file: Option<PathBuf>,
    /// Engine or memory provider to check [default: all that the library offers]; may be repeated
    #[arg(long = "engine", value_name = "ID")]
    pub engines: Vec<String>,
    /// Highest level: 1 loads and answers, 2 ordinary sessions, 3 restarts, 4 threads, 5 fuzzed sessions
    #[arg(long, value_name = "N", default_value_t = crate::check::LEVELS, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub level: u8,
    /// Only this check; may be repeated
    #[arg(long = "test", value_name = "NAME")]
    pub tests: Vec<String>,
    /// Seed of the sessions, as an earlier run printed it [default: a new one]
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Rounds of what is random: more find more, and take longer
    #[arg(long, value_name = "N", default_value_t = crate::check::ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Where the engine runs
    #[arg(long, value_name = "WHERE", default_value = "both")]
    pub isolation: CheckIsolation,
    /// The plugin's configuration: a value, or a TOML file with its keys; may be repeated, the later counts
    #[arg(long = "with", value_name = "KEY=VALUE|FILE")]
    pub with: Vec<String>,
    /// List the checks with their levels
    #[arg(long)]
    pub list: bool,
    /// Write a report for continuous integration
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Where `plugins check` runs an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CheckIsolation {
    /// In the process of the check's child
    InProcess,
    /// In a worker
    Process,
    /// One after the other
    Both,
}

/// `plugins new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Its id, which is also the name of the folder: lower-case letters, digits, "-" and "_"
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Language
    #[arg(long, value_name = "LANG", default_value = "rust")]
    pub lang: Lang,
    /// What to begin with
    #[arg(long, value_name = "TEMPLATE", default_value = "window")]
    pub template: Template,
    /// Folder to make [default: NAME in the working folder]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
}

/// `sessions`.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List the sessions, newest use first
    List {
        /// Most sessions to list
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Show a session and its active branch
    Show {
        /// Key of the session
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Show what the model would see now, entry by entry, and why
    Context {
        /// Key of the session
        #[arg(value_name = "KEY")]
        key: String,
        /// First do what the next turn would: hand over waiting turns, have the engine take the session up
        #[arg(long)]
        take_up: bool,
        /// Show it as if this were the next user message; nothing of it is kept
        #[arg(long, value_name = "TEXT")]
        ask: Option<String>,
        /// Show every entry, also in long runs of entries that fare alike
        #[arg(long)]
        all: bool,
        /// Show whole texts of what the model would see, instead of a table; with --all of the rest, too
        #[arg(long)]
        full: bool,
    },
    /// Show the turns of a session, newest first: who served, what it took, and why another did not
    Turns {
        /// Key of the session
        #[arg(value_name = "KEY")]
        key: String,
        /// Most turns to show
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Only turns before this one
        #[arg(long, value_name = "TURN")]
        before: Option<String>,
    },
    /// Begin a session anew under its key; its history stays as another branch
    Reset {
        /// Key of the session
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Delete a session with everything that hangs on it
    Delete {
        /// Key of the session
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Replace the older part of a session's history by a summary
    Compact {
        /// Key of the session
        #[arg(value_name = "KEY")]
        key: String,
        /// What the summary should keep above all
        #[arg(long, value_name = "TEXT")]
        focus: Option<String>,
    },
    /// Show what waits or is blocked on its way to an engine, and settle it
    Repair(RepairArgs),
    /// List the subagents of a session: what became of them, and what they used up
    Subagents {
        /// Key of the session
        #[arg(value_name = "KEY")]
        key: String,
        /// End this subagent first, and delete its session
        #[arg(long, value_name = "CHILD")]
        end: Option<String>,
    },
    /// Give a task to a subagent of a session, and print its result
    Spawn(SpawnArgs),
}

/// `sessions repair`.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// Key of the session
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Offer the blocked turns to their engine again, now
    #[arg(long, conflicts_with = "drop")]
    pub retry: bool,
    /// Give the blocked turns up: their engine meets the entries through the cursor, if at all
    #[arg(long)]
    pub drop: bool,
    /// Also turns that only wait for their engine, not the blocked ones alone
    #[arg(long)]
    pub waiting: bool,
    /// Only turns of this engine
    #[arg(long, value_name = "ID")]
    pub engine: Option<String>,
    /// Only this turn
    #[arg(long, value_name = "TURN")]
    pub turn: Option<String>,
    /// Show what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `sessions spawn`.
#[derive(Debug, Args)]
pub struct SpawnArgs {
    /// Key of the parent's session
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Begin with the parent's history, not with the task only
    #[arg(long)]
    pub fork: bool,
    /// Leave the engine's preparation out
    #[arg(long, conflicts_with = "fork")]
    pub light: bool,
    /// Do not wait for the result; needs a running gateway
    #[arg(long)]
    pub no_wait: bool,
    /// Agent of the subagent [default: the parent's]
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// Name for people
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Time to live in ms [default: the configured one]
    #[arg(long, value_name = "MS")]
    pub ttl_ms: Option<u64>,
    /// Most model calls
    #[arg(long, value_name = "N")]
    pub max_turns: Option<u64>,
    /// Most tool calls
    #[arg(long, value_name = "N")]
    pub max_tool_calls: Option<u64>,
    /// Most tokens of all model calls
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Longest time to the result, in ms
    #[arg(long, value_name = "MS")]
    pub time_ms: Option<u64>,
    /// The task
    #[arg(value_name = "TEXT", required = true)]
    pub text: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn refused(line: &str, words: &str) {
        let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains(words), "{error}");
    }

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }

    /// What every text in `folder` but this one names as a command of the gateway, with the file.
    fn named_commands(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                named_commands(&path, found);
                continue;
            }
            if path.ends_with(file!().rsplit_once("src/").map_or("", |(_, own)| own)) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let named = text.split("`engineroom ").skip(1).filter_map(|rest| rest.split('`').next());
            found.extend(named.map(|command| (path.display().to_string(), command.to_owned())));
        }
    }

    #[test]
    fn every_command_that_a_hint_or_a_document_names_exists() {
        let cli = Cli::command();
        let host = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut named = Vec::new();
        for folder in [host.join("src"), host.join("../docs"), host.join("../engines")] {
            named_commands(&folder, &mut named);
        }
        assert!(named.len() > 10, "{named:?}");
        for (file, command) in named {
            let mut at = &cli;
            let mut words = command.split(' ');
            while at.has_subcommands() {
                let word = words.next().unwrap_or("");
                if word == "help" {
                    break;
                }
                at = at.find_subcommand(word).unwrap_or_else(|| panic!("{file}: there is no `engineroom {command}`"));
            }
        }
    }

    #[test]
    fn common_flags_stand_before_or_behind_the_command() {
        for line in ["engineroom --json --config a.toml doctor", "engineroom doctor --config a.toml --json"] {
            let cli = parse(line);
            assert!(cli.common.json && matches!(cli.command, Command::Doctor), "{line}");
            assert_eq!(cli.common.config.as_deref(), Some(std::path::Path::new("a.toml")));
        }
        let cli = parse("engineroom sessions compact k --focus names --config a.toml");
        assert!(matches!(cli.command, Command::Sessions(SessionsCommand::Compact { focus: Some(_), .. })));
    }

    #[test]
    fn a_turn_takes_words_and_may_name_no_session() {
        let cli = parse("engineroom turn --session s how are you");
        let Command::Turn(turn) = cli.command else { panic!() };
        assert_eq!(turn.text.join(" "), "how are you");
        let Command::Turn(turn) = parse("engineroom turn -").command else { panic!() };
        assert_eq!((turn.session, turn.text), (None, vec!["-".to_owned()]));
    }

    #[test]
    fn a_repair_retries_or_drops() {
        let cli = parse("engineroom sessions repair k --drop --engine e --dry-run");
        let Command::Sessions(SessionsCommand::Repair(args)) = cli.command else { panic!() };
        assert!(args.drop && args.dry_run && !args.retry && !args.waiting);
        refused("engineroom sessions repair k --drop --retry", "--retry");
    }

    #[test]
    fn select_takes_a_chain() {
        let Command::Plugins(PluginsCommand::Select(args)) = parse("engineroom plugins select recall window").command
        else {
            panic!()
        };
        assert_eq!((args.chain, args.memory), (vec!["recall".into(), "window".into()], None));
        let Command::Plugins(PluginsCommand::Select(args)) = parse("engineroom plugins select --memory notes").command
        else {
            panic!()
        };
        assert_eq!((args.chain, args.memory), (Vec::<String>::new(), Some("notes".into())));
        refused("engineroom plugins select", "ID");
    }

    #[test]
    fn wrong_usage_is_refused_with_two() {
        refused("engineroom completions tcsh", "zsh");
        refused("engineroom replay", "FILE");
        refused("engineroom replay x --budget 0", "0");
        refused("engineroom replay x --format xml", "openai");
        refused("engineroom turn", "TEXT");
        refused("engineroom turn --idempotency-key k hi", "--session");
        refused("engineroom doctr", "doctor");
        refused("engineroom doctor --set drain", "KEY=VALUE");
    }
}
