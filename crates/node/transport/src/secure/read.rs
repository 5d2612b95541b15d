//! DNP3 secure authentication in configurations: `[secure]` of an outstation of ours, `[device.NAME.secure]` of a device.
//!
//! ```toml
//! [secure]                             [device.relay1.secure]
//! mac = "hmac-sha256-16"               user = 1
//! critical = "standard"                update_key = "relay1.key"
//! name = "feeder 3"                    macs = ["hmac-sha256-16"]
//!
//! [[secure.user]]
//! number = 1
//! role = "operator"
//! update_key = "user1.key"
//! ```

use super::{SystemRandom, UserStore, read_key};
use std::path::Path;
use std::time::Duration;
use tieline_dnp3::secure::{
    Authority, FunctionSet, Key, KeyChangeMethod, KeyLimits, MacAlgorithm, MasterSecurityConfig,
    OutstationSecurityConfig, Role, User,
};
use tieline_service::parse;
use tieline_service::reader::{Document, Expected, Section};
use toml::de::DeValue;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// The security of an outstation of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct StationSecurity {
    /// How it authenticates.
    pub config: OutstationSecurityConfig,
    /// Its users, with what the authority changed.
    pub users: Vec<User>,
    /// Where changes by the authority are kept.
    pub store: Option<UserStore>,
}

/// Reads `[device.NAME.secure]`, if it is there; its files lie beside `folder`.
pub fn read_device_security(
    doc: &mut Document<'_>,
    parent: &mut Section<'_>,
    folder: &Path,
) -> Option<MasterSecurityConfig> {
    let present = parent.has("secure");
    let mut s = parent.section(doc, "secure");
    if !present {
        return None;
    }
    let update_key = key(doc, &mut s, "update_key", folder);
    let given = MasterSecurityConfig::new(update_key.clone().unwrap_or_else(empty_key));
    let config = MasterSecurityConfig {
        user: s.or(doc, "user", given.user, parse::integer(1..=u16::MAX)),
        aggressive: s.or(doc, "aggressive", given.aggressive, parse::boolean),
        critical: s.or(doc, "critical", given.critical, critical),
        macs: s.or(doc, "macs", given.macs.clone(), macs),
        keys: limits(doc, &mut s, given.keys),
        ..given
    };
    s.finish(doc);
    update_key.map(|_| config)
}

/// Reads `[secure]` of an outstation's file, if it is there; its files lie beside `folder`.
pub fn read_station_security(
    doc: &mut Document<'_>,
    parent: &mut Section<'_>,
    folder: &Path,
) -> Option<StationSecurity> {
    let present = parent.has("secure");
    let mut s = parent.section(doc, "secure");
    if !present {
        return None;
    }
    let default = OutstationSecurityConfig::default();
    let wait = || parse::duration(SECOND / 10..=300 * SECOND);
    let store = read_store(doc, &mut s, folder);
    let config = OutstationSecurityConfig {
        mac: s.or(doc, "mac", default.mac, mac),
        critical: s.or(doc, "critical", default.critical, critical),
        aggressive: s.or(doc, "aggressive", default.aggressive, parse::boolean),
        challenge_bytes: s.or(doc, "challenge_bytes", default.challenge_bytes, parse::integer(4..=64)),
        reply_timeout: s.or(doc, "reply_timeout", default.reply_timeout, wait()),
        keys: limits(doc, &mut s, default.keys),
        failures_max: s.or(doc, "failures_max", default.failures_max, parse::integer(1..=u16::MAX)),
        errors_max: s.or(doc, "errors_max", default.errors_max, parse::integer(0..=u16::MAX)),
        association: s.or(doc, "association", default.association, parse::integer(0..=u16::MAX)),
        name: s.or(doc, "name", String::new(), parse::text),
        authority: read_authority(doc, &mut s, folder, store.as_ref()),
        users_max: s.or(doc, "users_max", default.users_max, parse::integer(1..=u16::MAX)),
        ..default
    };
    let configured: Vec<User> =
        s.array(doc, "user").into_iter().filter_map(|user| read_user(doc, user, folder)).collect();
    check_users(doc, &s, &configured, usize::from(config.users_max));
    s.finish(doc);
    let users = store.as_ref().map_or_else(|| configured.clone(), |store| store.apply(configured.clone()));
    Some(StationSecurity { config, users, store })
}

fn check_users(doc: &mut Document<'_>, s: &Section<'_>, users: &[User], users_max: usize) {
    let twice = |at: usize, user: &User| users.iter().take(at).any(|other| other.number == user.number);
    if let Some((_, user)) = users.iter().enumerate().find(|(at, user)| twice(*at, user)) {
        let found = format!("user {} a second time", user.number);
        doc.report(s.at(), &s.key("user"), found, "each number once".to_owned());
    }
    if users.len() > users_max {
        let found = format!("{} users", users.len());
        doc.report(s.at(), &s.key("user"), found, format!("{users_max} at most (users_max)"));
    }
}

fn read_user(doc: &mut Document<'_>, mut s: Section<'_>, folder: &Path) -> Option<User> {
    let number = s.required(doc, "number", "the number of the user, from 1", parse::integer(1..=u16::MAX));
    let role = s.or(doc, "role", Role::SingleUser, role);
    let name = s.optional(doc, "name", parse::text);
    let update_key = key(doc, &mut s, "update_key", folder);
    s.finish(doc);
    let number = number?;
    let name = name.unwrap_or_else(|| format!("user {number}"));
    Some(User { number, name, role, until_day: None, update_key: update_key? })
}

fn read_store(doc: &mut Document<'_>, s: &mut Section<'_>, folder: &Path) -> Option<UserStore> {
    let file = s.optional(doc, "store", parse::text)?;
    match UserStore::open(&folder.join(&file)) {
        Ok(store) => Some(store),
        Err(error) => {
            let found = format!("{file:?} ({error})");
            doc.report(s.value_at("store"), &s.key("store"), found, "a file of this outstation's own".to_owned());
            None
        }
    }
}

fn read_authority(
    doc: &mut Document<'_>,
    s: &mut Section<'_>,
    folder: &Path,
    store: Option<&UserStore>,
) -> Option<Authority> {
    let is_given = s.has("authority");
    let key =
        if is_given { key(doc, s, "authority", folder) } else { s.optional(doc, "authority", parse::text).and(None) };
    if is_given && !s.has("store") {
        let expected = "store = \"users.json\" beside it: keys that the authority changes must be kept";
        doc.report(s.value_at("authority"), &s.key("store"), "nothing".to_owned(), expected.to_owned());
    }
    let key = key?;
    let method = match key.bytes().len() {
        16 => KeyChangeMethod::Aes128Sha1,
        _ => KeyChangeMethod::Aes256Sha256,
    };
    Some(Authority { key, method, sequence: store.map_or(0, UserStore::sequence) })
}

fn limits(doc: &mut Document<'_>, s: &mut Section<'_>, default: KeyLimits) -> KeyLimits {
    KeyLimits {
        interval: s.or(doc, "key_interval", default.interval, parse::duration(SECOND..=7 * DAY)),
        count: s.or(doc, "key_count", default.count, parse::integer(1..=u32::MAX)),
    }
}

fn key(doc: &mut Document<'_>, s: &mut Section<'_>, name: &'static str, folder: &Path) -> Option<Key> {
    let file = s.required(doc, name, "the name of a key file, as tieline dnp3 keygen writes", parse::text)?;
    match read_key(&folder.join(&file)) {
        Ok(key) => Some(key),
        Err(error) => {
            let found = format!("{file:?} ({error})");
            doc.report(s.value_at(name), &s.key(name), found, "a key file that only its owner may read".to_owned());
            None
        }
    }
}

/// Stands for a key that could not be read, which has been reported then.
fn empty_key() -> Key {
    Key::random(tieline_dnp3::secure::KeyWrap::Aes128, &mut SystemRandom)
}

fn critical(value: &DeValue<'_>) -> Result<FunctionSet, Expected> {
    parse::word(&[("standard", FunctionSet::MANDATORY), ("all", FunctionSet::ALL)])(value)
}

fn mac(value: &DeValue<'_>) -> Result<MacAlgorithm, Expected> {
    value.as_str().and_then(MacAlgorithm::from_name).ok_or_else(|| names(MacAlgorithm::ALL, MacAlgorithm::name))
}

fn macs(value: &DeValue<'_>) -> Result<Vec<MacAlgorithm>, Expected> {
    let expected = || format!("a list of {}", names(MacAlgorithm::ALL, MacAlgorithm::name));
    let texts = parse::texts(value).map_err(|_| expected())?;
    let algorithms: Option<Vec<_>> = texts.iter().map(|text| MacAlgorithm::from_name(text)).collect();
    algorithms.filter(|list| !list.is_empty()).ok_or_else(expected)
}

fn role(value: &DeValue<'_>) -> Result<Role, Expected> {
    value.as_str().and_then(Role::from_name).ok_or_else(|| names(Role::ALL, Role::name))
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> String {
    let names: Vec<String> = all.iter().map(|one| format!("\"{}\"", name(*one))).collect();
    format!("one of {}", names.join(", "))
}
