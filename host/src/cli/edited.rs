//! An edit of the configuration, told: the lines that went and came, where they were written, and from when on they count.

use super::context::Context;
use super::error::{CliError, Verdict};
use crate::config::edit::{self, Change, EditError, Edited};

/// What the next start makes of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtNextStart {
    /// It is taken then, and not before.
    Taken,
    /// Something else is said of it.
    ToldApart,
}

/// Makes changes, and tells of them. `keys` are what they set, dotted.
pub(super) fn make(
    context: &Context,
    changes: &[Change<'_>],
    keys: &[&str],
    dry_run: bool,
    next: AtNextStart,
) -> Result<Verdict, CliError> {
    let edited = change(context, changes, dry_run)?;
    if context.out.is_json() {
        context.out.document(&edited);
    } else {
        tell(context, &edited, next);
    }
    overridden(context, keys);
    Ok(Verdict::Well)
}

/// Makes changes. One that must be made elsewhere is shown, and is an error.
pub(super) fn change(context: &Context, changes: &[Change<'_>], dry_run: bool) -> Result<Edited, CliError> {
    edit::edit(&context.config().path, changes, dry_run).map_err(|error| shown(context, error))
}

fn shown(context: &Context, error: EditError) -> CliError {
    // The operator, or the program that generates the file, makes the change from this.
    if let (Some(change), false) = (error.change(), context.out.is_json()) {
        context.out.piece(change);
    }
    error.into()
}

/// Says what was changed, to people.
pub(super) fn tell(context: &Context, edited: &Edited, next: AtNextStart) {
    let (out, path) = (context.out, edited.path.display());
    if !edited.changed {
        out.aside(&format!("{path} says so already"));
        return;
    }
    out.piece(&edited.change);
    if edited.dry_run {
        out.aside(&format!("nothing was written to {path}"));
    } else if next == AtNextStart::ToldApart {
        out.aside(&format!("written to {path}"));
    } else if let Some(running) = context.running() {
        out.aside(&format!(
            "written to {path}; the running gateway (pid {}) goes on as it is: restart it when it suits",
            running.pid
        ));
    } else {
        out.aside(&format!("written to {path}; the next start takes it"));
    }
}

/// Warns when something stronger than the file sets a key.
pub(super) fn overridden(context: &Context, keys: &[&str]) {
    for key in keys {
        if let Some(winner) = context.stronger(key) {
            context.out.warn(&format!("{winner} overrides {key} of the file, which has no effect while it is set"));
        }
    }
}
