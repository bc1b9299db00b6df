//! Downloads: over TLS, or from this very machine; bounded in size and time. Whoever asks knows the hash of what must come.

use super::error::InstallError;
use crate::plugins::read::MAX_BYTES;
use futures_util::StreamExt;
use reqwest::{Client, Url, redirect};
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(10);
/// Longest silence of a server.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest download.
const WHOLE: Duration = Duration::from_secs(900);
/// Most addresses that one leads on to.
const MAX_REDIRECTS: usize = 5;

/// What is wrong with an address, if anything is.
fn wrong(url: &Url) -> Option<&'static str> {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let is_here = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => Some("it holds a user or a password"),
        "https" => None,
        "http" if is_here => None,
        "http" => Some("what comes over http can be changed on its way"),
        _ => Some("it is neither https nor http"),
    }
}

/// Checks an address that is to be asked.
pub(super) fn address(text: &str) -> Result<Url, InstallError> {
    let refused = |why| InstallError::Address { url: shown(text), why };
    let url = Url::parse(text).map_err(|_| refused("it is no address"))?;
    match wrong(&url) {
        Some(why) => Err(refused(why)),
        None => Ok(url),
    }
}

/// An address as it may be shown: without a password.
fn shown(text: &str) -> String {
    crate::config::secret::shown_url(text)
}

/// The name of the file that an address leads to.
pub(super) fn file_name(url: &Url) -> String {
    let last = url.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
    last.to_owned()
}

/// Downloads at most `most` bytes. `None`: there is nothing at that address (404), where that is an answer.
pub(super) async fn download(url: &Url, most: u64, may_lack: bool) -> Result<Option<Vec<u8>>, InstallError> {
    let failed = |why: String| InstallError::Download { url: url.to_string(), why };
    let work = async {
        let response =
            client(url).map_err(failed)?.get(url.clone()).send().await.map_err(|error| failed(told(&error)))?;
        if may_lack && matches!(response.status().as_u16(), 403 | 404 | 410) {
            return Ok(None);
        }
        if !response.status().is_success() {
            return Err(failed(format!("the server answered {}", response.status())));
        }
        let too_large = || failed(format!("it is larger than {} MiB", most.div_ceil(1024 * 1024)));
        if response.content_length().is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            bytes.extend_from_slice(&chunk.map_err(|error| failed(told(&error)))?);
            if bytes.len() as u64 > most {
                return Err(too_large());
            }
        }
        Ok(Some(bytes))
    };
    match tokio::time::timeout(WHOLE, work).await {
        Ok(done) => done,
        Err(_) => Err(failed(format!("it took longer than {} s", WHOLE.as_secs()))),
    }
}

/// Downloads a file that can be a library or an archive of some.
pub(super) async fn file(url: &Url) -> Result<Vec<u8>, InstallError> {
    Ok(download(url, MAX_BYTES, false).await?.unwrap_or_default())
}

fn client(url: &Url) -> Result<Client, String> {
    // Another part of the process may have chosen it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let follow = redirect::Policy::custom(|attempt| {
        if attempt.previous().len() > MAX_REDIRECTS {
            return attempt.error("it leads from address to address without end");
        }
        match wrong(attempt.url()) {
            Some(why) => attempt.error(why),
            None => attempt.follow(),
        }
    });
    let mut builder = Client::builder().connect_timeout(CONNECT).read_timeout(SILENCE).redirect(follow);
    if url.scheme() == "http" {
        // From this machine: no proxy is asked, and no root certificate read.
        builder = builder.no_proxy().tls_certs_only([]);
    }
    builder.build().map_err(|error| told(&error))
}

/// An error with its causes, in one line, without the address, which is told already.
fn told(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    match causes.is_empty() {
        true => error.to_string(),
        false => causes.join(": "),
    }
}
