//! A new note goes to the end of the file of its day, and is on the disk when the call returns.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Appends `text` under a heading with the time of `now` (UTC); gives the name of the file.
///
/// # Errors
///
/// When the folder cannot be made or the file not be written; also when the file is a link out of the folder.
pub(crate) fn append(root: &Path, text: &str, now: SystemTime) -> io::Result<String> {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    let name = format!("{year:04}-{month:02}-{day:02}.md");
    let is_new_folder = !root.is_dir();
    fs::create_dir_all(root)?;
    let path = root.join(&name);
    let is_new = match fs::canonicalize(&path) {
        Ok(real) if real.starts_with(fs::canonicalize(root)?) => false,
        Ok(_) => return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the note is a link out of its folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error),
    };
    let of_day = seconds % 86_400;
    let time = format!("{:02}:{:02}:{:02}", of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let head = if is_new { format!("# {year:04}-{month:02}-{day:02}\n") } else { String::new() };
    // One write: two of them never mix, not even those of two gateways.
    let entry = format!("{head}\n## {time} UTC\n\n{}\n", text.trim());
    let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
    file.write_all(entry.as_bytes())?;
    file.sync_data()?;
    if is_new {
        File::open(root)?.sync_all()?;
    }
    if is_new_folder && let Some(parent) = root.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(name)
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar (Howard Hinnant's `civil_from_days`).
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(11_017), (2000, 3, 1));
        assert_eq!(date(20_787), (2026, 11, 30));
        assert_eq!(date(47_540), (2100, 2, 28));
        assert_eq!(date(47_541), (2100, 3, 1));
    }

    #[test]
    fn notes_of_a_day_share_a_file() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("deep/memory");
        assert_eq!(append(&folder, " one \n", at(1_796_000_000)).unwrap(), "2026-11-30.md");
        append(&folder, "two", at(1_796_000_061)).unwrap();
        append(&folder, "later", at(1_796_100_000)).unwrap();
        let text = fs::read_to_string(folder.join("2026-11-30.md")).unwrap();
        assert_eq!(text, "# 2026-11-30\n\n## 00:53:20 UTC\n\none\n\n## 00:54:21 UTC\n\ntwo\n");
        assert!(folder.join("2026-12-01.md").exists());
    }

    #[test]
    fn a_link_out_of_the_folder_is_not_written_through() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("victim"), "").unwrap();
        std::os::unix::fs::symlink(outside.path().join("victim"), root.path().join("1970-01-01.md")).unwrap();
        assert!(append(root.path(), "text", at(5)).is_err());
        assert_eq!(fs::read_to_string(outside.path().join("victim")).unwrap(), "");
    }
}
