use super::*;
use crate::tests::echo::{Echo, Heard};
use crate::tests::{Notes, run};
use crate::{
    ClientSide, Clock, Closed, ConnectOver, Counters, Limits, ListenConfig, ListenOver, Listener, Session, Shard,
    Target, TlsConnect, TlsListen, open,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A folder of certificates and keys.
struct Folder {
    folder: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Folder {
    fn new() -> Self {
        let mut about = CertificateParams::new(Vec::new()).unwrap();
        about.distinguished_name.push(DnType::CommonName, "authority");
        about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(about, KeyPair::generate().unwrap()).unwrap();
        let folder = Self { folder: tempfile::tempdir().unwrap(), authority };
        folder.put("authority.pem", &folder.authority.pem(), 0o644);
        folder
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn put(&self, file: &str, text: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(file);
        // A new file, as programs that renew certificates leave it.
        let next = path.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::set_permissions(&next, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::rename(next, path).unwrap();
    }

    /// A certificate that the authority vouches for.
    fn issue(&self, name: &str) {
        self.issue_as(name, params(name));
    }

    fn issue_as(&self, file: &str, params: CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        self.put(&format!("{file}.pem"), &certificate.pem(), 0o644);
        self.put(&format!("{file}.key"), &key.serialize_pem(), 0o600);
    }

    fn sign_self(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        self.put(&format!("{name}.pem"), &params(name).self_signed(&key).unwrap().pem(), 0o644);
        self.put(&format!("{name}.key"), &key.serialize_pem(), 0o600);
    }

    fn files(&self, name: &str, trust: Trust) -> TlsFiles {
        let (certificate, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        TlsFiles { certificate, key, trust, client_names: Vec::new(), version_min: TlsVersion::Tls12 }
    }

    fn authorities(&self) -> Trust {
        Trust::Authorities(self.path("authority.pem"))
    }

    fn pinned(&self, name: &str) -> Trust {
        Trust::Pinned(vec![Pin::Certificate(self.path(&format!("{name}.pem")))])
    }
}

/// What a listener and a client make of each other.
struct Meeting {
    server: Arc<Tls>,
    client: Arc<Tls>,
    name: Option<String>,
}

/// Exchanges a word, with the socket of the listener on this thread and on a socket shard; the client's error in words where
/// there is none.
async fn meet(meeting: &Meeting) -> Result<(), String> {
    let here = meet_at(meeting, 0).await;
    assert_eq!(meet_at(meeting, 1).await, here);
    here
}

async fn meet_at(meeting: &Meeting, shards: usize) -> Result<(), String> {
    let counters = Arc::new(Counters::default());
    let over = ListenOver::Tls(TlsListen::new(Arc::clone(&meeting.server)));
    let config = ListenConfig { over, ..ListenConfig::new("127.0.0.1:0") };
    let listener = Listener::bind(&config, Arc::clone(&counters)).await.unwrap();
    let over = TlsConnect { tls: ClientSide::Renewed(Arc::clone(&meeting.client)), name: meeting.name.clone() };
    let address = listener.local_addr().unwrap().to_string();
    let target = Target { over: ConnectOver::Tls(over), ..Target::new(address) };
    let shard = Shard::new(Clock::start(), Arc::clone(&counters));
    let near = Session::new(&shard, Echo::default(), Limits::default());
    let far = Session::new(&shard, Echo { last_word: Some(b'.'), ..Echo::default() }, Limits::default());
    let shards = crate::SocketShards::local(&shard, shards, Duration::from_secs(30));
    let serve = async {
        let accepted = listener.accept().await;
        far.run(shards.place(accepted.stream).unwrap(), &mut Notes::default()).await
    };
    let call = async {
        let connection = open(&target, &counters).await.map_err(|error| error.to_string())?;
        near.with(|echo, _| echo.output.push_back(b"hello.".to_vec()));
        let mut notes = Notes::default();
        let why = near.run(connection, &mut notes).await;
        match notes.events.iter().any(|(_, event)| *event == Heard::Bytes(6)) {
            true => Ok(()),
            false => Err(why.to_string()),
        }
    };
    let (served, called) = tokio::join!(serve, call);
    let [good, bad] = [&counters.tls_handshakes, &counters.tls_handshake_failures].map(|c| c.load(Ordering::Relaxed));
    match &called {
        Ok(()) => assert_eq!((served, good, bad), (Closed::Machine, 2, 0)),
        Err(_) => assert!(bad > 0 && served != Closed::Machine, "{served:?} {good} {bad}"),
    }
    called
}

#[test]
fn peers_that_trust_each_other_meet() {
    let folder = Folder::new();
    folder.issue("server");
    folder.issue("client");
    folder.sign_self("lone-server");
    folder.sign_self("lone-client");
    let load = |files: TlsFiles| Tls::load(files).unwrap();
    let authorities = || folder.authorities();
    let check = |server: TlsFiles, client: TlsFiles, name: Option<&str>, expect: Result<(), &str>| {
        let meeting = Meeting { server: load(server), client: load(client), name: name.map(str::to_owned) };
        let met = run(meet(&meeting));
        assert_eq!(met.as_ref().map_err(String::as_str).copied(), expect);
    };
    let (server, client) = (|| folder.files("server", authorities()), || folder.files("client", authorities()));
    check(server(), client(), None, Ok(()));
    check(server(), client(), Some("server"), Ok(()));
    let other = "invalid peer certificate: certificate not valid for name \"relay7\"; certificate is only valid for DnsName(\"server\") or IpAddress(127.0.0.1)";
    check(server(), client(), Some("relay7"), Err(other));
    check(TlsFiles { version_min: TlsVersion::Tls13, ..server() }, client(), None, Ok(()));
    let named = |name: &str| TlsFiles { client_names: vec!["other".to_owned(), name.to_owned()], ..server() };
    check(named("client"), client(), None, Ok(()));
    // A client learns of its refusal from an alert only.
    check(named("client9"), client(), None, Err("TLS: BadCertificate"));
    check(server(), folder.files("lone-client", authorities()), None, Err("TLS: UnknownCA"));
    check(folder.files("lone-server", authorities()), client(), None, Err("invalid peer certificate: UnknownIssuer"));
    check(
        folder.files("lone-server", folder.pinned("lone-client")),
        folder.files("lone-client", folder.pinned("lone-server")),
        Some("any.name"),
        Ok(()),
    );
    let info = read_certificates(&folder.path("lone-client.pem")).unwrap().remove(0).1;
    assert_eq!(info.names, ["lone-client", "127.0.0.1"]);
    let fingerprint = info.fingerprint.to_string().parse().unwrap();
    let pinned = Trust::Pinned(vec![Pin::Key(fingerprint)]);
    check(
        folder.files("lone-server", pinned.clone()),
        folder.files("lone-client", folder.pinned("lone-server")),
        None,
        Ok(()),
    );
    check(
        folder.files("lone-server", pinned),
        folder.files("client", folder.pinned("lone-server")),
        None,
        Err("TLS: UnknownCA"),
    );
    check(folder.files("server", Trust::AnyClient), client(), None, Ok(()));
}

#[test]
fn renewed_files_hold_for_the_next_handshake() {
    let folder = Folder::new();
    folder.issue("server");
    folder.sign_self("client");
    let meeting = Meeting {
        server: Tls::load(folder.files("server", folder.pinned("client"))).unwrap(),
        client: Tls::load(folder.files("client", folder.authorities())).unwrap(),
        name: None,
    };
    assert_eq!(run(meet(&meeting)), Ok(()));
    assert_eq!(meeting.server.reload_changed(), Ok(false));
    folder.sign_self("client");
    assert_eq!(meeting.client.reload_changed(), Ok(true));
    assert_eq!(run(meet(&meeting)), Err("TLS: UnknownCA".to_owned()));
    assert_eq!(meeting.server.reload_changed(), Ok(true));
    assert_eq!(run(meet(&meeting)), Ok(()));
    // Files that are wrong leave what is loaded in use, and are told of once.
    folder.put("server.pem", "", 0o644);
    assert!(meeting.server.reload_changed().is_err());
    assert_eq!(meeting.server.reload_changed(), Ok(false));
    assert_eq!(run(meet(&meeting)), Ok(()));
}

#[test]
fn certificates_that_are_not_good_yet_or_any_more_are_refused() {
    let folder = Folder::new();
    folder.issue("client");
    let check = |not_before: i32, not_after: i32, expect: &str| {
        let mut about = params("server");
        about.not_before = rcgen::date_time_ymd(not_before, 1, 1);
        about.not_after = rcgen::date_time_ymd(not_after, 1, 1);
        folder.issue_as("server", about.clone());
        let server = Tls::load(folder.files("server", folder.authorities())).unwrap();
        assert_eq!(server.expiries()[0].not_after.to_string(), format!("{not_after}-01-01T00:00:00.000Z"));
        let client = Tls::load(folder.files("client", folder.authorities())).unwrap();
        let error = run(meet(&Meeting { server: Arc::clone(&server), client, name: None })).unwrap_err();
        assert!(error.contains(expect), "{error}");
        let client = Tls::load(folder.files("client", folder.pinned("server"))).unwrap();
        let error = run(meet(&Meeting { server, client, name: None })).unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    check(2001, 2002, "expired");
    check(2101, 2102, "not valid yet");
}

#[test]
fn files_say_what_is_wrong_with_them() {
    let folder = Folder::new();
    folder.issue("good");
    folder.issue("other");
    let read = |file: &str| std::fs::read_to_string(folder.path(file)).unwrap();
    let (certificate, key) = (read("good.pem"), read("good.key"));
    folder.put("empty.pem", "", 0o644);
    folder.put("cut.pem", &certificate[..certificate.len() - 40], 0o644);
    folder.put("open.key", &key, 0o644);
    folder.put("locked.key", &key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), 0o600);
    let check = |certificate: &str, key: &str, authorities: &str, expect: &[&str]| {
        let files = TlsFiles {
            certificate: folder.path(certificate),
            key: folder.path(key),
            ..folder.files("good", Trust::Authorities(folder.path(authorities)))
        };
        let place = format!("{}/", folder.folder.path().display());
        let found = match Tls::load(files) {
            Ok(_) => Vec::new(),
            Err(TlsError(faults)) => faults.iter().map(|fault| fault.to_string().replace(&place, "")).collect(),
        };
        assert_eq!(found, expect);
    };
    check("good.pem", "good.key", "authority.pem", &[]);
    check(
        "good.pem",
        "other.key",
        "authority.pem",
        &["other.key: found the key of another certificate, expected the key of the first certificate in good.pem"],
    );
    check(
        "good.key",
        "good.pem",
        "empty.pem",
        &[
            "good.key: found PEM with a private key and no certificate, expected a file with certificates in PEM (-----BEGIN CERTIFICATE-----)",
            "good.pem: found a key that every user may read or change (mode 0644), expected mode 0600 or 0640",
            "empty.pem: found an empty file, expected a file with certificates in PEM (-----BEGIN CERTIFICATE-----)",
        ],
    );
    check(
        "good.pem",
        "open.key",
        "authority.pem",
        &["open.key: found a key that every user may read or change (mode 0644), expected mode 0600 or 0640"],
    );
    check(
        "good.pem",
        "locked.key",
        "authority.pem",
        &["locked.key: found an encrypted key, expected a private key in PEM, not encrypted"],
    );
    let missing = "found nothing readable (No such file or directory (os error 2)), expected";
    check(
        "none.pem",
        "none.key",
        "none",
        &[
            &format!("none.pem: {missing} a file with certificates in PEM (-----BEGIN CERTIFICATE-----)"),
            &format!("none.key: {missing} a private key in PEM, not encrypted"),
            &format!("none: {missing} a file with certificates in PEM (-----BEGIN CERTIFICATE-----)"),
        ],
    );
    let cut = read_certificates(&folder.path("cut.pem")).unwrap_err();
    assert!(cut.found.starts_with("damaged PEM"), "{cut}");
}

#[test]
fn a_peer_that_never_begins_costs_a_place_for_a_time() {
    let folder = Folder::new();
    folder.issue("server");
    let tls = Tls::load(folder.files("server", folder.authorities())).unwrap();
    run(async {
        let counters = Arc::new(Counters::default());
        let over = ListenOver::Tls(TlsListen { handshakes_max: 1, ..TlsListen::new(tls) });
        let config = ListenConfig { over, ..ListenConfig::new("127.0.0.1:0") };
        let listener = Listener::bind(&config, Arc::clone(&counters)).await.unwrap();
        let shard = Shard::new(Clock::start(), Arc::clone(&counters));
        let address = listener.local_addr().unwrap();
        let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
        let session = Session::new(&shard, Echo::default(), Limits::default());
        let accepted = listener.accept().await;
        let began = shard.now().mono;
        assert_eq!(listener.sessions(), 1);
        let why = session.run(accepted.stream, &mut Notes::default()).await;
        drop(accepted.place);
        assert_eq!((why, listener.sessions()), (Closed::Io(std::io::ErrorKind::TimedOut), 0));
        assert!(shard.now().mono.since(began) >= Duration::from_secs(10));
        assert_eq!(counters.tls_handshake_failures.load(Ordering::Relaxed), 1);
        assert_eq!(session.traffic().connections, 0);
    });
}

#[test]
fn long_output_arrives_whole_and_in_order() {
    let folder = Folder::new();
    folder.issue("server");
    folder.issue("client");
    let server = Tls::load(folder.files("server", folder.authorities())).unwrap();
    let client = Tls::load(folder.files("client", folder.authorities())).unwrap();
    run(async {
        let counters = Arc::new(Counters::default());
        let config = ListenConfig { over: ListenOver::Tls(TlsListen::new(server)), ..ListenConfig::new("127.0.0.1:0") };
        let listener = Listener::bind(&config, Arc::clone(&counters)).await.unwrap();
        let over = ConnectOver::Tls(TlsConnect { tls: ClientSide::Renewed(client), name: None });
        let target = Target { over, ..Target::new(listener.local_addr().unwrap().to_string()) };
        let shard = Shard::new(Clock::start(), Arc::clone(&counters));
        let said: Vec<u8> = (0..2_000_000_u32).map(|i| u8::try_from(i % 251).unwrap()).chain([255]).collect();
        let limits = Limits { unsent_bytes_max: 4 << 20, ..Limits::default() };
        let far = Session::new(&shard, Keep::default(), Limits::default());
        let near = Session::new(&shard, Echo { output: [said.clone()].into(), ..Echo::default() }, limits);
        let serve = async {
            let accepted = listener.accept().await;
            far.run(accepted.stream, &mut NoOwner).await
        };
        let call = async {
            let connection = open(&target, &counters).await.unwrap();
            near.run(connection, &mut Notes::default()).await
        };
        let (served, called) = tokio::join!(serve, call);
        assert_eq!((served, called), (Closed::Machine, Closed::Peer));
        assert!(far.look(|keep| keep.heard == said));
    });
}

/// Keeps all it hears, until the byte 255.
#[derive(Default)]
struct Keep {
    heard: Vec<u8>,
}

struct NoOwner;

impl crate::Owner<Keep> for NoOwner {
    fn event(&mut self, _: &Session<Keep>, _: tieline_core::Now, (): ()) {}
}

impl tieline_core::Machine for Keep {
    type Event = ();
    fn handle_connected(&mut self, _: tieline_core::Now) {}
    fn handle_disconnected(&mut self, _: tieline_core::Now) {}
    fn handle_input(&mut self, _: tieline_core::Now, bytes: &[u8]) -> usize {
        self.heard.extend_from_slice(bytes);
        bytes.len()
    }
    fn handle_timeout(&mut self, _: tieline_core::Now) {}
    fn poll_transmit(&mut self, _: tieline_core::Now, _: &mut Vec<u8>) -> bool {
        false
    }
    fn poll_event(&mut self) -> Option<()> {
        None
    }
    fn timeout(&self) -> Option<tieline_core::Instant> {
        None
    }
    fn is_closed(&self) -> bool {
        self.heard.last() == Some(&255)
    }
}
