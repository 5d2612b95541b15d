//! `[domain.NAME]`: an institution, its keys, the certificates of others, and how the protocol is written there.

use super::settings::{
    DOMAIN_AUTHORITIES, DOMAIN_IV, DOMAIN_KEY_AUTHORITY, DOMAIN_KEY_STATE, DOMAIN_KEY_VERSION,
    DOMAIN_MATCH_AUTHORITIES, DOMAIN_PEER_AUTHORITY, DOMAIN_PEER_STATE, DOMAIN_TRIM_PADDING,
};
use crate::Ispb;
use crate::keyring::{Domain, KeyState, Known, OwnKey, load_certificate, load_key, load_password};
use crate::work::Domains;
use std::path::Path;
use std::sync::Arc;
use tieline_crypto::TokenUri;
use tieline_rsfn::{Authority, AuthoritySet, ContentCipher, IvPlace, Profile, RSFN_V2, RSFN_V3};
use tieline_service::parse;
use tieline_service::reader::{Document, Expected, Section};
use toml::de::DeValue;
use zeroize::Zeroizing;

pub(super) fn read_domains(mut all: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Domains {
    let mut domains = Domains::new();
    for (name, mut s) in all.sections(doc) {
        // One byte says how long it is in the binary protocol.
        if name.len() > 255 || name.is_empty() || name == "*" {
            doc.report(s.at(), &s.key(""), format!("{name:?}"), "a name of 1 to 255 bytes".to_owned());
        }
        let ispb = s.required(doc, "ispb", ISPB, ispb);
        let profiles = read_profiles(&mut s, doc);
        let mut keys: Vec<Arc<OwnKey>> = Vec::new();
        for mut key in s.array(doc, "key") {
            let read = read_key(&mut key, doc, folder, ispb);
            if let Some(again) = read.as_ref().filter(|new| keys.iter().any(|key| key.version == new.version)) {
                let found = format!("version {} again", again.version);
                doc.report(key.value_at("version"), &key.key("version"), found, "a version of its own".to_owned());
            }
            keys.extend(read.map(Arc::new));
            key.finish(doc);
        }
        let mut peers = Vec::new();
        for mut peer in s.array(doc, "peer") {
            peers.extend(read_peer(&mut peer, doc, folder).map(Arc::new));
            peer.finish(doc);
        }
        s.finish(doc);
        if let Some(ispb) = ispb {
            domains.insert(name.clone(), Domain::new(name, ispb, profiles, keys, peers));
        }
    }
    domains
}

const ISPB: &str = "an institution's number, eight digits in quotes, as in \"12345678\"";

fn ispb(value: &DeValue<'_>) -> Result<Ispb, Expected> {
    value.as_str().and_then(Ispb::from_text).ok_or_else(|| ISPB.to_owned())
}

fn read_profiles(s: &mut Section<'_>, doc: &mut Document<'_>) -> Vec<Profile> {
    let versions = s.or(doc, "versions", vec![2, 3], |value| {
        let words = || "a list of 2 and 3, as in [3]".to_owned();
        let items = value.as_array().filter(|items| !items.is_empty()).ok_or_else(words)?;
        items.iter().map(|item| parse::integer(2..=3_u8)(item.get_ref()).map_err(|_| words())).collect()
    });
    let iv = DOMAIN_IV.read(s, doc, [IvPlace::BehindKey, IvPlace::KeyPrefix]);
    let match_authorities = DOMAIN_MATCH_AUTHORITIES.read(s, doc);
    let trim_padding = DOMAIN_TRIM_PADDING.read(s, doc);
    let authorities = DOMAIN_AUTHORITIES.read(s, doc, [AuthoritySet::KNOWN, AuthoritySet::Any]);
    let all = [
        (2, Profile { trim_padding, match_authorities, authorities, ..RSFN_V2 }),
        (3, Profile { cipher: ContentCipher::Aes256Gcm(iv), match_authorities, authorities, ..RSFN_V3 }),
    ];
    all.into_iter().filter(|(version, _)| versions.contains(version)).map(|(_, profile)| profile).collect()
}

const STATES: [KeyState; 3] = [KeyState::Active, KeyState::Pending, KeyState::Retired];

fn read_key(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path, ispb: Option<Ispb>) -> Option<OwnKey> {
    let version = DOMAIN_KEY_VERSION.required(s, doc, "the key's version, from 1");
    let file = s.required(doc, "file", "the file of a key: PKCS#12, or PKCS#8 as PEM or DER", parse::text);
    let certificate = s.optional(doc, "certificate", parse::text).map(|file| folder.join(file));
    let password = read_password(s, doc, folder);
    let authority = DOMAIN_KEY_AUTHORITY.optional(s, doc).map(Authority);
    let state = DOMAIN_KEY_STATE.read(s, doc, STATES);
    let path = file.map(|file| if TokenUri::is_one(&file) { file.into() } else { folder.join(file) })?;
    let loaded = load_key(&path, password.as_ref().map(|p| p.as_str()), certificate.as_deref());
    let known = loaded.and_then(|(key, certificate)| Ok((key, Known::new(certificate, ispb, authority, state)?)));
    match known {
        Ok((key, known)) => Some(OwnKey { version: version?, known, key }),
        Err(error) => {
            let found = format!("{}: {error}", path.display());
            doc.report(
                s.value_at("file"),
                &s.key("file"),
                found,
                "a private key of RSA-2048 and its certificate".to_owned(),
            );
            None
        }
    }
}

/// A password out of a file or out of the environment.
fn read_password(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<Zeroizing<String>> {
    let file = s.optional(doc, "password_file", parse::text);
    let variable = s.optional(doc, "password_env", parse::text);
    let (key, read, expected) = match (file, variable) {
        (None, None) => return None,
        (Some(file), _) => {
            ("password_file", load_password(&folder.join(file)).map_err(|e| e.to_string()), "a readable file")
        }
        (None, Some(variable)) => {
            let value = std::env::var(&variable).map(Zeroizing::new).map_err(|e| e.to_string());
            ("password_env", value, "a variable of the environment")
        }
    };
    read.map_err(|error| doc.report(s.value_at(key), &s.key(key), error, expected.to_owned())).ok()
}

fn read_peer(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<Known> {
    let ispb = s.optional(doc, "ispb", ispb);
    let file = s.required(doc, "certificate", "the file of a certificate, PEM or DER", parse::text);
    let authority = DOMAIN_PEER_AUTHORITY.optional(s, doc).map(Authority);
    let state = DOMAIN_PEER_STATE.read(s, doc, STATES);
    let path = folder.join(file?);
    match load_certificate(&path).and_then(|certificate| Known::new(certificate, ispb, authority, state)) {
        Ok(known) => Some(known),
        Err(error) => {
            let found = format!("{}: {error}", path.display());
            doc.report(
                s.value_at("certificate"),
                &s.key("certificate"),
                found,
                "a certificate of an RSA-2048 key".to_owned(),
            );
            None
        }
    }
}
