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

use super::parse;
use super::reader::{Document, Expected, Section};
use crate::secure::{SystemRandom, UserStore, read_key};
use std::path::Path;
use std::time::Duration;
use tieline_dnp3::secure::{
    Authority, FunctionSet, Key, KeyChangeMethod, KeyLimits, MacAlgorithm, MasterSecurity, MasterSecurityConfig,
    OutstationSecurity, OutstationSecurityConfig, Role, User,
};
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

impl StationSecurity {
    /// The machine.
    #[must_use]
    pub fn machine(&self) -> OutstationSecurity {
        OutstationSecurity::new(self.config.clone(), self.users.clone(), Box::new(SystemRandom))
    }
}

/// The machine of a master with this configuration.
#[must_use]
pub fn master_machine(config: &MasterSecurityConfig) -> MasterSecurity {
    MasterSecurity::new(config.clone(), Box::new(SystemRandom))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::outstation;
    use crate::secure::write_key;
    use std::os::unix::fs::PermissionsExt;
    use tieline_dnp3::secure::KeyWrap;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, wrap) in [("long.key", KeyWrap::Aes256), ("short.key", KeyWrap::Aes128)] {
            write_key(&folder.path().join(name), &Key::random(wrap, &mut SystemRandom)).unwrap();
        }
        std::fs::write(folder.path().join("exposed.key"), "00".repeat(16)).unwrap();
        let exposed = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(folder.path().join("exposed.key"), exposed).unwrap();
        folder
    }

    fn load(folder: &Path, text: &str) -> Result<Option<StationSecurity>, Vec<String>> {
        let file = folder.join("outstation.toml");
        std::fs::write(&file, text).unwrap();
        let key_and_found = |finding: &crate::config::Finding| format!("{}: {}", finding.key, finding.found);
        outstation::load(&file).map(|file| file.secure).map_err(|error| error.0.iter().map(key_and_found).collect())
    }

    #[test]
    fn an_outstation_knows_its_users() {
        let folder = folder();
        assert_eq!(load(folder.path(), "address = 10\n"), Ok(None));
        let secure = load(
            folder.path(),
            "[secure]\nmac = 'hmac-sha1-10'\ncritical = 'all'\nname = 'feeder 3'\nauthority = 'long.key'\nstore = 'u.json'\n\
             [[secure.user]]\nnumber = 1\nrole = 'operator'\nupdate_key = 'short.key'\n",
        );
        let StationSecurity { config, users, store } = secure.unwrap().unwrap();
        assert_eq!((config.mac, config.critical), (MacAlgorithm::HmacSha1x10, FunctionSet::ALL));
        assert_eq!(config.authority.unwrap().method, KeyChangeMethod::Aes256Sha256);
        assert_eq!((users.len(), users[0].role, users[0].name.as_str()), (1, Role::Operator, "user 1"));
        assert!(store.is_some());
    }

    #[test]
    fn what_is_wrong_is_told() {
        let folder = folder();
        let check = |text: &str, expect: &[&str]| {
            let found = load(folder.path(), text).unwrap_err();
            assert!(found.len() == expect.len(), "{found:?}");
            for (found, expect) in found.iter().zip(expect) {
                assert!(found.starts_with(expect), "{found}");
            }
        };
        let user = |number: u16, key: &str| format!("[[secure.user]]\nnumber = {number}\nupdate_key = '{key}'\n");
        check(
            &format!("[secure]\n{}", user(1, "exposed.key")),
            &["secure.user[0].update_key: \"exposed.key\" (others may"],
        );
        check(
            &format!("[secure]\n{}", user(1, "none.key")),
            &["secure.user[0].update_key: \"none.key\" (No such file"],
        );
        check(
            &format!("[secure]\n{}{}", user(1, "long.key"), user(1, "short.key")),
            &["secure.user: user 1 a second time"],
        );
        check("[secure]\nauthority = 'long.key'\n", &["secure.store: nothing"]);
        check("[secure]\nmac = 'md5'\n", &["secure.mac: \"md5\""]);
        check("[secure]\nmcs = 1\n", &["secure.mcs: the unknown key"]);
    }

    #[test]
    fn a_device_knows_its_key() {
        let folder = folder();
        std::fs::write(folder.path().join("p.csv"), "name,type,index\na,binary,0\n").unwrap();
        let device = "[device.d]\nprotocol='dnp3'\naddress='h:1'\npoints='p.csv'\ndnp3.outstation=1\n";
        let read = |more: &str| crate::config::from_text("t.toml", &format!("{device}{more}"), folder.path());
        let secure = |config: crate::config::Config| {
            let crate::config::Protocol::Dnp3(dnp3) = config.devices.into_iter().next().unwrap().protocol;
            dnp3.secure
        };
        assert_eq!(secure(read("").unwrap()), None);
        let given = read("[device.d.secure]\nuser = 7\nupdate_key = 'long.key'\nmacs = ['hmac-sha256-8']\n").unwrap();
        let given = secure(given).unwrap();
        assert_eq!((given.user, given.macs), (7, vec![MacAlgorithm::HmacSha256x8]));
        for (more, found) in [
            ("[device.d.secure]\n", "device.d.secure.update_key: found nothing"),
            ("[device.d.secure]\nupdate_key = 'exposed.key'\n", "others may read it"),
            ("[device.d.secure]\nupdate_key = 'long.key'\nmacs = []\n", "device.d.secure.macs"),
        ] {
            let error = read(more).unwrap_err().to_string();
            assert!(error.contains(found), "{error}");
        }
    }
}
