//! Secrets: from the environment or from a file, checked before anybody relies on them, and never shown.

use super::error::ConfigError;
use super::types::{GatewayConfig, TokenConfig};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Shortest token, in bytes. Of random hexadecimal digits that is 64 bits, too many to try over a network.
const SHORTEST: usize = 16;
/// Fewest different characters: fewer are a word that somebody typed, or one key held down.
const FEWEST: usize = 6;
/// A file that is larger holds no token.
const LARGEST: u64 = 4096;
/// What makes a token.
const MAKE: &str = "openssl rand -hex 32";

/// A text that nobody may see. It has no `Display` and no `Serialize`, and its `Debug` says nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for the one who checks it or sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// A token that lets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its name in `[gateway.tokens]`; `None` for the one of `auth_token_env` or `auth_token_file`.
    pub name: Option<String>,
    /// What requests must carry.
    pub secret: Secret,
    /// Agents that session keys may name; `"*"` stands for all.
    pub agents: Vec<String>,
}

impl Token {
    /// True when it may use every agent, and so sees the gateway as a whole.
    pub fn unlimited(&self) -> bool {
        self.agents.iter().any(|agent| agent == "*")
    }
}

impl GatewayConfig {
    /// True when requests must carry a token.
    pub fn has_token(&self) -> bool {
        self.auth_token_env.is_some() || self.auth_token_file.is_some() || !self.tokens.is_empty()
    }

    /// Every token, read from its variable or its file; empty when none is configured. One that is configured but cannot be
    /// read, or is too weak, is an error, so that a gateway never serves without the token that its operator believes in.
    ///
    /// # Errors
    /// [`ConfigError::SecretMissing`], [`ConfigError::SecretFile`], [`ConfigError::WeakToken`], [`ConfigError::SameToken`].
    pub fn tokens(&self) -> Result<Vec<Token>, ConfigError> {
        let mut found: Vec<Token> = Vec::new();
        for (name, config) in self.sources() {
            let token = read(name, &config)?;
            if let Some(other) = found.iter().find(|other| other.secret == token.secret) {
                let sections = [section(other.name.as_deref()), section(token.name.as_deref())];
                return Err(ConfigError::SameToken { sections });
            }
            found.push(token);
        }
        Ok(found)
    }

    /// The token that the command line uses: the gateway's own, else the first that may use every agent, else the first. Only
    /// this one is read: the variables of clients are set where the gateway is started, not in every shell. Without one of the
    /// gateway's own, the first that can be read is taken.
    ///
    /// # Errors
    /// As [`GatewayConfig::tokens`].
    pub fn own_token(&self) -> Result<Option<Token>, ConfigError> {
        let mut sources = self.sources();
        // Stable: what is alike stays in the order of the names.
        sources.sort_by_key(|(name, config)| (name.is_some(), !config.agents.iter().any(|agent| agent == "*")));
        let mut first = None;
        for (name, config) in sources {
            let own = name.is_none();
            match read(name, &config) {
                Ok(token) => return Ok(Some(token)),
                Err(error) if own => return Err(error),
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(None), Err)
    }

    /// What [`GatewayConfig::own_token`] gives, alone.
    ///
    /// # Errors
    /// As [`GatewayConfig::tokens`].
    pub fn token(&self) -> Result<Option<Secret>, ConfigError> {
        Ok(self.own_token()?.map(|token| token.secret))
    }

    /// Where tokens come from: the gateway's own, then the named ones.
    fn sources(&self) -> Vec<(Option<String>, TokenConfig)> {
        let own = TokenConfig {
            env: self.auth_token_env.clone(),
            file: self.auth_token_file.clone(),
            agents: vec!["*".into()],
        };
        let named = self.tokens.iter().map(|(name, config)| (Some(name.clone()), config.clone()));
        let all = std::iter::once((None, own)).chain(named);
        all.filter(|(_, config)| config.env.is_some() || config.file.is_some()).collect()
    }
}

fn section(name: Option<&str>) -> String {
    name.map_or("gateway".to_owned(), |name| format!("gateway.tokens.{name}"))
}

fn read(name: Option<String>, config: &TokenConfig) -> Result<Token, ConfigError> {
    let section = section(name.as_deref());
    let key = |field: &str| match &name {
        None => format!("{section}.auth_token_{field}"),
        Some(_) => format!("{section}.{field}"),
    };
    let secret = match (&config.env, &config.file) {
        (Some(variable), _) => from_variable(variable, &key("env"))?,
        (None, file) => from_file(file.as_deref().unwrap_or(Path::new("")), &key("file"))?,
    };
    strong(secret.reveal(), &section)?;
    Ok(Token { name, secret, agents: config.agents.clone() })
}

fn from_variable(name: &str, key: &str) -> Result<Secret, ConfigError> {
    match std::env::var(name) {
        Ok(value) if !value.trim().is_empty() => Ok(Secret::new(value.trim())),
        _ => Err(ConfigError::SecretMissing { name: name.to_owned(), key: key.to_owned() }),
    }
}

/// Reads a token from a file that nobody else can read or replace by another one.
fn from_file(path: &Path, key: &str) -> Result<Secret, ConfigError> {
    let refused = |reason: String, hint: String| ConfigError::SecretFile {
        path: path.to_owned(),
        key: key.to_owned(),
        reason,
        hint,
    };
    let shown = path.display();
    let make = || format!("(umask 077; {MAKE} > '{shown}') makes one");
    let real = std::fs::canonicalize(path).map_err(|error| refused(error.to_string(), make()))?;
    // A link that stays in its folder is how secrets are mounted; one that leaves it names a file that others may own.
    let home = path.parent().and_then(|folder| std::fs::canonicalize(folder).ok()).unwrap_or_default();
    if !real.starts_with(&home) {
        let hint = format!("name the file itself: {key} = \"{}\"", real.display());
        return Err(refused(format!("it is a link to {}, outside its folder", real.display()), hint));
    }
    // Looked at and read through one handle; a FIFO must not hold the start up.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(&real, flags, Mode::empty())
        .map_err(|error| refused(std::io::Error::from(error).to_string(), format!("chown \"$USER\" '{shown}'")))?;
    let file = File::from(file);
    let about = file.metadata().map_err(|error| refused(error.to_string(), make()))?;
    if about.is_dir() {
        let inside = real.join("token");
        let hint = format!(
            "(umask 077; {MAKE} > '{}') makes one in it; then {key} = \"{}\"",
            inside.display(),
            inside.display()
        );
        return Err(refused("it is a folder, no regular file".into(), hint));
    }
    if !about.is_file() {
        return Err(refused("it is no regular file".into(), make()));
    }
    let own = rustix::process::geteuid().as_raw();
    if about.uid() != own && about.uid() != 0 {
        let reason = format!("it belongs to user {}, who can read and change it", about.uid());
        return Err(refused(reason, format!("chown {own} '{shown}'")));
    }
    if about.mode() & 0o077 != 0 {
        let reason = format!("its mode is {:04o}: others can read it", about.mode() & 0o7777);
        return Err(refused(reason, format!("chmod 600 '{shown}'")));
    }
    if about.len() > LARGEST {
        return Err(refused(format!("it has {} bytes, which is no token", about.len()), make()));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(|error| refused(error.to_string(), make()))?;
    match text.trim() {
        "" => Err(refused("it is empty".into(), make())),
        token => Ok(Secret::new(token)),
    }
}

/// A token that can be guessed is none.
fn strong(token: &str, section: &str) -> Result<(), ConfigError> {
    let weak = |reason: String| Err(ConfigError::WeakToken { section: section.to_owned(), reason, make: MAKE });
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return weak("it holds characters that no header carries".into());
    }
    if token.len() < SHORTEST {
        return weak(format!("it has {} characters; at least {SHORTEST} are needed", token.len()));
    }
    let mut different: Vec<u8> = token.bytes().collect();
    different.sort_unstable();
    different.dedup();
    if different.len() < FEWEST {
        return weak(format!("it has {} different characters; at least {FEWEST} are needed", different.len()));
    }
    Ok(())
}

/// True for a name that tells that its value is a secret.
pub(crate) fn telling(name: &str) -> bool {
    const TELLING: [&str; 7] = ["key", "token", "secret", "password", "passphrase", "credential", "authorization"];
    let lower = name.to_ascii_lowercase();
    !lower.ends_with("_env") && !lower.ends_with("_file") && TELLING.iter().any(|word| lower.contains(word))
}

/// A URL as it may be shown: without user and password.
pub(crate) fn shown_url(url: &str) -> String {
    let (before, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority.to_owned(), |(_, host)| format!("***@{host}"));
    let scheme = if before.is_empty() { String::new() } else { format!("{before}://") };
    // A query may hold a key, too.
    let path = path.split_once('?').map_or(path.to_owned(), |(path, _)| format!("{path}?***"));
    format!("{scheme}{host}{path}")
}

/// Where a token comes from, for people: `$NAME`, or what prints the file.
pub(crate) fn for_a_shell(config: &GatewayConfig) -> Option<String> {
    let of_file = |path: &PathBuf| format!("$(cat '{}')", path.display());
    let own = config.auth_token_env.as_ref().map(|name| format!("${name}"));
    let named = || {
        let all = config.tokens.values();
        let first = all.clone().find(|token| token.agents.iter().any(|agent| agent == "*")).or(all.clone().next())?;
        first.env.as_ref().map(|name| format!("${name}")).or(first.file.as_ref().map(of_file))
    };
    own.or_else(|| config.auth_token_file.as_ref().map(of_file)).or_else(named)
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
