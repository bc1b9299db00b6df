//! `plugins new`: makes an author's folder, and says what to do with it.

use super::args::NewArgs;
use super::error::{CliError, Verdict};
use super::out::{Out, Tone};
use crate::scaffold::{self, Made, Order};
use std::path::{Path, PathBuf};

pub(super) fn run(out: &Out, args: NewArgs) -> Result<Verdict, CliError> {
    let folder = args.path.unwrap_or_else(|| PathBuf::from(&args.name));
    let order = Order { name: args.name, lang: args.lang, template: args.template, folder };
    let made = scaffold::make(&order).map_err(|error| CliError::of(&error))?;
    if out.is_json() {
        out.document(&made);
    } else {
        print(out, &made);
    }
    Ok(Verdict::Well)
}

fn print(out: &Out, made: &Made) {
    let (folder, library) = (quoted(&made.folder), quoted(&made.library));
    out.line(&format!("made {} in {folder}; its README.md says what is where", out.paint(Tone::Strong, &made.id)));
    out.line("");
    let steps = [
        (format!("(cd {folder} && {})", made.test), "try it"),
        (format!("(cd {folder} && {})", made.build), "build the library"),
        (format!("engineroom plugins check {library}"), "hold it to the contract"),
        (format!("engineroom plugins install {library}"), "copy it into the plugins folder"),
        (format!("engineroom plugins select {}", made.select.join(" ")), "put it into its slot"),
        ("engineroom gateway".into(), "start, or restart: nothing is loaded while it runs"),
    ];
    let width = steps.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, why) in steps {
        out.line(&format!("  {command:<width$}  {}", out.paint(Tone::Dim, &format!("# {why}"))));
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%,:".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_where_a_shell_would_split_it() {
        assert_eq!(quoted(Path::new("a/b-c.so")), "a/b-c.so");
        assert_eq!(quoted(Path::new("my files/o'clock")), r"'my files/o'\''clock'");
    }
}
