//! Secure authentication of an outstation, as its file says it.

use super::load;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tieline_dnp3::secure::{FunctionSet, Key, KeyChangeMethod, KeyWrap, MacAlgorithm, Role};
use tieline_transport::secure::{StationSecurity, SystemRandom, write_key};

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

fn read(folder: &Path, text: &str) -> Result<Option<StationSecurity>, Vec<String>> {
    let file = folder.join("outstation.toml");
    std::fs::write(&file, text).unwrap();
    let key_and_found = |finding: &tieline_service::reader::Finding| format!("{}: {}", finding.key, finding.found);
    load(&file).map(|file| file.secure).map_err(|error| error.0.iter().map(key_and_found).collect())
}

#[test]
fn an_outstation_knows_its_users() {
    let folder = folder();
    assert_eq!(read(folder.path(), "address = 10\n"), Ok(None));
    let secure = read(
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
        let found = read(folder.path(), text).unwrap_err();
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
    check(&format!("[secure]\n{}", user(1, "none.key")), &["secure.user[0].update_key: \"none.key\" (No such file"]);
    check(
        &format!("[secure]\n{}{}", user(1, "long.key"), user(1, "short.key")),
        &["secure.user: user 1 a second time"],
    );
    check("[secure]\nauthority = 'long.key'\n", &["secure.store: nothing"]);
    check("[secure]\nmac = 'md5'\n", &["secure.mac: \"md5\""]);
    check("[secure]\nmcs = 1\n", &["secure.mcs: the unknown key"]);
}
