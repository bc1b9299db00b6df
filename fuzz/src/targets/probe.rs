//! What a probe's child says.

use engineroom::worker::fuzzing::probe_lines;

/// What the child wrote, a library's own output among it.
pub(crate) fn probe(data: &[u8]) {
    for line in probe_lines(data).into_iter().flatten() {
        let again = probe_lines(&line);
        assert_eq!(again, [Some(line)], "a line changes when it is written and read again");
    }
}
