//! The table that people read.

use super::Outcome;
use serde_json::{Value, json};

/// One line.
#[derive(Debug, Clone)]
pub struct Row(pub [String; 7]);

impl From<&Outcome> for Row {
    fn from(outcome: &Outcome) -> Row {
        let cell = outcome.cell;
        let word = if outcome.problems.is_empty() { "ok" } else { "UNEXPECTED" };
        Row([
            cell.isolation.to_string(),
            cell.spot.hook.to_owned(),
            cell.case.name.to_owned(),
            outcome.got.clone(),
            outcome.state.clone(),
            outcome.held.as_millis().to_string(),
            word.to_owned(),
        ])
    }
}

const HEAD: [&str; 7] = ["isolation", "hook", "mode", "client got", "engine's state", "held ms", ""];

/// All lines, with their columns in line.
pub fn render(outcomes: &[Outcome]) -> String {
    let rows: Vec<Row> = std::iter::once(Row(HEAD.map(str::to_owned))).chain(outcomes.iter().map(Row::from)).collect();
    let mut widths = [0; 7];
    for row in &rows {
        for (width, text) in widths.iter_mut().zip(&row.0) {
            *width = (*width).max(text.chars().count());
        }
    }
    let mut out = String::new();
    for row in &rows {
        let cells = row.0.iter().zip(widths).map(|(text, width)| format!("{text:width$}")).collect::<Vec<_>>();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// A cell for programs.
pub fn json(outcome: &Outcome) -> Value {
    let cell = outcome.cell;
    json!({
        "isolation": cell.isolation.as_str(),
        "hook": cell.spot.hook,
        "mode": cell.case.name,
        "got": outcome.got,
        "state": outcome.state,
        "heldMs": u64::try_from(outcome.held.as_millis()).unwrap_or(u64::MAX),
        "problems": outcome.problems,
    })
}
