//! What the next call would tell a host that keeps the conversation: for a report, which tells nobody anything.

use super::super::TurnError;
use super::super::context::ContextReport;
use super::super::prepare::Assembled;
use super::super::prompt::Prompt;
use super::super::run::TurnRun;
use super::Keeper;
use super::thread::Plan;
use crate::slot::AssembleOutput;

impl TurnRun {
    /// What stands where a prompt would, when the host gets none: the user's words.
    pub(in crate::turn) fn unassembled(&self) -> Assembled {
        let (view, len) = {
            let state = self.session.state();
            let view = state.view();
            let len = match self.admitted.first {
                0 => view.len(),
                first => state.turn_start(first),
            };
            (view, len)
        };
        let fixed = self.system_tokens + self.tool_tokens;
        let output = AssembleOutput::default();
        let turn = view.items(len..view.len(), len);
        let prompt = Prompt::build(&self.system, fixed, &view, turn, &output, &self.agent.counter);
        Assembled { prompt, unwindowed: None, view, given: Vec::new() }
    }

    /// How the next call would tell a thread of it, in a sentence.
    pub(in crate::turn) async fn outlook(&self, prompt: &Prompt) -> Result<Option<String>, TurnError> {
        if Keeper::of(&self.agent.info) != Some(Keeper::Thread) {
            return Ok(None);
        }
        let plan = match self.host_note().await? {
            Some(note) => self.plan(prompt, &note),
            None => Plan::Inject { why: "first" },
        };
        Ok(Some(match plan {
            Plan::Continue { previous, from, .. } => format!(
                "the provider has everything up to entry {from} ({previous}); the next turn tells it only what comes after"
            ),
            Plan::Inject { why } => format!("the next turn tells the provider all of this in a new thread ({why})"),
        }))
    }
}

/// Says of a session on a command's host what that means for its entries.
pub(in crate::turn) fn on_command(report: &mut ContextReport) {
    report.notes.push("nothing is assembled for a command: it gets the user's words, and keeps its own history".into());
    let engine = report.engine.clone();
    for entry in report.entries.iter_mut().filter(|entry| !entry.shown && entry.by == engine) {
        entry.by = "host".into();
        entry.why = "the command keeps its own history".into();
    }
}
