//! Other processes, by their id.

use std::process::Command;

/// State and parent of a process; `None` when there is none.
pub fn process_state(pid: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything.
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    Some((rest.next()?.to_owned(), rest.next()?.parse().ok()?))
}

/// True while it is there and not only waited for.
pub fn lives(pid: u32) -> bool {
    process_state(pid).is_some_and(|(state, _)| state != "Z")
}

/// Sends a signal by its name.
pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap().success());
}
