//! Libraries that nobody has loaded yet, and the manifests in them.

use engine_abi::manifest::{Door, HEADER_LEN, MAGIC, Manifest, Panic, parse};
use engineroom::plugins::fuzzing;
use serde_json::{Map, Value};

/// A whole library.
pub(crate) fn library(data: &[u8]) {
    let found = fuzzing::library(data, &Map::new());
    // What is cut inside of what its headers name must not pass as the whole.
    if found.is_some() && data.len() > 64 {
        assert!(fuzzing::library(&data[..64], &Map::new()).is_none(), "a header alone passed as a library");
    }
}

/// A manifest's section. The first byte says whether it is the section or only its body; a configuration may follow the body.
pub(crate) fn manifest(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else { return };
    let (section, config) = if how & 1 == 0 {
        (rest.to_vec(), Map::new())
    } else {
        let (body, config) = match rest.iter().position(|byte| *byte == 1) {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &b""[..]),
        };
        let config = match serde_json::from_slice(config) {
            Ok(Value::Object(config)) => config,
            _ => Map::new(),
        };
        (framed(body), config)
    };
    let _ = fuzzing::section(&section, &config);
    let Ok(read) = parse(&section) else { return };
    let again = parse(&framed(&written(&read))).expect("what was read can be written and read");
    assert_eq!(again, read, "a manifest changes when it is written and read again");
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut section = MAGIC.to_vec();
    section.extend((body.len() as u64).to_le_bytes());
    section.extend(body);
    assert_eq!(section.len(), HEADER_LEN + body.len());
    section
}

fn written(manifest: &Manifest) -> Vec<u8> {
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut parts = vec![
        ("plugin".to_owned(), manifest.plugin.clone()),
        ("engines".to_owned(), manifest.engines.join(",")),
        ("memory".to_owned(), manifest.memory.join(",")),
        ("kind".to_owned(), manifest.kind.clone()),
        ("contract".to_owned(), manifest.contract.clone()),
        ("panic".to_owned(), if manifest.panic == Panic::Unwind { "unwind" } else { "abort" }.to_owned()),
        ("door".to_owned(), if manifest.door == Door::Rust { "rust" } else { "c" }.to_owned()),
        ("config_schema".to_owned(), some(&manifest.config_schema)),
        ("name".to_owned(), some(&manifest.name)),
        ("version".to_owned(), some(&manifest.version)),
        ("description".to_owned(), some(&manifest.description)),
        ("sdk".to_owned(), some(&manifest.sdk)),
    ];
    parts.extend(manifest.other.iter().map(|(key, value)| (key.clone(), value.clone())));
    parts.into_iter().flat_map(|(key, value)| format!("{key}={value}\0").into_bytes()).collect()
}
