//! The precheck: what the next prompt would cost against what it may cost, and which way out there is.

use crate::observe::broken;
use serde::Serialize;

/// Tokens that must be won beyond what is too much before trimming tool results alone is trusted to do.
const MARGIN: u64 = 512;

/// The way to a prompt that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Route {
    Fits,
    /// Long tool results alone hold more than what is too much.
    TruncateToolResultsOnly,
    CompactOnly,
    CompactThenTruncate,
}

/// What is known before a prompt is sent; kept with the turn. Numbers are tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Precheck {
    schema_version: u32,
    source: &'static str,
    pub(super) route: Route,
    should_compact: bool,
    /// What counts: the larger of the two below.
    estimated_prompt_tokens: u64,
    /// The prompt as the engine gave it, with everything that goes with it.
    assembled_tokens: u64,
    /// The whole history, when the engine says that its view may overflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    unwindowed_tokens: Option<u64>,
    context_window: u64,
    effective_reserve_tokens: u64,
    /// What the prompt may cost.
    prompt_budget: u64,
    overflow_tokens: u64,
    reducible_tool_result_tokens: u64,
}

/// What goes into a precheck.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) assembled: u64,
    pub(super) unwindowed: Option<u64>,
    pub(super) window: u64,
    pub(super) limit: u64,
    /// Tokens that trimming long tool results would win.
    pub(super) reducible: u64,
}

/// Holds the prompt against its budget.
pub(super) fn precheck(facts: Facts) -> Precheck {
    let Facts { assembled, unwindowed, window, limit, reducible } = facts;
    let counted = match unwindowed {
        Some(unwindowed) if !broken("8.83") => assembled.max(unwindowed),
        _ => assembled,
    };
    let overflow = counted.saturating_sub(limit);
    let route = route(overflow, if broken("8.82") { 0 } else { reducible });
    Precheck {
        schema_version: if broken("8.84") { 0 } else { 1 },
        source: "pre-prompt-estimate",
        route,
        should_compact: matches!(route, Route::CompactOnly | Route::CompactThenTruncate),
        estimated_prompt_tokens: counted,
        assembled_tokens: assembled,
        unwindowed_tokens: unwindowed,
        context_window: window,
        effective_reserve_tokens: window.saturating_sub(limit),
        prompt_budget: limit,
        overflow_tokens: overflow,
        reducible_tool_result_tokens: reducible,
    }
}

impl Precheck {
    /// True when the history should be compacted.
    pub(super) fn compacts(&self) -> bool {
        self.should_compact
    }
}

fn route(overflow: u64, reducible: u64) -> Route {
    match (overflow, reducible) {
        (0, _) => Route::Fits,
        (_, 0) => Route::CompactOnly,
        (overflow, reducible) if reducible >= (overflow + MARGIN).max(overflow.saturating_mul(3).div_ceil(2)) => {
            Route::TruncateToolResultsOnly
        }
        _ => Route::CompactThenTruncate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(assembled: u64, reducible: u64) -> Precheck {
        precheck(Facts { assembled, unwindowed: None, window: 10_000, limit: 7_500, reducible })
    }

    #[test]
    fn the_route_follows_from_what_is_too_much_and_what_tool_results_hold() {
        assert_eq!(check(7_500, 0).route, Route::Fits);
        assert_eq!(check(7_501, 0).route, Route::CompactOnly);
        assert_eq!(check(8_500, 400).route, Route::CompactThenTruncate);
        assert_eq!(check(8_500, 1_511).route, Route::CompactThenTruncate, "the margin counts");
        assert_eq!(check(8_500, 1_512).route, Route::TruncateToolResultsOnly);
        assert_eq!(check(17_500, 14_999).route, Route::CompactThenTruncate, "half as much again must be there");
        assert_eq!(check(17_500, 15_000).route, Route::TruncateToolResultsOnly);
        assert!(check(8_500, 400).compacts() && !check(8_500, 9_000).compacts() && !check(10, 0).compacts());
    }

    #[test]
    fn the_larger_of_both_counts_when_the_engine_says_that_its_view_may_overflow() {
        let both = Facts { assembled: 100, unwindowed: Some(9_000), window: 10_000, limit: 7_500, reducible: 0 };
        assert_eq!(precheck(both).route, Route::CompactOnly);
        assert_eq!(precheck(Facts { unwindowed: Some(90), ..both }).route, Route::Fits);
        assert_eq!(precheck(Facts { unwindowed: None, ..both }).route, Route::Fits);
    }

    #[test]
    fn it_is_shown_with_its_version_and_source() {
        let shown = serde_json::to_value(check(8_000, 0)).unwrap();
        assert_eq!(shown["schemaVersion"], 1);
        assert_eq!(shown["source"], "pre-prompt-estimate");
        assert_eq!(shown["route"], "compact_only");
        assert_eq!((&shown["overflowTokens"], &shown["promptBudget"]), (&500.into(), &7_500.into()));
    }
}
