//! `[tls]`: the keys that every configuration has for it.

use crate::parse;
use crate::reader::{Document, Expected, Section};
use std::path::Path;
use std::sync::Arc;
use tieline_net::tls::{Pin, Tls, TlsError, TlsFiles, TlsVersion, Trust};
use toml::de::DeValue;

/// Who must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// All: one of `authorities` and `pinned` is there.
    Checked,
    /// Clients may come without, where neither is there: they show who they are in another way.
    AnyClient,
}

/// As [`read`], for who loads the files later.
pub fn read_files(
    s: &mut Section<'_>,
    doc: &mut Document<'_>,
    folder: &Path,
    peers: Peers,
    at: usize,
) -> Option<TlsFiles> {
    read(s, doc, folder, peers, at).map(|tls| tls.files().clone())
}

/// Reads certificate, key, authorities, pinned, client_names and version_min, and the files, which are found beside
/// `folder`; what is wrong inside them is told with the rest. `at` is where the table stands. None where something was
/// reported.
pub fn read(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path, peers: Peers, at: usize) -> Option<Arc<Tls>> {
    let certificate = s.required(doc, "certificate", "the file of our certificate, as in \"node.pem\"", parse::text);
    let key = s.required(doc, "key", "the file of its private key, as in \"node.key\"", parse::text);
    let authorities = s.optional(doc, "authorities", parse::text).map(|text| folder.join(text));
    let pinned = s.optional(doc, "pinned", |v| pins(v, folder));
    let trust = match (authorities, pinned, peers) {
        (Some(authorities), _, _) => Trust::Authorities(authorities),
        (None, None, Peers::AnyClient) => Trust::AnyClient,
        (None, pinned, _) => Trust::Pinned(pinned.unwrap_or_default()),
    };
    let client_names = s.or(doc, "client_names", Vec::new(), parse::texts);
    let versions = &[("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)];
    let version_min = s.or(doc, "version_min", TlsVersion::default(), parse::word(versions));
    let named = match (s.has("authorities"), s.has("pinned"), peers) {
        (true, false, _) | (false, true, _) | (false, false, Peers::AnyClient) => true,
        (both, _, _) => {
            let found = if both { "both authorities and pinned" } else { "neither authorities nor pinned" };
            let expected =
                "authorities = \"FILE\" with certificates of who vouches for peers, or pinned = [\"FILE or sha256:…\"]";
            doc.report(at, &s.key("authorities"), found.to_owned(), expected.to_owned());
            false
        }
    };
    let (certificate, key) = (folder.join(certificate?), folder.join(key?));
    let files = TlsFiles { certificate, key, trust, client_names, version_min };
    if named { load(doc, s, &files, at) } else { None }
}

/// What is wrong in the files is told with the rest.
fn load(doc: &mut Document<'_>, s: &Section<'_>, files: &TlsFiles, at: usize) -> Option<Arc<Tls>> {
    let faults = match Tls::load(files.clone()) {
        Ok(loaded) => return Some(loaded),
        Err(TlsError(faults)) => faults,
    };
    for fault in faults {
        let name = match () {
            () if fault.file == files.certificate => "certificate",
            () if fault.file == files.key => "key",
            () if s.has("authorities") => "authorities",
            () => "pinned",
        };
        let at = if s.has(name) { s.value_at(name) } else { at };
        doc.report(at, &s.key(name), format!("{}: {}", fault.file.display(), fault.found), fault.expected);
    }
    None
}

fn pins(value: &DeValue<'_>, folder: &Path) -> Result<Vec<Pin>, Expected> {
    let words = || "a list of files and fingerprints, as in [\"relay1.pem\", \"sha256:…\"]".to_owned();
    let texts = parse::texts(value).ok().filter(|texts| !texts.is_empty()).ok_or_else(words)?;
    texts.iter().map(|text| parse_pin(text, folder)).collect()
}

/// A certificate's file, or the fingerprint of its key.
///
/// # Errors
/// What was expected.
pub fn parse_pin(text: &str, folder: &Path) -> Result<Pin, String> {
    match text.starts_with("sha256:") {
        true => text.parse().map(Pin::Key).map_err(str::to_owned),
        false => Ok(Pin::Certificate(folder.join(text))),
    }
}
