//! A server that asks who may connect.

use super::servers::Server;
use super::{block_on, until};
use crate::*;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(5);
/// How long a connection holds; the site of that name has a short one.
const HOLDS: Duration = Duration::from_secs(600);
const BRIEFLY: Duration = Duration::from_secs(2);

/// Who may come in: keys with their sites.
type Known = Arc<Mutex<BTreeMap<String, String>>>;

struct Centre {
    server: Server,
    door: Fabric,
    centre: Keys,
    known: Known,
    folder: TempDir,
}

impl Centre {
    async fn start() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let [issuer, door, centre] = [KeyKind::Account, KeyKind::User, KeyKind::User].map(Keys::generate);
        let config = ServerConfig {
            name: "n1".into(),
            listen: "127.0.0.1:-1".into(),
            store: folder.path().join("store"),
            tls: None,
            issuer: issuer.public(),
            door: door.public(),
            centre: centre.public(),
            monitor: None,
            cluster: None,
        };
        let server = Server::start_as(&folder, &config.text().unwrap()).await?;
        let door = FabricOptions { credentials: Credentials::Nkey(door.seed()), ..options("door", &server) };
        let door = Fabric::connect(door).await.unwrap();
        let known = Known::default();
        tokio::spawn(answer(door.callout(issuer).await.unwrap(), Arc::clone(&known)));
        Some(Self { server, door, centre, known, folder })
    }

    /// A key of a site, which is known or not.
    fn key(&self, site: &str, is_known: bool) -> (Keys, PathBuf) {
        let (keys, path) = (Keys::generate(KeyKind::User), self.folder.path().join(format!("{site}.nk")));
        keys.write(&path).unwrap();
        if is_known {
            self.known.lock().unwrap().insert(keys.public(), site.to_owned());
        }
        (keys, path)
    }

    async fn connect(&self, site: &str, seed: PathBuf) -> Result<Fabric, FabricError> {
        Fabric::connect(FabricOptions { credentials: Credentials::SeedFile(seed), ..options(site, &self.server) }).await
    }
}

fn options(site: &str, server: &Server) -> FabricOptions {
    FabricOptions { ping_every: Duration::from_millis(250), ..FabricOptions::new(site, vec![server.url()]) }
}

async fn answer(mut callout: Callout, known: Known) {
    while let Some(waiting) = callout.next().await {
        let key = waiting.ask.key.clone();
        let site = key.as_ref().and_then(|key| known.lock().unwrap().get(key).cloned());
        match key.zip(site) {
            Some((key, site)) => {
                let holds = if site == "brief" { BRIEFLY } else { HOLDS };
                callout.grant(waiting, &Grant::site(&site, &key, SITES_ACCOUNT, holds)).await.unwrap();
            }
            None => callout.refuse(waiting, "unknown key").await.unwrap(),
        }
    }
}

#[test]
fn a_key_that_is_known_comes_in_with_its_own_subjects_and_leaves_when_it_is_told_to() {
    block_on(async {
        let Some(parts) = Centre::start().await else { return };
        let centre = Credentials::Nkey(parts.centre.seed());
        let centre = FabricOptions { credentials: centre, ..options("centre", &parts.server) };
        let centre = Fabric::connect(centre).await.unwrap();
        assert!(centre.about().await.unwrap().keeps_logs);

        let (_, unknown) = parts.key("unknown", false);
        let refused = parts.connect("unknown", unknown).await;
        assert!(matches!(refused, Err(FabricError::Refused(_))), "{refused:?}");
        let nobody = Fabric::connect(options("nobody", &parts.server)).await;
        assert!(matches!(nobody, Err(FabricError::Refused(_))), "{nobody:?}");

        let (key, seed) = parts.key("north", true);
        let north = parts.connect("north", seed).await.unwrap();
        let mut store = centre.serve(&subject::up_of_all("live"), "store").await.unwrap();
        centre.flush().await.unwrap();
        assert_eq!(centre.call("tl.x.up.none", Bytes::new(), SOON).await, Err(FabricError::Nobody));
        let up = subject::up("north", "live").unwrap();
        let (answer, ()) = tokio::join!(north.call(&up, Bytes::new(), SOON), async {
            store.next().await.unwrap().answer(Bytes::from_static(b"mark")).await.unwrap();
        });
        assert_eq!(answer.unwrap(), "mark");
        // A call to the site is answered, into the inbox of the centre.
        let mut service = north.serve(&subject::call("north", "x").unwrap(), "n").await.unwrap();
        assert_eq!(north.call("tl.north.up.none", Bytes::new(), SOON).await, Err(FabricError::Nobody));
        let call = subject::call("north", "x").unwrap();
        let (answer, ()) = tokio::join!(centre.call(&call, Bytes::new(), SOON), async {
            service.next().await.unwrap().answer(Bytes::from_static(b"here")).await.unwrap();
        });
        assert_eq!(answer.unwrap(), "here");

        let clients = parts.door.clients(SITES_ACCOUNT).await.unwrap();
        let sites: Vec<_> = clients.iter().filter(|client| key_of_connection(&client.name).is_some()).collect();
        let [one] = sites[..] else { panic!("{clients:?}") };
        assert_eq!(one.name, connection_name("north", &key.public()));
        parts.known.lock().unwrap().clear();
        let mut is_up = north.is_up();
        is_up.borrow_and_update();
        parts.door.disconnect(one).await.unwrap();
        is_up.wait_for(|is_up| !is_up).await.unwrap();
        until("the site is out", || async {
            let clients = parts.door.clients(SITES_ACCOUNT).await.unwrap();
            clients.iter().all(|client| key_of_connection(&client.name).is_none()).then_some(())
        })
        .await;
    });
}

#[test]
fn an_expired_connection_comes_back_with_the_key_that_is_in_the_file_by_then() {
    block_on(async {
        let Some(parts) = Centre::start().await else { return };
        let (old, seed) = parts.key("brief", true);
        let site = parts.connect("brief", seed).await.unwrap();
        let (new, _) = parts.key("brief", true);
        parts.known.lock().unwrap().remove(&old.public());
        until("the connection has the new key", || async {
            let clients = parts.door.clients(SITES_ACCOUNT).await.unwrap();
            let name = connection_name("brief", &new.public());
            clients.iter().any(|client| client.name == name).then_some(())
        })
        .await;
        drop(site);
    });
}
