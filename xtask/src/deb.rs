//! `deb`: the Debian package, and its check: installed into a folder, started from there, removed and purged.
//!
//! What is packaged is what `run` and `smoke` build, so that nothing is built twice.

mod files;

use crate::run::{self, BUNDLED, Build};
use crate::smoke::Gateway;
use crate::test::on_path;
use crate::{Outcome, built, done, root};
use files::Tree;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `--unoptimised` packages what is quick to build; `--check` tries the package.
pub(crate) fn deb(args: &[String]) -> Outcome {
    let mut build = Build::Release;
    let mut tried = false;
    for arg in args {
        match arg.as_str() {
            "--unoptimised" => build = Build::Dev,
            "--check" => tried = true,
            other => return Err(format!("unknown argument {other}; there are --check and --unoptimised")),
        }
    }
    if !["dpkg", "dpkg-deb", "gzip"].into_iter().all(on_path) {
        println!("skipped: this machine lacks dpkg, dpkg-deb or gzip");
        return Ok(());
    }
    let gateway = run::prepare(build)?;
    let folder = built("debian");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let scratch = tempfile::tempdir_in(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let version = env!("CARGO_PKG_VERSION");
    let tree = scratch.path().join("engineroom");
    Tree::new(&tree).fill(&gateway, version, &architecture)?;
    let package = folder.join(format!("engineroom_{version}_{architecture}.deb"));
    // Its files are root's, whoever builds it.
    done(Command::new("dpkg-deb").args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(&package))?;
    if tried { check(&package, &scratch.path().join("root")) } else { Ok(()) }
}

fn output(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|e| format!("{shown}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What must be in the package.
const CONTENTS: &[&str] = &[
    "./usr/bin/engineroom",
    "./etc/engineroom/plugins.toml",
    "./usr/lib/systemd/system/engineroom.service",
    "./usr/share/man/man1/engineroom.1.gz",
    "./usr/share/man/man1/engineroom-plugins-check.1.gz",
    "./usr/share/bash-completion/completions/engineroom",
    "./usr/share/zsh/vendor-completions/_engineroom",
    "./usr/share/fish/vendor_completions.d/engineroom.fish",
    "./usr/share/doc/engineroom/copyright",
    "./usr/share/doc/engineroom/changelog.gz",
];

fn check(package: &Path, scratch: &Path) -> Outcome {
    println!("{}", output(Command::new("dpkg-deb").arg("--info").arg(package))?);
    let contents = output(Command::new("dpkg-deb").arg("--contents").arg(package))?;
    let libraries = BUNDLED.iter().map(|(_, name)| format!("./usr/lib/engineroom/plugins/{}", run::library(name)));
    for wanted in CONTENTS.iter().map(ToString::to_string).chain(libraries) {
        let line = contents.lines().find(|line| line.ends_with(&format!(" {wanted}")));
        let line = line.ok_or_else(|| format!("the package lacks {wanted}:\n{contents}"))?;
        if !line.contains(" root/root ") {
            return Err(format!("not root's: {line}"));
        }
    }
    if on_path("lintian") {
        done(Command::new("lintian").args(["--fail-on", "error"]).arg(package))?;
    }
    let at = |path: &str| scratch.join(path);
    let admin = at("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        std::fs::create_dir_all(admin.join(folder)).map_err(|e| format!("{}: {e}", admin.display()))?;
    }
    std::fs::write(admin.join("status"), "").map_err(|e| format!("{}: {e}", admin.display()))?;
    let dpkg = |verb: &str, what: &Path| {
        // The scripts run, told that it is a folder (DPKG_ROOT); what it depends on is this system's.
        let mut command = Command::new("dpkg");
        command.arg("--force-not-root,script-chrootless,depends").arg(format!("--root={}", scratch.display()));
        command.arg(format!("--log={}", admin.join("log").display())).arg(verb).arg(what);
        // It wants to see programs that only root has on its path.
        let path = std::env::var("PATH").unwrap_or_default();
        done(command.env("PATH", format!("{path}:/usr/sbin:/sbin")))
    };
    dpkg("--install", package)?;
    try_installed(scratch)?;
    dpkg("--remove", Path::new("engineroom"))?;
    for kept in ["etc/engineroom/plugins.toml", "var/lib/engineroom"] {
        if !at(kept).exists() {
            return Err(format!("{kept} is gone after a removal that is no purge"));
        }
    }
    dpkg("--purge", Path::new("engineroom"))?;
    for gone in ["etc/engineroom", "var/lib/engineroom", "usr/bin/engineroom"] {
        if at(gone).exists() {
            return Err(format!("{gone} is left after a purge"));
        }
    }
    println!("{}: installed, asked, removed, purged", package.display());
    Ok(())
}

/// The installed gateway with the installed configuration; only what is absolute in it is led into the folder.
fn try_installed(scratch: &Path) -> Outcome {
    let at = |path: &str| -> PathBuf { scratch.join(path) };
    let mut command = Command::new(at("usr/bin/engineroom"));
    command
        .current_dir(root())
        .args(["gateway", "--config"])
        .arg(at("etc/engineroom/plugins.toml"))
        .env("ENGINEROOM_GATEWAY_LISTEN", "127.0.0.1:0")
        .env("ENGINEROOM_GATEWAY_STATE_DIR", at("var/lib/engineroom"))
        .env("ENGINEROOM_PLUGINS_DIR", at("usr/local/lib/engineroom/plugins"))
        .env("ENGINEROOM_PLUGINS_LINKS", at("usr/lib/engineroom/plugins"));
    Gateway::start(&mut command)?.talk()
}
