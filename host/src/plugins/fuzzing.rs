//! Doors for `fuzz/`: what a stranger's file goes through before a line of it runs. Not for anything else.

use super::{inspect, manifest, schema};
use serde_json::{Map, Value};

/// Inspects the bytes of a library as `plugins` does, the configuration with its schema included; the plugin's id when it
/// passed.
pub fn library(bytes: &[u8], config: &Map<String, Value>) -> Option<String> {
    let manifest = inspect::inspect(bytes).ok()?;
    inspect::check_inside(bytes).ok()?;
    manifest.check().ok()?;
    schema::check_config(&manifest, config).ok()?;
    Some(manifest.plugin_id)
}

/// Reads the manifest's section alone, and checks a configuration with the schema in it.
pub fn section(bytes: &[u8], config: &Map<String, Value>) -> Option<String> {
    let manifest = manifest::parse(bytes).ok()?;
    manifest.check().ok()?;
    schema::check_config(&manifest, config).ok()?;
    Some(manifest.plugin_id)
}
