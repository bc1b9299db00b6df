//! The registration desk: what `register` of a library talks to. It never unwinds, checks what it is given, keeps what it
//! refused, and closes when the time is up; a late call changes nothing.

use super::{
    Kind, LoadRequest, Loaded, MemoryRegistration, RawFactory, RawMemoryFactory, RegistrarPort, Registration, Wanted,
};
use crate::plugins::cause::Cause;
use crate::plugins::manifest::RESERVED_ENGINE;
use crate::plugins::report::{StageFailure, one_line};
use engine_abi::wire::{EntryPointV1, FactoryV1, MemoryFactoryV1, RegistrarV1, Str, log_level, status};
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest text that a library may hand over, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// One per load; never freed, since a call that was abandoned still holds its address.
pub(super) struct Desk {
    plugin_id: String,
    engines: Vec<String>,
    memory: Vec<String>,
    port: Arc<dyn RegistrarPort>,
    books: Mutex<Books>,
}

/// What was registered, refused and said.
#[derive(Default)]
pub(super) struct Books {
    closed: bool,
    engines: Vec<(String, RawFactory)>,
    memory: Vec<(String, RawMemoryFactory)>,
    refused: Vec<(Wanted, Cause, String)>,
    reason: Option<String>,
    pub(super) notes: Vec<String>,
}

impl Desk {
    pub(super) fn open(request: &LoadRequest, port: Arc<dyn RegistrarPort>) -> &'static Desk {
        Box::leak(Box::new(Desk {
            plugin_id: request.plugin_id.clone(),
            engines: request.engines.clone(),
            memory: request.memory.clone(),
            port,
            books: Mutex::default(),
        }))
    }

    /// Calls `register`; gives its status.
    pub(super) fn serve(&'static self, entry: &'static EntryPointV1) -> u32 {
        // The table is never freed either, for the same reason as the desk.
        let registrar = Box::leak(Box::new(RegistrarV1 {
            context: std::ptr::from_ref(self).cast(),
            host: self.port.host_table(&self.plugin_id),
            register_engine,
            register_memory,
            fail,
        }));
        (entry.register)(registrar)
    }

    /// Closes the desk and gives its books.
    pub(super) fn close(&self) -> Books {
        std::mem::replace(&mut *self.books(), Books { closed: true, ..Books::default() })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks an id; `keep` writes it down.
    fn admit(&self, kind: Kind, id: Str, keep: impl FnOnce(&mut Books, String)) -> u32 {
        let Some(id) = text(id).filter(|id| !id.trim().is_empty()) else {
            self.refuse(None, Cause::NotRegistered, format!("a blank or unreadable {kind} id"));
            return status::INVALID;
        };
        let announced = match kind {
            Kind::Engine => &self.engines,
            Kind::Memory => &self.memory,
        };
        let refusal = if kind == Kind::Engine && id == RESERVED_ENGINE {
            Err((Cause::ForeignId, format!("the {kind} id `{id}` belongs to the core")))
        } else if !announced.contains(&id) {
            Err((Cause::NotRegistered, format!("the {kind} id `{}` is not in the manifest", one_line(&id))))
        } else {
            self.port.register(kind, &id, &self.plugin_id).map_err(|why| (Cause::ForeignId, why))
        };
        if let Err((cause, why)) = refusal {
            return self.refuse(Some(Wanted { kind, id }), cause, why);
        }
        let mut books = self.books();
        if books.closed {
            return status::EXPIRED;
        }
        let known = match kind {
            Kind::Engine => books.engines.iter().any(|(other, _)| *other == id),
            Kind::Memory => books.memory.iter().any(|(other, _)| *other == id),
        };
        if known {
            drop(books);
            return self.refuse(None, Cause::NotRegistered, format!("the {kind} id `{id}` is registered already"));
        }
        keep(&mut books, id);
        status::OK
    }

    fn refuse(&self, what: Option<Wanted>, cause: Cause, why: String) -> u32 {
        self.port.log(&self.plugin_id, log_level::WARN, "register", &why);
        let mut books = self.books();
        if books.closed {
            return status::EXPIRED;
        }
        books.notes.push(format!("refused: {why}"));
        if let Some(what) = what {
            books.refused.push((what, cause, why));
        }
        status::REFUSED
    }
}

impl Books {
    /// Turns status and books into registrations and failures.
    pub(super) fn judge(
        self,
        status: u32,
        request: &LoadRequest,
        entry: &'static EntryPointV1,
        loaded: &mut Loaded,
    ) -> Result<(), StageFailure> {
        let plugin = &request.plugin_id;
        let reason = self.reason.unwrap_or_else(|| "it gave no reason".into());
        let (cause, message) = match status {
            status::OK => (None, String::new()),
            status::PANIC => (Some(Cause::RegisterPanic), format!("plugin {plugin} panicked in register: {reason}")),
            status::ERROR | status::UNSUPPORTED | status::REFUSED | status::UNAVAILABLE | status::INVALID => {
                (Some(Cause::RegisterError), format!("plugin {plugin} could not register: {reason}"))
            }
            code => (Some(Cause::RegisterCode), format!("plugin {plugin} answered register with the code {code}")),
        };
        if let Some(cause) = cause {
            // Most libraries give up when an id is refused: then that is the cause.
            return Err(match self.refused.into_iter().next() {
                Some((_, refused, why)) => StageFailure::new(refused, why).because(message),
                None => StageFailure::new(cause, message),
            });
        }
        for wanted in &request.wanted {
            let is_there = match wanted.kind {
                Kind::Engine => self.engines.iter().any(|(known, _)| *known == wanted.id),
                Kind::Memory => self.memory.iter().any(|(known, _)| *known == wanted.id),
            };
            if is_there {
                continue;
            }
            let failure = match self.refused.iter().find(|(refused, ..)| refused == wanted) {
                Some((_, cause, why)) => StageFailure::new(*cause, why.clone()),
                None => StageFailure::new(
                    Cause::NotRegistered,
                    format!("plugin {plugin} names {wanted} in its manifest but did not register it"),
                ),
            };
            loaded.refused.push((wanted.clone(), failure));
        }
        loaded.registrations.extend(self.engines.into_iter().map(|(engine_id, factory)| Registration {
            engine_id,
            plugin_id: plugin.clone(),
            factory,
            config_json: Arc::clone(&request.config_json),
            staged: request.staged.clone(),
            extensions: entry.get_extension,
        }));
        loaded.memory.extend(self.memory.into_iter().map(|(provider_id, factory)| MemoryRegistration {
            provider_id,
            plugin_id: plugin.clone(),
            factory,
            config_json: Arc::clone(&request.config_json),
        }));
        Ok(())
    }
}

/// Copies a text that a library handed over; absent, too long and not UTF-8 are all nothing.
fn text(text: Str) -> Option<String> {
    if text.ptr.is_null() || text.len > MAX_TEXT {
        return None;
    }
    // SAFETY: the contract says that the caller lends `len` bytes at `ptr` for the time of the call.
    let bytes = unsafe { std::slice::from_raw_parts(text.ptr, text.len) };
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// Runs the host's half of a call; a panic of the host must not unwind into the library.
fn guarded(context: *const u8, work: impl FnOnce(&'static Desk) -> u32) -> u32 {
    let desk = context.cast::<Desk>();
    if desk.is_null() || !desk.is_aligned() {
        return status::INVALID;
    }
    // SAFETY: the library hands back the context that it was given, which is a desk that is never freed.
    let desk = unsafe { &*desk };
    let _serving = crate::ledger::serving();
    catch_unwind(AssertUnwindSafe(|| work(desk))).unwrap_or(status::ERROR)
}

/// Reads a factory whose `create` stands at `offset`. In C that may be null, which a Rust `fn` must never be.
fn factory<T: Copy>(factory: *const T, offset: usize) -> Option<T> {
    if factory.is_null() || !factory.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned, and lent for the time of the call; `offset` is that of a function pointer in `T`.
    let create = unsafe { factory.byte_add(offset).cast::<usize>().read() };
    // SAFETY: as above; with `create` set, any value of the other fields is valid.
    (create != 0).then(|| unsafe { factory.read() })
}

extern "C" fn register_engine(context: *const u8, id: Str, given: *const FactoryV1) -> u32 {
    guarded(context, |desk| match factory(given, offset_of!(FactoryV1, create)) {
        Some(factory) => desk.admit(Kind::Engine, id, |books, id| books.engines.push((id, RawFactory(factory)))),
        None => status::INVALID,
    })
}

extern "C" fn register_memory(context: *const u8, id: Str, given: *const MemoryFactoryV1) -> u32 {
    guarded(context, |desk| match factory(given, offset_of!(MemoryFactoryV1, create)) {
        Some(factory) => desk.admit(Kind::Memory, id, |books, id| books.memory.push((id, RawMemoryFactory(factory)))),
        None => status::INVALID,
    })
}

extern "C" fn fail(context: *const u8, message: Str) -> u32 {
    guarded(context, |desk| {
        let Some(message) = text(message) else { return status::INVALID };
        let mut books = desk.books();
        if books.closed {
            return status::EXPIRED;
        }
        books.reason.get_or_insert(one_line(&message));
        status::OK
    })
}
