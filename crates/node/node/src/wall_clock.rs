//! Whether the wall clock can be believed: what is removed or ended by its age goes by it, and a clock that is far wrong
//! would take all of it.
//!
//! The node writes down what the clock said, and knows how much time has passed since by the clock that only counts. A wall
//! clock that is far from both is in doubt: nothing is removed or expired by it until it is back, or until somebody who has
//! another clock confirms it.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tieline_core::{Now, Timestamp};
use tieline_net::Clock;
use tracing::{info, warn};

/// The file below a node's data folder: a time in RFC 3339.
const FILE: &str = "clock";
/// How far ahead of what is known a clock may be: a node may have been off for so long.
const AHEAD_MAX: Duration = Duration::from_hours(24);
/// How far back it may be.
const BACK_MAX: Duration = Duration::from_hours(1);
/// How far it may be from the clock that confirms it.
const CONFIRM_MAX: Duration = Duration::from_mins(10);
/// How often a look says whether it is to be written down.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks between two writes, where nobody has confirmed the clock: a minute.
const LOOKS_A_SAVE: u32 = 60;

/// A wall clock that is far from what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// What it says.
    pub says: Timestamp,
    /// What it should say at least, or where it is behind, about.
    pub expected: Timestamp,
}

impl Doubt {
    /// How far it is off in seconds; below 0 where it is behind.
    #[must_use]
    pub const fn off_s(&self) -> i64 {
        (self.says.micros() - self.expected.micros()) / 1_000_000
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { says, expected } = self;
        let way = if self.off_s() < 0 { "behind" } else { "ahead of" };
        let off_s = self.off_s().unsigned_abs();
        let (count, unit) = if off_s >= 2 * 86_400 { (off_s / 86_400, "days") } else { (off_s / 3600, "hours") };
        write!(
            f,
            "it says {says}, {count} {unit} {way} {expected}, which is known: nothing is removed or expired by it until it is \
             set right, or until tieline clock confirm (POST /v1/clock) confirms it"
        )
    }
}

/// The clock of a node, as far as it is believed; cheap to clone.
#[derive(Clone, Debug)]
pub struct WallClock {
    clock: Clock,
    known: Arc<Mutex<Known>>,
}

/// What is known of the clock.
#[derive(Debug)]
struct Known {
    /// When it was believed last.
    at: Now,
    in_doubt: bool,
    /// How often it was confirmed.
    confirmed: u64,
}

impl Known {
    fn look(&mut self, now: Now) -> Option<Doubt> {
        let expected = self.at.utc.later(now.mono.since(self.at.mono));
        let doubt = Doubt { says: now.utc, expected };
        let is_right = expected <= now.utc.later(BACK_MAX) && now.utc <= expected.later(AHEAD_MAX);
        if is_right {
            self.at = now;
        }
        if self.in_doubt == is_right {
            self.in_doubt = !is_right;
            if is_right {
                info!("the clock is believed again");
            } else {
                warn!("the clock cannot be believed: {doubt}");
            }
        }
        (!is_right).then_some(doubt)
    }
}

impl WallClock {
    /// One that goes by what was known when the node last ran; with nothing known, it is believed.
    #[must_use]
    pub fn new(clock: Clock, known: Option<Timestamp>) -> Self {
        let now = clock.now();
        let at = Now { utc: known.unwrap_or(now.utc), ..now };
        let known = Self { clock, known: Arc::new(Mutex::new(Known { at, in_doubt: false, confirmed: 0 })) };
        // It is said at once where it is in doubt.
        let _ = known.doubt();
        known
    }

    /// Why the clock is not believed; none where it is.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        self.lock().look(self.clock.now())
    }

    /// What it says, believed or not.
    #[must_use]
    pub fn says(&self) -> Timestamp {
        self.clock.now().utc
    }

    /// Believes the clock from here on. Why it was not until now; none where it was.
    ///
    /// # Errors
    /// It is not what the other clock says; what it says.
    pub fn confirm(&self, other: Timestamp) -> Result<Option<Doubt>, Timestamp> {
        let now = self.clock.now();
        if other > now.utc.later(CONFIRM_MAX) || now.utc > other.later(CONFIRM_MAX) {
            return Err(now.utc);
        }
        let mut known = self.lock();
        let doubt = known.look(now);
        known.at = now;
        known.look(now);
        known.confirmed += 1;
        Ok(doubt)
    }

    /// What it said when it was believed last.
    fn believed(&self) -> Timestamp {
        let mut known = self.lock();
        known.look(self.clock.now());
        known.at.utc
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was written down when the node last ran.
#[must_use]
pub fn last_known(folder: &Path) -> Option<Timestamp> {
    std::fs::read_to_string(folder.join(FILE)).ok()?.trim().parse().ok()
}

/// Writes the clock down now and then. Dropping it ends that.
#[derive(Debug)]
pub struct ClockOwner {
    stop: Option<SyncSender<()>>,
    /// Says by its end that the thread has ended.
    ended: Receiver<()>,
}

impl ClockOwner {
    /// Keeps the clock in the folder: each minute, and when it was confirmed.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(folder: &Path, clock: WallClock) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        let (ends, ended) = sync_channel(0);
        let path = folder.join(FILE);
        std::thread::Builder::new().name("clock".to_owned()).spawn(move || {
            let _ends: SyncSender<()> = ends;
            keep(&path, &clock, &stopped);
        })?;
        Ok(Self { stop: Some(stop), ended })
    }
}

impl Drop for ClockOwner {
    fn drop(&mut self) {
        self.stop = None;
        // A disk that hangs does not keep the node from stopping.
        let _ = self.ended.recv_timeout(LOOK_EVERY);
    }
}

fn keep(path: &Path, clock: &WallClock, stopped: &Receiver<()>) {
    let (mut written, mut confirmed, mut looks) = (None, 0, 0);
    loop {
        let stops = stopped.recv_timeout(if written.is_none() { Duration::ZERO } else { LOOK_EVERY });
        let stops = stops != Err(RecvTimeoutError::Timeout);
        let was_confirmed = std::mem::replace(&mut confirmed, clock.lock().confirmed) != confirmed;
        looks += 1;
        if written.is_none() || was_confirmed || stops || looks >= LOOKS_A_SAVE {
            let believed = clock.believed();
            if written != Some(believed)
                && let Err(error) = write(path, believed)
            {
                tracing::debug!(%error, path = %path.display(), "the clock cannot be written down");
            }
            (written, looks) = (Some(believed), 0);
        }
        if stops {
            return;
        }
    }
}

fn write(path: &Path, at: Timestamp) -> io::Result<()> {
    let fresh: PathBuf = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    writeln!(file, "{at}")?;
    file.sync_data()?;
    std::fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn at(hours: i64) -> Now {
        let (start, hour_us) = (1_800_000_000_000_000, 3_600_000_000);
        Now { utc: Timestamp::from_micros(start + hours * hour_us), ..Now::default() }
    }

    /// A start so many hours from what is known, and how many hours it is off.
    fn check_start(hours: i64, off: Option<i64>) {
        let mut known = Known { at: at(0), in_doubt: false, confirmed: 0 };
        let found = known.look(at(hours)).map(|doubt| doubt.off_s() / 3600);
        assert_eq!(found, off, "{hours}");
        // It goes on as it began, for as long as nobody does anything.
        let later = at(hours).later(1000 * HOUR);
        assert_eq!(known.look(later).is_some(), off.is_some());
    }

    #[test]
    fn a_start_far_ahead_or_back_is_doubted() {
        check_start(0, None);
        check_start(24, None);
        check_start(25, Some(25));
        check_start(2400, Some(2400));
        check_start(-1, None);
        check_start(-2, Some(-2));
        check_start(-400_000, Some(-400_000));
    }

    #[test]
    fn a_jump_is_doubted_until_it_is_taken_back_or_confirmed() {
        let mut known = Known { at: at(0), in_doubt: false, confirmed: 0 };
        let jumped = |by: i64, passed: u32| Now { mono: (Now::default().later(HOUR * passed)).mono, ..at(by) };
        assert_eq!(known.look(jumped(1, 1)), None);
        assert!(known.look(jumped(102, 2)).is_some());
        assert!(known.look(jumped(103, 3)).is_some());
        assert_eq!(known.look(jumped(4, 4)), None, "it was set right");
        assert!(known.look(jumped(-10, 5)).is_some());
        let words = known.look(jumped(105, 5)).unwrap().to_string();
        assert!(words.contains("4 days ahead of") && words.contains("nothing is removed"), "{words}");
    }

    #[test]
    fn who_confirms_has_another_clock() {
        let clock = Clock::start();
        let now = clock.now().utc;
        let ago = |hours: i64| Timestamp::from_micros(now.micros() - hours * 3_600_000_000);
        let wall = WallClock::new(clock, Some(ago(2400)));
        assert_eq!(wall.doubt().map(|doubt| (doubt.off_s() + 60) / 3600), Some(2400));
        assert!(wall.confirm(ago(2400)).is_err() && wall.doubt().is_some());
        let doubt = wall.confirm(now).unwrap().unwrap();
        assert!(doubt.off_s() > 2399 * 3600, "{doubt}");
        assert_eq!((wall.doubt(), wall.confirm(now)), (None, Ok(None)));
        assert_eq!(WallClock::new(clock, None).doubt(), None);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_known(folder.path()), None);
        write(&folder.path().join(FILE), ago(5)).unwrap();
        assert_eq!(last_known(folder.path()), Some(ago(5)));
    }
}
