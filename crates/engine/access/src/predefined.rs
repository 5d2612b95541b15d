//! The roles of IEC 62351-8, on our verbs.
//!
//! The standard gives its roles rights on logical devices (VIEW, READ, CONTROL, CONFIG, SECURITY, …). Here VIEW, READ,
//! DATASET, REPORTING and FILEREAD are `read`, CONTROL is `command`
//! and `acknowledge`, FILEWRITE and SETTINGGROUP are `publish`, CONFIG
//! and FILEMNGT are `admin` on topics, and SECURITY is `admin` on `$access/#`. The audit log is `$audit`.

use crate::{Role, Rule};

const READ_ALL: [&str; 5] =
    ["allow read #", "allow read $SYS/#", "allow read $replay/#", "allow read $sites/#", "allow read $alarms-journal"];

/// Their names and rules.
pub const IEC_ROLES: [(&str, &[&str]); 7] = [
    ("VIEWER", &READ_ALL),
    (
        "OPERATOR",
        &[
            "allow read #",
            "allow read $SYS/#",
            "allow read $replay/#",
            "allow read $sites/#",
            "allow read $alarms-journal",
            "allow command #",
            "allow acknowledge #",
            "allow acknowledge $SYS/#",
            "allow publish reply/{client}/#",
        ],
    ),
    (
        "ENGINEER",
        &[
            "allow read #",
            "allow read $SYS/#",
            "allow read $replay/#",
            "allow read $sites/#",
            "allow read $alarms-journal",
            "allow publish $replay/#",
            "allow publish #",
            "allow acknowledge #",
            "allow acknowledge $SYS/#",
            "allow admin #",
            "allow admin $views",
            "allow admin $clock",
            "allow admin $config",
            "allow admin $boards",
        ],
    ),
    (
        "INSTALLER",
        &[
            "allow read #",
            "allow read $SYS/#",
            "allow read $replay/#",
            "allow read $sites/#",
            "allow read $alarms-journal",
            "allow publish #",
        ],
    ),
    ("SECADM", &["allow read $SYS/#", "allow read $access/#", "allow admin $access/#"]),
    ("SECAUD", &["allow read $SYS/#", "allow read $access/#", "allow read $audit/#"]),
    ("RBACMNT", &["allow read $SYS/#", "allow read $access/#", "allow admin $access/roles"]),
];

/// A role of the standard by its name.
#[must_use]
pub fn iec_role(name: &str) -> Option<Role> {
    let (name, rules) = IEC_ROLES.iter().find(|(known, _)| *known == name)?;
    let rules = rules.iter().filter_map(|text| text.parse::<Rule>().ok()).collect();
    Some(Role { name: (*name).into(), rules })
}
