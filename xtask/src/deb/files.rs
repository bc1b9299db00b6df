//! What lies where in the package.

use super::{BUNDLED, Outcome, output, root, run};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tree that `dpkg-deb` packs.
pub(super) struct Tree(PathBuf);

impl Tree {
    pub(super) fn new(folder: &Path) -> Tree {
        Tree(folder.to_path_buf())
    }

    pub(super) fn fill(&self, gateway: &Path, version: &str, architecture: &str) -> Outcome {
        let program = read(gateway)?;
        self.put("usr/bin/engineroom", &program, 0o755)?;
        for (_, name) in BUNDLED {
            let name = run::library(name);
            // The very files whose hashes the gateway was told.
            self.put(
                &format!("usr/lib/engineroom/plugins/{name}"),
                &read(&root().join("plugins").join(&name))?,
                0o644,
            )?;
        }
        let own = root().join("packaging");
        let configuration = configuration(&text(&root().join("plugins.toml"))?)?;
        self.put("etc/engineroom/plugins.toml", configuration.as_bytes(), 0o644)?;
        let unit = read(&own.join("engineroom.service"))?;
        self.put("usr/lib/systemd/system/engineroom.service", &unit, 0o644)?;
        self.words(gateway)?;
        let copyright = copyright(&text(&own.join("debian/copyright"))?, &text(&root().join("LICENSE-MIT"))?);
        self.put("usr/share/doc/engineroom/copyright", copyright.as_bytes(), 0o644)?;
        self.put("usr/share/doc/engineroom/changelog", &read(&root().join("CHANGELOG.md"))?, 0o644)?;
        self.zip("usr/share/doc/engineroom/changelog")?;
        for script in ["postinst", "prerm", "postrm"] {
            self.put(&format!("DEBIAN/{script}"), &read(&own.join("debian").join(script))?, 0o755)?;
        }
        self.put("DEBIAN/conffiles", b"/etc/engineroom/plugins.toml\n", 0o644)?;
        let control = control(version, architecture, &newest_glibc(&program)?, self.kibibytes()?);
        self.put("DEBIAN/control", control.as_bytes(), 0o644)
    }

    /// Manual pages and completions, as the packaged program makes them.
    fn words(&self, gateway: &Path) -> Outcome {
        let pages = "usr/share/man/man1";
        let names = output(Command::new(gateway).arg("man").arg(self.0.join(pages)))?;
        for page in names.lines() {
            let name = Path::new(page).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            self.zip(&format!("{pages}/{name}"))?;
        }
        for (shell, place) in [
            ("bash", "usr/share/bash-completion/completions/engineroom"),
            ("zsh", "usr/share/zsh/vendor-completions/_engineroom"),
            ("fish", "usr/share/fish/vendor_completions.d/engineroom.fish"),
        ] {
            let script = output(Command::new(gateway).args(["completions", shell]))?;
            self.put(place, format!("{script}\n").as_bytes(), 0o644)?;
        }
        Ok(())
    }

    fn put(&self, place: &str, bytes: &[u8], mode: u32) -> Outcome {
        let path = self.0.join(place);
        let say = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut folder = self.0.clone();
        for part in Path::new(place).parent().into_iter().flatten() {
            folder.push(part);
            std::fs::create_dir_all(&folder).map_err(say)?;
            // Whatever the umask of who builds it is.
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).map_err(say)?;
        }
        std::fs::set_permissions(&self.0, std::fs::Permissions::from_mode(0o755)).map_err(say)?;
        std::fs::write(&path, bytes).map_err(say)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).map_err(say)
    }

    /// Without name and time, so that the same files make the same package.
    fn zip(&self, place: &str) -> Outcome {
        let bytes = read(&self.0.join(place))?;
        self.put(place, &bytes, 0o644)?;
        crate::done(Command::new("gzip").arg("-9nf").arg(self.0.join(place)))
    }

    fn kibibytes(&self) -> Result<u64, String> {
        let total = output(Command::new("du").arg("-sk").arg(&self.0))?;
        total.split_whitespace().next().and_then(|n| n.parse().ok()).ok_or_else(|| format!("du said {total}"))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))
}

fn text(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

/// The configuration of the checkout with the places of a package. What the operator adds lies where the gateway cannot write.
fn configuration(checkout: &str) -> Result<String, String> {
    let mut configuration = checkout.to_owned();
    for (line, packaged) in [
        ("state_dir = \"state\" ", "state_dir = \"/var/lib/engineroom\" "),
        ("dir = \"plugins\" ", "dir = \"/usr/local/lib/engineroom/plugins\" "),
        ("# links = [] ", "links = [\"/usr/lib/engineroom/plugins\"] "),
    ] {
        let marked = format!("\n{line}");
        if configuration.matches(&marked).count() != 1 {
            return Err(format!("plugins.toml has not one line that begins with `{line}`"));
        }
        configuration = configuration.replace(&marked, &format!("\n{packaged}"));
    }
    Ok(configuration)
}

fn copyright(head: &str, licence: &str) -> String {
    let lines = licence.lines().map(|line| if line.is_empty() { " .".to_owned() } else { format!(" {line}") });
    lines.fold(head.to_owned(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    })
}

fn control(version: &str, architecture: &str, glibc: &str, kibibytes: u64) -> String {
    format!(
        "Package: engineroom\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Engineroom authors <engineroom@localhost>\n\
         Installed-Size: {kibibytes}\nDepends: libc6 (>= {glibc}), libgcc-s1, adduser\nRecommends: ca-certificates\n\
         Section: net\nPriority: optional\n\
         Description: gateway that hosts context engines for LLM agents\n \
         It stands between agents and their model, keeps every session's transcript, and\n \
         asks a context engine, a native shared library, what the model should see.\n \
         The engines window and recall and the memory provider notes come with it.\n"
    )
}

/// The newest version of the C library that the program names.
fn newest_glibc(program: &[u8]) -> Result<String, String> {
    let mark = b"GLIBC_2.";
    let minors = program.windows(mark.len()).enumerate().filter(|(_, window)| window == mark).filter_map(|(at, _)| {
        let digits = program[at + mark.len()..].iter().take_while(|byte| byte.is_ascii_digit()).take(4);
        digits.map(|&byte| char::from(byte)).collect::<String>().parse::<u32>().ok()
    });
    let newest = minors.max().ok_or("the program names no version of the C library")?;
    Ok(format!("2.{newest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_the_package_is_the_checkouts_in_other_places() {
        let checkout = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
        let packaged = configuration(&checkout).unwrap();
        for line in [
            "\nstate_dir = \"/var/lib/engineroom\" ",
            "\ndir = \"/usr/local/lib/engineroom/plugins\" ",
            "\nlinks = [\"/usr/lib/engineroom/plugins\"] ",
        ] {
            assert_eq!(packaged.matches(line).count(), 1, "{line}: {packaged}");
        }
        assert_eq!(packaged.lines().count(), checkout.lines().count());
        assert!(configuration("[plugins]\n").is_err());
    }

    #[test]
    fn the_newest_version_of_the_c_library_counts() {
        assert_eq!(newest_glibc(b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.17\0GLIBC_PRIVATE").unwrap(), "2.34");
        assert!(newest_glibc(b"\x7fELF").is_err());
    }

    #[test]
    fn the_licence_is_told_as_debian_wants_it() {
        assert_eq!(copyright("Files: *\n", "MIT\n\nAs is.\n"), "Files: *\n MIT\n .\n As is.\n");
    }
}
