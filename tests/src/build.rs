//! What the tests load and drive, built once per test process with the cargo that runs the tests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Packages that the tests load or drive. Cargo is asked for all of them together: one build, one feature set.
const PACKAGES: &[&str] = &[
    "engineroom",
    "engine-notes",
    "engine-recall",
    "engine-window",
    "fixture-chaos",
    "fixture-crasher",
    "fixture-intruder",
    "fixture-recorder",
    "fixture-powercut",
    "fixture-wrong",
];

/// Environment variable: what lies beside the test is taken as it is.
const AS_IT_IS: &str = "ENGINEROOM_TESTS_AS_BUILT";

/// The built files.
#[derive(Debug)]
pub struct Built {
    folder: PathBuf,
}

/// Builds, the first time, and gives the built files.
pub fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        // target/PROFILE/deps/TEST-HASH: the test's own place tells the target folder and the profile.
        let own = std::env::current_exe().expect("the test's own path");
        let folder = own.parent().expect("its folder");
        // A program that is no test stands beside what it drives.
        let folder = if folder.ends_with("deps") { folder.parent().expect("a folder above deps") } else { folder };
        let folder = folder.to_path_buf();
        // A long run beside other work takes a copy of what was built, and must not build it anew under itself.
        if std::env::var_os(AS_IT_IS).is_some() {
            return Built { folder };
        }
        let mut cargo = outer_cargo();
        cargo.arg("build").current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.arg("--target-dir").arg(folder.parent().expect("a target folder"));
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        for package in PACKAGES {
            cargo.args(["--package", package]);
        }
        let output = cargo.output().expect("cargo starts");
        assert!(output.status.success(), "{cargo:?}:\n{}", String::from_utf8_lossy(&output.stderr));
        Built { folder }
    })
}

/// The cargo that runs this process, without what it told us about our own package: some build scripts watch those variables,
/// and would build everything above them anew.
pub fn outer_cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        let about_us =
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_", "LD_LIBRARY_PATH"];
        if about_us.iter().any(|prefix| name_text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    cargo
}

impl Built {
    /// The gateway.
    pub fn engineroom(&self) -> PathBuf {
        self.folder.join("engineroom")
    }

    /// The library of a package with this library name.
    pub fn library(&self, name: &str) -> PathBuf {
        self.folder.join(crate::library_name(name))
    }
}
