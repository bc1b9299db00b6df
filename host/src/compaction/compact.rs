//! One compaction: plan, summarise, check. It stores nothing; whatever fails leaves the history as it was.

use super::boundary::{summary_message, summary_text};
use super::plan::{CutPlan, plan, plan_at, reason};
use super::summary::{
    Extract, Identifiers, Limits, Parts, REQUEST, Subject, Summarizer, compose, has_content, notes, section, shortened,
    without_host_sections,
};
use super::view::View;
use crate::diagnostic::Diagnostic;
use crate::model::TokenCounter;
use crate::transcript::{EntryId, Role};
use engine_abi::wire::entry_flags;
use std::sync::Arc;
use std::time::Instant;

/// What to compact.
#[derive(Debug, Clone)]
pub struct CompactInput {
    /// The projection.
    pub view: Arc<View>,
    /// Number of rows before the turn that is being answered; the whole length when none is.
    pub until: usize,
    /// Tokens that the history may cost when it is done; 0 when no number is known.
    pub token_budget: u64,
    /// Compact although nothing presses: also what is recent, down to half of it.
    pub force: bool,
    /// Tail that stays word for word, in tokens; at most a third of the budget is used.
    pub keep_recent_tokens: u64,
    /// Focus of the operator: data for the summarizer, at most 800 characters of it are used.
    pub custom_instructions: Option<String>,
    /// Largest summary, in characters.
    pub max_summary_chars: usize,
    /// First row that stays in any case. `None`: the last request before `until` when it has no final answer; but where that
    /// leaves nothing to compact, its turn is split and the summary quotes the request.
    pub must_keep_from: Option<EntryId>,
    /// A cut that was planned before and not carried out. Where it still serves it is taken again, so that what was written for
    /// it is of use.
    pub planned: Option<EntryId>,
    /// An extract may take the place of a model's summary that failed. Otherwise the compaction fails then.
    pub may_extract: bool,
    /// When the summary must be there.
    pub deadline: Instant,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There is a summary to store.
    Compacted {
        /// The summary, without the preface that the projection adds.
        summary: String,
        /// First entry that stays word for word.
        first_kept: EntryId,
        /// Tokens of the projection before.
        tokens_before: u64,
        /// Tokens of the projection after, with the summary as it will be sent.
        tokens_after: u64,
        /// "model" or "extract".
        method: &'static str,
    },
    /// There was nothing to do; one of the names in [`super::reason`].
    Nothing {
        /// Why.
        reason: &'static str,
    },
}

/// Why a compaction failed. The history is as it was.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// The input names rows that the view does not have.
    #[error("the compaction was asked to stop at row {until} of {rows}")]
    Input {
        /// Asked for.
        until: usize,
        /// Rows of the view.
        rows: usize,
    },
    /// No summary passed the checks.
    #[error("no summary could be made: {0}")]
    Summary(String),
    /// The deadline passed.
    #[error("the compaction did not end before its deadline")]
    Deadline,
}

impl Diagnostic for CompactionError {
    fn code(&self) -> &'static str {
        match self {
            CompactionError::Input { .. } => "CE650",
            CompactionError::Summary(_) => "CE651",
            CompactionError::Deadline => "CE652",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            CompactionError::Summary(_) => {
                Some("the history is unchanged; a larger [compaction] max_summary_chars may help".into())
            }
            CompactionError::Deadline => Some("the history is unchanged; see [compaction] timeout_ms".into()),
            CompactionError::Input { .. } => None,
        }
    }
}

/// Replaces the older part of the history by a summary: [`cut`], then [`compact_at`].
pub async fn compact(
    input: CompactInput,
    summarizer: &dyn Summarizer,
    counter: &TokenCounter,
) -> Result<Outcome, CompactionError> {
    match cut(&input)? {
        Ok(cut) => compact_at(input, cut, summarizer, counter).await,
        Err(reason) => Ok(Outcome::Nothing { reason }),
    }
}

/// Where the history would be cut, or the reason why not.
///
/// # Errors
///
/// That the input makes no sense, or that the deadline has passed.
pub fn cut(input: &CompactInput) -> Result<Result<CutPlan, &'static str>, CompactionError> {
    let rows = input.view.len();
    if input.until > rows {
        return Err(CompactionError::Input { until: input.until, rows });
    }
    if Instant::now() >= input.deadline {
        return Err(CompactionError::Deadline);
    }
    let (keep, must_keep) = (keep(input), must_keep_from(input));
    if let Some(cut) = input.planned.and_then(|id| plan_at(&input.view, input.until, id, keep, must_keep)) {
        return Ok(Ok(cut));
    }
    Ok(match plan(&input.view, input.until, keep, must_keep) {
        // The open request alone is in the way: its turn is split, and the summary quotes it.
        Err(_) if must_keep != input.must_keep_from => plan(&input.view, input.until, keep, input.must_keep_from),
        planned => planned,
    })
}

/// Replaces what is before the cut by a summary.
///
/// The summary is written by `summarizer` when it is available, in parts where the source is longer than its window. When it
/// fails, takes too long or says nothing, the compaction fails, or the built-in extract takes its place where the input allows
/// it. Either way it is smaller than what it replaces and within its cap, holds the exact identifiers of its source, newest
/// first, as far as the cap goes, and is measured by `counter`.
pub async fn compact_at(
    input: CompactInput,
    cut: CutPlan,
    summarizer: &dyn Summarizer,
    counter: &TokenCounter,
) -> Result<Outcome, CompactionError> {
    let rows = input.view.len();
    let Some(limits) = limits(&input, &cut) else { return Ok(Outcome::Nothing { reason: reason::NO_GAIN }) };
    if limits.tokens < u64::from(counter.message(&summary_message(""))) + FEWEST_TOKENS {
        return Ok(Outcome::Nothing { reason: reason::NO_GAIN });
    }
    let source = Source::of(&input, &cut);
    let mut made = None;
    if summarizer.available() {
        match source.written(&input, limits, summarizer, counter).await {
            Ok(summary) => made = Some((summary, "model")),
            Err(reason) if !input.may_extract => return Err(CompactionError::Summary(reason)),
            Err(reason) => tracing::warn!(%reason, "the model's summary cannot be used, an extract takes its place"),
        }
    }
    if made.is_none() {
        made = source.extracted(limits, counter).await?.map(|summary| (summary, "extract"));
    }
    let Some((summary, method)) = made else { return Ok(Outcome::Nothing { reason: reason::NO_GAIN }) };
    let shown = u64::from(counter.message(&summary_message(&summary)));
    if shown >= cut.replaced {
        return Err(CompactionError::Summary(format!("it has {shown} tokens and would replace {}", cut.replaced)));
    }
    let tokens_before = input.view.tokens(0..rows);
    let tokens_after = tokens_before - cut.replaced + shown;
    Ok(Outcome::Compacted { summary, first_kept: cut.first_kept, tokens_before, tokens_after, method })
}

fn budget(input: &CompactInput) -> u64 {
    if input.token_budget == 0 { u64::MAX } else { input.token_budget }
}

/// What stays word for word: as configured, within the budget; less when it is forced and everything is recent.
fn keep(input: &CompactInput) -> u64 {
    let keep = input.keep_recent_tokens.min(budget(input) / 3);
    let total = input.view.tokens(usize::from(input.view.is_summary(0))..input.until);
    if input.force && total <= keep.saturating_add(keep / 2) { keep.min(total / 2) } else { keep }
}

/// The row that stays in any case: as asked, else the last request before `until` when it has no final answer.
fn must_keep_from(input: &CompactInput) -> Option<EntryId> {
    if input.must_keep_from.is_some() || input.until == 0 {
        return input.must_keep_from;
    }
    let view = &input.view;
    let start = view.turn_of(input.until - 1);
    let head = view.heads.get(start).filter(|head| head.flags & entry_flags::TURN_START != 0)?;
    let answered = view.heads[start..input.until]
        .iter()
        .any(|head| head.role == Role::Assistant.code() && head.flags & entry_flags::TOOL_CALLS == 0);
    let small = view.tokens(start..input.until) <= (budget(input) / 4).max(keep(input).saturating_mul(3) / 2);
    (!answered && small).then_some(head.id)
}

/// How large the summary may be: within its cap, a quarter of the budget, and clearly smaller than what it replaces.
fn limits(input: &CompactInput, cut: &CutPlan) -> Option<Limits> {
    let tokens = (budget(input) / 4).max(64).min(cut.replaced.checked_sub(1)? * 9 / 10);
    (tokens > 0).then_some(Limits { chars: input.max_summary_chars, tokens })
}

/// With fewer tokens than these beside its preface a summary says nothing that is worth its call.
const FEWEST_TOKENS: u64 = 16;

/// What is summarised.
struct Source {
    view: Arc<View>,
    /// Rows before the cut.
    end: usize,
    /// Text of the request whose turn is split.
    request: Option<String>,
    /// Half of what is replaced: an extract that is longer than this is no summary.
    natural_tokens: u64,
}

impl Source {
    fn of(input: &CompactInput, cut: &CutPlan) -> Source {
        let request = cut.split_turn.then(|| request(&input.view, cut.index)).flatten();
        Source { view: Arc::clone(&input.view), end: cut.index, request, natural_tokens: (cut.replaced / 2).max(48) }
    }

    /// A long source takes milliseconds, so it is read off the async threads.
    fn identifiers(&self, limits: Limits) -> tokio::task::JoinHandle<Identifiers> {
        let (view, end) = (Arc::clone(&self.view), self.end);
        tokio::task::spawn_blocking(move || Identifiers::of(&view, 0..end, limits.chars))
    }

    async fn extracted(&self, limits: Limits, counter: &TokenCounter) -> Result<Option<String>, CompactionError> {
        let (view, end) = (Arc::clone(&self.view), self.end);
        let (request, natural, counter) = (self.request.clone(), self.natural_tokens, counter.clone());
        let write = move || {
            let identifiers = Identifiers::of(&view, 0..end, limits.chars);
            let extract = Extract::of(&view, 0..end);
            let body = |tokens: u64, chars: usize| extract.write(tokens.min(natural), chars, &counter);
            let parts = Parts { request: request.as_deref(), identifiers: &identifiers, body: &body };
            compose(&parts, limits, &counter)
        };
        tokio::task::spawn_blocking(write).await.map_err(|error| CompactionError::Summary(error.to_string()))
    }

    /// A summary by the model, completed and checked; the error says why it cannot be used.
    async fn written(
        &self,
        input: &CompactInput,
        limits: Limits,
        summarizer: &dyn Summarizer,
        counter: &TokenCounter,
    ) -> Result<String, String> {
        // The extract needs a moment of its own if this fails.
        let left = input.deadline.saturating_duration_since(Instant::now());
        let until = Instant::now() + left * 9 / 10;
        let first = usize::from(self.view.is_summary(0));
        let former = self.view.is_summary(0).then(|| self.view.bodies[0].text().into_owned());
        let former = former.map(|shown| without_host_sections(summary_text(&shown))).filter(|notes| has_content(notes));
        // As many as the cap on characters can hold, at a language's densest.
        let most = limits.tokens.min(u64::try_from(limits.chars / 2).unwrap_or(u64::MAX));
        let subject = Subject {
            view: Arc::clone(&self.view),
            range: first..self.end,
            former,
            focus: input.custom_instructions.clone(),
            most,
        };
        let identifiers = self.identifiers(limits);
        let notes = tokio::time::timeout_at(until.into(), notes(&subject, summarizer, counter))
            .await
            .map_err(|_| "it took too long".to_owned())??;
        let identifiers = identifiers.await.map_err(|error| error.to_string())?;
        let body = |tokens: u64, chars: usize| shortened(&notes, tokens, chars, counter);
        let parts = Parts { request: self.request.as_deref(), identifiers: &identifiers, body: &body };
        compose(&parts, limits, counter).ok_or_else(|| "it cannot be made small enough".to_owned())
    }
}

/// The request of the turn that row `index` is in; a former split has it in its summary.
fn request(view: &View, index: usize) -> Option<String> {
    let start = view.turn_of(index);
    if view.is_summary(start) {
        let shown = view.bodies[start].text().into_owned();
        let quoted = section(summary_text(&shown), REQUEST)?;
        return Some(quoted.lines().map(|line| line.strip_prefix("> ").unwrap_or(line)).collect::<Vec<_>>().join("\n"));
    }
    let text: Vec<_> = view.bodies[start..index]
        .iter()
        .take_while(|body| body.role == Role::User)
        .map(|body| body.text().into_owned())
        .collect();
    (!text.is_empty()).then(|| text.join("\n"))
}
