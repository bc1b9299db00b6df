//! The fail points of the gateway, read from its source.

use std::path::{Path, PathBuf};

/// Names of all fail points, in order.
pub fn failpoints() -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("host/src");
    let mut points: Vec<String> = files(&source).iter().flat_map(|file| named_in(file)).collect();
    points.sort();
    points.dedup();
    // Named by the module's own documentation and tests only, or no step of its own.
    points.retain(|point| point != "store.checkpoint.soon");
    assert!(points.len() > 60, "the fail points were not found: {points:?}");
    points
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the source").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn named_in(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).expect("a source file");
    let calls = ["fails(", "pass(", "Error::at("];
    let mut points = Vec::new();
    for call in calls {
        for (at, _) in text.match_indices(call) {
            let rest = text[at + call.len()..].trim_start();
            let name = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')).map(|(name, _)| name);
            let is_point = |name: &&str| {
                name.contains('.') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '.')
            };
            points.extend(name.filter(is_point).map(str::to_owned));
        }
    }
    points
}
