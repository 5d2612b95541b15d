//! The files of users and roles, looked at while the node runs: what they say holds a moment later.

use super::authenticator::{Access, OnChange, credential, lock};
use super::credential_store::CredentialStore;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Files that have just changed are looked at again after this time, until they rest: one that is being written is not read.
const REST: Duration = Duration::from_millis(50);
const RESTS_MAX: u32 = 20;

/// What a file was when it was looked at: its number, length, and when it was last written and changed.
type Stamp = (u64, u64, (i64, i64), (i64, i64));
pub(super) type Stamps = Vec<Option<Stamp>>;

/// Asks that the files are looked at now: it is dropped when what they said at that time holds.
pub(super) type LookNow = Sender<()>;

impl Access {
    /// Looks at the files until the door is no more.
    pub(super) fn watch(&self, asked: &Receiver<LookNow>, on_change: &OnChange, mut stamps: Stamps) {
        // Each that is asked for holds when all of them are dropped.
        let mut askers = Vec::new();
        while goes_on(asked, LOOK_EVERY, &mut askers) {
            let mut seen = self.stamps();
            if seen != stamps {
                for _ in 0..RESTS_MAX {
                    if !goes_on(asked, REST, &mut askers) {
                        return;
                    }
                    let before = std::mem::replace(&mut seen, self.stamps());
                    if before == seen {
                        break;
                    }
                }
                stamps = seen;
                self.reload(on_change);
            }
            askers.clear();
        }
    }

    /// What the files are now.
    pub(super) fn stamps(&self) -> Stamps {
        let stamp = |path: &Path| {
            let of = std::fs::metadata(path).ok()?;
            Some((of.ino(), of.len(), (of.mtime(), of.mtime_nsec()), (of.ctime(), of.ctime_nsec())))
        };
        self.config.files().map(stamp).collect()
    }

    fn reload(&self, on_change: &OnChange) {
        match CredentialStore::load(&self.config) {
            Ok(store) => {
                tracing::info!(users = store.policy.users().count(), "users and roles read again");
                let policy = Arc::clone(&store.policy);
                self.take(store);
                *lock(&self.trouble) = None;
                self.reloads.fetch_add(1, Ordering::Relaxed);
                on_change(policy);
            }
            Err(error) => {
                let why = error.to_string().replace('\n', "; ");
                tracing::warn!(why, "users and roles stay as they were: the files cannot be used");
                *lock(&self.trouble) = Some(why);
            }
        }
    }

    /// Users and roles of the files hold from here on. Passwords that were found good stay so for users who have the same.
    fn take(&self, store: CredentialStore) {
        let mut known = lock(&self.known);
        known.retain(|user, found| credential(&store, user) == Some(found.credential));
        lock(&self.last_logins).retain(|user, _| store.policy.user(user).is_some());
        *lock(&self.store) = Arc::new(store);
    }
}

/// Whether the watch goes on after a wait, which ends early where somebody asks.
fn goes_on(asked: &Receiver<LookNow>, wait: Duration, askers: &mut Vec<LookNow>) -> bool {
    match asked.recv_timeout(wait) {
        Ok(asker) => {
            askers.push(asker);
            true
        }
        Err(RecvTimeoutError::Timeout) => true,
        Err(RecvTimeoutError::Disconnected) => false,
    }
}
