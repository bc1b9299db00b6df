//! The host's side of the doors: from the address of a symbol to a checked entry. The only place that shows abi_stable
//! to the host, so that replacing it is a change of this crate alone.
//!
//! The loader opens the staged copy, looks [`ROOT_SYMBOL`] up and hands its address to [`check_root`]; for a library
//! with the C door it calls [`crate::wire::C_ENTRY_SYMBOL`] and hands the answer to [`check_entry`].
#![allow(unsafe_code, reason = "turns the address of a loaded library's symbol into a checked reference")]

use crate::wire::{CONTRACT_MAJOR, CONTRACT_MINOR, EngineModuleRef, EntryPointV1, ExtensionV1};
use abi_stable::{
    StableAbi,
    abi_stability::abi_checking::{AbiInstability, AbiInstabilityErrors, check_layout_compatibility},
    library::{AbiHeader, AbiHeaderRef, LibraryError},
    type_layout::{TLData, TLFieldOrFunction, TypeLayout},
};
use std::ffi::{CStr, c_void};
use std::fmt;

/// Symbol of the root module.
pub const ROOT_SYMBOL: &CStr = c"_1as_0lib_1header_0root_bmodule_bloader";

/// Why a library's types are not the contract's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LayoutError {
    /// The symbol is absent.
    NoRoot,
    /// What stands at the symbol was not built with a compatible abi_stable.
    Foreign,
    /// The two compilers disagree on the C calling convention.
    CallingConvention,
    /// The contract's major or minor number is another one.
    Contract {
        /// Major and minor number of the library.
        found: (u32, u32),
    },
    /// A type differs.
    Mismatch {
        /// One line that names the type and the field.
        line: String,
        /// The whole report of abi_stable, hundreds of lines.
        report: String,
    },
    /// The library's root function failed.
    Root(String),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoot => f.write_str("the library exports no root module"),
            Self::Foreign => f.write_str("the root module was not built with a compatible abi_stable"),
            Self::CallingConvention => f.write_str("the library's compiler uses another C calling convention"),
            Self::Contract { found: (major, minor) } => {
                write!(
                    f,
                    "the library was built for contract {major}.{minor}, this host has {CONTRACT_MAJOR}.{CONTRACT_MINOR}"
                )
            }
            Self::Mismatch { line, .. } => f.write_str(line),
            Self::Root(reason) => write!(f, "the root module could not be made: {reason}"),
        }
    }
}

impl std::error::Error for LayoutError {}

/// Checks the layout of every type of the contract and gives the library's entry.
///
/// Runs no code of the author; abi_stable calls a few functions of its own inside the library.
///
/// # Errors
///
/// [`LayoutError`]; its text is one line.
///
/// # Safety
///
/// `root` is null, or the address of [`ROOT_SYMBOL`] in a library that is never unloaded.
pub unsafe fn check_root(root: *const c_void) -> Result<&'static EntryPointV1, LayoutError> {
    if root.is_null() {
        return Err(LayoutError::NoRoot);
    }
    // SAFETY: `AbiHeaderRef` is a transparent, never null pointer to the header with which every abi_stable library
    // begins its root symbol; the library stays loaded for ever.
    let header = unsafe { std::mem::transmute::<*const AbiHeader, AbiHeaderRef>(root.cast()) };
    let header = header.upgrade().map_err(library_error)?;
    let layout = header.layout().ok_or(LayoutError::Foreign)?;
    check(<EngineModuleRef as StableAbi>::LAYOUT, layout)?;
    let module = header.init_root_module::<EngineModuleRef>().map_err(library_error)?;
    check_contract(module.entry())
}

/// Checks what the C door answered. Its layout cannot be checked, only its contract.
///
/// # Errors
///
/// [`LayoutError::NoRoot`] on null, [`LayoutError::Contract`].
///
/// # Safety
///
/// `entry` is null, or what [`crate::wire::C_ENTRY_SYMBOL`] of a library that is never unloaded returned.
pub unsafe fn check_entry(entry: *const EntryPointV1) -> Result<&'static EntryPointV1, LayoutError> {
    // SAFETY: by the caller's promise it is null or points to a static of the library.
    let entry = unsafe { entry.as_ref() }.ok_or(LayoutError::NoRoot)?;
    check_contract(entry)
}

/// Checks the layout of a table that was asked for by id. `None` when there is no such table.
///
/// # Errors
///
/// [`LayoutError::Mismatch`].
///
/// # Safety
///
/// `answer` comes from the other side's extension or service function, asked with the id of `T`; what it points to
/// lives for ever.
pub unsafe fn check_extension<T: StableAbi>(answer: ExtensionV1) -> Result<Option<&'static T>, LayoutError> {
    // SAFETY: a non-null layout is a `&'static TypeLayout` of the same abi_stable version, which the root check
    // ensured.
    if let Some(layout) = unsafe { answer.layout.cast::<TypeLayout>().as_ref() } {
        check(<T as StableAbi>::LAYOUT, layout)?;
    }
    // SAFETY: the table has the layout of `T`: just checked, or promised by a C engine that answers to the id.
    Ok(unsafe { answer.table.cast::<T>().as_ref() })
}

/// The answer that gives `table` with its layout.
#[must_use]
pub fn extension<T: StableAbi>(table: &'static T) -> ExtensionV1 {
    ExtensionV1 {
        table: std::ptr::from_ref(table).cast(),
        layout: std::ptr::from_ref::<TypeLayout>(<T as StableAbi>::LAYOUT).cast(),
    }
}

fn check_contract(entry: &'static EntryPointV1) -> Result<&'static EntryPointV1, LayoutError> {
    let found = (entry.contract_major, entry.contract_minor);
    if found == (CONTRACT_MAJOR, CONTRACT_MINOR) { Ok(entry) } else { Err(LayoutError::Contract { found }) }
}

fn check(expected: &'static TypeLayout, found: &'static TypeLayout) -> Result<(), LayoutError> {
    check_layout_compatibility(expected, found)
        .map_err(|errors| LayoutError::Mismatch { line: summary(&errors), report: errors.to_string() })
}

fn library_error(error: LibraryError) -> LayoutError {
    match error {
        LibraryError::InvalidAbiHeader(_) => LayoutError::Foreign,
        LibraryError::InvalidCAbi { .. } => LayoutError::CallingConvention,
        other => LayoutError::Root(one_line(&other.to_string())),
    }
}

/// The deepest difference, since those above it only follow from it.
fn summary(errors: &AbiInstabilityErrors) -> String {
    let deepest =
        errors.errors.iter().filter(|error| !error.errs.is_empty()).rev().max_by_key(|error| error.stack_trace.len());
    let Some(deepest) = deepest else { return "the layout differs".to_owned() };
    let path: Vec<&str> = deepest.stack_trace.iter().map(|step| name_of(&step.expected)).collect();
    let (expected, found) = match deepest.stack_trace.last() {
        Some(step) => match (&step.expected, &step.found) {
            (TLFieldOrFunction::Field(expected), TLFieldOrFunction::Field(found)) => {
                (expected.layout(), found.layout())
            }
            _ => (errors.interface, errors.implementation),
        },
        None => (errors.interface, errors.implementation),
    };
    let what = field_difference(expected, found).unwrap_or_else(|| match deepest.errs.first() {
        Some(error) => error_line(error),
        None => "the layout differs".to_owned(),
    });
    let place = if path.is_empty() { String::new() } else { format!(" (reached by {})", path.join(" → ")) };
    one_line(&format!("type {}: {what}{place}", expected.name()))
}

fn name_of(step: &TLFieldOrFunction) -> &'static str {
    match step {
        TLFieldOrFunction::Field(field) => field.name(),
        TLFieldOrFunction::Function(function) => function.name.as_str(),
    }
}

/// The first field that differs by name, type or presence.
fn field_difference(expected: &'static TypeLayout, found: &'static TypeLayout) -> Option<String> {
    let fields = |layout: &'static TypeLayout| match layout.data() {
        TLData::Struct { fields } => Some(fields),
        TLData::PrefixType(prefix) => Some(prefix.fields),
        _ => None,
    };
    let (mut expected, mut found) = (fields(expected)?.iter(), fields(found)?.iter());
    loop {
        return Some(match (expected.next(), found.next()) {
            (None, None) => return None,
            (Some(field), None) => format!("the field {} is missing in the library", field.name()),
            (None, Some(field)) => format!("the field {} is unknown to this host", field.name()),
            (Some(ours), Some(theirs)) if ours.name() != theirs.name() => {
                format!("the field {} is called {} in the library", ours.name(), theirs.name())
            }
            (Some(ours), Some(theirs)) => {
                let (our_type, their_type) = (ours.full_type().to_string(), theirs.full_type().to_string());
                if our_type == their_type {
                    continue;
                }
                format!("the field {} is {our_type} here and {their_type} in the library", ours.name())
            }
        });
    }
}

fn error_line(error: &AbiInstability) -> String {
    use AbiInstability as E;
    match error {
        E::Name(pair) => format!("it is {} here and {} in the library", pair.expected, pair.found),
        E::Package(pair) => format!("it comes from crate {}, the library's from {}", pair.expected, pair.found),
        E::PackageVersion(pair) => {
            format!("wire version {} here and {} in the library", pair.expected, pair.found)
        }
        E::Size(pair) => format!("{} bytes here and {} in the library", pair.expected, pair.found),
        E::Alignment(pair) => format!("aligned to {} here and to {} in the library", pair.expected, pair.found),
        E::FieldCountMismatch(pair) => format!("{} fields here and {} in the library", pair.expected, pair.found),
        E::UnexpectedField(pair) => {
            format!("the field {} is {} in the library", pair.expected.name(), pair.found.name())
        }
        E::FnQualifierMismatch(pair) => format!("the function {} has other qualifiers", pair.expected.name),
        other => {
            // The variant's name says enough; its payload is the dump that this line replaces.
            let text = format!("{other:?}");
            text.split(['(', '{', ' ']).next().unwrap_or_default().to_owned()
        }
    }
}

fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(400) {
        line.truncate(cut);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    mod theirs {
        use abi_stable::StableAbi;

        #[repr(C)]
        #[derive(StableAbi)]
        #[sabi(module_reflection(Opaque))]
        pub struct SpanV1 {
            pub first: u64,
            pub last: u32,
        }
    }

    #[test]
    fn the_symbol_is_the_one_that_abi_stable_looks_up() {
        assert_eq!(ROOT_SYMBOL.to_str().unwrap(), abi_stable::library::ROOT_MODULE_LOADER_NAME);
    }

    #[test]
    fn a_null_symbol_is_no_root() {
        // SAFETY: null is allowed.
        assert!(matches!(unsafe { check_root(std::ptr::null()) }, Err(LayoutError::NoRoot)));
    }

    #[test]
    fn foreign_bytes_are_refused_before_anything_of_them_is_called() {
        static FOREIGN: [u64; 64] = [7; 64];
        // SAFETY: the header is only compared; nothing behind it is read when it does not match.
        let error = unsafe { check_root(FOREIGN.as_ptr().cast()) }.unwrap_err();
        assert_eq!(error.to_string(), "the root module was not built with a compatible abi_stable");
    }

    #[test]
    fn a_mismatch_is_one_line_that_names_type_and_field() {
        let error =
            check(<crate::wire::SpanV1 as StableAbi>::LAYOUT, <theirs::SpanV1 as StableAbi>::LAYOUT).unwrap_err();
        assert_eq!(error.to_string(), "type SpanV1: the field last is u64 here and u32 in the library");
        let LayoutError::Mismatch { report, .. } = error else { panic!("not a mismatch") };
        assert!(report.lines().count() > 10);
    }

    #[test]
    fn a_table_is_given_only_with_the_layout_that_was_asked_for() {
        static TABLE: crate::wire::SpanV1 = crate::wire::SpanV1 { first: 1, last: 2 };
        // SAFETY: the answers point to statics with their own layouts.
        unsafe {
            assert_eq!(check_extension::<crate::wire::SpanV1>(extension(&TABLE)).unwrap(), Some(&TABLE));
            assert!(check_extension::<crate::wire::SpanV1>(ExtensionV1::NONE).unwrap().is_none());
            assert!(check_extension::<theirs::SpanV1>(extension(&TABLE)).is_err());
        }
    }
}
