//! The files of a project that are the author's own.

use super::{Lang, Order, ScaffoldError, Template};

/// The files of a project, and how it is used.
#[derive(Debug)]
pub(super) struct Kit {
    /// Path in the folder, and content.
    pub(super) files: Vec<(String, String)>,
    /// The sources that it is built from are needed as well.
    pub(super) with_sdk: bool,
    /// The library that the build makes, from the folder.
    pub(super) library: String,
    pub(super) build: &'static str,
    pub(super) test: &'static str,
}

/// What a template says of itself.
struct Words {
    kind: &'static str,
    description: &'static str,
    /// A line of its configuration.
    example: &'static str,
    lib: &'static str,
    tests: &'static str,
    schema: &'static str,
}

macro_rules! sources {
    ($folder:literal) => {
        (
            include_str!(concat!("../../templates/", $folder, "/lib.rs")),
            include_str!(concat!("../../templates/", $folder, "/tests.rs")),
            include_str!(concat!("../../templates/", $folder, "/schema.json")),
        )
    };
}

/// The files for an order.
pub(super) fn kit(order: &Order) -> Result<Kit, ScaffoldError> {
    match (order.lang, order.template) {
        (Lang::Rust, template) => Ok(rust(order, &words(template))),
        (Lang::C, Template::Window) => Ok(c(order)),
        (Lang::C, template) => Err(ScaffoldError::NoTemplate {
            template: if template == Template::Owning { "owning" } else { "memory" },
            lang: "C",
            there: "\"window\"; docs/engine-in-c.md tells how an engine in C keeps state and compacts",
        }),
    }
}

/// Names of the packages that a project is built from.
pub(super) fn packages() -> impl Iterator<Item = &'static str> {
    engineroom_sdk::LOCK.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

fn words(template: Template) -> Words {
    let (kind, description, example, (lib, tests, schema)) = match template {
        Template::Window => (
            "engine",
            "A context engine that shows the newest whole turns and leaves compaction to the gateway.",
            "step = 8",
            sources!("window"),
        ),
        Template::Owning => (
            "engine",
            "A context engine that compacts by itself: old turns become a digest in its store.",
            "lines = 40",
            sources!("owning"),
        ),
        Template::Memory => (
            "memory provider",
            "A memory provider that keeps what it is told in its store and finds it by its words.",
            "newest = 5",
            sources!("memory"),
        ),
    };
    Words { kind, description, example, lib, tests, schema }
}

fn rust(order: &Order, words: &Words) -> Kit {
    let stem = order.name.replace('-', "_");
    let file = library_file(&stem);
    let select = if order.template == Template::Memory { "--memory " } else { "" };
    let values = [
        ("{{name}}", order.name.clone()),
        ("{{title}}", title(&order.name)),
        ("{{description}}", words.description.to_owned()),
        ("{{kind}}", words.kind.to_owned()),
        ("{{example}}", words.example.to_owned()),
        ("{{file}}", file.clone()),
        ("{{folder}}", folder_name(order)),
        ("{{select}}", format!("{select}{}", order.name)),
    ];
    let files = [
        ("Cargo.toml", include_str!("../../templates/rust/Cargo.toml")),
        (".cargo/config.toml", include_str!("../../templates/rust/config.toml")),
        (".gitignore", include_str!("../../templates/rust/gitignore")),
        ("README.md", include_str!("../../templates/rust/README.md")),
        ("schema.json", words.schema),
        ("src/lib.rs", words.lib),
        ("src/tests.rs", words.tests),
    ];
    let mut files: Vec<_> = files.map(|(path, text)| (path.to_owned(), filled(text, &values))).into();
    files.push(("Cargo.lock".into(), lock(&order.name)));
    Kit {
        files,
        with_sdk: true,
        library: format!("target/release/{file}"),
        build: "cargo build --release",
        test: "cargo test",
    }
}

/// The engine in C of this repository under another name.
fn c(order: &Order) -> Kit {
    let stem = order.name.replace('-', "_");
    let values = [
        ("../../engine-abi/include", ".".to_owned()),
        ("Window in C", title(&order.name)),
        ("c-window", order.name.clone()),
        ("c_window", stem.clone()),
    ];
    let own = [
        ("c_window.c", include_str!("../../../engines/c-window/c_window.c")),
        ("smoke.c", include_str!("../../../engines/c-window/smoke.c")),
        ("Makefile", include_str!("../../../engines/c-window/Makefile")),
    ];
    let mut files: Vec<_> = own.map(|(path, text)| (filled(path, &values), filled(text, &values))).into();
    let file = library_file(&stem);
    let readme = [
        ("{{name}}", order.name.clone()),
        ("{{stem}}", stem),
        ("{{title}}", title(&order.name)),
        ("{{file}}", file.clone()),
        ("{{folder}}", folder_name(order)),
    ];
    files.push(("README.md".into(), filled(include_str!("../../templates/c/README.md"), &readme)));
    files.push((".gitignore".into(), format!("/{file}\n/smoke\n")));
    files.push(("engineroom.h".into(), engineroom_sdk::C_HEADER.to_owned()));
    Kit { files, with_sdk: false, library: file, build: "make", test: "make check" }
}

/// The lock of a project with this name. Cargo sorts packages by their names.
fn lock(name: &str) -> String {
    let mut parts = engineroom_sdk::LOCK.split("[[package]]\n");
    let head = parts.next().unwrap_or_default();
    let own = format!("name = \"{}\"\n", engineroom_sdk::PROJECT);
    let mut packages: Vec<String> =
        parts.map(|part| format!("{}\n", part.trim_end()).replace(&own, &format!("name = \"{name}\"\n"))).collect();
    // Packages of one name keep their order, which is that of their versions.
    packages.sort_by(|a, b| a.lines().next().cmp(&b.lines().next()));
    let packages: Vec<String> = packages.iter().map(|package| format!("[[package]]\n{package}")).collect();
    format!("{head}{}", packages.join("\n"))
}

fn library_file(stem: &str) -> String {
    format!("{}{stem}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

fn folder_name(order: &Order) -> String {
    order.folder.file_name().map_or_else(|| order.name.clone(), |name| name.to_string_lossy().into_owned())
}

/// A name for people.
fn title(name: &str) -> String {
    let words = name.replace(['-', '_'], " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

fn filled(text: &str, values: &[(&str, String)]) -> String {
    values.iter().fold(text.to_owned(), |text, (key, value)| text.replace(key, value))
}
