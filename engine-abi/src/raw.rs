//! From the wire to Rust's references. Everything here trusts the host's side of the contract: pointers valid for the
//! call, text in UTF-8.
#![allow(unsafe_code, reason = "the one place that turns borrowed pairs of pointer and length into references")]

use crate::wire::{NONE_U64, Str};

/// The text, or `None` when it is absent.
///
/// # Safety
///
/// `text` comes from the host and is valid for `'a`.
pub(crate) unsafe fn text<'a>(text: Str) -> Option<&'a str> {
    // SAFETY: non-null text from the host is UTF-8 and valid for 'a, by the contract and the caller's promise.
    (!text.is_none()).then(|| unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(text.ptr, text.len)) })
}

/// The elements; none when `len` is 0, whatever `ptr` is.
///
/// # Safety
///
/// `ptr` and `len` come from the host and are valid for `'a`.
pub(crate) unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    // SAFETY: a non-empty list from the host is valid for 'a by the caller's promise.
    if len == 0 || ptr.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(ptr, len) } }
}

/// The number, or `None` when it is absent.
pub(crate) const fn number(value: u64) -> Option<u64> {
    if value == NONE_U64 { None } else { Some(value) }
}

/// The time, or `None` when it is absent.
pub(crate) const fn time(value: i64) -> Option<i64> {
    if value < 0 { None } else { Some(value) }
}

/// Declares a view: a transparent wrapper around a wire type with a reader per field.
macro_rules! view {
    ($(#[$meta:meta])* $name:ident($wire:ident) {
        $($(#[$field_meta:meta])* $kind:ident $method:ident $(= $field:ident)? $(as $code:ty)?;)*
    }) => {
        $(#[$meta])*
        #[repr(transparent)]
        pub struct $name(pub(crate) $crate::wire::$wire);

        impl $name {
            $($crate::raw::view!(@read $kind $method [$($field)?] [$($code)?] $(#[$field_meta])*);)*
        }
    };
    (@read $kind:ident $method:ident [] $code:tt $(#[$meta:meta])*) => {
        $crate::raw::view!(@read $kind $method [$method] $code $(#[$meta])*);
    };
    (@read text $method:ident [$field:ident] [] $(#[$meta:meta])*) => {
        $(#[$meta])*
        #[must_use]
        pub fn $method(&self) -> &str {
            // SAFETY: a view is only made from what the host lent for the call, and lives no longer.
            unsafe { $crate::raw::text(self.0.$field) }.unwrap_or_default()
        }
    };
    (@read opt_text $method:ident [$field:ident] [] $(#[$meta:meta])*) => {
        $(#[$meta])*
        #[must_use]
        pub fn $method(&self) -> Option<&str> {
            // SAFETY: a view is only made from what the host lent for the call, and lives no longer.
            unsafe { $crate::raw::text(self.0.$field) }
        }
    };
    (@read number $method:ident [$field:ident] [] $(#[$meta:meta])*) => {
        $(#[$meta])*
        #[must_use]
        pub fn $method(&self) -> u64 {
            self.0.$field.into()
        }
    };
    (@read opt_number $method:ident [$field:ident] [] $(#[$meta:meta])*) => {
        $(#[$meta])*
        #[must_use]
        pub fn $method(&self) -> Option<u64> {
            $crate::raw::number(self.0.$field)
        }
    };
    (@read opt_time $method:ident [$field:ident] [] $(#[$meta:meta])*) => {
        $(#[$meta])*
        #[must_use]
        pub fn $method(&self) -> Option<i64> {
            $crate::raw::time(self.0.$field)
        }
    };
    (@read flag $method:ident [$field:ident] [] $(#[$meta:meta])*) => {
        $(#[$meta])*
        #[must_use]
        pub fn $method(&self) -> bool {
            self.0.$field != 0
        }
    };
    (@read code $method:ident [$field:ident] [$code:ty] $(#[$meta:meta])*) => {
        $(#[$meta])*
        #[must_use]
        pub fn $method(&self) -> $code {
            <$code>::from_code(self.0.$field).unwrap_or_default()
        }
    };
    (@read opt_code $method:ident [$field:ident] [$code:ty] $(#[$meta:meta])*) => {
        $(#[$meta])*
        #[must_use]
        pub fn $method(&self) -> Option<$code> {
            <$code>::from_code(self.0.$field)
        }
    };
}
pub(crate) use view;
