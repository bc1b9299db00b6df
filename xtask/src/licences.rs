//! `licences`: every dependency must offer one of the licences that the project accepts.

use crate::{Outcome, cargo};

/// Permissive licences. A dependency passes when each of the terms that its expression joins by AND has one of these.
const ACCEPTED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unicode-3.0",
    "Unlicense",
    "CC0-1.0",
    "BSL-1.0",
    "MIT-0",
    "CDLA-Permissive-2.0",
];

/// Accepted by name, with the reason.
const EXCEPTIONS: &[&str] = &[
    // MPL-2.0 binds changes to its own files; it comes with abi_stable and is used unchanged.
    "generational-arena",
];

pub(crate) fn check() -> Outcome {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let refused: Vec<String> = packages
        .iter()
        .filter_map(|package| {
            let licence = package["license"].as_str().unwrap_or("(none)");
            let excepted = package["name"].as_str().is_some_and(|name| EXCEPTIONS.contains(&name));
            (!excepted && !accepted(licence)).then(|| format!("{} {}: {licence}", package["name"], package["version"]))
        })
        .collect();
    if refused.is_empty() {
        println!("licences: {} packages, all accepted", packages.len());
        return Ok(());
    }
    Err(format!("not accepted:\n  {}", refused.join("\n  ")))
}

/// Evaluates an SPDX expression of AND, OR, `/` and parentheses that are not nested.
fn accepted(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    plain.split(" AND ").all(|term| term.split(" OR ").any(|name| ACCEPTED.contains(&name.trim())))
}

#[cfg(test)]
mod tests {
    use super::accepted;

    #[test]
    fn an_expression_needs_an_accepted_choice_in_every_term() {
        assert!(accepted("MIT OR Apache-2.0"));
        assert!(accepted("MIT/Apache-2.0"));
        assert!(accepted("(MIT OR GPL-3.0) AND Unicode-3.0"));
        assert!(!accepted("GPL-3.0"));
        assert!(!accepted("MIT AND GPL-3.0"));
        assert!(!accepted("(none)"));
    }
}
