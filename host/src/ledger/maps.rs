//! Where a library lies in memory.

use std::path::Path;

/// The addresses of everything that is mapped from this file, each with its end.
pub(super) fn of(path: &Path) -> Vec<(u64, u64)> {
    match std::fs::read_to_string("/proc/self/maps") {
        Ok(maps) => find(&maps, &path.to_string_lossy()),
        // Other systems have no such file; there a library's own threads accuse nobody.
        Err(_) => Vec::new(),
    }
}

/// The same from the text of the system, where neighbours are one.
fn find(maps: &str, path: &str) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for line in maps.lines() {
        // Five fields stand before the name, which may hold blanks itself.
        let mut rest = line;
        let mut fields = [""; 5];
        for field in &mut fields {
            let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
            (*field, rest) = (first, after.trim_start());
        }
        if rest != path {
            continue;
        }
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let Some((from, to)) = fields[0].split_once('-').and_then(|(from, to)| Some((number(from)?, number(to)?)))
        else {
            continue;
        };
        match found.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => found.push((from, to)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_file_are_one_range() {
        let maps = "7f0000000000-7f0000001000 r--p 00000000 08:01 11  /s/lib one.so\n\
                    7f0000001000-7f0000003000 r-xp 00001000 08:01 11                 /s/lib one.so\n\
                    7f0000003000-7f0000004000 rw-p 00000000 00:00 0 \n\
                    7f0000008000-7f0000009000 rw-p 00003000 08:01 11 /s/lib one.so\n\
                    7f000000a000-7f000000b000 r-xp 00000000 08:01 12 /s/two.so\nrubbish\n";
        assert_eq!(
            find(maps, "/s/lib one.so"),
            [(0x7f00_0000_0000, 0x7f00_0000_3000), (0x7f00_0000_8000, 0x7f00_0000_9000)]
        );
        assert_eq!(find(maps, "/s/two.so").len(), 1);
        assert!(find(maps, "/s").is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_program_is_found() {
        let own = std::env::current_exe().unwrap();
        let address = this_program_is_found as fn() as usize as u64;
        assert!(of(&own).iter().any(|(from, to)| (*from..*to).contains(&address)));
    }
}
