//! The manifest that every library carries in an object section of its own, readable without loading the library.
//!
//! Shape: 8 magic bytes, the length of the body as a little-endian `u64`, the body. The body is a list of `key=value`
//! texts separated by NUL bytes. What follows the body in the section is padding.
//!
//! | key | value | |
//! |---|---|---|
//! | `plugin` | id of the plugin | required |
//! | `engines` | ids of its engines, separated by commas | this or `memory` |
//! | `memory` | ids of its memory providers, separated by commas | |
//! | `kind` | `context-engine` or `memory` | required |
//! | `contract` | version of the contract, see [`crate::wire::CONTRACT_VERSION`] | required |
//! | `panic` | `unwind` or `abort` | required |
//! | `door` | `rust` or `c` | required |
//! | `config_schema` | JSON Schema of the configuration | |
//! | `name`, `version`, `description`, `sdk` | for people | |
//!
//! Keys that this version does not know are kept in [`Manifest::other`].

use std::collections::BTreeMap;
use std::fmt;

/// First bytes of the section.
pub const MAGIC: [u8; 8] = *b"ENGROOM\x01";
/// Name of the section in ELF files.
pub const ELF_SECTION: &str = ".engineroom";
/// Segment of the section in Mach-O files.
pub const MACHO_SEGMENT: &str = "__DATA_CONST";
/// Name of the section in Mach-O files.
pub const MACHO_SECTION: &str = "__engineroom";
/// Bytes before the body.
pub const HEADER_LEN: usize = 16;
/// Longest id in bytes.
pub const MAX_ID_LEN: usize = 128;

/// How a library was built to treat a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panic {
    /// A panic unwinds, so the guard can catch it.
    Unwind,
    /// A panic ends the process. Never fit for in-process use.
    Abort,
}

/// How the host enters a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// By abi_stable's root module, which carries the layout of every type.
    Rust,
    /// By the versioned entry symbol.
    C,
}

/// What a library says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Id of the plugin.
    pub plugin: String,
    /// Ids of its engines, in the order of the manifest.
    pub engines: Vec<String>,
    /// Ids of its memory providers.
    pub memory: Vec<String>,
    /// `context-engine` or `memory`.
    pub kind: String,
    /// Version of the contract as text.
    pub contract: String,
    /// What a panic does.
    pub panic: Panic,
    /// The door.
    pub door: Door,
    /// JSON Schema of the configuration, as text; not parsed here.
    pub config_schema: Option<String>,
    /// Name for people.
    pub name: Option<String>,
    /// Version of the plugin.
    pub version: Option<String>,
    /// One line on what it does.
    pub description: Option<String>,
    /// What built it, for example `engine-abi 0.1.0`.
    pub sdk: Option<String>,
    /// Keys that this version does not know.
    pub other: BTreeMap<String, String>,
}

/// Why a section is not a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManifestError {
    /// The section is shorter than its header.
    Short {
        /// Size of the section in bytes.
        have: usize,
    },
    /// The section does not begin with [`MAGIC`].
    Magic {
        /// The bytes that stand there.
        found: [u8; 8],
    },
    /// The header claims more bytes than the section holds.
    Length {
        /// Claimed size of the body in bytes.
        claimed: u64,
        /// Bytes behind the header.
        have: usize,
    },
    /// The body is not UTF-8.
    Text {
        /// Offset of the first wrong byte in the body.
        at: usize,
    },
    /// A part of the body has no `=`, or nothing before it.
    NoKey {
        /// The part, shortened.
        part: String,
    },
    /// A key stands twice.
    Twice {
        /// The key.
        key: String,
    },
    /// A required key is absent.
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A value is not allowed.
    Value {
        /// The key.
        key: &'static str,
        /// The value, shortened.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { have } => write!(f, "the section has {have} bytes, its header alone needs {HEADER_LEN}"),
            Self::Magic { found } => {
                write!(f, "the section begins with \"{}\", not with the magic bytes", found.escape_ascii())
            }
            Self::Length { claimed, have } => {
                write!(f, "the header claims a body of {claimed} bytes, the section holds {have}")
            }
            Self::Text { at } => write!(f, "byte {at} of the body is not UTF-8"),
            Self::NoKey { part } => write!(f, "\"{part}\" is not key=value"),
            Self::Twice { key } => write!(f, "the key \"{key}\" stands twice"),
            Self::Missing { key } => write!(f, "the key \"{key}\" is missing"),
            Self::Value { key, value, expected } => write!(f, "{key}=\"{value}\" is not allowed: {expected}"),
        }
    }
}

impl std::error::Error for ManifestError {}

/// Reads the bytes of the section.
///
/// # Errors
///
/// The first thing that is wrong, as a [`ManifestError`].
pub fn parse(section: &[u8]) -> Result<Manifest, ManifestError> {
    let body = body(section)?;
    let mut keys = BTreeMap::new();
    for part in body.split('\0').filter(|part| !part.is_empty()) {
        let Some((key, value)) = part.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(ManifestError::NoKey { part: shorten(part) });
        };
        if keys.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(ManifestError::Twice { key: shorten(key) });
        }
    }
    let mut take = |key: &'static str| keys.remove(key).filter(|value| !value.trim().is_empty());
    let required = |key: &'static str, value: Option<String>| value.ok_or(ManifestError::Missing { key });

    let plugin = required("plugin", take("plugin"))?;
    check_id("plugin", &plugin)?;
    let engines = ids("engines", take("engines"))?;
    let memory = ids("memory", take("memory"))?;
    if engines.is_empty() && memory.is_empty() {
        return Err(ManifestError::Missing { key: "engines" });
    }
    let kind = required("kind", take("kind"))?;
    if kind != "context-engine" && kind != "memory" {
        return Err(bad("kind", &kind, "context-engine or memory"));
    }
    let panic = match required("panic", take("panic"))?.as_str() {
        "unwind" => Panic::Unwind,
        "abort" => Panic::Abort,
        other => return Err(bad("panic", other, "unwind or abort")),
    };
    let door = match required("door", take("door"))?.as_str() {
        "rust" => Door::Rust,
        "c" => Door::C,
        other => return Err(bad("door", other, "rust or c")),
    };
    Ok(Manifest {
        plugin,
        engines,
        memory,
        kind,
        contract: required("contract", take("contract"))?,
        panic,
        door,
        config_schema: take("config_schema"),
        name: take("name"),
        version: take("version"),
        description: take("description"),
        sdk: take("sdk"),
        other: keys,
    })
}

fn body(section: &[u8]) -> Result<&str, ManifestError> {
    let Some((header, rest)) = section.split_at_checked(HEADER_LEN) else {
        return Err(ManifestError::Short { have: section.len() });
    };
    let mut magic = [0; 8];
    magic.copy_from_slice(&header[..8]);
    if magic != MAGIC {
        return Err(ManifestError::Magic { found: magic });
    }
    let mut length = [0; 8];
    length.copy_from_slice(&header[8..]);
    let claimed = u64::from_le_bytes(length);
    let body = usize::try_from(claimed)
        .ok()
        .and_then(|len| rest.get(..len))
        .ok_or(ManifestError::Length { claimed, have: rest.len() })?;
    std::str::from_utf8(body).map_err(|error| ManifestError::Text { at: error.valid_up_to() })
}

fn ids(key: &'static str, value: Option<String>) -> Result<Vec<String>, ManifestError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let mut ids: Vec<String> = Vec::new();
    for id in value.split(',').map(str::trim) {
        check_id(key, id)?;
        if ids.iter().any(|other| other == id) {
            return Err(bad(key, id, "each id once"));
        }
        ids.push(id.to_owned());
    }
    Ok(ids)
}

fn check_id(key: &'static str, id: &str) -> Result<(), ManifestError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || id.len() > MAX_ID_LEN || !id.chars().all(allowed) {
        return Err(bad(key, id, "an id is 1 to 128 letters, digits, '-', '_' or '.'"));
    }
    Ok(())
}

fn bad(key: &'static str, value: &str, expected: &'static str) -> ManifestError {
    ManifestError::Value { key, value: shorten(value), expected }
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).flat_map(char::escape_default).collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}

/// Size of a section whose body holds `parts`, each a key with its value.
#[doc(hidden)]
#[must_use]
pub const fn section_len(parts: &[(&str, &str)]) -> usize {
    let mut len = HEADER_LEN;
    let mut i = 0;
    while i < parts.len() {
        len += parts[i].0.len() + 1 + parts[i].1.len() + 1;
        i += 1;
    }
    len
}

/// Writes the section at compile time; `N` is [`section_len`] of the same parts. Fails to compile on a NUL byte in a
/// value.
#[doc(hidden)]
#[must_use]
#[expect(clippy::panic, reason = "runs while an engine is compiled: a panic here is a compiler error")]
pub const fn section<const N: usize>(parts: &[(&str, &str)]) -> [u8; N] {
    const fn put<const N: usize>(mut out: [u8; N], mut at: usize, text: &str) -> ([u8; N], usize) {
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            if bytes[i] == 0 {
                panic!("a value of the manifest holds a NUL byte");
            }
            out[at] = bytes[i];
            at += 1;
            i += 1;
        }
        (out, at)
    }
    let mut out = [0; N];
    let length = ((N - HEADER_LEN) as u64).to_le_bytes();
    let mut i = 0;
    while i < 8 {
        out[i] = MAGIC[i];
        out[8 + i] = length[i];
        i += 1;
    }
    let mut at = HEADER_LEN;
    let mut part = 0;
    while part < parts.len() {
        (out, at) = put(out, at, parts[part].0);
        out[at] = b'=';
        (out, at) = put(out, at + 1, parts[part].1);
        at += 1;
        part += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &[(&str, &str)] = &[
        ("plugin", "window"),
        ("engines", "window,window.long"),
        ("kind", "context-engine"),
        ("contract", "1.0-draft"),
        ("panic", "unwind"),
        ("door", "rust"),
        ("config_schema", "{\"type\":\"object\"}"),
        ("colour", "a=b"),
    ];
    const GOOD: [u8; section_len(PARTS)] = section(PARTS);

    fn with(change: impl Fn(&mut Vec<(&'static str, &'static str)>)) -> Result<Manifest, ManifestError> {
        let mut parts = PARTS.to_vec();
        change(&mut parts);
        let body: String = parts.iter().map(|(key, value)| format!("{key}={value}\0")).collect();
        let mut bytes = MAGIC.to_vec();
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body.as_bytes());
        parse(&bytes)
    }

    #[test]
    fn what_is_written_at_compile_time_reads_back() {
        let manifest = parse(&GOOD).unwrap();
        assert_eq!(manifest.plugin, "window");
        assert_eq!(manifest.engines, ["window", "window.long"]);
        assert_eq!(manifest.config_schema.as_deref(), Some("{\"type\":\"object\"}"));
        assert_eq!((manifest.panic, manifest.door), (Panic::Unwind, Door::Rust));
        assert_eq!(manifest.other["colour"], "a=b");
        assert_eq!(manifest.name, None);
    }

    #[test]
    fn padding_after_the_body_is_ignored() {
        let mut padded = GOOD.to_vec();
        padded.extend([0xff; 9]);
        assert_eq!(parse(&padded), parse(&GOOD));
    }

    #[test]
    fn every_cut_is_an_error_and_none_panics() {
        for len in 0..GOOD.len() {
            let error = parse(&GOOD[..len]).unwrap_err();
            let expected = if len < HEADER_LEN {
                ManifestError::Short { have: len }
            } else {
                ManifestError::Length { claimed: (GOOD.len() - HEADER_LEN) as u64, have: len - HEADER_LEN }
            };
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn the_first_fault_is_named() {
        let mut wrong = GOOD;
        wrong[0] = b'X';
        assert_eq!(parse(&wrong), Err(ManifestError::Magic { found: *b"XNGROOM\x01" }));
        let mut wrong = GOOD;
        wrong[20] = 0xff;
        assert_eq!(parse(&wrong), Err(ManifestError::Text { at: 4 }));
        let mut wrong = GOOD;
        wrong[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(parse(&wrong), Err(ManifestError::Length { claimed: u64::MAX, .. })));

        assert_eq!(
            with(|parts| parts.retain(|part| part.0 != "plugin")),
            Err(ManifestError::Missing { key: "plugin" })
        );
        assert_eq!(
            with(|parts| parts.retain(|part| part.0 != "contract")),
            Err(ManifestError::Missing { key: "contract" })
        );
        assert_eq!(with(|parts| parts[1].1 = " "), Err(ManifestError::Missing { key: "engines" }));
        assert_eq!(with(|parts| parts.push(("door", "c"))), Err(ManifestError::Twice { key: "door".into() }));
        assert_eq!(with(|parts| parts.push(("", "c"))), Err(ManifestError::NoKey { part: "=c".into() }));
        assert!(matches!(with(|parts| parts[0].1 = "a b"), Err(ManifestError::Value { key: "plugin", .. })));
        assert!(matches!(with(|parts| parts[1].1 = "a,,b"), Err(ManifestError::Value { key: "engines", .. })));
        assert!(matches!(with(|parts| parts[1].1 = "a,a"), Err(ManifestError::Value { key: "engines", .. })));
        assert!(matches!(with(|parts| parts[4].1 = "maybe"), Err(ManifestError::Value { key: "panic", .. })));
    }
}
