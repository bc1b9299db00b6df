//! Opens a library and finds its entry, by either door.

use crate::plugins::cause::Cause;
use crate::plugins::manifest::Door;
use crate::plugins::report::StageFailure;
use engine_abi::host::{self, LayoutError, ROOT_SYMBOL};
use engine_abi::wire::{C_ENTRY_SYMBOL, EntryPointV1};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CString, c_void};
use std::mem::offset_of;
use std::path::Path;

/// The address of a door's symbol in a library that stays loaded for ever.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol {
    address: *const c_void,
    door: Door,
}

// SAFETY: an address in a library that is never unloaded; nothing is tied to a thread.
unsafe impl Send for Symbol {}

/// `dlopen`; the library's constructors run here. Unresolved symbols fail now and not at three in the morning.
pub(super) fn open(path: &Path, door: Door) -> Result<Symbol, StageFailure> {
    let text = |error: libloading::Error| match std::error::Error::source(&error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    // SAFETY: runs the library's constructors, which the probe did before in a child; the path is absolute and names the
    // private copy.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        StageFailure::new(Cause::CannotOpen, "the system's loader refuses the library").because(text(error))
    })?;
    let found = match door {
        // SAFETY: only the address is taken; what stands there is checked before it is used.
        Door::Rust => unsafe { library.get::<*const c_void>(ROOT_SYMBOL) },
        Door::C => {
            let name = CString::new(C_ENTRY_SYMBOL).unwrap_or_default();
            // SAFETY: as above.
            unsafe { library.get::<*const c_void>(name.as_c_str()) }
        }
    };
    let address = found.map(|symbol| symbol.as_raw_ptr().cast_const());
    // Never unloaded, whatever was found: its constructors have run, and may have left threads and destructors behind.
    let _ = library.into_raw();
    match address {
        Ok(address) if !address.is_null() => Ok(Symbol { address, door }),
        Ok(_) => Err(no_door(door)),
        Err(error) => Err(no_door(door).because(text(error))),
    }
}

fn no_door(door: Door) -> StageFailure {
    let what = match door {
        Door::Rust => "a root module",
        Door::C => C_ENTRY_SYMBOL,
    };
    StageFailure::new(Cause::NoDoor, format!("the library does not export {what}, which its manifest promises"))
}

/// Compares the layout where the door has one, and gives the entry.
pub(super) fn enter(symbol: Symbol) -> Result<&'static EntryPointV1, StageFailure> {
    match symbol.door {
        // SAFETY: the address of `ROOT_SYMBOL` in a library that is never unloaded.
        Door::Rust => unsafe { host::check_root(symbol.address) }.map_err(layout),
        Door::C => {
            // SAFETY: the manifest says that the symbol is the C door, whose type this is.
            let entry =
                unsafe { std::mem::transmute::<*const c_void, extern "C" fn() -> *const EntryPointV1>(symbol.address) };
            let entry = entry();
            check_address(entry)?;
            // SAFETY: what the C door answered, not null, aligned, and with a register function.
            unsafe { host::check_entry(entry) }.map_err(layout)
        }
    }
}

/// C gives no promise about pointers, and a reference must not be made from a bad one.
fn check_address(entry: *const EntryPointV1) -> Result<(), StageFailure> {
    let bad = |why: &str| Err(StageFailure::new(Cause::BadEntry, format!("{C_ENTRY_SYMBOL} gave {why}")));
    if entry.is_null() {
        return bad("no entry (null)");
    }
    if !entry.is_aligned() {
        return bad("an entry at an odd address");
    }
    // SAFETY: not null and aligned; that it is readable is the C author's promise, and the probe has tried it.
    let register = unsafe { entry.byte_add(offset_of!(EntryPointV1, register)).cast::<usize>().read() };
    if register == 0 {
        return bad("an entry without register");
    }
    Ok(())
}

fn layout(error: LayoutError) -> StageFailure {
    let cause = match &error {
        LayoutError::NoRoot | LayoutError::Root(_) => Cause::BadEntry,
        LayoutError::Contract { .. } => Cause::EntryVersion,
        _ => Cause::LayoutDiffers,
    };
    StageFailure::new(cause, error.to_string())
}
