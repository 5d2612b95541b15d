//! One server.

use super::servers::Server;
use super::{block_on, until};
use crate::*;
use bytes::Bytes;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_core::{Filter, Topic};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SOON: Duration = Duration::from_secs(5);

fn options(site: &str, url: String) -> FabricOptions {
    FabricOptions { ping_every: Duration::from_millis(250), ..FabricOptions::new(site, vec![url]) }
}

async fn connect(server: &Server, site: &str) -> Fabric {
    Fabric::connect(options(site, server.url())).await.unwrap()
}

/// Waits until the server has handled what was sent before: it answers in order.
async fn settle(fabric: &Fabric) {
    assert_eq!(fabric.call("nobody", Bytes::new(), SOON).await, Err(FabricError::Nobody));
}

#[test]
fn requests_are_shared_by_a_group_and_nobody_is_told_at_once() {
    let folder = TempDir::new().unwrap();
    block_on(async {
        let Some(server) = Server::start(&folder, "").await else { return };
        let (centre, site) = (connect(&server, "centre").await, connect(&server, "north").await);
        let subject = subject::up("north", "live").unwrap();
        let begin = Instant::now();
        assert_eq!(site.call(&subject, Bytes::new(), SOON).await, Err(FabricError::Nobody));
        assert!(begin.elapsed() < SOON / 2, "nobody serves: told at once");

        let all = subject::up_of_all("live");
        let mut stores = [centre.serve(&all, "store").await.unwrap(), centre.serve(&all, "store").await.unwrap()];
        settle(&centre).await;
        let [first, second] = &mut stores;
        let asked = async {
            let mut answers = Vec::new();
            for number in 0..40_u8 {
                answers.push(site.call(&subject, Bytes::copy_from_slice(&[number]), SOON).await.unwrap());
            }
            answers
        };
        tokio::pin!(asked);
        let mut taken = [0, 0];
        let answers = loop {
            let (place, request) = tokio::select! {
                answers = &mut asked => break answers,
                request = first.next() => (0, request.unwrap()),
                request = second.next() => (1, request.unwrap()),
            };
            assert_eq!(subject::site_of(&request.subject).as_deref(), Some("north"));
            let body = request.body.clone();
            request.answer(body).await.unwrap();
            taken[place] += 1;
        };
        assert_eq!(answers, (0..40_u8).map(|number| Bytes::copy_from_slice(&[number])).collect::<Vec<_>>());
        assert!(taken[0] + taken[1] == 40 && taken[0] > 0 && taken[1] > 0, "{taken:?}");

        // It is taken, and not answered.
        let silent = site.call(&subject, Bytes::new(), Duration::from_millis(200)).await;
        assert!(matches!(silent, Err(FabricError::Away(_))), "{silent:?}");
        let long = Bytes::from(vec![0; site.message_bytes_max() + 1]);
        assert!(matches!(site.call(&subject, long, SOON).await, Err(FabricError::Misused(_))));
    });
}

#[test]
fn topics_of_any_characters_come_through_their_filters() {
    let folder = TempDir::new().unwrap();
    block_on(async {
        let Some(server) = Server::start(&folder, "").await else { return };
        let fabric = connect(&server, "north").await;
        let filters = ["#", "a/+", "a.b/#", "/+", "é ü/%/*"];
        let topics = ["a", "a/b", "a/", "/", "//", "a.b", "a.b/c d", "é ü/%/*", "x>y/\u{3000}/\u{7f}", "$SYS/a", "/x"];
        for filter in filters.map(|filter| Filter::new(filter).unwrap()) {
            let mut hears = Vec::new();
            for subject in subject::filter("north", &filter).unwrap() {
                hears.push(fabric.subscribe(&subject).await.unwrap());
            }
            for topic in topics {
                let topic = Topic::new(topic).unwrap();
                let subject = subject::topic("north", &topic).unwrap();
                fabric.publish(&subject, Bytes::copy_from_slice(topic.as_bytes())).await.unwrap();
            }
            // The last one that each hears says that no more will come.
            for subject in subject::filter("north", &filter).unwrap() {
                let end = subject.replace(['*', '>'], "end");
                fabric.publish(&end, Bytes::from_static(b"\0end")).await.unwrap();
            }
            let mut found = Vec::new();
            for hear in &mut hears {
                while let Some(message) = hear.next().await {
                    if message.body == "\0end" {
                        break;
                    }
                    assert_eq!(subject::topic_of(&message.subject).unwrap().as_bytes(), message.body);
                    found.push(String::from_utf8(message.body.to_vec()).unwrap());
                }
            }
            let is_wild = filter.starts_with(['#', '+']);
            let mut expect: Vec<_> =
                topics.iter().filter(|t| filter.matches(t) || (is_wild && **t == "$SYS/a")).collect();
            found.sort();
            expect.sort();
            assert_eq!(found.iter().collect::<Vec<_>>(), expect, "{filter}");
        }
    });
}

#[test]
fn a_log_takes_only_what_follows_its_last_message() {
    let folder = TempDir::new().unwrap();
    block_on(async {
        let Some(mut server) = Server::start(&folder, "").await else { return };
        let fabric = connect(&server, "centre").await;
        let options = LogOptions { name: "JOURNAL".into(), subject: "tl.journal".into(), replicas: 1, bytes_max: None };
        let log = fabric.log(options.clone()).await.unwrap();
        assert_eq!(log.last().await.unwrap(), Last::default());
        let append = async |expected, term, body: &'static str| {
            log.append_if(expected, term, Bytes::from_static(body.as_bytes()), SOON).await
        };
        assert_eq!(append(0, 7, "a").await, Ok(1));
        assert_eq!(append(0, 7, "a").await, Err(AppendError::WrongLast));
        assert_eq!(append(2, 7, "c").await, Err(AppendError::WrongLast));
        assert_eq!(append(1, 7, "b").await, Ok(2));
        // The next leader's record, and what the earlier leader tries then.
        assert_eq!(append(2, 9, "term 9").await, Ok(3));
        assert_eq!(append(2, 7, "c").await, Err(AppendError::WrongLast));
        assert_eq!(log.last().await.unwrap(), Last { sequence: 3, term: 9 });

        // It is there with the same options, and not with others.
        assert_eq!(fabric.log(options.clone()).await.unwrap().last().await.unwrap().sequence, 3);
        let other = fabric.log(LogOptions { subject: "tl.other".into(), ..options.clone() }).await;
        assert!(matches!(other, Err(FabricError::Refused(_))), "{other:?}");

        let mut reader = log.read_from(2).await.unwrap();
        assert_eq!(append(3, 9, "d").await, Ok(4));
        let entry =
            |sequence, term, body: &'static str| Entry { sequence, term, body: Bytes::from_static(body.as_bytes()) };
        for expect in [entry(2, 7, "b"), entry(3, 9, "term 9"), entry(4, 9, "d")] {
            assert_eq!(reader.next().await.unwrap(), expect);
        }
        log.remove_before(3).await.unwrap();
        assert!(matches!(log.remove_before(9).await, Err(FabricError::Misused(_))));
        assert_eq!(log.read_from(1).await.unwrap().next().await.unwrap().sequence, 3);

        server.restart().await;
        until("the server is back", || async { log.last().await.ok() }).await;
        assert_eq!(log.last().await.unwrap(), Last { sequence: 4, term: 9 });
        assert_eq!(append(4, 9, "e").await, Ok(5));
    });
}

#[test]
fn a_lease_is_written_only_by_who_knows_its_revision() {
    let folder = TempDir::new().unwrap();
    block_on(async {
        let Some(server) = Server::start(&folder, "").await else { return };
        let fabric = connect(&server, "centre").await;
        let leases = fabric.leases("LEADERS", 1).await.unwrap();
        let value = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(leases.read("core").await.unwrap(), None);
        let first = leases.write("core", value("a"), None).await.unwrap();
        assert_eq!(leases.write("core", value("b"), None).await, Err(LeaseError::Changed));
        let second = leases.write("core", value("b"), Some(first)).await.unwrap();
        assert!(second > first);
        assert_eq!(leases.write("core", value("a"), Some(first)).await, Err(LeaseError::Changed));
        assert_eq!(leases.read("core").await.unwrap(), Some(Lease { revision: second, value: value("b") }));
        assert!(matches!(leases.write("no key", value("a"), None).await, Err(LeaseError::Misused(_))));
        // Another key counts too: revisions of one lease may have gaps.
        let other = leases.write("other", value("x"), None).await.unwrap();
        assert!(other > second);
        let mut watch = leases.watch("core").await.unwrap();
        let third = leases.write("core", value("c"), Some(second)).await.unwrap();
        let mut seen = watch.next().await.unwrap();
        if seen.revision == second {
            seen = watch.next().await.unwrap();
        }
        assert_eq!(seen, Lease { revision: third, value: value("c") });
    });
}

#[test]
fn a_site_has_its_own_subjects_and_inbox_alone() {
    let folder = TempDir::new().unwrap();
    let config = "authorization { users: [\n\
        { user: centre, password: secret },\n\
        { user: north, password: cold, permissions: { publish: [\"tl.north.>\"], subscribe: [\"tl.north.>\", \"_INBOX_north.>\"] } },\n\
        { user: south, password: warm, permissions: { publish: [\"tl.south.>\"], subscribe: [\"tl.south.>\", \"_INBOX_south.>\"] } }\n\
    ] }";
    block_on(async {
        let Some(server) = Server::start(&folder, config).await else { return };
        let as_user = |user: &str, password: &str| FabricOptions {
            credentials: Credentials::Password { user: user.into(), password: password.into() },
            ..options(user, server.url())
        };
        let refused = Fabric::connect(as_user("north", "wrong")).await;
        assert!(matches!(refused, Err(FabricError::Refused(_))), "{refused:?}");
        assert!(matches!(Fabric::connect(options("north", server.url())).await, Err(FabricError::Refused(_))));

        let centre = Fabric::connect(as_user("centre", "secret")).await.unwrap();
        let north = Fabric::connect(as_user("north", "cold")).await.unwrap();
        let mut store = centre.serve(&subject::up_of_all("live"), "store").await.unwrap();
        settle(&centre).await;
        let up = subject::up("north", "live").unwrap();
        let (answer, ()) = tokio::join!(north.call(&up, Bytes::new(), SOON), async {
            store.next().await.unwrap().answer(Bytes::from_static(b"mark")).await.unwrap();
        });
        assert_eq!(answer.unwrap(), "mark");
        // A batch of another site gets nowhere, and answers of another site are not heard.
        let other = subject::up("south", "live").unwrap();
        let lost = north.call(&other, Bytes::new(), Duration::from_millis(300)).await;
        assert!(matches!(lost, Err(FabricError::Away(_))), "{lost:?}");
        let mut deaf = north.subscribe("_INBOX_south.>").await.unwrap();
        assert_eq!(north.call("tl.north.call.x", Bytes::new(), SOON).await, Err(FabricError::Nobody));
        let south = Fabric::connect(as_user("south", "warm")).await.unwrap();
        let (answer, ()) = tokio::join!(south.call(&other, Bytes::new(), SOON), async {
            let request = store.next().await.unwrap();
            assert_eq!(subject::site_of(&request.subject).as_deref(), Some("south"));
            request.answer(Bytes::from_static(b"secret")).await.unwrap();
        });
        assert_eq!(answer.unwrap(), "secret");
        let heard = tokio::time::timeout(Duration::from_millis(300), deaf.next()).await;
        assert!(!matches!(heard, Ok(Some(_))), "{heard:?}");
    });
}

#[test]
fn tls_needs_an_authority_that_is_known() {
    let folder = TempDir::new().unwrap();
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("cert.pem"), cert.pem()).unwrap();
    std::fs::write(path("key.pem"), signing_key.serialize_pem()).unwrap();
    let config = format!("tls {{ cert_file: \"{}\", key_file: \"{}\" }}", path("cert.pem"), path("key.pem"));
    block_on(async {
        let Some(server) = Server::start(&folder, &config).await else { return };
        let with = |certificates: &[&rcgen::Certificate]| {
            let mut roots = rustls::RootCertStore::empty();
            certificates.iter().for_each(|certificate| roots.add(certificate.der().clone()).unwrap());
            let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
            FabricOptions { tls: Some(tls), ..options("north", format!("tls://localhost:{}", server.port)) }
        };
        let fabric = Fabric::connect(with(&[&cert])).await.unwrap();
        settle(&fabric).await;
        let unknown = Fabric::connect(with(&[])).await;
        assert!(unknown.is_err(), "{unknown:?}");
    });
}

#[test]
fn a_server_says_whether_it_keeps_logs() {
    let (with, without) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    block_on(async {
        let Some(server) = Server::start(&with, "").await else { return };
        let about = connect(&server, "north").await.about().await.unwrap();
        assert!(about.keeps_logs && about.name == "n1" && about.message_bytes_max == 1 << 20, "{about:?}");
        let off = "accounts { A: { users: [{ user: north, password: cold }] } }\nno_auth_user: north";
        let server = Server::start(&without, off).await.unwrap();
        let fabric = connect(&server, "north").await;
        assert!(!fabric.about().await.unwrap().keeps_logs);
        let options = LogOptions { name: "JOURNAL".into(), subject: "tl.journal".into(), replicas: 1, bytes_max: None };
        assert!(fabric.log(options).await.is_err());
    });
}

#[test]
fn a_log_that_may_grow_beyond_the_space_of_the_server_is_refused_with_what_to_change() {
    let folder = TempDir::new().unwrap();
    block_on(async {
        let Some(server) = Server::start(&folder, "").await else { return };
        let fabric = connect(&server, "north").await;
        let options =
            LogOptions { name: "JOURNAL".into(), subject: "tl.journal".into(), replicas: 1, bytes_max: Some(2 << 30) };
        let Err(FabricError::Refused(why)) = fabric.log(options.clone()).await else { panic!("the server has 1 GiB") };
        assert!(
            why.contains("2048 MiB") && why.contains("max_file_store") && why.contains("stream_bytes_max"),
            "{why}"
        );
        fabric.log(LogOptions { bytes_max: Some(64 << 20), ..options }).await.unwrap();
    });
}

#[test]
fn a_connection_comes_back_and_says_so() {
    let folder = TempDir::new().unwrap();
    block_on(async {
        let Some(mut server) = Server::start(&folder, "").await else { return };
        let fabric = connect(&server, "north").await;
        let mut is_up = fabric.is_up();
        assert!(*is_up.borrow_and_update());
        server.kill();
        is_up.wait_for(|is_up| !is_up).await.unwrap();
        let begin = Instant::now();
        let away = fabric.call("tl.north.call.x", Bytes::new(), SOON).await;
        assert!(matches!(away, Err(FabricError::Away(_))) && begin.elapsed() < SOON / 2, "{away:?}");
        server.restart().await;
        is_up.wait_for(|is_up| *is_up).await.unwrap();
        assert_eq!(fabric.call("tl.north.call.x", Bytes::new(), SOON).await, Err(FabricError::Nobody));
    });
}

#[test]
fn an_old_server_is_named() {
    block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let old = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let info = "INFO {\"server_id\":\"N\",\"server_name\":\"n\",\"version\":\"2.9.10\",\"go\":\"go1.19\",\"host\":\
                \"127.0.0.1\",\"port\":4222,\"headers\":true,\"max_payload\":1048576,\"proto\":1,\"client_id\":1}\r\n";
            socket.write_all(info.as_bytes()).await.unwrap();
            let mut heard = Vec::new();
            while !heard.windows(4).any(|word| word == b"PING") {
                socket.read_buf(&mut heard).await.unwrap();
            }
            socket.write_all(b"PONG\r\n").await.unwrap();
            socket
        };
        let options = options("north", format!("nats://127.0.0.1:{port}"));
        let (refused, _socket) = tokio::join!(Fabric::connect(options), old);
        assert_eq!(refused.unwrap_err(), FabricError::Version { found: "2.9.10".into() });
    });
}

#[test]
fn no_server_is_away() {
    block_on(async {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let away = Fabric::connect(options("north", format!("nats://127.0.0.1:{port}"))).await;
        assert!(matches!(away, Err(FabricError::Away(_))), "{away:?}");
        let none = Fabric::connect(options("north", "not an address".into())).await;
        assert!(matches!(none, Err(FabricError::Misused(_) | FabricError::Away(_))), "{none:?}");
    });
}
