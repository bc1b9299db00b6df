//! `recall`: a context engine that keeps every word and shows what matters.
//!
//! It owns compaction, needs no model and no network. What the model sees, within the session's budget and in this order:
//! what is pinned, the compacted log, the newest turns word for word, and, at the head of the current user message, passages of
//! older turns that belong to what is being said. Nothing that was ingested is ever out of reach: the model can search, read and
//! pin it with three tools.
//!
//! | room | job |
//! |---|---|
//! | [`session`] | what is known of one session: rows, index, pins, what is folded; how it is stored and made again |
//! | [`text`] | words, sentences, dates |
//! | [`vectors`] | the static table that turns a text into a vector |
//! | [`index`] | postings and vectors of every passage |
//! | [`find`] | from a prompt to the passages that belong to it |
//! | [`pins`] | standing instructions, preferences, constraints, open tasks |
//! | [`show`] | what the model sees: budget, layout, tail, log, stubs |
//! | [`compact`] | the engine's own compaction |
//! | [`tools`] | search, expand, pin |

mod compact;
mod config;
mod find;
mod index;
mod pins;
mod session;
mod show;
mod text;
mod tools;
mod vectors;

use config::{Config, Gists};
use engine_abi::*;
use session::others::Others;
use session::{Sessions, fork};

struct Recall {
    config: Config,
    sessions: Sessions,
    others: Others,
    writer: show::Writer,
}

#[hooks]
impl ContextEngine for Recall {
    type Config = Config;

    fn create(config: Config, _: &Factory) -> Result<Self> {
        let config = config.checked()?;
        let sessions = Sessions::new(config.memory_mb << 20);
        Ok(Recall { config, sessions, others: Others::default(), writer: show::Writer::default() })
    }

    fn info(&self) -> Info {
        let info = Info::new("recall", "Recall").version(env!("CARGO_PKG_VERSION")).owns_compaction();
        match self.config.gists {
            Gists::Extract => info,
            Gists::Model => info.background_maintenance(),
        }
    }

    fn bootstrap(&self, context: &Context) -> Result<Bootstrapped> {
        let imported = self.sessions.of(context)?.lock().catch_up(context)?;
        Ok(Bootstrapped { bootstrapped: true, imported_messages: Some(imported), reason: None })
    }

    fn ingest(&self, context: &Context, entry: &Entry) -> Result<bool> {
        Ok(self.ingest_batch(context, std::slice::from_ref(entry))? > 0)
    }

    fn ingest_batch(&self, context: &Context, entries: &[Entry]) -> Result<u64> {
        self.sessions.of(context)?.lock().take_in_all(context, entries)
    }

    fn commit_turn(&self, context: &Context, turn: &CommitTurn) -> Result<Committed> {
        self.sessions.of(context)?.lock().commit(context, turn)
    }

    fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly> {
        let held = self.sessions.of(context)?;
        let mut session = held.lock();
        session.reconcile(context, request.history())?;
        session.note_branch(request.history(), request.prompt().and_then(Prompt::entry_id));
        let assembly = show::assemble(&self.config, &mut session, context, request)?;
        session.store_if_allowed(context)?;
        Ok(assembly)
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        let held = self.sessions.of(context)?;
        let mut session = held.lock();
        session.reconcile(context, request.history())?;
        let compaction = compact::compact(&self.config, &mut session, context, request)?;
        session.store(context)?;
        Ok(compaction)
    }

    fn maintain(&self, context: &Context, _: &MaintainRequest) -> Result<Maintained> {
        // Without a model the extracted lines stay, and that is no fault.
        if self.config.gists == Gists::Extract || !context.offers(wire::service::LLM) || !self.writer.may_ask() {
            return Ok(Maintained::default());
        }
        let id = context.session().id();
        if !self.writer.is_due(id) {
            return Ok(Maintained::default());
        }
        let drafts = show::drafts(&self.writer, &self.sessions.of(context)?.lock(), context);
        let mut replies = Vec::with_capacity(drafts.len());
        // Nothing is held while a model writes.
        for draft in drafts {
            context.check()?;
            match context.complete(&draft.request) {
                Ok(reply) => {
                    self.writer.answered(id);
                    replies.push((draft, reply.text));
                }
                Err(error) => {
                    self.writer.failed(id, &draft);
                    tracing::debug!(%error, "no model wrote the log better");
                    break;
                }
            }
        }
        if replies.is_empty() {
            return Ok(Maintained::default());
        }
        let held = self.sessions.of(context)?;
        let mut session = held.lock();
        let mut changed = false;
        for (draft, said) in &replies {
            changed |= show::publish_later(&self.writer, &mut session, draft, said, context)?;
        }
        session.store(context)?;
        Ok(Maintained { changed, ..Maintained::default() })
    }

    fn on_session_ended(&self, context: &Context, _: &SessionEnded) -> Result<()> {
        self.sessions.forget(context.session().id());
        self.writer.forget(context.session().id());
        match context.session().key() {
            Some(key) => {
                self.others.forget(key);
                fork::forget(context, key)
            }
            None => Ok(()),
        }
    }

    fn prepare_subagent_spawn(&self, context: &Context, spawn: &SubagentSpawn) -> Result<Option<u64>> {
        self.sessions.prepare(context, spawn)
    }

    fn rollback_subagent_spawn(&self, context: &Context, handle: u64) -> Result<()> {
        fork::roll_back(context, handle)
    }

    fn on_subagent_ended(&self, context: &Context, ended: &SubagentEnded) -> Result<()> {
        fork::forget(context, ended.child_session_key())
    }

    fn tools(&self, _: &Context) -> Result<Vec<Tool>> {
        Ok(tools::offered(&self.config))
    }

    fn call_tool(&self, context: &Context, request: &ToolRequest) -> Result<ToolReply> {
        let held = self.sessions.of(context)?;
        let mut session = held.lock();
        let reply = tools::call(&self.config, &self.others, &mut session, context, request)?;
        session.store(context)?;
        Ok(reply)
    }
}

export_engine! {
    plugin: "recall",
    engines: { "recall" => Recall },
    config_schema: include_str!("schema.json"),
}
