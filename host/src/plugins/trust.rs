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
//! - **Hash:** a pinned hash is compared under every policy; `pinned` asks for one, `signed` for a signature.

use super::cause::Cause;
use super::discover::{Candidate, Place};
use super::manifest::Manifest;
use super::read::{Facts, Library};
use super::report::StageFailure;
use crate::config::{EntryConfig, PluginsConfig, TrustPolicy};
use crate::observe::broken;
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
        if !candidate.real.starts_with(root) {
            let message = format!("{} leads out of the plugins folder", candidate.path.display());
            return Err(StageFailure::new(Cause::OutsideFolder, message).because(format!("its real path is {real}")));
        }
        if facts.links > 1 {
            let message = format!("{real} has {} names (hard links)", facts.links);
            return Err(StageFailure::new(Cause::HardLinked, message));
        }
    }
    if !who.owns(facts) {
        let message = format!("{real} belongs to user {}, the gateway runs as user {}", facts.uid, who.uid);
        return Err(StageFailure::new(Cause::ForeignOwner, message)
            .hint(format!("make the gateway's user its owner: chown {} {real}", who.uid)));
    }
    if let Some(why) = who.loose(facts) {
        return Err(StageFailure::new(Cause::LooseMode, format!("{real}: {why}"))
            .hint(format!("take the right away: chmod go-w {real}")));
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
    if !who.owns(&facts) {
        let message = format!("the folder {shown} belongs to user {}", facts.uid);
        return Err(StageFailure::new(Cause::LooseFolder, message));
    }
    match who.loose(&facts) {
        Some(why) => Err(StageFailure::new(Cause::LooseFolder, format!("the folder {shown}: {why}"))
            .hint(format!("take the right away: chmod go-w {shown}"))),
        None => Ok(()),
    }
}

/// Applies the rules that need the entry: hash and policy.
pub(super) fn check_entry(
    policy: TrustPolicy,
    manifest: &Manifest,
    library: &Library,
    entry: &EntryConfig,
) -> Result<(), StageFailure> {
    let id = &manifest.plugin_id;
    let pinned = entry.sha256.as_deref().map(str::to_ascii_lowercase);
    if let Some(pinned) = &pinned
        && *pinned != library.sha256
    {
        return Err(StageFailure::new(Cause::HashDiffers, format!("the file of plugin {id} is not the pinned one"))
            .because(format!("pinned: {pinned}"))
            .because(format!("found:  {}", library.sha256)));
    }
    match policy {
        TrustPolicy::Any => {}
        TrustPolicy::Pinned if pinned.is_some() => {}
        TrustPolicy::Pinned => {
            return Err(StageFailure::new(Cause::NotPinned, format!("plugin {id} has no pinned hash")).hint(format!(
                "set plugins.entries.{id}.sha256 = \"{}\", or plugins.trust.policy = \"any\"",
                library.sha256
            )));
        }
        TrustPolicy::Signed => {
            let message = format!("plugin {id} cannot be verified: signatures are not supported yet");
            return Err(StageFailure::new(Cause::NotSigned, message));
        }
    }
    Ok(())
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
