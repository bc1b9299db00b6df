//! The ledger of this process: the map that survives it, and the handlers that write the cause.
//!
//! A handler may run at any instruction of any thread, so it does nothing but load and store words of the map, ask the system
//! for its process, the time and pieces of its own memory, and end as the process would have ended without it. It takes no
//! lock and no memory. A child that an engine forks never writes: the word that says whose the map is is wiped on fork, and the
//! handlers compare the process as well.
#![allow(unsafe_code, reason = "maps the file, and installs handlers of signals and exits")]

use super::format::{self, Sort, cause, ended, kind, row, word};
use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

mod context;
mod signals;

pub(super) use signals::install;
pub use signals::is_ignored;

/// The map; null while there is none.
static MAP: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// A word of private memory that is not 0 in the process that owns the map, and in no child.
static MINE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
/// That process.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Set while some part of this process keeps a ledger: there is one per process.
static KEPT: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Address of this thread's row, 0 for none. No destructor, so that a handler may read it at any time.
    static ROW: Cell<usize> = const { Cell::new(0) };
    /// How many services of the host run on this thread, within each other.
    static SERVICES: Cell<u32> = const { Cell::new(0) };
}

/// The words of the map, while this process owns it.
#[derive(Clone, Copy)]
struct Map(*mut AtomicU64);

impl Map {
    /// The map, where this process may write to it.
    #[inline]
    fn mine() -> Option<Map> {
        let mine = MINE.load(Ordering::Relaxed);
        // SAFETY: null, or a word of a page that is never unmapped.
        let owned = !mine.is_null() && unsafe { &*mine }.load(Ordering::Relaxed) != 0;
        let map = MAP.load(Ordering::Acquire);
        (owned && !map.is_null()).then_some(Map(map))
    }

    /// The word at a byte offset, which is a multiple of 8 inside the file.
    #[inline]
    fn at(self, offset: usize) -> &'static AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset < format::SIZE);
        // SAFETY: inside the map, aligned; the map is never unmapped, and only ever read and written as atomic words.
        unsafe { &*self.0.byte_add(offset) }
    }

    #[inline]
    fn word(self, number: usize) -> &'static AtomicU64 {
        self.at(number * 8)
    }

    fn row(self) -> Option<&'static AtomicU64> {
        let address = ROW.get();
        let offset = address.wrapping_sub(self.0 as usize);
        (offset < format::SIZE).then(|| self.at(offset))
    }

    /// A row for this thread, the first time.
    #[cold]
    fn claim(self) -> Option<&'static AtomicU64> {
        let used = self.word(word::ROWS);
        let next = |used: u64| (used < format::ROWS as u64).then_some(used + 1);
        let at = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()? as usize;
        let row = self.at(format::ROWS_AT + at * format::ROW_BYTES);
        ROW.set(std::ptr::from_ref(row) as usize);
        Some(row)
    }

    /// Writes bytes that nobody reads before the number that covers them grows.
    fn put(self, offset: usize, bytes: &[u8]) {
        for (at, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.at(offset + at * 8).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }
}

/// Maps the file, which holds a blank ledger, for this process. False when another ledger is kept by it already.
pub(super) fn start(file: &File) -> std::io::Result<bool> {
    if KEPT.swap(true, Ordering::AcqRel) {
        return Ok(false);
    }
    map(file).map(|()| true).inspect_err(|_| KEPT.store(false, Ordering::Release))
}

fn map(file: &File) -> std::io::Result<()> {
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of a file that has this size; the address is the system's choice.
    let map =
        unsafe { libc::mmap(std::ptr::null_mut(), format::SIZE, read_write, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if map == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    if MINE.load(Ordering::Acquire).is_null() {
        MINE.store(own_page()?, Ordering::Release);
    }
    PROCESS.store(std::process::id(), Ordering::Release);
    MAP.store(map.cast(), Ordering::Release);
    // SAFETY: the page was mapped just now or earlier, and is never unmapped.
    unsafe { &*MINE.load(Ordering::Acquire) }.store(1, Ordering::Release);
    Ok(())
}

/// A page of private memory that a child finds wiped.
fn own_page() -> std::io::Result<*mut AtomicU32> {
    const PAGE: usize = 4096;
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new private memory; the address is the system's choice.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, read_write, libc::MAP_PRIVATE | libc::MAP_ANON, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    #[cfg(target_os = "linux")]
    // SAFETY: of that page. Where the kernel does not know it, the handlers still compare the process.
    unsafe {
        libc::madvise(page, PAGE, libc::MADV_WIPEONFORK);
    }
    #[cfg(not(target_os = "linux"))]
    {
        extern "C" fn child() {
            MAP.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        // SAFETY: the function only stores to an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    }
    Ok(page.cast())
}

/// The process was told to stop: whoever ends it now had lost patience.
pub(super) fn stopping() {
    if let Some(map) = Map::mine() {
        map.word(word::STOPPING).store(format::STOPPING, Ordering::Release);
    }
}

/// The process ends in good order, or goes on without a ledger: nothing is written any more. The map stays, since another
/// thread may be inside of it.
pub(super) fn stop() {
    if let Some(map) = Map::mine() {
        map.word(word::ENDED).store(ended::WELL, Ordering::Release);
    }
    MAP.store(std::ptr::null_mut(), Ordering::Release);
    KEPT.store(false, Ordering::Release);
}

/// Writes down who can be accused, and gives the number; `None` without a ledger, or when it is full.
pub(super) fn subject(sort: Sort, id: &str, plugin: &str) -> Option<u16> {
    static WRITING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let map = Map::mine()?;
    let _writing = WRITING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let at = map.word(word::SUBJECTS).load(Ordering::Relaxed) as usize;
    if at >= format::SUBJECTS {
        return None;
    }
    let from = format::SUBJECTS_AT + at * format::SUBJECT_BYTES;
    let mut texts = [0; format::SUBJECT_BYTES - 16];
    for (at, text) in [(0, format::kept(id)), (format::ID_BYTES + 8, format::kept(plugin))] {
        texts[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    map.at(from).store(sort.number(), Ordering::Relaxed);
    map.at(from + 8).store(format::subject_sum(sort.number(), &texts), Ordering::Relaxed);
    map.put(from + 16, &texts);
    map.word(word::SUBJECTS).store(at as u64 + 1, Ordering::Release);
    u16::try_from(at).ok()
}

/// Writes down where a library lies.
pub(super) fn range(from: u64, to: u64, subject: u16) {
    let Some(map) = Map::mine() else { return };
    let used = map.word(word::RANGES);
    let next = |used: u64| (used < format::RANGES as u64).then_some(used + 1);
    let Ok(at) = used.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) else { return };
    let place = format::RANGES_AT + at as usize * format::RANGE_BYTES;
    map.at(place).store(from, Ordering::Relaxed);
    map.at(place + 16).store(format::twice(u32::from(subject)), Ordering::Relaxed);
    // A range without an end holds nothing, so it counts from here on.
    map.at(place + 8).store(to, Ordering::Release);
}

/// True while a ledger is kept by this process.
pub(super) fn kept() -> bool {
    Map::mine().is_some()
}

/// A running call; dropped, it is over.
#[must_use]
pub struct Running {
    row: Option<&'static AtomicU64>,
    before: u64,
}

/// A call of `subject` begins on this thread.
#[inline]
pub(super) fn enter(subject: u16, place: u8) -> Running {
    let row = Map::mine().and_then(|map| map.row().or_else(|| map.claim()));
    let before = row.map_or(0, |row| {
        let before = row.load(Ordering::Relaxed);
        row.store(row::pack(subject, place), Ordering::Relaxed);
        before
    });
    compiler_fence(Ordering::SeqCst);
    Running { row, before }
}

/// No call: nothing is written.
#[inline]
pub(super) fn unwatched() -> Running {
    Running { row: None, before: 0 }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // In a child that the call forked, the row is the parent's.
        let Some(row) = self.row.filter(|_| kept()) else { return };
        if self.before & row::ACTIVE != 0 {
            row.store(self.before, Ordering::Relaxed);
        } else {
            // Idle, and still telling who ran last.
            row.store(row.load(Ordering::Relaxed) & !(row::ACTIVE | row::SERVING), Ordering::Relaxed);
        }
        // SAFETY: the second word of the same row.
        let returned = unsafe { &*std::ptr::from_ref(row).add(1) };
        returned.store(returned.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// A service of the host that runs on behalf of a call; dropped, it is over.
#[must_use]
pub struct Serving {
    row: Option<&'static AtomicU64>,
    flagged: bool,
}

/// The host's own code runs on this thread from here on: what fails now is not the engine's fault.
#[inline]
pub fn serving() -> Serving {
    SERVICES.set(SERVICES.get() + 1);
    let row = Map::mine().and_then(Map::row).filter(|row| row.load(Ordering::Relaxed) & row::ACTIVE != 0);
    let flagged = row.is_some_and(|row| {
        let word = row.load(Ordering::Relaxed);
        row.store(word | row::SERVING, Ordering::Relaxed);
        word & row::SERVING == 0
    });
    compiler_fence(Ordering::SeqCst);
    Serving { row, flagged }
}

impl Drop for Serving {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        SERVICES.set(SERVICES.get().saturating_sub(1));
        if let Some(row) = self.row.filter(|_| self.flagged && kept()) {
            row.store(row.load(Ordering::Relaxed) & !row::SERVING, Ordering::Relaxed);
        }
    }
}

/// What a handler found out.
struct Found {
    kind: u64,
    number: i64,
    code: i64,
    sender: i64,
    address: u64,
    pc: u64,
    stack: u64,
}

/// The map, for a handler: only in the process that owns it, asked of the system, since a child may share all memory.
fn for_handler() -> Option<Map> {
    let map = Map::mine()?;
    // SAFETY: has no preconditions, and may be called in a handler.
    let process = unsafe { libc::getpid() };
    (u32::try_from(process).ok()? == PROCESS.load(Ordering::Relaxed)).then_some(map)
}

/// Number of the range in which an address lies, from 1; 0 for none.
fn range_of(map: Map, address: u64) -> u64 {
    let used = map.word(word::RANGES).load(Ordering::Acquire).min(format::RANGES as u64);
    let lies = |at: &u64| {
        let place = format::RANGES_AT + *at as usize * format::RANGE_BYTES;
        let to = map.at(place + 8).load(Ordering::Acquire);
        address < to && address >= map.at(place).load(Ordering::Relaxed)
    };
    (0..used).find(lies).map_or(0, |at| at + 1)
}

/// Writes the cause, the first time. An exit that no engine asked for is the host's own.
fn record(map: Map, found: &Found) {
    let running = map.row().map_or(0, |row| row.load(Ordering::Relaxed)) & !row::SERVING;
    let running = if running & row::ACTIVE != 0 { running } else { 0 };
    let serving = SERVICES.get() != 0;
    let range = range_of(map, found.pc);
    let alone = running == 0 && !serving && range == 0;
    let caller = if alone { context::caller(found.stack, &|address| range_of(map, address)) } else { 0 };
    if found.kind != kind::SIGNAL && !serving && running == 0 && caller == 0 {
        let end = map.word(word::ENDED);
        let _ = end.compare_exchange(ended::NOT, ended::BY_HOST, Ordering::AcqRel, Ordering::Relaxed);
        return;
    }
    let state = map.word(word::CAUSE);
    if state.compare_exchange(cause::NONE, cause::BEGUN, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // Another thread is about to end the process: its words must be whole before this one does.
        for _ in 0..1_000_000 {
            if state.load(Ordering::Acquire) == cause::WHOLE {
                break;
            }
            std::hint::spin_loop();
        }
        return;
    }
    let put = |number: usize, value: u64| map.word(number).store(value, Ordering::Relaxed);
    put(word::KIND, found.kind);
    put(word::NUMBER, found.number as u64);
    put(word::CODE, found.code as u64);
    put(word::SENDER, found.sender as u64);
    put(word::ADDRESS, found.address);
    put(word::PC, found.pc);
    put(word::STACK, found.stack);
    put(word::ROW, running);
    put(word::SERVING, u64::from(serving));
    put(word::RANGE, range);
    put(word::CALLER, caller);
    put(word::WHEN_MS, context::now_ms());
    let words = format::CAUSE_WORDS.map(|number| map.word(number).load(Ordering::Relaxed));
    put(word::CAUSE_SUM, format::sum(words));
    state.store(cause::WHOLE, Ordering::Release);
}

/// An exit that runs handlers begins, on the thread that asked for it.
fn exits(kind: u64, code: i64) {
    let here = 0_u64;
    let stack = std::ptr::from_ref(&here) as u64;
    if let Some(map) = for_handler().filter(|map| map.word(word::ENDED).load(Ordering::Relaxed) == ended::NOT) {
        record(map, &Found { kind, number: code, code: 0, sender: 0, address: 0, pc: 0, stack });
    }
}

/// Asks to be told of exits, once per process.
pub(super) fn watch_exits() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        {
            extern "C" fn on_exit(code: libc::c_int, _: *mut libc::c_void) {
                exits(kind::EXIT, i64::from(code));
            }
            extern "C" fn on_quick_exit() {
                exits(kind::QUICK_EXIT, 0);
            }
            unsafe extern "C" {
                #[link_name = "on_exit"]
                fn libc_on_exit(
                    call: extern "C" fn(libc::c_int, *mut libc::c_void),
                    argument: *mut libc::c_void,
                ) -> libc::c_int;
                fn at_quick_exit(call: extern "C" fn()) -> libc::c_int;
            }
            // SAFETY: both functions live for ever and take no lock; without room for them exits go unseen.
            unsafe {
                libc_on_exit(on_exit, std::ptr::null_mut());
                at_quick_exit(on_quick_exit);
            }
        }
        #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
        {
            extern "C" fn on_exit() {
                exits(kind::EXIT, 0);
            }
            // SAFETY: as above.
            unsafe { libc::atexit(on_exit) };
        }
    });
}

/// The program exports this in place of the system's own, so that a library that ends the process without handlers is seen.
/// The system's `exit` does not come here.
#[cfg(target_os = "linux")]
#[unsafe(no_mangle)]
pub extern "C" fn _exit(code: libc::c_int) -> ! {
    exits(kind::RAW_EXIT, i64::from(code));
    loop {
        // SAFETY: does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
}

/// The system's own name of this run of the machine.
#[cfg(not(target_os = "linux"))]
pub(super) fn boot_session() -> String {
    let mut text = [0_u8; 64];
    let mut len = text.len();
    let name = c"kern.bootsessionuuid";
    // SAFETY: `text` has room for `len` bytes; nothing is set.
    let told =
        unsafe { libc::sysctlbyname(name.as_ptr(), text.as_mut_ptr().cast(), &raw mut len, std::ptr::null_mut(), 0) };
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    if told == 0 { String::from_utf8_lossy(&text[..end]).into_owned() } else { String::new() }
}
