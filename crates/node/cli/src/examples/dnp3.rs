//! The examples of `tieline dnp3`.

/// By the words of the verb.
pub(super) const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "dnp3 outstation",
        &[
            "tieline dnp3 outstation --config relay.toml",
            "tieline dnp3 outstation --config relay.toml --listen 127.0.0.1:0 --json",
        ],
    ),
    (
        "dnp3 master",
        &[
            "tieline dnp3 master 127.0.0.1:20000 --once",
            "tieline dnp3 master 10.0.0.5:20000 --outstation 4 --poll 2s",
            "tieline dnp3 master /dev/ttyS0 --over serial --once",
        ],
    ),
    (
        "dnp3 master scan",
        &["tieline dnp3 master 127.0.0.1:20000 scan", "tieline dnp3 master 127.0.0.1:20000 scan g30v5:3-9"],
    ),
    ("dnp3 master operate", &["tieline dnp3 master 127.0.0.1:20000 operate binary-output:3=true"]),
    ("dnp3 master restart", &["tieline dnp3 master 127.0.0.1:20000 restart warm"]),
    ("dnp3 master freeze", &["tieline dnp3 master 127.0.0.1:20000 freeze g20v0 --clear"]),
    ("dnp3 master assign-class", &["tieline dnp3 master 127.0.0.1:20000 assign-class 2 g30v0:0-9"]),
    ("dnp3 master unsolicited", &["tieline dnp3 master 127.0.0.1:20000 unsolicited off --classes 2,3"]),
    ("dnp3 master attributes", &["tieline dnp3 master 127.0.0.1:20000 attributes all"]),
    ("dnp3 master dead-band", &["tieline dnp3 master 127.0.0.1:20000 dead-band 3=0.5"]),
    ("dnp3 master string", &["tieline dnp3 master 127.0.0.1:20000 string 2=hello"]),
    ("dnp3 master time", &["tieline dnp3 master 127.0.0.1:20000 time --read"]),
    ("dnp3 master delay", &["tieline dnp3 master 127.0.0.1:20000 delay"]),
    ("dnp3 master clear-restart", &["tieline dnp3 master 127.0.0.1:20000 clear-restart"]),
    ("dnp3 master save-configuration", &["tieline dnp3 master 127.0.0.1:20000 save-configuration"]),
    (
        "dnp3 master activate-configuration",
        &["tieline dnp3 master 127.0.0.1:20000 activate-configuration settings.xml"],
    ),
    ("dnp3 master raw", &["tieline dnp3 master 127.0.0.1:20000 raw 1 3C0106"]),
    ("dnp3 file list", &["tieline dnp3 file list 127.0.0.1:20000 /records"]),
    ("dnp3 file get", &["tieline dnp3 file get 127.0.0.1:20000 /records/fault1.cfg"]),
    ("dnp3 file put", &["tieline dnp3 file put 127.0.0.1:20000 settings.xml /settings.xml"]),
    ("dnp3 file delete", &["tieline dnp3 file delete 127.0.0.1:20000 /records/fault1.cfg"]),
    ("dnp3 file info", &["tieline dnp3 file info 127.0.0.1:20000 /records"]),
    ("dnp3 profile write", &["tieline dnp3 profile write --config relay.toml > relay.xml"]),
    ("dnp3 profile read", &["tieline dnp3 profile read relay.xml --as points > relay1.csv"]),
    ("dnp3 decode", &["tieline dnp3 decode capture.pcap"]),
    ("dnp3 keygen", &["tieline dnp3 keygen relay.key"]),
];
