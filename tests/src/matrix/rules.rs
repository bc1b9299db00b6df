//! What must come of a cell: from the nature of the mode, the place of the hook, and what the isolation contains.

use super::case::{Nature, SHORT};
use super::spot::{Trigger, When};
use super::{Cell, Isolation};
use std::time::Duration;

/// What becomes of the engine, and of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The engine goes on.
    Serves,
    /// The engine is out.
    Out,
    /// The engine goes on or is out; the gateway goes on.
    ServesOrOut,
    /// The gateway ends.
    GatewayEnds,
    /// The gateway may end, or be of no use until it is restarted.
    Unknown,
}

/// What must come of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expect {
    /// Of the engine.
    pub fate: Fate,
    /// The request that called the hook is answered well.
    pub answered: Answered,
    /// The degraded codes that the reply may have when another engine made it.
    pub codes: &'static [&'static str],
    /// The longest time for which the session may be held.
    pub held: Duration,
    /// The verdict of the crash ledger at the next start, where the gateway ended.
    pub verdict: Option<&'static str>,
}

/// Who answers the request that called the hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The engine.
    ByEngine,
    /// The next of the chain.
    ByFallback,
    /// Either of them.
    ByAny,
    /// An error that says what failed: the request was for nothing else.
    Refused,
    /// Well or with an error.
    Somehow,
    /// Nobody need answer: the gateway is gone.
    Nobody,
}

/// What anything may take on a machine that is busy with many gateways.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the module.
pub fn expected(cell: Cell) -> Expect {
    let (case, spot) = (cell.case, cell.spot);
    let contained = cell.isolation == Isolation::Process;
    // The hook came to nothing, in this way.
    let failure: Option<&'static [&'static str]> = match case.nature {
        Nature::Calm => None,
        Nature::Owing if !spot.owes => None,
        Nature::Error => Some(&["engine-quarantined"]),
        Nature::Late => Some(&["deadline"]),
        Nature::Invalid | Nature::Owing => Some(&["invalid-result"]),
        // Without a call of its own nothing can be asked for, and the engine returns an error of its own.
        Nature::Service => Some(&["service-error", "engine-quarantined"]),
        Nature::Ends => Some(&["engine-crashed"]),
        Nature::EndsLater => None,
        Nature::Starves => Some(&["engine-crashed", "service-error", "engine-quarantined", "deadline"]),
    };
    let codes: &'static [&'static str] = match (spot.when, case.nature) {
        // At the start a death is one of the ways in which a load stage fails.
        (_, Nature::EndsLater) => &["engine-crashed"],
        (When::Start, Nature::Ends | Nature::Starves) => &["engine-crashed", "engine-refused"],
        (When::Start, _) => &["engine-refused"],
        _ => failure.unwrap_or(&[]),
    };
    let fate = match (case.nature, contained) {
        // Nobody is there to see it.
        (Nature::EndsLater, false) if spot.when == When::Stop => Fate::Unknown,
        (Nature::Ends | Nature::EndsLater, false) => Fate::GatewayEnds,
        (Nature::Starves, false) => Fate::Unknown,
        (Nature::Starves, true) => Fate::ServesOrOut,
        (Nature::EndsLater, true) if spot.when != When::Stop => Fate::Out,
        // The first error of a service costs the call, not the place. What is no call of a session has no service to blame.
        (Nature::Service, _) if has_store(spot.hook) => Fate::Serves,
        _ if failure.is_some() => Fate::Out,
        _ => Fate::Serves,
    };
    let answered = match (fate, spot.when) {
        (Fate::GatewayEnds | Fate::Unknown, When::Start | When::Before | When::Own | When::Aside | When::Stop) => {
            Answered::Nobody
        }
        // The reply was made before the hook, or crosses its end.
        (Fate::GatewayEnds | Fate::Unknown, When::After) => Answered::Somehow,
        (_, When::Stop) => Answered::Nobody,
        (_, When::After) => Answered::ByEngine,
        (_, When::Aside) if spot.trigger == Trigger::LateChild => Answered::Refused,
        (_, When::Aside) => Answered::ByEngine,
        (_, When::Start) if spot.memory => Answered::ByEngine,
        // On a busy machine the reply may take longer than the engine lives.
        (_, When::Own) if case.nature == Nature::EndsLater => Answered::Somehow,
        (_, When::Start | When::Before) if case.nature == Nature::EndsLater => Answered::ByAny,
        (Fate::ServesOrOut, When::Own) => Answered::Somehow,
        (Fate::ServesOrOut, _) => Answered::ByAny,
        (_, When::Own) if failure.is_some() => Answered::Refused,
        (_, When::Before | When::Start) if failure.is_some() => Answered::ByFallback,
        _ => Answered::ByEngine,
    };
    let held = if case.is_timed() { Duration::from_millis(SHORT) + PATIENCE } else { PATIENCE };
    // An end without a trace behind an order to stop is taken for that order's.
    let word = match (case.traceless, spot.when) {
        (false, _) => "crashed",
        (true, When::Stop) => "outside",
        (true, _) => "unexplained",
    };
    let verdict = (fate == Fate::GatewayEnds).then_some(word);
    Expect { fate, answered, codes, held, verdict }
}

/// True when the hook has a context with the engine's own store in it, so that the error it hands on is the host's.
fn has_store(hook: &str) -> bool {
    !matches!(hook, "factory" | "info" | "dispose" | "memory_factory" | "memory_info" | "memory_dispose")
}
