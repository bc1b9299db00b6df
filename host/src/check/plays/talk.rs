//! A session that is talked through with an engine: the hooks of each turn in their order, as a gateway calls them.

use super::script::Turn;
use super::{Lab, Step};
use crate::check::blame::Finding;
use crate::check::catalogue::Check;
use crate::check::world::{Session, World, held};
use crate::model::TokenCounter;
use crate::slot::{
    Anchor, AssembleInput, AssembleOutput, CommitInput, CommitStatus, EngineInfo, EntryRef, Hook, HookFailure,
    HostServices, Item, MAIN_AGENT, PromptInput, RuntimeSettings, Segment, SegmentContext, SessionFacts, Single, View,
};
use crate::transcript::{EntryId, Message, Role};
use engine_abi::wire::trigger;
use std::sync::{Arc, Mutex};

/// Budget of a session in which everything fits.
pub(super) const AMPLE: u64 = 1_000_000;
/// Budget that is exceeded after a few turns.
pub(super) const TIGHT: u64 = 900;

/// Key of the session of plays that have one.
pub(super) const KEY: &str = "agent:main:check";
/// What is asked when two prompts are compared.
pub(super) const QUESTION: &str = "What did we say about the invoice?";

/// Makes the instance.
pub(super) fn open(bench: &Single) -> Step<()> {
    let facts = SessionFacts { agent: MAIN_AGENT.into(), ..SessionFacts::default() };
    let services: Arc<dyn HostServices> = World::new();
    Ok(bench.engine().segment_blocking(SegmentContext::new(facts, services), |_| ())?)
}

/// What the engine says of itself.
pub(super) fn info(bench: &Single) -> Arc<EngineInfo> {
    Arc::new(bench.engine().info().clone())
}

/// One message as the model would see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub id: Option<EntryId>,
    pub role: Role,
    pub text: String,
}

/// A prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub pieces: Vec<Piece>,
    pub system: Option<String>,
    pub volatile: Option<String>,
    /// Tokens of the history as the host counts them, the engine's own messages included.
    pub history: u64,
    /// Tokens of the additions.
    pub additions: u64,
    pub estimated: u64,
}

impl Shown {
    fn of(view: &View, len: usize, output: &AssembleOutput, counter: &TokenCounter) -> Shown {
        let mut shown = Shown {
            system: output.system_prompt_addition.clone(),
            volatile: output.volatile_prompt_addition.clone(),
            estimated: output.estimated_tokens,
            ..Shown::default()
        };
        let addition = |text: &Option<String>| text.as_deref().map_or(0, |text| counter.text(text));
        shown.additions = addition(&shown.system) + addition(&shown.volatile);
        let mut placed = false;
        for item in &output.items {
            match item {
                Item::Span { start, end } => {
                    shown.history += view.tokens(*start..*end);
                    shown.sent(view, *start..*end);
                }
                Item::Message(message) => {
                    shown.history += u64::from(counter.message(message));
                    shown.push(None, message);
                }
                Item::CurrentTurn => {
                    placed = true;
                    shown.sent(view, len..view.len());
                }
            }
        }
        if !placed {
            shown.sent(view, len..view.len());
        }
        shown
    }

    fn sent(&mut self, view: &View, range: std::ops::Range<usize>) {
        for sent in view.sent(range) {
            self.push(sent.id, sent.message);
        }
    }

    fn push(&mut self, id: Option<EntryId>, message: &Message) {
        self.pieces.push(Piece { id, role: message.role, text: message.text().into_owned() });
    }

    /// Does any of it hold this text?
    pub(super) fn holds(&self, text: &str) -> bool {
        let added = [&self.system, &self.volatile];
        self.pieces.iter().any(|piece| piece.text.contains(text))
            || added.iter().any(|addition| addition.as_ref().is_some_and(|addition| addition.contains(text)))
    }

    /// Where another prompt differs, in words.
    pub(super) fn difference(&self, other: &Shown) -> Option<String> {
        let at = self.pieces.iter().zip(&other.pieces).position(|(one, other)| one != other);
        let at = at.or((self.pieces.len() != other.pieces.len()).then(|| self.pieces.len().min(other.pieces.len())));
        if let Some(at) = at {
            let shown = |shown: &Shown| shown.pieces.get(at).map_or("nothing".to_owned(), Piece::told);
            let counts = format!("{} messages and {}", self.pieces.len(), other.pieces.len());
            return Some(format!("{counts}; message {}: {} and {}", at + 1, shown(self), shown(other)));
        }
        let additions = [
            ("systemPromptAddition", &self.system, &other.system),
            ("volatilePromptAddition", &self.volatile, &other.volatile),
        ];
        let differs = additions.into_iter().find(|(_, one, other)| one != other);
        differs.map(|(name, one, other)| {
            let told = |text: &Option<String>| text.as_deref().map_or("nothing".to_owned(), cut);
            format!("{name}: {} and {}", told(one), told(other))
        })
    }
}

impl Piece {
    fn told(&self) -> String {
        let id = self.id.map(|id| format!("entry {id}, ")).unwrap_or_default();
        format!("{id}{} {}", self.role.name(), cut(&self.text))
    }
}

/// The beginning of a text, in quotes.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(60);
    format!("{:?}{}", &text[..end], if end < text.len() { "…" } else { "" })
}

/// A session and the engine that serves it.
pub(super) struct Talk<'a> {
    pub lab: &'a Lab,
    pub bench: &'a Single,
    pub world: Arc<World>,
    pub key: String,
    pub budget: u64,
    session: Arc<Mutex<Session>>,
    /// The engine has met the session in this process.
    met: bool,
    /// Nothing is stored: the engine cannot take durable turns, or the turn is ephemeral.
    pub fleeting: bool,
    pub over_budget: Option<(u64, u64)>,
    pub misjudged: Option<(u64, u64)>,
}

impl<'a> Talk<'a> {
    pub(super) fn new(lab: &'a Lab, bench: &'a Single, world: &Arc<World>, key: &str, budget: u64) -> Talk<'a> {
        Talk {
            lab,
            bench,
            world: Arc::clone(world),
            key: key.to_owned(),
            budget,
            session: world.session(key),
            met: false,
            fleeting: !bench.engine().durable(),
            over_budget: None,
            misjudged: None,
        }
    }

    /// The same session with another instance, which has not met it.
    pub(super) fn with(&self, bench: &'a Single) -> Talk<'a> {
        Talk::new(self.lab, bench, &self.world, &self.key, self.budget)
    }

    pub(super) fn facts(&self) -> SessionFacts {
        let session = held(&self.session);
        SessionFacts {
            session_id: session.record.session_id.clone(),
            session_key: (!self.fleeting).then(|| self.key.clone()),
            agent: MAIN_AGENT.into(),
            store: Some("check".into()),
            ephemeral: self.fleeting,
            settings: Some(RuntimeSettings { prompt_token_budget: Some(self.budget), ..RuntimeSettings::default() }),
            token_budget: Some(self.budget),
            ..SessionFacts::default()
        }
    }

    pub(super) fn context(&self) -> SegmentContext {
        SegmentContext::new(self.facts(), Arc::clone(&self.world) as Arc<dyn HostServices>)
    }

    /// Calls hooks of the engine.
    pub(super) fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Segment) -> Result<T, HookFailure> + Send + 'static,
    ) -> Result<T, HookFailure> {
        self.bench.engine().segment_blocking(self.context(), work).and_then(|inner| inner)
    }

    pub(super) fn session(&self) -> std::sync::MutexGuard<'_, Session> {
        held(&self.session)
    }

    /// Appends messages that no engine is told of.
    pub(super) fn append(&self, messages: &[Message]) {
        for message in messages {
            let id = self.world.id();
            self.session().say(id, message.clone(), &self.world.counter);
        }
    }

    /// The person says something: the turn is admitted, and fenced.
    pub(super) fn admit(&self, message: &Message) -> EntryId {
        let id = self.world.id();
        let mut session = self.session();
        session.say(id, message.clone(), &self.world.counter);
        session.fence = id;
        id
    }

    /// A whole turn that another engine, or none, serves.
    pub(super) fn pass(&self, turn: &Turn) {
        self.append(turn);
        self.session().fence = 0;
    }

    /// Bootstrap and its maintenance, when the engine has not met the session.
    pub(super) fn meet(&mut self) -> Result<(), HookFailure> {
        if std::mem::replace(&mut self.met, true) || self.fleeting {
            return Ok(());
        }
        let fence = self.session().fence;
        if !self.session().branch.entries().iter().any(|entry| fence == 0 || entry.id < fence) {
            return Ok(());
        }
        self.session().read_up_to = 0;
        self.lab.doing("in bootstrap");
        self.call(|segment| {
            segment.bootstrap()?;
            segment.maintain(trigger::BOOTSTRAP, false).map(drop)
        })?;
        let mut session = self.session();
        session.handed = session.handed.max(session.read_up_to);
        Ok(())
    }

    /// What the model would see now.
    pub(super) fn assemble(&mut self) -> Step<Shown> {
        let (view, len) = self.session().view(&self.world.counter);
        let prompt = view.heads.get(len).map(|head| PromptInput {
            entry_id: head.id,
            tokens: view.tokens(len..view.len()),
            message: Arc::clone(&view.bodies[len]),
        });
        let input = AssembleInput {
            view: Arc::clone(&view),
            len,
            prompt,
            system_tokens: 0,
            available_tools: vec!["lookup".into()],
            model: Some("check".into()),
            citations_mode: 0,
        };
        self.lab.doing("in assemble");
        let output = self.call(move |segment| segment.assemble(&input))?;
        let shown = Shown::of(&view, len, &output, &self.world.counter);
        let cost = shown.history + shown.additions;
        if cost > self.budget {
            self.over_budget = self.over_budget.max(Some((cost, self.budget)));
        }
        if shown.history.abs_diff(shown.estimated) * 4 > shown.history && shown.history.abs_diff(shown.estimated) > 40 {
            self.misjudged.get_or_insert((shown.estimated, shown.history));
        }
        Ok(shown)
    }

    /// One turn, from the person's words to the commit. Gives the prompt of its last model call.
    pub(super) fn turn(&mut self, turn: &Turn) -> Step<Shown> {
        let first = self.prompt(turn)?;
        let shown = self.finish(turn)?;
        self.settle(first)?;
        Ok(shown)
    }

    /// Until the first model call.
    fn prompt(&mut self, turn: &Turn) -> Step<EntryId> {
        let Some(said) = turn.first() else { return Ok(0) };
        let first = self.admit(said);
        self.meet()?;
        self.lab.doing("in tools");
        self.call(Segment::tools)?;
        Ok(first)
    }

    /// Until the answer is stored.
    fn finish(&mut self, turn: &Turn) -> Step<Shown> {
        let mut shown = self.assemble()?;
        let tools = turn.iter().rposition(|message| message.role == Role::Tool).map_or(1, |at| at + 1);
        if tools > 1 {
            self.append(&turn[1..tools]);
            shown = self.assemble()?;
        }
        self.append(turn.get(tools..).unwrap_or_default());
        Ok(shown)
    }

    /// The turn that began with `first`, as it is handed over.
    pub(super) fn accepted(&self, first: EntryId) -> CommitInput {
        let session = self.session();
        let entries = session.from(first);
        let anchor = |entry: Option<&EntryRef>| Anchor {
            entry_id: entry.map_or(0, |entry| entry.head.id),
            raw_seq: entry.map_or(0, |entry| entry.head.id),
            generation: session.record.generation,
            ..Anchor::default()
        };
        CommitInput {
            advancement_key: format!("{}:{first}", session.record.session_id),
            logical_turn_id: format!("turn-{first}"),
            admission: anchor(entries.first()),
            terminal: anchor(entries.last()),
            entries,
        }
    }

    /// Hands a turn over.
    pub(super) fn commit(&self, input: CommitInput) -> Result<Option<CommitStatus>, HookFailure> {
        self.lab.doing("in commitTurn");
        let last = input.terminal.entry_id;
        let status = self.call(move |segment| segment.commit_turn(&input))?;
        if status.is_some() {
            let mut session = self.session();
            session.handed = session.handed.max(last);
        }
        Ok(status)
    }

    /// The answer is stored: the turn is over, and handed over.
    pub(super) fn settle(&mut self, first: EntryId) -> Step<()> {
        self.session().fence = 0;
        if self.fleeting {
            return self.tell(first);
        }
        let input = self.accepted(first);
        self.commit(input)?;
        self.lab.doing("in maintain");
        self.call(|segment| segment.maintain(trigger::TURN, false).map(drop))?;
        Ok(())
    }

    /// The forerunners of `commitTurn`, of which the first counts that the engine has.
    fn tell(&self, first: EntryId) -> Step<()> {
        let (all, turn) = {
            let session = self.session();
            (session.from(0), session.from(first))
        };
        let before = all.len() - turn.len();
        self.lab.doing("in afterTurn, ingestBatch or ingest");
        self.call(move |segment| {
            if segment.has(Hook::AfterTurn) && segment.after_turn(&all, before, None)? {
                return Ok(());
            }
            if segment.ingest_batch(&turn)?.is_some() {
                return Ok(());
            }
            turn.iter().try_for_each(|entry| segment.ingest(entry).map(drop))
        })?;
        Ok(())
    }

    /// What the model would see if the person asked this now; nothing of it stays.
    pub(super) fn look(&mut self, text: &str) -> Step<Shown> {
        let head = self.session().branch.head();
        self.admit(&super::script::user(text));
        let met = self.meet();
        let shown = met.map_err(Finding::from).and_then(|()| self.assemble());
        let mut session = self.session();
        session.fence = 0;
        session.edit_away(head);
        shown
    }

    /// The session ends.
    pub(super) fn end(&self, reason: u32) -> Step<()> {
        self.lab.doing("in onSessionEnded");
        self.call(move |segment| segment.on_session_ended(reason).map(drop))?;
        Ok(())
    }
}

/// A finding of a check that is about a difference.
pub(super) fn same(check: Check, what: &str, one: &Shown, other: &Shown) -> Step<()> {
    match one.difference(other) {
        None => Ok(()),
        Some(how) => Err(Finding { compared: true, ..Finding::new(check, format!("{what}: {how}")) }),
    }
}

/// What is shown of a session that its engine was there for all the time.
pub(super) fn lived(lab: &Lab, folder: &str, budget: u64, script: &[Turn]) -> Step<Shown> {
    let bench = lab.bench(&lab.folder(folder)?)?;
    let world = World::new();
    let mut talk = Talk::new(lab, &bench, &world, KEY, budget);
    for turn in script {
        talk.turn(turn)?;
    }
    let shown = talk.look(QUESTION)?;
    bench.dispose()?;
    Ok(shown)
}
