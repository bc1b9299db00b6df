//! What fills the slots of phrases: names of people, services, files and so on.

use super::dice::Dice;
use super::wording::Tongue;

const NOUNS: &[&str] = &[
    "billing",
    "invoice",
    "session",
    "catalog",
    "shipping",
    "auth",
    "search",
    "metrics",
    "inventory",
    "ledger",
    "profile",
    "media",
    "quota",
    "webhook",
    "mailer",
    "report",
    "export",
    "import",
    "pricing",
    "refund",
    "tenant",
    "voucher",
    "archive",
    "upload",
];
const PARTS: &[&str] = &["api", "worker", "gateway", "cache", "scheduler", "relay", "proxy", "sync"];
const NAMES: &[&str] = &[
    "Aiko", "Amira", "Anselm", "Beatriz", "Bogdan", "Chidi", "Clara", "Dmitri", "Elif", "Farid", "Greta", "Hugo",
    "Imani", "Jorge", "Katrin", "Lucía", "Malte", "Nadia", "Oskar", "Priya", "Rafael", "Sanne", "Tomás", "Ulrike",
    "Viktor", "Yusuf",
];
const TOOLS: &[&str] =
    &["pnpm", "ruff", "just", "meson", "vitest", "podman", "uv", "biome", "deno", "ninja", "helix", "zellij"];
const OLD_TOOLS: &[&str] =
    &["npm", "flake8", "make", "cmake", "jest", "docker", "pip", "prettier", "gulp", "bower", "vim", "tmux"];
const LIBRARIES: &[&str] = &[
    "lodash",
    "moment",
    "requests",
    "pandas",
    "boost",
    "axios",
    "log4j",
    "jquery",
    "openssl",
    "celery",
    "hibernate",
    "protobuf",
];
const STEMS: &[&str] =
    &["load", "parse", "merge", "sync", "render", "check", "queue", "index", "retry", "batch", "token", "route"];
const ENDINGS: &[&str] = &["rs", "py", "ts", "go", "java", "sql", "toml", "yaml"];
const CITIES: &[&str] = &["Lisbon", "Leipzig", "Valencia", "Nairobi", "Osaka", "Tromsø", "Bogotá", "Ghent", "Tbilisi"];
const ZONES: &[&str] =
    &["Europe/Berlin", "America/Bogota", "Asia/Tokyo", "Africa/Nairobi", "UTC+2", "America/Denver", "Australia/Perth"];
const CURRENCIES: &[&str] = &["euros", "USD", "CHF", "SEK", "pesos", "yen"];
const DAYS: [&[&str]; 3] = [
    &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
    &["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag"],
    &["lunes", "martes", "miércoles", "jueves", "viernes"],
];

/// Fills a slot. A slot that is a list of the language gives a phrase that may have slots itself.
pub(super) fn fill(slot: &str, tongue: &Tongue, dice: &mut Dice) -> String {
    let days = match tongue.code {
        "de" => DAYS[1],
        "es" => DAYS[2],
        _ => DAYS[0],
    };
    match slot {
        "noun" => dice.pick(NOUNS).to_owned(),
        "name" => dice.pick(NAMES).to_owned(),
        "tool" => dice.pick(TOOLS).to_owned(),
        "oldtool" => dice.pick(OLD_TOOLS).to_owned(),
        "lib" => dice.pick(LIBRARIES).to_owned(),
        "city" => dice.pick(CITIES).to_owned(),
        "tz" => dice.pick(ZONES).to_owned(),
        "currency" => dice.pick(CURRENCIES).to_owned(),
        "weekday" => dice.pick(days).to_owned(),
        "food" => dice.pick(tongue.foods).to_owned(),
        "place" => dice.pick(tongue.places).to_owned(),
        "quoted" => dice.pick(tongue.quoted).to_owned(),
        "task" => dice.pick(tongue.tasks).to_owned(),
        "service" => format!("{}-{}", dice.pick(NOUNS), dice.pick(PARTS)),
        "table" => format!("{}_{}", dice.pick(NOUNS), dice.pick(&["events", "rows", "log", "items", "history"])),
        "dir" => {
            format!("{}/{}", dice.pick(&["services", "src", "legacy", "infra", "vendor", "packages"]), dice.pick(NOUNS))
        }
        "file" => file(dice),
        "test" => format!("test_{}_{}", dice.pick(NOUNS), dice.pick(STEMS)),
        "branch" => match dice.below(3) {
            0 => dice.pick(&["main", "master", "production", "stable"]).to_owned(),
            _ => format!("release/{}.{}", dice.between(1, 9), dice.below(10)),
        },
        "ticket" => format!("{}-{}", dice.pick(&["OPS", "PAY", "WEB", "CORE", "DATA"]), dice.between(100, 9999)),
        "command" => match dice.below(4) {
            0 => format!("make {}", dice.pick(&["check", "lint", "verify", "fmt", "docs"])),
            1 => format!("npm run {}", dice.pick(&["lint", "typecheck", "e2e", "format"])),
            2 => format!("./scripts/{}.sh", dice.pick(STEMS)),
            _ => format!("{} {}", dice.pick(TOOLS), dice.pick(&["check", "audit", "test", "bench"])),
        },
        "amount" => (dice.between(2, 90) * 50).to_string(),
        "number" => dice.between(11, 96).to_string(),
        "few" => dice.between(2, 9).to_string(),
        "version" => format!("{}.{}", dice.between(1, 19), dice.below(20)),
        "host" => format!("{}-{}.internal", dice.pick(NOUNS), dice.between(1, 40)),
        "port" => dice.between(1025, 65_000).to_string(),
        other => other.to_owned(),
    }
}

/// A path.
pub(super) fn file(dice: &mut Dice) -> String {
    let (folder, noun) = (dice.pick(&["services", "src", "lib", "app", "tests"]), dice.pick(NOUNS));
    format!("{folder}/{noun}/{}_{}.{}", dice.pick(STEMS), dice.pick(NOUNS), dice.pick(ENDINGS))
}

/// A word for code and logs.
pub(super) fn word(dice: &mut Dice) -> &'static str {
    if dice.chance(50) { dice.pick(NOUNS) } else { dice.pick(STEMS) }
}
