//! Secure authentication with a device, as configurations say it.

use super::{Config, from_text};
use std::os::unix::fs::PermissionsExt;
use tieline_dnp3::secure::{Key, KeyWrap, MacAlgorithm};
use tieline_transport::secure::{SystemRandom, write_key};

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

#[test]
fn a_device_knows_its_key() {
    let folder = folder();
    std::fs::write(folder.path().join("p.csv"), "name,type,index\na,binary,0\n").unwrap();
    let device = "[device.d]\nprotocol='dnp3'\naddress='h:1'\npoints='p.csv'\ndnp3.outstation=1\n";
    let read = |more: &str| from_text("t.toml", &format!("{device}{more}"), folder.path());
    let secure = |config: Config| {
        let dnp3 = config.devices[0].protocol.dnp3().unwrap().clone();
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
