//! `tracing` events of the engine, forwarded to the host's log. Each library has its own copy of `tracing`.

use crate::guard;
use crate::wire::log_level;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// Installs the forwarder, unless the engine has installed a subscriber of its own.
pub(crate) fn install() {
    let _ = tracing::subscriber::set_global_default(Forward { spans: AtomicU64::new(1) });
}

struct Forward {
    spans: AtomicU64,
}

impl Subscriber for Forward {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let level = match *metadata.level() {
            Level::ERROR => log_level::ERROR,
            Level::WARN => log_level::WARN,
            Level::INFO => log_level::INFO,
            Level::DEBUG => log_level::DEBUG,
            _ => log_level::TRACE,
        };
        let mut line = Line::default();
        event.record(&mut line);
        guard::log(level, metadata.target(), &line.finish());
    }

    // The host knows which call a line belongs to; an engine's own spans need an identity, and nothing more.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// `message key=value …`
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn finish(mut self) -> String {
        self.message.push_str(&self.fields);
        self.message.trim_start().to_owned()
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String fails only when `value` says so; the rest of the line is still worth having.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            _ => self.record_debug(field, &value),
        }
    }
}
