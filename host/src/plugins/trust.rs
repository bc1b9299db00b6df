//! May this file run here? Place, owner, mode, links, hash; and what the operator said about the plugin.
//!
//! The rules in one place:
//!
//! - **Declared, not refused:** plugins are switched off, the plugin is disabled, denied, or not in a non-empty `allow`.
//! - **Place:** the real path lies in the plugins folder, in a linked folder, or is a linked file.
//! - **Owner:** file and folder belong to the gateway's user or to root.
//! - **Mode:** nobody else may write to the file or its folder. Writing by a group is accepted for the gateway's own
//!   group and root's only (systems with one group per user set that bit by default).
//! - **Links:** in the plugins folder a file has one name; a second name could lie where others may write.
//! - **Hash:** a pinned hash is compared under every policy, that of the lock and that of the entry; `pinned` asks for one.
//!   What came with this program has its hash in there.
//! - **Signature:** one by a key of the configuration is checked under every policy; `signed` asks for one.

use super::cause::Cause;
use super::discover::{Candidate, Place};
use super::isolation::is_bundled;
use super::lock::{Pin, Pins, pin_name};
use super::manifest::Manifest;
use super::read::{Facts, Library};
use super::report::StageFailure;
use super::signature::{self, SignatureReport};
use crate::config::{PluginsConfig, TrustPolicy};
use crate::observe::broken;
use serde::Serialize;
use std::path::Path;

/// Who asks: the user and group that the gateway runs as.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    pub uid: u32,
    pub gid: u32,
}

impl Identity {
    pub(super) fn of_process() -> Identity {
        Identity { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    fn owns(self, facts: &Facts) -> bool {
        facts.uid == self.uid || facts.uid == 0
    }

    /// A file that must be the gateway's own. Gives what is wrong with it, and the command that mends it.
    pub(super) fn check_own(self, file: &Path, facts: &Facts) -> Result<(), (String, String)> {
        let (shown, command) = (file.display(), shell(file));
        if !self.owns(facts) {
            let message =
                format!("{shown} belongs to user {}, the gateway runs as user {}", user(facts.uid), user(self.uid));
            return Err((message, format!("make the gateway's user its owner: chown {} {command}", self.uid)));
        }
        match self.loose(facts) {
            Some(why) => Err((format!("{shown}: {why}"), format!("take the right away: chmod go-w {command}"))),
            None => Ok(()),
        }
    }

    /// Why others may write, if they may.
    fn loose(self, facts: &Facts) -> Option<String> {
        if facts.mode & 0o002 != 0 {
            return Some(format!("anybody may write to it (mode {:04o})", facts.mode));
        }
        let foreign_group = facts.gid != self.gid && facts.gid != 0;
        (facts.mode & 0o020 != 0 && foreign_group)
            .then(|| format!("the group {} may write to it (mode {:04o})", facts.gid, facts.mode))
    }
}

/// Why a plugin is only declared, if the operator said so.
pub(super) fn switched_off(config: &PluginsConfig, plugin_id: &str) -> Option<String> {
    let listed = |list: &[String]| list.iter().any(|id| id == plugin_id);
    if !config.enabled && !crate::observe::broken("8.14") {
        Some("plugins are switched off (plugins.enabled = false)".into())
    } else if listed(&config.deny) {
        Some("denied (plugins.deny)".into())
    } else if !config.allow.is_empty() && !listed(&config.allow) {
        Some("not in plugins.allow".into())
    } else if config.entries.get(plugin_id).is_some_and(|entry| !entry.enabled) {
        Some(format!("disabled (plugins.entries.{plugin_id}.enabled = false)"))
    } else {
        None
    }
}

/// Applies the rules of place, owner, mode and links.
pub(super) fn check_place(candidate: &Candidate, facts: &Facts, who: Identity) -> Result<(), StageFailure> {
    if broken("9.30") {
        return Ok(());
    }
    let real = candidate.real.display();
    if let Place::Folder(root) = &candidate.place {
        let command = shell(&candidate.real);
        if !candidate.real.starts_with(root) {
            let found = &candidate.path;
            let message = format!("{} leads out of the plugins folder", found.display());
            return Err(StageFailure::new(Cause::OutsideFolder, message).because(format!("its real path is {real}")).hint(
                format!(
                    "copy the library into the folder (cp --remove-destination {command} {}), or remove the link and name \
                     its real place: `engineroom plugins install -l {command}`",
                    shell(found)
                ),
            ));
        }
        if facts.links > 1 {
            let message = format!("{real} has {} names (hard links)", facts.links);
            return Err(StageFailure::new(Cause::HardLinked, message).hint(format!(
                "give it one name by copying it: cp {command} {command}.new && mv {command}.new {command}"
            )));
        }
    }
    if let Err((message, hint)) = who.check_own(&candidate.real, facts) {
        let cause = if who.owns(facts) { Cause::LooseMode } else { Cause::ForeignOwner };
        return Err(StageFailure::new(cause, message).hint(hint));
    }
    let mut folder = candidate.real.parent();
    while let Some(dir) = folder {
        check_folder(dir, who)?;
        folder = match &candidate.place {
            Place::Folder(root) if dir != root => dir.parent(),
            _ => None,
        };
    }
    Ok(())
}

fn check_folder(dir: &Path, who: Identity) -> Result<(), StageFailure> {
    let shown = dir.display();
    let facts = std::fs::metadata(dir).map(|metadata| Facts::of(&metadata)).map_err(|error| {
        StageFailure::new(Cause::LooseFolder, format!("cannot look at the folder {shown}")).because(error)
    })?;
    who.check_own(dir, &facts)
        .map_err(|(message, hint)| StageFailure::new(Cause::LooseFolder, format!("the folder {message}")).hint(hint))
}

/// A user with the name that the system's own list has for it.
fn user(uid: u32) -> String {
    let list = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut lines = list.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let number = uid.to_string();
    match lines.find(|fields| fields.get(2) == Some(&number.as_str())) {
        Some(fields) => format!("{} ({uid})", fields.first().copied().unwrap_or_default()),
        None => number,
    }
}

/// A path as a shell takes it.
pub(super) fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+=:,@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// What vouches for a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Vouched {
    /// What was noted when it was installed, as long as it is the same file.
    pub pin: Option<Pin>,
    /// The entry of its plugin names its hash.
    pub by_entry: bool,
    /// Its signature, when there is one.
    pub signature: Option<SignatureReport>,
}

impl Vouched {
    /// Why a file is trusted that did not come with this program, if it is.
    pub fn reason(&self) -> Option<&'static str> {
        match (&self.pin, self.by_entry, &self.signature) {
            (Some(_), ..) | (_, true, _) => Some("pinned"),
            (_, _, Some(SignatureReport::Good { .. })) => Some("signed"),
            _ => None,
        }
    }
}

/// Applies the rules of hash, signature and policy.
pub(super) fn vouch(
    config: &PluginsConfig,
    pins: &Result<Pins, StageFailure>,
    candidate: &Candidate,
    manifest: &Manifest,
    library: &Library,
) -> Result<Vouched, StageFailure> {
    let id = &manifest.plugin_id;
    let mut vouched = Vouched::default();
    let entry = config.entries.get(id).and_then(|entry| entry.sha256.as_deref()).map(str::to_ascii_lowercase);
    if let Some(pinned) = entry {
        if pinned != library.sha256 {
            let message = format!("the file of plugin {id} is not the one that plugins.entries.{id}.sha256 names");
            return Err(differs(message, &pinned, library)
                .hint(format!("if the change is yours, set plugins.entries.{id}.sha256 to the hash that was found")));
        }
        vouched.by_entry = true;
    }
    // Only what lies in the plugins folder was installed there; a linked file is its builder's, and may change.
    if candidate.path.starts_with(&config.dir) {
        let pins = pins.as_ref().map_err(Clone::clone)?;
        let name = pin_name(&config.dir, &candidate.path);
        if let Some(pin) = pins.of(name.as_deref(), id) {
            if pin.sha256 != library.sha256 {
                let file = candidate.path.display();
                let message = format!("{file} is not the file that was installed for plugin {}", pin.plugin);
                let again = match &pin.source {
                    Some(source) => {
                        format!("; `engineroom plugins update {}` takes it again from {source}", pin.plugin)
                    }
                    None => String::new(),
                };
                return Err(differs(message, &pin.sha256, library).hint(format!(
                    "if the change is yours, `engineroom plugins install {}` accepts it{again}",
                    shell(&candidate.path)
                )));
            }
            vouched.pin = Some(pin.clone());
        }
    }
    vouched.signature = signature::check(&candidate.real, &library.bytes, &config.trust_keys)?;
    obey(config.trust_policy, id, candidate, library, &vouched)?;
    Ok(vouched)
}

fn differs(message: String, pinned: &str, library: &Library) -> StageFailure {
    StageFailure::new(Cause::HashDiffers, message)
        .because(format!("pinned: {pinned}"))
        .because(format!("found:  {}", library.sha256))
}

fn obey(
    policy: TrustPolicy,
    id: &str,
    candidate: &Candidate,
    library: &Library,
    vouched: &Vouched,
) -> Result<(), StageFailure> {
    let is_pinned = vouched.pin.is_some() || vouched.by_entry || is_bundled(&library.sha256);
    match (policy, &vouched.signature) {
        (TrustPolicy::Any, _) | (TrustPolicy::Signed, Some(SignatureReport::Good { .. })) => Ok(()),
        (TrustPolicy::Pinned, _) if is_pinned => Ok(()),
        (TrustPolicy::Pinned, _) => {
            let by_entry = format!("set plugins.entries.{id}.sha256 = \"{}\"", library.sha256);
            let hint = match candidate.place {
                Place::Link => format!("linked files are not pinned: {by_entry}, or install a copy"),
                Place::Folder(_) => format!(
                    "`engineroom plugins install {}` pins it, once you know that it is the right one; or {by_entry}",
                    shell(&candidate.path)
                ),
            };
            Err(StageFailure::new(Cause::NotPinned, format!("plugin {id} has no pinned hash")).hint(hint))
        }
        (TrustPolicy::Signed, found) => {
            let why = match found {
                None => format!("there is no {}", signature::signature_path(&candidate.real).display()),
                Some(SignatureReport::OtherKey) => {
                    "its signature was made with a key that plugins.trust.keys does not list".to_owned()
                }
                Some(_) => "plugins.trust.keys lists no key".to_owned(),
            };
            Err(StageFailure::new(Cause::NotSigned, format!("plugin {id} is not signed by a trusted key")).because(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Identity = Identity { uid: 1000, gid: 1000 };
    const GOOD: Facts = Facts { uid: 1000, gid: 1000, mode: 0o755, links: 1 };

    /// Checks a linked file with these facts, as a gateway that owns the folder.
    fn code(facts: Facts) -> Option<&'static str> {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("x.so");
        let candidate = Candidate { path: real.clone(), real, place: Place::Link };
        let own = Identity::of_process();
        // The folder is this process's own, so the facts are moved to its identity.
        let moved = |id: u32, from: u32, to: u32| if id == from { to } else { id };
        let facts = Facts { uid: moved(facts.uid, WHO.uid, own.uid), gid: moved(facts.gid, WHO.gid, own.gid), ..facts };
        check_place(&candidate, &facts, own).err().map(|failure| failure.code)
    }

    #[test]
    fn files_of_the_gateways_user_and_of_root_are_trusted_and_no_others() {
        assert_eq!(code(GOOD), None);
        assert_eq!(code(Facts { uid: 0, gid: 0, ..GOOD }), None);
        assert_eq!(code(Facts { uid: 4242, ..GOOD }), Some(Cause::ForeignOwner.code()));
    }

    #[test]
    fn nobody_else_may_write() {
        assert_eq!(code(Facts { mode: 0o757, ..GOOD }), Some(Cause::LooseMode.code()));
        assert_eq!(code(Facts { mode: 0o775, ..GOOD }), None, "the gateway's own group");
        assert_eq!(code(Facts { mode: 0o775, gid: 4242, ..GOOD }), Some(Cause::LooseMode.code()));
        assert_eq!(code(Facts { mode: 0o755, gid: 4242, ..GOOD }), None, "that group may only read");
    }

    #[test]
    fn a_hint_is_a_command_to_copy() {
        let why = WHO.loose(&Facts { mode: 0o646, ..GOOD }).unwrap();
        assert!(why.contains("0646"), "{why}");
        let candidate = Candidate { path: "/p/x.so".into(), real: "/p/x.so".into(), place: Place::Link };
        let failure = check_place(&candidate, &Facts { uid: 7, ..GOOD }, WHO).unwrap_err();
        assert!(failure.hint.contains("chown 1000 /p/x.so"), "{}", failure.hint);
    }
}
