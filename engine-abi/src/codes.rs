//! The closed code lists as enums. The wire carries `u32`; a code that a list does not have reads as its default.

/// Declares an enum over a module of codes; the first value is the default.
macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident in $module:ident { $($(#[$value_meta:meta])* $value:ident = $code:ident,)+ })+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[non_exhaustive]
            pub enum $name { $($(#[$value_meta])* $value,)+ }

            impl $name {
                /// The code on the wire.
                #[must_use]
                pub const fn code(self) -> u32 {
                    match self { $(Self::$value => crate::wire::$module::$code,)+ }
                }

                /// The value of a code, `None` when the list does not have it.
                #[must_use]
                pub const fn from_code(code: u32) -> Option<Self> {
                    match code {
                        $(crate::wire::$module::$code => Some(Self::$value),)+
                        _ => None,
                    }
                }
            }

            #[allow(clippy::derivable_impls, reason = "which value is the default is the macro's business")]
            impl Default for $name {
                fn default() -> Self {
                    [$(Self::$value),+][0]
                }
            }
        )+
    };
}

codes! {
    /// Role of a message.
    Role in role {
        /// The person.
        User = USER,
        /// The model.
        Assistant = ASSISTANT,
        /// The result of a tool call.
        Tool = TOOL,
    }
    /// Level of a log line.
    Level in log_level {
        /// Information.
        Info = INFO,
        /// Error.
        Error = ERROR,
        /// Warning.
        Warn = WARN,
        /// Debugging.
        Debug = DEBUG,
        /// Tracing.
        Trace = TRACE,
    }
    /// `turnMaintenanceMode`.
    MaintenanceMode in maintenance_mode {
        /// `maintain` runs before the turn ends.
        Foreground = FOREGROUND,
        /// `maintain` is queued and never delays a reply.
        Background = BACKGROUND,
    }
    /// An operation with host requirements.
    Operation in operation {
        /// `agent-run`.
        AgentRun = AGENT_RUN,
        /// `manual-compact`.
        ManualCompact = MANUAL_COMPACT,
        /// `subagent-spawn`.
        SubagentSpawn = SUBAGENT_SPAWN,
    }
    /// `citationsMode`.
    CitationsMode in citations_mode {
        /// The host decides.
        Auto = AUTO,
        /// On.
        On = ON,
        /// Off.
        Off = OFF,
    }
    /// `promptAuthority`.
    PromptAuthority in prompt_authority {
        /// What was assembled is what counts.
        Assembled = ASSEMBLED,
        /// The larger of the assembled and the unwindowed history counts.
        PreassemblyMayOverflow = PREASSEMBLY_MAY_OVERFLOW,
    }
    /// Why a compaction or a maintenance runs.
    Trigger in trigger {
        /// The context grew past its threshold.
        Budget = BUDGET,
        /// The prompt is too long for the model.
        Overflow = OVERFLOW,
        /// A person or a program asked.
        Manual = MANUAL,
        /// The model timed out with a nearly full window.
        TimeoutRecovery = TIMEOUT_RECOVERY,
        /// After `bootstrap`.
        Bootstrap = BOOTSTRAP,
        /// After an accepted turn.
        Turn = TURN,
        /// After a compaction.
        Compaction = COMPACTION,
        /// The context of a command-line agent grew past its threshold.
        CliBudget = CLI_BUDGET,
        /// The same, by the agent's own count.
        CliNativeBudget = CLI_NATIVE_BUDGET,
    }
    /// Why a compaction is forced.
    ForceReason in force_reason {
        /// The next prompt would not fit.
        PreflightRequired = PREFLIGHT_REQUIRED,
        /// A person or a program asked.
        Manual = MANUAL,
    }
    /// `compactionTarget`.
    CompactionTarget in compaction_target {
        /// Down to the budget.
        Budget = BUDGET,
        /// Down to the threshold.
        Threshold = THRESHOLD,
    }
    /// What `commitTurn` did.
    Committed in commit_status {
        /// The turn is in.
        Committed = COMMITTED,
        /// It was in before.
        Duplicate = DUPLICATE,
    }
    /// `contextMode` of a subagent.
    SubagentContext in context_mode {
        /// It starts empty.
        Isolated = ISOLATED,
        /// It starts with its parent's history.
        Fork = FORK,
    }
    /// Why a subagent ended.
    SubagentEnd in subagent_end {
        /// It was done.
        Completed = COMPLETED,
        /// It was deleted.
        Deleted = DELETED,
        /// It was swept away with others.
        Swept = SWEPT,
        /// Its parent let it go.
        Released = RELEASED,
    }
    /// Why a session ended.
    SessionEnd in session_end {
        /// It was deleted, with its store scope.
        Deleted = DELETED,
        /// A reset boundary was written.
        Reset = RESET,
        /// It was not used for long.
        Expired = EXPIRED,
        /// It was ephemeral and its turn is over.
        Ephemeral = EPHEMERAL,
    }
    /// `runtime.mode`.
    RuntimeMode in runtime_mode {
        /// As configured.
        Normal = NORMAL,
        /// With another model than the one asked for.
        Fallback = FALLBACK,
        /// With something missing.
        Degraded = DEGRADED,
    }
    /// `contextEngineSelection.source`.
    SelectionSource in selection_source {
        /// Not known.
        Unknown = UNKNOWN,
        /// From the configuration.
        Configured = CONFIGURED,
        /// Nothing was configured.
        Default = DEFAULT,
    }
    /// Closed reasons of the runtime settings' diagnostics.
    Reason in reason_code {
        /// `unknown`.
        Unknown = UNKNOWN,
        /// `provider_timeout`.
        ProviderTimeout = PROVIDER_TIMEOUT,
        /// `provider_unavailable`.
        ProviderUnavailable = PROVIDER_UNAVAILABLE,
        /// `rate_limited`.
        RateLimited = RATE_LIMITED,
        /// `context_overflow`.
        ContextOverflow = CONTEXT_OVERFLOW,
        /// `runtime_unavailable`.
        RuntimeUnavailable = RUNTIME_UNAVAILABLE,
    }
    /// How long a provider keeps its prompt cache.
    CacheRetention in cache_retention {
        /// Not known.
        Unknown = UNKNOWN,
        /// Not at all.
        None = NONE,
        /// For minutes.
        Short = SHORT,
        /// For an hour or so.
        Long = LONG,
        /// While the server runs.
        InMemory = IN_MEMORY,
        /// For a day.
        Hours24 = HOURS_24,
    }
    /// Why a cursor was reset.
    CursorReset in cursor_reset {
        /// The cursor is not one.
        InvalidCursor = INVALID_CURSOR,
        /// It belongs to another session.
        ScopeMismatch = SCOPE_MISMATCH,
        /// The transcript was rewritten.
        GenerationMismatch = GENERATION_MISMATCH,
        /// The entry it stands at is gone.
        AnchorMissing = ANCHOR_MISSING,
        /// The entry it stands at is elsewhere.
        AnchorMoved = ANCHOR_MOVED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_unknown_ones_do_not() {
        for trigger in [Trigger::Budget, Trigger::Turn, Trigger::CliNativeBudget] {
            assert_eq!(Trigger::from_code(trigger.code()), Some(trigger));
        }
        assert_eq!(Role::from_code(0), None);
        assert_eq!(Committed::from_code(7), None);
        assert_eq!(ForceReason::from_code(crate::wire::force_reason::NONE), None);
        assert_eq!(SelectionSource::default(), SelectionSource::Unknown);
    }
}
