//! Signatures in the format of minisign: `NAME.so.minisig` beside the library, checked with the keys of `plugins.trust.keys`.

use super::cause::Cause;
use super::report::{StageFailure, one_line};
use minisign_verify::{Error, PublicKey, Signature};
use rustix::fs::OFlags;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Largest file of a signature.
pub(super) const MAX_BYTES: u64 = 64 * 1024;

/// What a signature says, as far as it was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum SignatureReport {
    /// The library is what the owner of this key signed.
    Good {
        /// The key, as the configuration spells it.
        key: String,
        /// The trusted comment, which the signature covers.
        comment: String,
    },
    /// It was made with a key that the configuration does not list.
    OtherKey,
    /// The configuration lists no key, so nothing was checked.
    Unchecked,
}

/// The file of a library's signature.
pub fn signature_path(library: &Path) -> PathBuf {
    let mut name = library.as_os_str().to_owned();
    name.push(".minisig");
    name.into()
}

/// Checks the signature beside a library. `None` when there is none.
///
/// # Errors
/// [`Cause::BadSignature`]: by a key of the configuration, and not of these bytes; or it cannot be understood.
pub(super) fn check(library: &Path, bytes: &[u8], keys: &[String]) -> Result<Option<SignatureReport>, StageFailure> {
    let path = signature_path(library);
    let failed = |why: String| {
        StageFailure::new(
            Cause::BadSignature,
            format!("the signature {} is no proof of {}", path.display(), library.display()),
        )
        .because(why)
    };
    match read(&path) {
        Ok(None) => Ok(None),
        Ok(Some(text)) => verify(&text, bytes, keys).map(Some).map_err(failed),
        // Without keys nobody asks for it.
        Err(_) if keys.is_empty() => Ok(Some(SignatureReport::Unchecked)),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn read(path: &Path) -> std::io::Result<Option<String>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let file = match OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    if file.take(MAX_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_BYTES {
        return Err(std::io::Error::other("it is too large to be one"));
    }
    Ok(Some(text))
}

/// Checks a signature. Both forms count: of the bytes themselves, and of their hash.
pub(super) fn verify(text: &str, bytes: &[u8], keys: &[String]) -> Result<SignatureReport, String> {
    if keys.is_empty() {
        return Ok(SignatureReport::Unchecked);
    }
    let signature = Signature::decode(text).map_err(|error| format!("it cannot be understood: {error}"))?;
    for key in keys {
        let public = PublicKey::from_base64(key).map_err(|error| format!("the key {key}: {error}"))?;
        match public.verify(bytes, &signature, true) {
            Ok(()) => {
                let comment = one_line(signature.trusted_comment());
                return Ok(SignatureReport::Good { key: key.clone(), comment });
            }
            Err(Error::UnexpectedKeyId) => {}
            Err(_) => return Err(format!("it was made with the key {key}, and not for these bytes")),
        }
    }
    Ok(SignatureReport::OtherKey)
}

/// Signs for tests, as minisign does.
#[cfg(test)]
pub(crate) struct Signer {
    pair: ring::signature::Ed25519KeyPair,
    id: [u8; 8],
}

#[cfg(test)]
impl Signer {
    /// Another pair for each seed.
    pub(crate) fn new(seed: u8) -> Signer {
        let pair = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        Signer { pair, id: [seed; 8] }
    }

    /// The public key as the configuration spells it.
    pub(crate) fn key(&self) -> String {
        use ring::signature::KeyPair;
        base64(&[b"Ed", &self.id[..], self.pair.public_key().as_ref()].concat())
    }

    /// A signature of the hash of the bytes or, as older programs made it, of the bytes themselves.
    pub(crate) fn sign(&self, bytes: &[u8], comment: &str, prehashed: bool) -> String {
        use blake2::Digest;
        let signed = if prehashed { blake2::Blake2b512::digest(bytes).to_vec() } else { bytes.to_vec() };
        let signature = self.pair.sign(&signed);
        let whole = self.pair.sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let algorithm: &[u8] = if prehashed { b"ED" } else { b"Ed" };
        format!(
            "untrusted comment: for tests\n{}\ntrusted comment: {comment}\n{}\n",
            base64(&[algorithm, &self.id, signature.as_ref()].concat()),
            base64(whole.as_ref())
        )
    }
}

#[cfg(test)]
fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_of_the_tool_itself_is_good() {
        let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3".to_owned();
        let text = "untrusted comment: signature from minisign secret key\n\
            RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
            trusted comment: timestamp:1633700835\tfile:test\tprehashed\n\
            wLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==\n";
        let comment = "timestamp:1633700835 file:test prehashed".to_owned();
        assert_eq!(verify(text, b"test", std::slice::from_ref(&key)), Ok(SignatureReport::Good { key, comment }));
    }

    #[test]
    fn both_forms_count_and_a_changed_byte_or_comment_does_not() {
        let (own, other) = (Signer::new(7), Signer::new(8));
        for prehashed in [true, false] {
            let text = own.sign(b"bytes", "version 3", prehashed);
            let keys = [other.key(), own.key()];
            let good = SignatureReport::Good { key: own.key(), comment: "version 3".into() };
            assert_eq!(verify(&text, b"bytes", &keys), Ok(good));
            assert!(verify(&text, b"Bytes", &keys).unwrap_err().contains(&own.key()));
            assert!(verify(&text.replace("version 3", "version 4"), b"bytes", &keys).is_err());
            assert_eq!(verify(&text, b"bytes", &[other.key()]), Ok(SignatureReport::OtherKey));
            assert_eq!(verify(&text, b"bytes", &[]), Ok(SignatureReport::Unchecked));
            assert!(verify(&text[..60], b"bytes", &keys).is_err());
        }
    }

    #[test]
    fn another_key_under_the_same_id_is_no_proof() {
        let mut forged = Signer::new(9);
        forged.id = [7; 8];
        let text = forged.sign(b"bytes", "version 3", true);
        assert!(verify(&text, b"bytes", &[Signer::new(7).key()]).is_err());
    }

    #[test]
    fn a_file_without_a_signature_has_none_and_an_odd_one_counts_as_bad() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libw.so");
        let keys = [Signer::new(7).key()];
        assert_eq!(check(&library, b"x", &keys), Ok(None));
        let beside = signature_path(&library);
        std::fs::create_dir(&beside).unwrap();
        assert_eq!(check(&library, b"x", &keys).unwrap_err().code, Cause::BadSignature.code());
        assert_eq!(check(&library, b"x", &[]), Ok(Some(SignatureReport::Unchecked)));
        std::fs::remove_dir(&beside).unwrap();
        std::fs::write(&beside, "x".repeat(100_000)).unwrap();
        assert_eq!(check(&library, b"x", &keys).unwrap_err().code, Cause::BadSignature.code());
    }
}
