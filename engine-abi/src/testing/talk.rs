//! The hooks of an engine about one session.

use super::frame::{Assembled, Compacted, Failure, Frame, InfoSeen};
use super::{Engine, Line, World};
use crate::wire::{self, CallV1, Str, status};
use std::time::Duration;

/// An engine with one session: every hook as the host calls it.
#[derive(Clone)]
pub struct Talk<'a> {
    engine: &'a Engine,
    id: String,
    key: String,
    ephemeral: bool,
    checks: u64,
    deadline: Option<Duration>,
}

/// What a tool said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The text.
    pub text: String,
    /// The call failed in a way that the model should read about.
    pub is_error: bool,
}

/// A subagent that is about to start.
#[derive(Clone, Debug)]
pub struct Spawn<'a> {
    /// Id of the child's session.
    pub child_id: &'a str,
    /// Key of the child's session.
    pub child_key: &'a str,
    /// It begins with its parent's history.
    pub fork: bool,
}

impl<'a> Talk<'a> {
    pub(super) fn new(engine: &'a Engine, id: &str, key: &str) -> Talk<'a> {
        Talk { engine, id: id.to_owned(), key: key.to_owned(), ephemeral: false, checks: u64::MAX, deadline: None }
    }

    /// The same with turns of which nothing is stored.
    #[must_use]
    pub fn ephemeral(self) -> Talk<'a> {
        Talk { ephemeral: true, ..self }
    }

    /// The same with calls that are cancelled when their hook has asked so many times whether they are.
    #[must_use]
    pub fn cancelled_after(self, checks: u64) -> Talk<'a> {
        Talk { checks, ..self }
    }

    /// The same with calls that must be done after so much time of the world's clock; without it they have a minute.
    #[must_use]
    pub fn deadline(self, time: Duration) -> Talk<'a> {
        Talk { deadline: Some(time), ..self }
    }

    /// `info`.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn info(&self) -> Result<InfoSeen, Failure> {
        self.engine.info()
    }

    pub(super) fn table(&self) -> &wire::EngineV1 {
        self.engine.table()
    }

    pub(super) fn world(&self) -> &World {
        &self.engine.world
    }

    /// `bootstrap`, before the entry `fence`, or 0; how many entries were taken over.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn bootstrap(&self, fence: u64) -> Result<u64, Failure> {
        let frame = self.frame(&[], None);
        frame.fence.set(fence);
        let args = wire::BootstrapArgsV1 { session: frame.session() };
        self.run(&frame, self.engine.table().bootstrap, &args)?;
        let imported = frame.out().imported.ok_or_else(|| Failure::missing("bootstrap"))?;
        self.engine.world.0.hand_over(&self.id, frame.read_up_to.get());
        Ok(imported)
    }

    /// `maintain`, after a turn.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn maintain(&self, allow_deferred_compaction: bool) -> Result<(), Failure> {
        let frame = self.frame(&[], None);
        let args = wire::MaintainArgsV1 {
            session: frame.session(),
            reason: wire::trigger::TURN,
            allow_deferred_compaction: allow_deferred_compaction.into(),
        };
        self.run(&frame, self.engine.table().maintain, &args)
    }

    /// `ingest`; true when the entry was new.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn ingest(&self, line: &Line) -> Result<bool, Failure> {
        let frame = self.frame(std::slice::from_ref(line), None);
        let args = wire::IngestArgsV1 { session: frame.session(), entries: frame.list() };
        self.run(&frame, self.engine.table().ingest, &args)?;
        frame.out().ingested.map(|count| count > 0).ok_or_else(|| Failure::missing("ingest"))
    }

    /// `afterTurn`: the whole session, of which the last `new` entries are this turn's.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn after_turn(&self, session: &[Line], new: usize) -> Result<(), Failure> {
        let frame = self.frame(session, None);
        let args = wire::AfterTurnArgsV1 {
            session: frame.session(),
            entries: frame.list(),
            pre_prompt_message_count: session.len().saturating_sub(new) as u64,
            auto_compaction_summary: Str::NONE,
        };
        self.run(&frame, self.engine.table().after_turn, &args)
    }

    /// `commitTurn`; a code from [`wire::commit_status`].
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn commit(&self, advancement_key: &str, turn: &[Line]) -> Result<u32, Failure> {
        let frame = self.frame(turn, None);
        let first = turn.first().map_or(0, |line| line.id);
        let parent = {
            let transcripts = self.engine.world.0.transcripts();
            let lines = transcripts.get(&self.key).map_or(&[][..], Vec::as_slice);
            lines.iter().rev().find(|line| line.id < first).map_or(0, |line| line.id)
        };
        let anchor = |line: Option<&Line>| wire::AnchorV1 {
            entry_id: line.map_or(0, |line| line.id),
            raw_seq: line.map_or(0, |line| line.id),
            effective_parent_id: parent,
            active_message_position: 0,
            generation: 1,
            idempotency_key: Str::NONE,
        };
        let args = wire::CommitTurnArgsV1 {
            session: frame.session(),
            advancement_key: Str::new(advancement_key),
            logical_turn_id: Str::new("turn"),
            admission: anchor(turn.first()),
            terminal: anchor(turn.last()),
            entries: frame.list(),
        };
        self.run(&frame, self.engine.table().commit_turn, &args)?;
        let committed = frame.out().committed.ok_or_else(|| Failure::missing("commitTurn"))?;
        self.engine.world.0.hand_over(&self.id, turn.last().map_or(0, |line| line.id));
        Ok(committed)
    }

    /// `assemble`, with `history` before the current turn, whose message is `prompt`.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn assemble(
        &self,
        history: &[Line],
        prompt: Option<&Line>,
        token_budget: Option<u64>,
    ) -> Result<Assembled, Failure> {
        let frame = self.frame(history, token_budget);
        let heads = frame.heads();
        let calls = prompt.map(Line::lend_calls).unwrap_or_default();
        let prompt = prompt.map(|line| wire::PromptV1 {
            message: line.entry(&calls).message,
            entry_id: line.id,
            tokens: u64::from(line.tokens),
        });
        let args = wire::AssembleArgsV1 {
            session: frame.session(),
            entries: heads.as_ptr(),
            entries_len: heads.len(),
            prompt: prompt.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            system_tokens: 0,
            available_tools: wire::StrList::NONE,
            model: Str::NONE,
            citations_mode: wire::citations_mode::AUTO,
            reserved: 0,
        };
        self.run(&frame, self.engine.table().assemble, &args)?;
        let out = frame.out();
        out.assembled
            .map(|result| Assembled { pieces: out.pieces, calls: out.calls, ..result })
            .ok_or_else(|| Failure::missing("assemble"))
    }

    /// `compact` of the whole `history`, forced.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn compact(&self, history: &[Line], token_budget: Option<u64>) -> Result<Compacted, Failure> {
        self.compact_for(history, token_budget, true, None)
    }

    /// The same, forced or not, with a focus of the operator.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn compact_for(
        &self,
        history: &[Line],
        token_budget: Option<u64>,
        force: bool,
        focus: Option<&str>,
    ) -> Result<Compacted, Failure> {
        let frame = self.frame(history, token_budget);
        let heads = frame.heads();
        let args = wire::CompactArgsV1 {
            session: frame.session(),
            entries: heads.as_ptr(),
            entries_len: heads.len(),
            force: force.into(),
            target: if force { wire::compaction_target::BUDGET } else { wire::compaction_target::THRESHOLD },
            trigger: if force { wire::trigger::MANUAL } else { wire::trigger::BUDGET },
            attempt: 1,
            max_attempts: 1,
            force_reason: if force { wire::force_reason::MANUAL } else { wire::force_reason::NONE },
            custom_instructions: Str::opt(focus),
        };
        self.run(&frame, self.engine.table().compact, &args)?;
        frame.out().compacted.ok_or_else(|| Failure::missing("compact"))
    }

    /// `tools`: name, description and parameters of each.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn tools(&self) -> Result<Vec<(String, String, String)>, Failure> {
        let frame = self.frame(&[], None);
        let args = wire::ToolsArgsV1 { session: frame.session() };
        self.run(&frame, self.engine.table().tools, &args)?;
        Ok(frame.out().tools)
    }

    /// `callTool`.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn call_tool(&self, name: &str, arguments: &str) -> Result<Said, Failure> {
        let frame = self.frame(&[], None);
        let args = wire::CallToolArgsV1 {
            session: frame.session(),
            call_id: Str::new("call"),
            name: Str::new(name),
            arguments: Str::new(arguments),
        };
        self.run(&frame, self.engine.table().call_tool, &args)?;
        let (text, is_error) = frame.out().said.ok_or_else(|| Failure::missing("callTool"))?;
        Ok(Said { text, is_error })
    }

    /// `onSessionEnded`, because it is deleted.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn ended(&self) -> Result<(), Failure> {
        let frame = self.frame(&[], None);
        let reason = wire::session_end::DELETED;
        let args = wire::SessionEndedArgsV1 { session: frame.session(), reason, reserved: 0 };
        self.run(&frame, self.engine.table().on_session_ended, &args)
    }

    /// `prepareSubagentSpawn`, with this session as the parent; the handle of the rollback, or 0.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn prepare_subagent(&self, spawn: &Spawn<'_>) -> Result<u64, Failure> {
        let frame = self.frame(&[], None);
        let args = wire::PrepareSubagentArgsV1 {
            parent_session_key: Str::new(&self.key),
            child_session_key: Str::new(spawn.child_key),
            parent_session_id: Str::new(&self.id),
            child_session_id: Str::new(spawn.child_id),
            context_mode: if spawn.fork { wire::context_mode::FORK } else { wire::context_mode::ISOLATED },
            reserved: 0,
            ttl_ms: wire::NONE_U64,
        };
        self.run(&frame, self.engine.table().prepare_subagent_spawn, &args)?;
        frame.out().prepared.ok_or_else(|| Failure::missing("prepareSubagentSpawn"))
    }

    /// The rollback of a preparation.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn rollback_subagent(&self, handle: u64) -> Result<(), Failure> {
        let frame = self.frame(&[], None);
        let hook = self.engine.table().rollback_subagent_spawn;
        let answer =
            hook.map_or(status::UNSUPPORTED, |hook| hook(self.engine.instance.instance, &frame.call(), handle));
        frame.result(answer)
    }

    /// `onSubagentEnded`.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn subagent_ended(&self, child_key: &str) -> Result<(), Failure> {
        let frame = self.frame(&[], None);
        let args = wire::SubagentEndedArgsV1 {
            child_session_key: Str::new(child_key),
            agent_dir: Str::NONE,
            workspace_dir: Str::NONE,
            reason: wire::subagent_end::COMPLETED,
            reserved: 0,
        };
        self.run(&frame, self.engine.table().on_subagent_ended, &args)
    }

    fn frame(&self, lines: &[Line], token_budget: Option<u64>) -> Frame {
        let frame = Frame::of(&self.engine.world.0, lines, token_budget, (&self.id, &self.key));
        frame.checks.set(self.checks);
        if let Some(time) = self.deadline {
            let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            frame.deadline_ms.set(self.world().0.elapsed_ms().saturating_add(time));
        }
        frame.ephemeral(self.ephemeral)
    }

    fn run<A>(
        &self,
        frame: &Frame,
        hook: Option<extern "C" fn(*const u8, *const CallV1, *const A) -> u32>,
        args: &A,
    ) -> Result<(), Failure> {
        self.engine.run(frame, hook, args)
    }
}
