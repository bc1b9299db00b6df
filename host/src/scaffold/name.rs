//! What a plugin may be called: its name is an id of the contract, a package of cargo and a part of a file's name.

use super::ScaffoldError;

/// Longest name in bytes: a file name has room for what is put around it.
const LONGEST: usize = 64;

/// Ids that the gateway keeps for itself, and words of the command line.
const RESERVED: &[&str] = &["legacy", "none"];

/// What a package cannot be called: words of Rust, and packages that a project is built from.
const TAKEN: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Checks a name.
pub(super) fn check(name: &str) -> Result<(), ScaffoldError> {
    let Some(reason) = wrong(name) else { return Ok(()) };
    let near = nearest(name);
    let name = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    Err(ScaffoldError::Name { name, reason, near })
}

fn wrong(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > LONGEST {
        return Some("it is longer than 64 letters");
    }
    if !name.chars().all(allowed) {
        return Some("it may have lower-case letters, digits, '-' and '_'");
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || name.ends_with(['-', '_']) {
        return Some("it begins with a letter, and ends with a letter or a digit");
    }
    if RESERVED.contains(&name) {
        return Some("the gateway keeps this id for itself");
    }
    if TAKEN.contains(&name)
        || super::template::packages().any(|package| package.replace('_', "-") == name.replace('_', "-"))
    {
        return Some("cargo, or a package that it would be built from, has this name");
    }
    None
}

/// The name with what is not allowed left out, where that is a name.
fn nearest(name: &str) -> Option<String> {
    let mut near = String::new();
    for c in name.trim().chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' | '_' => near.push(c),
            _ if !near.is_empty() && !near.ends_with('-') => near.push('-'),
            _ => {}
        }
    }
    let near = near.trim_matches(|c: char| matches!(c, '-' | '_'));
    let near = near.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let near: String = near.chars().take(LONGEST).collect();
    let near = near.trim_end_matches(['-', '_']);
    let near = if near.is_empty() || wrong(near).is_none() { near.to_owned() } else { format!("my-{near}") };
    wrong(&near).is_none().then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_id_and_a_package() {
        for name in ["window", "my-engine", "a", "e2", "a_b-c", &"a".repeat(64)] {
            assert_eq!(wrong(name), None, "{name}");
        }
        for name in [
            "",
            "My-Engine",
            "2nd",
            "-a",
            "a-",
            "a b",
            "a.b",
            "ä",
            "legacy",
            "none",
            "fn",
            "serde",
            "engine-abi",
            "../x",
        ] {
            assert!(wrong(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_wrong_name_leads_to_a_right_one() {
        let leads = [
            ("My Engine!", Some("my-engine")),
            ("Fenster.2", Some("fenster-2")),
            ("../etc/passwd", Some("etc-passwd")),
            ("2nd try", Some("nd-try")),
            ("serde", Some("my-serde")),
            ("legacy", Some("my-legacy")),
            ("…", None),
        ];
        for (name, near) in leads {
            assert_eq!(nearest(name).as_deref(), near, "{name}");
        }
        assert!(nearest(&"x".repeat(200)).is_some_and(|near| near.len() <= LONGEST));
    }
}
