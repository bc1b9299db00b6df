//! `completions` and `man`: what a shell and a reader of manual pages know of the commands, made from the same definition as
//! `--help`. Neither needs a configuration, so neither fails for one.

use super::args::Cli;
use super::error::{CliError, Verdict};
use super::out::Out;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Prints the script for a shell.
pub(super) fn completions(out: Out, shell: Shell) -> Verdict {
    out.piece(&script(shell));
    Verdict::Well
}

/// Writes a page a command into the folder, which is made when it is not there.
pub(super) fn man(out: Out, folder: &Path) -> Result<Verdict, CliError> {
    let mut written = Vec::new();
    let failed = |path: &Path, source| CliError::Write { path: path.display().to_string(), source };
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    for (name, text) in pages().map_err(|source| failed(folder, source))? {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|source| failed(&path, source))?;
        written.push(path);
    }
    tell(out, &written);
    Ok(Verdict::Well)
}

fn tell(out: Out, written: &[PathBuf]) {
    if out.is_json() {
        return out.document(&json!({ "written": written }));
    }
    for path in written {
        out.line(&path.display().to_string());
    }
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "engineroom", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// File name and text of every page, a command's before those of what is below it.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    // `help` of every command would be a page of its own and say nothing.
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let source = format!("engineroom {}", env!("CARGO_PKG_VERSION"));
    let mut pages = Vec::new();
    let mut waiting = vec![root];
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().filter(|below| !below.is_hide_set()).cloned());
        let page = Man::new(command).source(&source).manual("Engineroom");
        let mut text = Vec::new();
        page.render(&mut text)?;
        pages.push((page.get_filename(), text));
    }
    pages.sort();
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, ValueEnum};

    /// Every visible command with its words, `plugins check`; the program itself is "".
    fn commands() -> Vec<(String, Command)> {
        let mut found = Vec::new();
        let mut waiting = vec![(String::new(), Cli::command())];
        while let Some((words, command)) = waiting.pop() {
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                waiting.push((format!("{words} {}", below.get_name()).trim().to_owned(), below.clone()));
            }
            found.push((words, command));
        }
        assert!(found.len() > 20);
        found
    }

    /// Long flags that `--help` of a command shows.
    fn flags(command: &Command) -> Vec<String> {
        command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .filter_map(|arg| arg.get_long())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn every_command_has_a_page_with_its_flags_and_nothing_else_has() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("new/man1");
        man(Out::new(true), &pages).unwrap();
        let commands = commands();
        for (words, command) in &commands {
            let name = format!("engineroom {words}").trim().replace(' ', "-");
            let page =
                std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap_or_else(|e| panic!("{name}: {e}"));
            // Roff writes hyphens and apostrophes as escapes.
            let page = page.replace("\\-", "-").replace("\\*(Aq", "'");
            assert!(page.contains(&format!(".TH {name} 1")), "{page}");
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && page.contains(&about), "{name} lacks {about:?}: {page}");
            for flag in flags(command).iter().chain([&"config".to_owned(), &"json".to_owned()]) {
                assert!(page.contains(&format!("--{flag}")), "{name} lacks --{flag}: {page}");
            }
        }
        assert_eq!(std::fs::read_dir(&pages).unwrap().count(), commands.len());
    }

    #[test]
    fn the_script_of_every_shell_knows_every_command_and_flag() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for (words, command) in commands() {
                let last = words.split(' ').next_back().unwrap_or_default();
                assert!(script.contains(last), "{shell}: {words}");
                for flag in flags(&command) {
                    // fish writes a long flag as `-l NAME`.
                    let written = [format!("--{flag}"), format!("-l {flag}")];
                    assert!(written.iter().any(|written| script.contains(written)), "{shell}: {words} --{flag}");
                }
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = man(Out::new(true), &file).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
