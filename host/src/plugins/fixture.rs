//! Small libraries in C for the tests of this room and of the worker: by the C door, compiled when they are needed.

use crate::config::{Config, Isolation};
use crate::worker::{ProbeCommand, use_command};
use engine_abi::{manifest as section, wire};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The wire as far as registration needs it; `create` and what follows belong to the slot.
const HEAD: &str = r#"
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { const uint8_t *ptr; size_t len; } Str;
typedef struct { const void *tag; uint32_t (*create)(const void *, const void *, void *); } Factory;
typedef struct { const uint8_t *context; const void *host;
  uint32_t (*engine)(const uint8_t *, Str, const Factory *);
  uint32_t (*memory)(const uint8_t *, Str, const Factory *);
  uint32_t (*fail)(const uint8_t *, Str); } Registrar;
typedef struct { uint32_t major, minor; uint32_t (*enroll)(const Registrar *); void *extension; } Entry;
static Str text(const char *s) { return (Str){ (const uint8_t *)s, strlen(s) }; }
static uint32_t create(const void *t, const void *c, void *o) { (void)t; (void)c; (void)o; return 1; }
static const Factory factory = { 0, create };
"#;

/// A library to be built.
pub(crate) struct Fixture {
    manifest: Vec<(&'static str, String)>,
    start: String,
    enroll: String,
    entry: String,
    with_manifest: bool,
    compiler: &'static str,
    headers: String,
}

impl Fixture {
    /// A library that registers the engine `id`, and does nothing wrong.
    pub(crate) fn new(id: &str) -> Fixture {
        let manifest = vec![
            ("plugin", id.to_owned()),
            ("engines", id.to_owned()),
            ("kind", "context-engine".to_owned()),
            ("contract", wire::CONTRACT_VERSION.to_owned()),
            ("panic", "unwind".to_owned()),
            ("door", "c".to_owned()),
        ];
        Fixture {
            manifest,
            start: String::new(),
            enroll: format!("return r->engine(r->context, text(\"{id}\"), &factory);"),
            entry: "return &entry;".into(),
            with_manifest: true,
            compiler: "cc",
            headers: String::new(),
        }
    }

    /// Sets a key of the manifest.
    pub(crate) fn key(mut self, key: &'static str, value: &str) -> Fixture {
        self.manifest.retain(|(known, _)| *known != key);
        self.manifest.push((key, value.to_owned()));
        self
    }

    /// Leaves the manifest out.
    pub(crate) fn without_manifest(mut self) -> Fixture {
        self.with_manifest = false;
        self
    }

    /// C statements that run when the library is opened.
    pub(crate) fn start(mut self, code: &str) -> Fixture {
        self.start = code.to_owned();
        self
    }

    /// C statements of `register`; the registrar is `r`.
    pub(crate) fn enroll(mut self, code: &str) -> Fixture {
        self.enroll = code.to_owned();
        self
    }

    /// C statements of the entry function; the entry is `entry`.
    pub(crate) fn entry(mut self, code: &str) -> Fixture {
        self.entry = code.to_owned();
        self
    }

    /// Makes it a library in C++, whose statements may use these headers.
    pub(crate) fn cpp(mut self, headers: &[&str]) -> Fixture {
        self.compiler = "c++";
        self.headers = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
        self
    }

    /// Compiles it to `path`.
    pub(crate) fn build(&self, path: &Path) -> PathBuf {
        let is_cpp = self.compiler == "c++";
        let source = path.with_extension(if is_cpp { "cc" } else { "c" });
        let text = match is_cpp {
            true => format!("{}extern \"C\" {{\n{}}}\n", self.headers, self.source()),
            false => self.source(),
        };
        std::fs::write(&source, text).unwrap();
        let output = Command::new(self.compiler)
            .args(["-shared", "-fPIC", "-O1", "-w", "-o"])
            .arg(path)
            .arg(&source)
            .output()
            .expect("a C compiler is needed for these tests");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::remove_file(source).unwrap();
        path.to_owned()
    }

    fn source(&self) -> String {
        let mut source = HEAD.to_owned();
        if self.with_manifest {
            let body: String = self.manifest.iter().map(|(key, value)| format!("{key}={value}\0")).collect();
            let mut bytes = section::MAGIC.to_vec();
            bytes.extend((body.len() as u64).to_le_bytes());
            bytes.extend(body.as_bytes());
            let list = bytes.iter().fold(String::new(), |mut list, byte| {
                write!(list, "{byte},").unwrap();
                list
            });
            writeln!(
                source,
                "extern const uint8_t manifest[];\n\
                 __attribute__((section(\"{}\"), used)) const uint8_t manifest[] = {{ {list} }};",
                section::ELF_SECTION
            )
            .unwrap();
        }
        let Fixture { start, enroll, entry, .. } = self;
        let (major, minor) = (wire::CONTRACT_MAJOR, wire::CONTRACT_MINOR);
        write!(
            source,
            "__attribute__((constructor)) static void start(void) {{ {start} }}
             static uint32_t enroll(const Registrar *r) {{ {enroll} }}
             static Entry entry = {{ {major}, {minor}, enroll, 0 }};
             const Entry *{}(void) {{ {entry} }}\n",
            wire::C_ENTRY_SYMBOL
        )
        .unwrap();
        source
    }
}

/// A gateway's folders, without a gateway.
pub(crate) struct Bench {
    pub(crate) base: tempfile::TempDir,
    pub(crate) config: Config,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        // The child is this very test program, which finds its way to `worker::tests::probe_child`.
        use_command(ProbeCommand {
            program: std::env::current_exe().unwrap(),
            args: ["worker::tests::probe_child", "--exact", "--nocapture", "--test-threads=1"].map(Into::into).into(),
            env: vec![("ENGINEROOM_TEST_PROBE".into(), "1".into())],
        });
        let base = tempfile::tempdir().unwrap();
        let mut config = Config::defaults(base.path().join("plugins.toml"));
        config.plugins.isolation = Isolation::InProcess;
        std::fs::create_dir(&config.plugins.dir).unwrap();
        std::fs::create_dir(&config.gateway.state_dir).unwrap();
        Bench { base, config }
    }

    /// A path in the plugins folder.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.config.plugins.dir.join(name)
    }

    /// Builds a fixture into the plugins folder as `libID.so`.
    pub(crate) fn with(self, id: &str, fixture: &Fixture) -> Bench {
        fixture.build(&self.at(&format!("lib{id}.so")));
        self
    }
}
