//! The door of a centre: servers ask it who may connect, sites change their keys by it, and it ends connections whose key is none any
//! more.
//!
//! It has two connections: one as the user that servers ask, in the system account; one in the account of the sites, for their
//! requests. Without it no site can connect; those that are connected stay, until their time is over.

use super::{DoorCounts, SiteEvent, SiteList};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tieline_fabric::{
    Callout, Credentials, Fabric, FabricError, FabricOptions, Grant, KeyKind, Keys, Request, SITES_ACCOUNT, Service,
    Waiting, is_signed, key_of_connection, subject,
};
use tieline_net::{Clock, ShardThread};

/// A connection of a site ends after this time, and is made again: so long does a site that was revoked stay at most, where no server
/// can be told to end it.
const HOLDS: Duration = Duration::from_secs(3600);
/// How often the door looks whether all that are connected may be.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The pauses between attempts to connect.
const RETRY: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(8)];
/// A round is made again so soon, where it did not reach all.
const AGAIN: Duration = Duration::from_secs(1);
/// Those that serve sites share their requests.
const GROUP: &str = "door";
/// The request to change a key.
const KEY: &str = "key";

/// What a door is made of.
pub struct DoorParts {
    /// How the servers are reached; as whom is in the files.
    pub options: FabricOptions,
    /// The key that signs decisions.
    pub issuer: Keys,
    /// The file of the seed of the user that servers ask.
    pub door: PathBuf,
    /// The file of the seed of the user in the account of the sites.
    pub centre: PathBuf,
    /// The sites.
    pub sites: Arc<Mutex<SiteList>>,
    /// What is counted.
    pub counts: Arc<DoorCounts>,
    /// Told what happened.
    pub tell: Box<dyn Fn(SiteEvent) + Send + Sync>,
}

/// The thread. Dropping it stops it.
#[derive(Debug)]
pub struct DoorThread(ShardThread);

impl DoorThread {
    /// Starts it. It connects as often as it has to.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(parts: DoorParts, clock: Clock) -> io::Result<Self> {
        let body = move |_shard| async move {
            let door = Arc::new(Door { parts, clock });
            let keys = Arc::clone(&door);
            tokio::task::spawn_local(async move { keys.serve_keys().await });
            door.serve_servers().await;
        };
        ShardThread::spawn("door", clock, Arc::default(), body).map(Self)
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

struct Door {
    parts: DoorParts,
    clock: Clock,
}

impl Door {
    fn sites(&self) -> MutexGuard<'_, SiteList> {
        self.parts.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects, however often that has to be tried.
    async fn connect(&self, name: &str, seed: &Path) -> Fabric {
        let [mut pause, pause_max] = RETRY;
        loop {
            let mut options = self.parts.options.clone();
            (options.name, options.inbox) = (format!("{} {name}", options.name), subject::inbox(&format!("/{name}")));
            options.credentials = Credentials::SeedFile(seed.to_path_buf());
            match Fabric::connect(options).await {
                Ok(fabric) => return fabric,
                Err(error) => tracing::warn!(%error, user = name, "the fabric's servers cannot be reached"),
            }
            tokio::time::sleep(pause).await;
            pause = pause_max.min(pause * 2);
        }
    }

    /// Answers who may connect.
    async fn serve_servers(self: Arc<Self>) {
        let fabric = self.connect("door", &self.parts.door).await;
        let Ok(mut callout) = fabric.callout(self.parts.issuer.clone()).await else { return };
        tracing::info!("sites can connect");
        self.parts.counts.is_up.store(true, Ordering::Relaxed);
        let rounds = Arc::clone(&self);
        tokio::task::spawn_local(async move { rounds.make_rounds(&fabric).await });
        while let Some(waiting) = callout.next().await {
            if let Err(error) = self.decide(&callout, waiting).await {
                tracing::warn!(%error, "an answer about a site was not sent");
            }
            self.parts.counts.unreadable.store(callout.refused(), Ordering::Relaxed);
        }
        self.parts.counts.is_up.store(false, Ordering::Relaxed);
    }

    async fn decide(&self, callout: &Callout, waiting: Waiting) -> Result<(), FabricError> {
        let key = waiting.ask.key.clone();
        let now = self.clock.now().utc;
        let admitted = key.as_deref().map(|key| self.sites().admit(now, key));
        match (key, admitted) {
            (Some(key), Some(Ok((site, is_next)))) => {
                if is_next {
                    let detail = format!("the site {site:?} has the key {key}");
                    self.tell(&site, &waiting.ask.host, "site_key", detail);
                }
                tracing::info!(site, host = waiting.ask.host, "a site connects");
                self.parts.counts.admitted.fetch_add(1, Ordering::Relaxed);
                callout.grant(waiting, &Grant::site(&site, &key, SITES_ACCOUNT, HOLDS)).await
            }
            (key, refused) => {
                let reason = refused.and_then(Result::err).map_or("no key was shown".to_owned(), |error| match error {
                    super::JoinError::Token => "the key is that of no site".to_owned(),
                    other => other.to_string(),
                });
                let (host, name) = (&waiting.ask.host, &waiting.ask.name);
                tracing::warn!(host, name, key, reason, "a client of the fabric was refused");
                self.parts.counts.refused.fetch_add(1, Ordering::Relaxed);
                callout.refuse(waiting, &reason).await
            }
        }
    }

    /// Ends connections of sites that may not stay: after each change, and now and then.
    async fn make_rounds(&self, fabric: &Fabric) {
        let mut changes = self.sites().changes();
        loop {
            changes.mark_unchanged();
            let pause = match self.make_round(fabric).await {
                Ok(()) => LOOK_EVERY,
                Err(error) => {
                    tracing::debug!(%error, "not all connections of sites could be looked at");
                    AGAIN
                }
            };
            // What was seen meanwhile is written with the rounds.
            if let Err(error) = self.sites().save() {
                tracing::warn!(%error, "the list of sites was not written");
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn make_round(&self, fabric: &Fabric) -> Result<(), FabricError> {
        for client in fabric.clients(SITES_ACCOUNT).await? {
            let Some(key) = key_of_connection(&client.name) else { continue };
            if self.sites().may_stay(key) {
                continue;
            }
            tracing::info!(client = client.name, "a connection is ended: its key is that of no site any more");
            fabric.disconnect(&client).await?;
        }
        Ok(())
    }

    /// Takes the next keys of sites.
    async fn serve_keys(self: Arc<Self>) {
        let fabric = self.connect("keys", &self.parts.centre).await;
        let service = fabric.serve(&subject::join_of_all(KEY), GROUP).await;
        let Ok(mut service): Result<Service, _> = service else { return };
        while let Some(request) = service.next().await {
            if let Err(error) = self.take_key(request).await {
                tracing::warn!(%error, "an answer about a key was not sent");
            }
        }
    }

    async fn take_key(&self, request: Request) -> Result<(), FabricError> {
        let site = subject::site_of(&request.subject).unwrap_or_default();
        let offered = read_offer(&site, &request.body).and_then(|key| {
            self.sites().offer_key(&site, &key).map_err(|error| error.to_string())?;
            Ok(key)
        });
        let answer = match offered {
            Ok(key) => {
                self.tell(&site, "fabric", "site_key", format!("the site {site:?} offers the key {key}"));
                KeyAnswer { error: None }
            }
            Err(error) => KeyAnswer { error: Some(error) },
        };
        request.answer(serde_json::to_vec(&answer).unwrap_or_default().into()).await
    }

    fn tell(&self, site: &str, host: &str, phase: &'static str, detail: String) {
        (self.parts.tell)(SiteEvent { who: format!("site {host} {site}"), phase, detail });
    }
}

/// A key that is to take the place of a site's own.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyOffer {
    key: String,
    /// Of the site's name and the key, made with the other half of the key: it is there.
    proof: String,
}

#[derive(Serialize, Deserialize)]
struct KeyAnswer {
    error: Option<String>,
}

fn proven(site: &str, key: &str) -> Vec<u8> {
    format!("tieline key of a site\n{site}\n{key}").into_bytes()
}

fn read_offer(site: &str, body: &[u8]) -> Result<String, String> {
    let KeyOffer { key, proof } = serde_json::from_slice(body).map_err(|error| format!("the request: {error}"))?;
    let proof = URL_SAFE_NO_PAD.decode(proof).unwrap_or_default();
    match is_signed(&key, KeyKind::User, &proven(site, &key), &proof) {
        true => Ok(key),
        false => Err("the key is not proven, expected a signature that was made with it".to_owned()),
    }
}

/// Offers a key to the centre, over a connection of the site.
///
/// # Errors
/// The centre does not answer, or refuses; in words.
pub async fn offer_key(fabric: &Fabric, site: &str, keys: &Keys, timeout: Duration) -> Result<(), FabricError> {
    let key = keys.public();
    let proof = URL_SAFE_NO_PAD.encode(keys.sign(&proven(site, &key)));
    let body = serde_json::to_vec(&KeyOffer { key, proof }).unwrap_or_default();
    let answer = fabric.call(&subject::join(site, KEY)?, body.into(), timeout).await?;
    let answer: KeyAnswer =
        serde_json::from_slice(&answer).map_err(|error| FabricError::Refused(format!("the answer: {error}")))?;
    answer.error.map_or(Ok(()), |error| Err(FabricError::Refused(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_is_offered_with_a_proof() {
        let [keys, other] = [KeyKind::User, KeyKind::User].map(Keys::generate);
        let offer = |key: &Keys, signer: &Keys, site: &str| {
            let proof = URL_SAFE_NO_PAD.encode(signer.sign(&proven(site, &key.public())));
            serde_json::to_vec(&KeyOffer { key: key.public(), proof }).unwrap()
        };
        assert_eq!(read_offer("north", &offer(&keys, &keys, "north")), Ok(keys.public()));
        assert!(read_offer("north", &offer(&keys, &other, "north")).is_err());
        assert!(read_offer("north", &offer(&keys, &keys, "south")).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_offer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read_offer("north", &bytes).is_err());
        }
    }
}
