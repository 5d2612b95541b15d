//! Keys and certificates for tests, made on the way and used for nothing else.

use crate::Ispb;
use crate::keyring::{Domain, KeyState, Known, OwnKey};
use crate::work::Domains;
use crate::x509::{Subject, pem, self_signed};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tieline_crypto::{Certificate, PrivateKey};
use tieline_rsfn::{RSFN_V2, RSFN_V3};
use zeroize::Zeroizing;

/// A time at which the certificates are valid.
pub const TODAY: u64 = 1_800_000_000;

/// A key pair, made once a test run.
pub struct Pair {
    name: &'static str,
    pub ispb: Ispb,
    pub key: PrivateKey,
    pkcs8: Zeroizing<Vec<u8>>,
    pub certificate: Certificate,
}

/// Alice and Bruno.
pub fn pair(name: &str) -> &'static Pair {
    static PAIRS: OnceLock<[Pair; 2]> = OnceLock::new();
    let pairs = PAIRS.get_or_init(|| [("alice", "11111111"), ("bruno", "22222222")].map(make));
    pairs.iter().find(|pair| pair.name == name).unwrap()
}

fn make((name, ispb): (&'static str, &str)) -> Pair {
    let ispb = Ispb::from_text(ispb).unwrap();
    let (key, pkcs8) = PrivateKey::generate().unwrap();
    let subject = Subject { name: format!("TEST {name}"), ispb, authority: Some(1) };
    let certificate = self_signed(&key, &subject, TODAY - 1_000_000_000, TODAY + 1_000_000_000).unwrap();
    Pair { name, ispb, key, pkcs8, certificate: Certificate::from_der(&certificate).unwrap() }
}

impl Pair {
    pub fn own(&self) -> OwnKey {
        OwnKey { version: 1, known: self.known(), key: self.key.clone() }
    }

    pub fn known(&self) -> Known {
        Known::new(self.certificate.clone(), None, None, KeyState::Active).unwrap()
    }

    /// The domain of this pair, which knows `peer`.
    pub fn domain(&self, peer: &Self) -> Domain {
        let (own, peer) = (Arc::new(self.own()), Arc::new(peer.known()));
        Domain::new(self.name.to_owned(), self.ispb, vec![RSFN_V2, RSFN_V3], vec![own], vec![peer])
    }
}

/// Two domains that know each other.
pub fn domains() -> Domains {
    let (alice, bruno) = (pair("alice"), pair("bruno"));
    [alice.domain(bruno), bruno.domain(alice)].map(|domain| (domain.name.clone(), domain)).into_iter().collect()
}

/// A folder with files of keys, removed at the end.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn with_keys(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let pair = pair(name);
            let write = |file: String, text: String| {
                let mut options = std::fs::OpenOptions::new();
                let file = options.write(true).create(true).mode(0o600).open(folder.path().join(file));
                std::io::Write::write_all(&mut file.unwrap(), text.as_bytes()).unwrap();
            };
            write(format!("{name}.key.pem"), pem("PRIVATE KEY", &pair.pkcs8));
            write(format!("{name}.cert.pem"), pem("CERTIFICATE", &pair.certificate.der));
        }
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
