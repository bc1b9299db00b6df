//! A value as it was given, by the file or as text by a variable or a flag, and the ways to read it.

use super::duration;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml_edit::{Item, Value};

/// A value as it was given.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) raw: Raw<'a>,
    /// Folder that relative paths start at: the file's, or for text the working folder.
    pub(super) base: &'a Path,
}

/// What was given.
#[derive(Clone, Copy)]
pub(super) enum Raw<'a> {
    /// By the file.
    Toml(&'a Item),
    /// By a variable or a flag; lists are separated by commas.
    Text(&'a str),
}

/// Why a value was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Another type is needed: what was expected, what was found.
    Type(&'static str, String),
    /// The type is right and the value is not.
    Value(String),
    /// Like `Value`, with something to do about it.
    Hinted(String, String),
}

type Read<T> = Result<T, Wrong>;

impl<'a> Given<'a> {
    fn wrong<T>(self, expected: &'static str) -> Read<T> {
        Err(Wrong::Type(
            expected,
            match self.raw {
                Raw::Toml(item) => match item {
                    Item::Table(_) | Item::Value(Value::InlineTable(_)) => "a table".into(),
                    Item::ArrayOfTables(_) => "an array of tables".into(),
                    Item::Value(Value::Array(_)) => "an array".into(),
                    Item::Value(Value::String(_)) => "a string".into(),
                    Item::Value(Value::Integer(_)) => "an integer".into(),
                    Item::Value(Value::Float(_)) => "a float".into(),
                    Item::Value(Value::Boolean(_)) => "a boolean".into(),
                    _ => "another type".into(),
                },
                Raw::Text(text) => format!("{text:?}"),
            },
        ))
    }

    fn string(self, expected: &'static str) -> Read<&'a str> {
        match self.raw {
            Raw::Toml(item) => item.as_str().map_or_else(|| self.wrong(expected), Ok),
            Raw::Text(text) => Ok(text),
        }
    }

    /// A string that is not blank.
    pub(super) fn text(self) -> Read<String> {
        let text = self.string("a string")?.trim();
        if text.is_empty() { Err(Wrong::Value("must not be blank".into())) } else { Ok(text.into()) }
    }

    /// A string; blank means none.
    pub(super) fn maybe_text(self) -> Read<Option<String>> {
        let text = self.string("a string")?.trim();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// The name of an environment variable.
    pub(super) fn variable(self) -> Read<Option<String>> {
        let Some(name) = self.maybe_text()? else { return Ok(None) };
        if is_variable(&name) {
            Ok(Some(name))
        } else {
            Err(Wrong::Hinted(
                "must be the name of an environment variable".into(),
                "put the secret itself into the environment, and its variable's name here".into(),
            ))
        }
    }

    /// Names or addresses of hosts, without a port.
    pub(super) fn host_names(self) -> Read<Vec<String>> {
        let names = self.list()?;
        let plain = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
        let six = |name: &String| name.starts_with('[') && name.ends_with(']');
        match names.iter().find(|name| !plain(name) && !six(name)) {
            Some(name) => Err(Wrong::Hinted(
                format!("must hold names of hosts, holds {name:?}"),
                "write the name alone, without a scheme, a port or a path".into(),
            )),
            None => Ok(names),
        }
    }

    /// An `http` or `https` address, without a slash at its end.
    pub(super) fn url(self) -> Read<Option<String>> {
        let Some(url) = self.maybe_text()? else { return Ok(None) };
        let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        match host {
            Some(host) if host.split('/').next().is_some_and(|authority| authority.contains('@')) => {
                Err(Wrong::Hinted("must not hold a user or a password".into(), "use api_key_env for the key".into()))
            }
            Some(host) if !host.is_empty() => Ok(Some(url.trim_end_matches('/').to_owned())),
            _ => Err(Wrong::Value(format!(
                "must begin with http:// or https://, is {:?}",
                super::secret::shown_url(&url)
            ))),
        }
    }

    /// A boolean.
    pub(super) fn boolean(self) -> Read<bool> {
        match self.raw {
            Raw::Toml(item) => item.as_bool().map_or_else(|| self.wrong("true or false"), Ok),
            Raw::Text("true" | "1") => Ok(true),
            Raw::Text("false" | "0") => Ok(false),
            Raw::Text(_) => self.wrong("true or false"),
        }
    }

    /// A whole number of at least `least`.
    pub(super) fn number<T: TryFrom<u64>>(self, least: u64) -> Read<T> {
        let number = match self.raw {
            Raw::Toml(item) => item.as_integer().map(i128::from),
            Raw::Text(text) => text.trim().parse::<i128>().ok(),
        };
        let Some(number) = number else { return self.wrong("a whole number") };
        match u64::try_from(number) {
            Ok(n) if n >= least => T::try_from(n).map_err(|_| Wrong::Value(format!("{n} is too large"))),
            _ => Err(Wrong::Value(format!("must be at least {least}, is {number}"))),
        }
    }

    /// A share between 0 and 1.
    pub(super) fn share(self) -> Read<f64> {
        let share = match self.raw {
            Raw::Toml(item) => item.as_float().or_else(|| item.as_integer().map(|whole| whole as f64)),
            Raw::Text(text) => text.trim().parse::<f64>().ok(),
        };
        match share {
            Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
            Some(share) => Err(Wrong::Value(format!("must be between 0 and 1, is {share}"))),
            None => self.wrong("a number between 0 and 1"),
        }
    }

    /// Milliseconds: a whole number, or a span of time such as "10s". At least 1.
    pub(super) fn millis(self) -> Read<u64> {
        let span = match self.raw {
            Raw::Toml(item) => item.as_str(),
            Raw::Text(text) if text.trim().parse::<i128>().is_err() => Some(text),
            Raw::Text(_) => None,
        };
        match span {
            Some(_) => self.span(1),
            None => match self.number(1) {
                Err(Wrong::Type(_, found)) => Err(Wrong::Type("milliseconds, or a span such as \"10s\"", found)),
                other => other,
            },
        }
    }

    /// A span of time such as "5m", in ms, of at least `least` ms.
    pub(super) fn span(self, least: u64) -> Read<u64> {
        let text = self.string("a span of time such as \"5m\"")?;
        match duration::parse(text) {
            Some(ms) if ms >= least => Ok(ms),
            Some(_) => Err(Wrong::Value(format!("must be at least {least} ms, is {text:?}"))),
            None => {
                Err(Wrong::Value(format!("must be a span of time such as \"250ms\", \"10s\" or \"5m\", is {text:?}")))
            }
        }
    }

    /// Address and port. `localhost` stands for 127.0.0.1.
    pub(super) fn address(self) -> Read<SocketAddr> {
        let text = self.string("an address such as \"127.0.0.1:7421\"")?.trim();
        let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        numeric.as_deref().unwrap_or(text).parse().map_err(|_| {
            Wrong::Value(format!("must be an IP address and a port such as \"127.0.0.1:7421\", is {text:?}"))
        })
    }

    /// A path, made absolute.
    pub(super) fn path(self) -> Read<PathBuf> {
        Ok(absolute(self.base, &self.text()?))
    }

    /// A path, made absolute; blank means none.
    pub(super) fn maybe_path(self) -> Read<Option<PathBuf>> {
        Ok(self.maybe_text()?.map(|text| absolute(self.base, &text)))
    }

    /// Paths, made absolute.
    pub(super) fn paths(self) -> Read<Vec<PathBuf>> {
        Ok(self.list()?.iter().map(|text| absolute(self.base, text)).collect())
    }

    /// Strings, none of them blank or twice.
    pub(super) fn list(self) -> Read<Vec<String>> {
        let items: Vec<&str> = match self.raw {
            Raw::Text(text) => text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect(),
            Raw::Toml(item) => {
                let Some(array) = item.as_array() else { return self.wrong("an array of strings") };
                match array.iter().map(Value::as_str).collect() {
                    Some(items) => items,
                    None => return Err(Wrong::Type("an array of strings", "an array with something else".into())),
                }
            }
        };
        let mut out: Vec<String> = Vec::with_capacity(items.len());
        for item in items {
            let item = item.trim();
            if item.is_empty() {
                return Err(Wrong::Value("must not hold a blank item".into()));
            }
            if out.iter().any(|seen| seen == item) {
                return Err(Wrong::Value(format!("holds {item:?} twice")));
            }
            out.push(item.to_owned());
        }
        Ok(out)
    }

    /// A program and its arguments. A program that is written with a slash is made absolute; one without is looked for in the
    /// search path when it is run. As text, the words are separated by spaces.
    pub(super) fn command(self) -> Read<Vec<String>> {
        let words: Vec<&str> = match self.raw {
            Raw::Text(text) => text.split_whitespace().collect(),
            Raw::Toml(item) => match item.as_array().map(|array| array.iter().map(Value::as_str).collect()) {
                Some(Some(words)) => words,
                _ => return self.wrong("an array of strings, the program first"),
            },
        };
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let Some(program) = words.first_mut() else { return Ok(words) };
        if program.trim().is_empty() {
            return Err(Wrong::Value("must begin with a program".into()));
        }
        if program.contains('/') {
            *program = absolute(self.base, program).to_string_lossy().into_owned();
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err(Wrong::Value("must not hold a NUL".into()));
        }
        Ok(words)
    }

    /// Names of environment variables.
    pub(super) fn variables(self) -> Read<Vec<String>> {
        let names = self.list()?;
        match names.iter().find(|name| !is_variable(name)) {
            Some(name) => Err(Wrong::Hinted(
                format!("must hold names of environment variables, holds {name:?}"),
                "name the variable; its value comes from the gateway's environment".into(),
            )),
            None => Ok(names),
        }
    }

    /// Strings out of a closed list.
    pub(super) fn list_of(self, known: &[&str]) -> Read<Vec<String>> {
        let items = self.list()?;
        match items.iter().find(|item| !known.contains(&item.as_str())) {
            Some(stranger) => Err(not_one_of(stranger, known)),
            None => Ok(items),
        }
    }

    /// Several of a closed list of names, each once.
    pub(super) fn each_of<T: Copy + PartialEq>(self, known: &[(&'static str, T)]) -> Read<Vec<T>> {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let items = self.list_of(&names)?;
        let values = known.iter().filter(|(name, _)| items.iter().any(|item| item == name));
        Ok(values.map(|(_, value)| *value).collect())
    }

    /// One of a closed list of names.
    pub(super) fn one_of<T: Copy>(self, known: &[(&'static str, T)]) -> Read<T> {
        let text = self.string("a string")?.trim();
        match known.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(*value),
            None => {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                Err(not_one_of(text, &names))
            }
        }
    }

    /// Value of the context engine's slot: an id, or a chain of ids, first choice first. Blank and "none" are `legacy`.
    pub(super) fn chain(self) -> Read<Vec<String>> {
        let written = match self.raw {
            Raw::Toml(item) if item.is_array() => self.list()?,
            Raw::Toml(_) => vec![self.string("an engine id, or an array of them")?.trim().to_owned()],
            Raw::Text(_) => self.list()?,
        };
        match written.as_slice() {
            [] => Ok(vec!["legacy".into()]),
            [one] if one.is_empty() || one == "none" => Ok(vec!["legacy".into()]),
            many if many.len() > 1 && many.iter().any(|id| id == "none") => {
                Err(Wrong::Hinted("\"none\" has no place in a chain".into(), "write \"legacy\" as the last".into()))
            }
            _ => Ok(written),
        }
    }

    /// Value of the memory slot: an id; blank and "none" are none.
    pub(super) fn provider(self) -> Read<Option<String>> {
        Ok(self.maybe_text()?.filter(|id| id != "none"))
    }

    /// Public keys of minisign, which only the file can name.
    pub(super) fn public_keys(self) -> Read<Vec<String>> {
        if matches!(self.raw, Raw::Text(_)) {
            return Err(Wrong::Hinted(
                "can be set in the file only".into(),
                "write keys = [\"RW…\"] under [plugins.trust]".into(),
            ));
        }
        let keys = self.list()?;
        // Two bytes for the algorithm, eight for the id, 32 for the key: 56 characters of base64.
        let base64 = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
        match keys.iter().find(|key| key.len() != 56 || !key.starts_with("RW") || !key.chars().all(base64)) {
            Some(key) => Err(Wrong::Hinted(
                format!("must hold public keys of minisign, holds {key:?}"),
                "a key is the second line of minisign.pub: 56 characters that begin with RW".into(),
            )),
            None => Ok(keys),
        }
    }

    /// SHA-256, as lower-case hex.
    pub(super) fn sha256(self) -> Read<Option<String>> {
        let Some(text) = self.maybe_text()? else { return Ok(None) };
        let hex = text.strip_prefix("sha256:").unwrap_or(&text).to_ascii_lowercase();
        if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            Ok(Some(hex))
        } else {
            Err(Wrong::Hinted("must be 64 hexadecimal digits".into(), "sha256sum FILE prints them".into()))
        }
    }
}

/// True for what can name an environment variable.
fn is_variable(name: &str) -> bool {
    let start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    start && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The error for a value out of a closed list, with the nearest that is in it.
fn not_one_of(text: &str, known: &[&str]) -> Wrong {
    let quoted: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
    let message = format!("must be one of {}, is {text:?}", quoted.join(", "));
    match nearest(text, known.iter().copied()) {
        Some(near) => Wrong::Hinted(message, format!("did you mean {near:?}?")),
        None => Wrong::Value(message),
    }
}

/// The known name that was most likely meant, if any is near enough.
pub(super) fn nearest<'k>(text: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let lower = text.to_ascii_lowercase().replace('-', "_");
    known
        .map(|name| (strsim::jaro_winkler(&lower, &name.to_ascii_lowercase().replace('-', "_")), name))
        .filter(|(score, _)| *score >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `text` as an absolute path: `~/` is the home folder, anything else relative starts at `base`.
fn absolute(base: &Path, text: &str) -> PathBuf {
    if let Some(rest) = text.strip_prefix("~/")
        && let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty())
    {
        return PathBuf::from(home).join(rest);
    }
    let joined = base.join(text);
    // Tidied by name only, so that a link in the path stays what the operator wrote.
    joined.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}
