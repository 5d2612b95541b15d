//! The list of sites.

use super::*;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tieline_fabric::{KeyKind, Keys};
use tieline_history::{ReplicaKind, Replicate};

const VALID: Duration = Duration::from_secs(60);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + seconds * 1000)
}

fn key() -> String {
    Keys::generate(KeyKind::User).public()
}

fn list(folder: &TempDir) -> SiteList {
    SiteList::open(&folder.path().join("fabric/sites.json"), 3, &["centre"]).unwrap()
}

fn states(list: &SiteList) -> String {
    let states: Vec<_> = list.sites().map(|(name, site)| format!("{name} {}", site.state().name())).collect();
    states.join(", ")
}

#[test]
fn a_token_brings_in_one_key() {
    let folder = TempDir::new().unwrap();
    let mut list = list(&folder);
    let [one, other] = [key(), key()];
    list.add(at(0), "north", None).unwrap();
    let token = list.token(at(0), "north", VALID).unwrap();
    assert!(token.text.starts_with("tljoin_") && token.text.len() == 39, "{}", token.text);
    assert!(!format!("{token:?}").contains(&token.text));
    assert!(matches!(list.join(at(1), "tljoin_x", &one, None), Err(JoinError::Token)));
    assert!(matches!(list.join(at(1), &token.text, "U", None), Err(JoinError::Key(_))));
    assert!(matches!(list.join(at(1), &token.text, &one, Some("south")), Err(JoinError::OtherSite(_))));
    assert_eq!(states(&list), "north invited");

    let joined = list.join(at(1), &token.text, &one, Some("north")).unwrap();
    assert_eq!(joined, Joined { site: "north".into(), is_new: true });
    assert_eq!(states(&list), "north active");
    // Asked again, even late; and by another.
    let again = list.join(at(1000), &token.text, &one, None).unwrap();
    assert_eq!(again, Joined { site: "north".into(), is_new: false });
    assert!(matches!(list.join(at(2), &token.text, &other, None), Err(JoinError::Used)));
    assert_eq!(list.admit(at(3), &one).unwrap(), ("north".into(), false));
    assert!(list.admit(at(3), &other).is_err());

    // Another token replaces the key.
    let next = list.token(at(4), "north", VALID).unwrap();
    assert!(matches!(list.join(at(5), &token.text, &one, None), Err(JoinError::Token)));
    list.join(at(5), &next.text, &other, None).unwrap();
    assert!(!list.may_stay(&one) && list.may_stay(&other));
}

#[test]
fn tokens_and_rights_end() {
    let folder = TempDir::new().unwrap();
    let mut list = list(&folder);
    let one = key();
    list.add(at(0), "north", None).unwrap();
    let token = list.token(at(0), "north", VALID).unwrap();
    let late = list.join(at(60), &token.text, &one, None).unwrap_err().to_string();
    assert_eq!(late, format!("the token expired at {}: expected a new token", at(60)));
    list.join(at(59), &token.text, &one, None).unwrap();
    let mut changes = list.changes();
    changes.mark_unchanged();
    list.revoke("north").unwrap();
    assert!(changes.has_changed().unwrap() && !list.may_stay(&one));
    assert!(list.admit(at(61), &one).is_err());
    assert!(matches!(list.join(at(61), &token.text, &one, None), Err(JoinError::Token)));
    assert!(matches!(list.token(at(61), "north", VALID), Err(JoinError::Revoked(_))));
    assert!(matches!(list.revoke("south"), Err(JoinError::Unknown(_))));
    // It is taken up again, by its name.
    list.add(at(62), "north", Some(&one)).unwrap();
    assert_eq!((states(&list).as_str(), list.may_stay(&one)), ("north active", true));
}

#[test]
fn a_key_is_replaced_once_the_next_one_connects() {
    let folder = TempDir::new().unwrap();
    let mut list = list(&folder);
    let [one, next, third] = [key(), key(), key()];
    list.add(at(0), "north", Some(&one)).unwrap();
    list.add(at(0), "south", Some(&third)).unwrap();
    list.offer_key("north", &next).unwrap();
    list.offer_key("north", &next).unwrap();
    assert!(matches!(list.offer_key("north", &third), Err(JoinError::KeyTaken)));
    assert!(list.may_stay(&one) && list.may_stay(&next));
    assert_eq!(list.admit(at(1), &one).unwrap(), ("north".into(), false));
    assert_eq!(list.admit(at(2), &next).unwrap(), ("north".into(), true));
    assert_eq!(list.admit(at(3), &next).unwrap(), ("north".into(), false));
    assert!(list.admit(at(4), &one).is_err());
}

#[test]
fn names_and_numbers_are_limited() {
    let folder = TempDir::new().unwrap();
    let mut list = list(&folder);
    let long = "x".repeat(129);
    for name in ["", "a/b", "a+", "#", "$SYS", "centre", "a\n", &long] {
        assert!(matches!(list.add(at(0), name, None), Err(JoinError::Name(_))), "{name}");
    }
    for name in ["a", "b c", "é"] {
        list.add(at(0), name, None).unwrap();
    }
    assert!(matches!(list.add(at(0), "a", None), Err(JoinError::Exists(_))));
    assert!(matches!(list.add(at(0), "d", None), Err(JoinError::Full(3))));
}

#[test]
fn the_file_is_the_list_and_its_owner_alone_reads_it() {
    let folder = TempDir::new().unwrap();
    let mut first = list(&folder);
    let one = key();
    first.add(at(0), "north", Some(&one)).unwrap();
    first.add(at(0), "south", None).unwrap();
    let token = first.token(at(0), "south", VALID).unwrap();
    first.admit(at(5), &one).unwrap();
    first.save().unwrap();
    let path = folder.path().join("fabric/sites.json");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(&token.text) && text.contains(&one), "{text}");

    let mut again = list(&folder);
    assert_eq!(again.sites().collect::<Vec<_>>(), first.sites().collect::<Vec<_>>());
    assert!(again.sites().any(|(_, site)| site.last_seen == Some(at(5).to_string())));
    again.join(at(6), &token.text, &key(), None).unwrap();

    std::fs::write(&path, "{}").unwrap();
    let broken = SiteList::open(&path, 3, &[]).unwrap_err().to_string();
    assert!(broken.contains("sites.json") && broken.contains("version"), "{broken}");
    // A change that cannot be written is none.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir_all(folder.path().join("fabric/sites.json.new")).unwrap();
    assert!(matches!(again.revoke("north"), Err(JoinError::File(..))) && again.may_stay(&one));
}

proptest! {
    // Each step waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is done, a key belongs to one site, and a token brings in one key.
    #[test]
    fn no_two_sites_have_one_key(steps in prop::collection::vec((0..5_u8, 0..3_usize, 0..4_usize), 1..30)) {
        let folder = TempDir::new().unwrap();
        let mut list = list(&folder);
        let keys: Vec<_> = (0..4).map(|_| key()).collect();
        let (names, mut tokens, mut used) = (["a", "b", "c"], vec![], BTreeMap::new());
        for (time, (step, name, place)) in (0..).zip(steps) {
            let (now, name, key) = (at(time), names[name], &keys[place]);
            match step {
                0 => drop(list.add(now, name, (place > 0).then_some(key.as_str()))),
                1 => if let Ok(token) = list.token(now, name, VALID) { tokens.push(token.text) },
                2 => if let Some(token) = tokens.get(place)
                    && list.join(now, token, key, None).is_ok() {
                    prop_assert_eq!(used.entry(token.clone()).or_insert_with(|| key.clone()), key);
                },
                3 => drop(list.offer_key(name, key)),
                _ => drop(list.revoke(name)),
            }
            for key in &keys {
                let owners = list.sites().filter(|(_, site)| site.has(key)).count();
                prop_assert!(owners <= 1);
                prop_assert_eq!(list.clone_for_test().admit(now, key).is_ok(), owners == 1);
            }
        }
    }
}

impl SiteList {
    fn clone_for_test(&self) -> Self {
        let (path, sites, reserved) = (self.path.with_extension("copy"), self.sites.clone(), self.reserved.clone());
        let changes = watch::Sender::new(0);
        let replication = self.replication.clone();
        Self { path, sites, sites_max: self.sites_max, reserved, is_dirty: false, changes, replication }
    }
}

/// A log that takes what it is given, until it is told not to.
#[derive(Default)]
struct Log(Mutex<Logged>);

#[derive(Default)]
struct Logged {
    is_closed: bool,
    /// Each with whether it takes the place of those before it.
    records: Vec<(bool, Vec<u8>)>,
}

impl Replicate for Log {
    fn replicate(&self, kind: ReplicaKind, record: &[u8]) -> Result<u64, String> {
        let mut log = self.0.lock().unwrap();
        let ReplicaKind::File { file: ReplicaFile::Sites, replaces } = kind else { panic!("{kind:?}") };
        if log.is_closed {
            return Err("this node does not lead any longer".to_owned());
        }
        log.records.push((replaces, record.to_vec()));
        Ok(log.records.len() as u64)
    }
}

#[test]
fn a_standby_has_the_list_of_its_leader() {
    let [folder, other] = [(), ()].map(|()| TempDir::new().unwrap());
    let log = Arc::new(Log::default());
    let of_standby = other.path().join("fabric/sites.json");
    let follow = |from: usize| {
        for (replaces, record) in log.0.lock().unwrap().records.iter().skip(from) {
            SiteList::take_replicated(&of_standby, record, *replaces).unwrap();
        }
        std::fs::read_to_string(&of_standby).unwrap()
    };
    let read = || std::fs::read_to_string(folder.path().join("fabric/sites.json")).unwrap();
    // What the leader had before it led, and each change, also where they are taken twice.
    list(&folder).add(at(0), "old", None).unwrap();
    let replication = || Replication { log: Some(Arc::<Log>::clone(&log)), place: 0 };
    let mut led = list(&folder).replicated(replication());
    led.add(at(0), "north", Some(&key())).unwrap();
    led.add(at(0), "south", None).unwrap();
    led.token(at(0), "south", VALID).unwrap();
    led.revoke("north").unwrap();
    for from in [0, 2, 0] {
        assert_eq!(follow(from), read());
    }
    // What the log does not take is not done.
    log.0.lock().unwrap().is_closed = true;
    assert!(matches!(led.revoke("south"), Err(JoinError::Deposed(_))));
    assert_eq!(states(&led), "north revoked, old invited, south invited");
    // The next leader's list takes the place of what this one did not acknowledge.
    log.0.lock().unwrap().is_closed = false;
    list(&folder).add(at(0), "late", None).unwrap_err();
    SiteList::take_replicated(&of_standby, &log.0.lock().unwrap().records[1].1, true).unwrap();
    assert_eq!(states(&list(&other)), "north active");
    assert!(SiteList::take_replicated(&of_standby, b"{}", false).is_err());
}
