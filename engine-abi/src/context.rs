//! What a hook and a factory get beside their arguments: the host, the session, the clock.
#![allow(unsafe_code, reason = "calls the host's functions and reads what they lend for the duration of the call")]

use crate::codes::Level;
use crate::error::ServiceError;
use crate::raw::{self, view};
use crate::store::{Store, Writes};
use crate::view::Session;
use crate::wire::{self, CallV1, FrameV1, HostV1, Str, status};
use crate::{Error, Result};
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

/// The host inside one call. Its services are methods here; [`Context`] and [`Factory`] both lead to it.
pub struct Host {
    pub(crate) host: *const HostV1,
    pub(crate) frame: *const FrameV1,
}

impl Host {
    /// Writes a log line, filed under the engine and this call. `tracing` events arrive in the same place.
    pub fn log(&self, level: Level, message: &str) {
        // SAFETY: the host's table lives as long as the library is used.
        unsafe { ((*self.host).log)(self.host, self.frame, level.code(), Str::new("engine"), Str::new(message)) };
    }

    /// What a service answered, as a result with the host's reason.
    pub(crate) fn answer(&self, service: &'static str, answer: u32) -> Result<(), ServiceError> {
        if answer == status::OK {
            return Ok(());
        }
        let mut message = Str::NONE;
        // SAFETY: the host's table is valid; it writes a text that stays valid until the hook returns.
        let (token, text) = unsafe { (((*self.host).last_error)(self.frame, &raw mut message), raw::text(message)) };
        let message = text.map_or_else(|| format!("failed with status {answer}"), str::to_owned);
        Err(ServiceError { service, status: answer, message, token })
    }
}

/// One call of one hook.
pub struct Context {
    host: Host,
    call: *const CallV1,
    session: Session,
    pub(crate) writes: RefCell<Writes>,
    /// The writes of the whole hook must stay one batch.
    pub(crate) one_batch: Cell<bool>,
}

impl Context {
    /// # Safety
    ///
    /// `call` comes from the host and is valid as long as the context; so is `session`, unless it is null.
    pub(crate) unsafe fn new(call: *const CallV1, session: *const wire::SessionV1) -> Context {
        // SAFETY: the caller's promise.
        let (host, frame, session) = unsafe { ((*call).host, (*call).frame, session.as_ref()) };
        Context {
            host: Host { host, frame },
            call,
            session: session.map_or(Session::NONE, |session| Session(*session)),
            writes: RefCell::default(),
            one_batch: Cell::new(false),
        }
    }

    /// The session of the call. In hooks that are about no session everything in it is absent.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// True when the call is cancelled or past its deadline and should return soon. Cheap enough for inner loops.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        let call = self.call();
        (call.cancelled)(call.frame) != 0
    }

    /// An error to hand on with `?` once the call is cancelled.
    ///
    /// # Errors
    ///
    /// [`Error::cancelled`].
    pub fn check(&self) -> Result<()> {
        if self.cancelled() { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Time until the deadline; zero when it has passed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let call = self.call();
        Duration::from_millis((call.remaining_ms)(call.frame))
    }

    /// The store's scope of this session. In hooks that are about no session use [`Context::engine_store`].
    #[must_use]
    pub fn store(&self) -> Store<'_> {
        Store { context: self, engine_scope: false }
    }

    /// The store's scope of the engine itself.
    #[must_use]
    pub fn engine_store(&self) -> Store<'_> {
        Store { context: self, engine_scope: true }
    }

    pub(crate) fn call(&self) -> &CallV1 {
        // SAFETY: valid as long as the context, by the promise of `new`.
        unsafe { &*self.call }
    }
}

impl Deref for Context {
    type Target = Host;
    fn deref(&self) -> &Host {
        &self.host
    }
}

view! {
    /// What a factory reads about the instance that it makes.
    FactoryArgs(FactoryContextV1) {
        /// Id under which the engine was registered.
        text engine_id;
    }
}

impl FactoryArgs {
    /// Agent folder.
    #[must_use]
    pub fn agent_dir(&self) -> Option<&Path> {
        // SAFETY: the host lent the text for the call.
        unsafe { raw::text(self.0.agent_dir) }.map(Path::new)
    }

    /// Workspace folder.
    #[must_use]
    pub fn workspace_dir(&self) -> Option<&Path> {
        // SAFETY: the host lent the text for the call.
        unsafe { raw::text(self.0.workspace_dir) }.map(Path::new)
    }

    /// The engine's private state folder; it exists.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        // SAFETY: the host lent the text for the call.
        Path::new(unsafe { raw::text(self.0.state_dir) }.unwrap_or_default())
    }
}

/// What a factory gets: [`FactoryArgs`], and the host through [`Factory::host`].
pub struct Factory<'a> {
    args: &'a FactoryArgs,
    host: Host,
}

impl Factory<'_> {
    /// # Safety
    ///
    /// `context` comes from the host and is valid for the factory's life.
    pub(crate) unsafe fn new<'a>(context: *const wire::FactoryContextV1) -> Factory<'a> {
        // SAFETY: the caller's promise; the wrapper is transparent.
        let args: &FactoryArgs = unsafe { &*context.cast() };
        Factory { args, host: Host { host: args.0.host, frame: args.0.frame } }
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The configuration's JSON text.
    pub(crate) fn config_json(&self) -> &str {
        // SAFETY: the host lent the text for the call.
        unsafe { raw::text(self.args.0.config_json) }.filter(|text| !text.trim().is_empty()).unwrap_or("{}")
    }
}

impl Deref for Factory<'_> {
    type Target = FactoryArgs;
    fn deref(&self) -> &FactoryArgs {
        self.args
    }
}
