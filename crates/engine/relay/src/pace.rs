//! How many bytes may be on their way, by how long they take: a link's queue stays short, so that what is urgent does not wait behind
//! what is not.

use core::time::Duration;
use tieline_core::Instant;

/// The window: it grows until answers come later than a short queue explains, and shrinks then.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    limits: PaceLimits,
    window: usize,
    in_flight: usize,
    /// Doubles until the first sign of a queue.
    is_starting: bool,
    smoothed: Option<Duration>,
    shortest: Shortest,
    /// One queue is one reason to shrink.
    shrunk_at: Instant,
}

/// Limits of what a site has on its way.
#[derive(Clone, Copy, Debug)]
pub struct PaceLimits {
    /// Bytes on their way, at most.
    pub window_bytes_max: usize,
    /// The same on the slowest link.
    pub window_bytes_min: usize,
    /// The shortest batch that a slow link leads to.
    pub batch_bytes_min: usize,
    /// The longest batch.
    pub batch_bytes_max: usize,
    /// The queue that is allowed before the link: other streams wait that long, and a batch takes a part of it.
    pub queue_max: Duration,
}

impl Default for PaceLimits {
    fn default() -> Self {
        Self {
            window_bytes_max: 4 << 20,
            window_bytes_min: 2 << 10,
            batch_bytes_min: 1 << 10,
            batch_bytes_max: 512 << 10,
            queue_max: Duration::from_millis(150),
        }
    }
}

/// Bytes on their way at first.
const WINDOW_START: usize = 4 << 10;
/// Batches that fill the window.
const BATCHES_OF_WINDOW: usize = 4;

impl Pace {
    pub(crate) fn new(limits: PaceLimits) -> Self {
        Self {
            window: WINDOW_START.clamp(limits.window_bytes_min, limits.window_bytes_max),
            limits,
            in_flight: 0,
            is_starting: true,
            smoothed: None,
            shortest: Shortest::default(),
            shrunk_at: Instant::ZERO,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.in_flight < self.window
    }

    /// The bytes of the next batch: a part of the window, and of the queue, too. What takes the link for longer looks like a queue.
    pub(crate) fn batch_bytes(&self) -> usize {
        let of_window = self.window / BATCHES_OF_WINDOW;
        let of_queue = self.smoothed.map_or(of_window, |link| {
            let [queue, link] =
                [self.limits.queue_max, link].map(|time| usize::try_from(time.as_micros()).unwrap_or(usize::MAX));
            of_window.saturating_mul(queue) / link.max(1)
        });
        of_window.min(of_queue).clamp(self.limits.batch_bytes_min, self.limits.batch_bytes_max)
    }

    pub(crate) fn window(&self) -> usize {
        self.window
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    pub(crate) fn handle_sent(&mut self, bytes: usize) {
        self.in_flight += bytes;
    }

    /// Bytes whose fate is known, or that are no longer waited for.
    pub(crate) fn handle_gone(&mut self, bytes: usize) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// An answer, and how long the link took, both ways, for a batch of so many bytes.
    pub(crate) fn handle_answer(&mut self, now: Instant, bytes: usize, link: Duration) {
        let was_full = self.in_flight + self.batch_bytes() >= self.window;
        self.handle_gone(bytes);
        self.smoothed = Some(self.smoothed.map_or(link, |before| (before * 7 + link) / 8));
        self.shortest.note(now, link);
        let queue = link.saturating_sub(self.shortest.get());
        // What was sent since then is on its way still: more of a queue comes.
        self.is_starting &= queue <= self.limits.queue_max / 2;
        if queue > self.limits.queue_max {
            self.shrink(now, link, 7);
        } else if was_full && queue <= self.limits.queue_max / 2 {
            let step = if self.is_starting { bytes } else { bytes / BATCHES_OF_WINDOW };
            self.window = (self.window + step).min(self.limits.window_bytes_max);
        }
    }

    /// Nothing was heard for too long.
    pub(crate) fn handle_silence(&mut self, now: Instant) {
        self.shrink(now, self.smoothed.unwrap_or_default(), 5);
    }

    fn shrink(&mut self, now: Instant, link: Duration, tenths: usize) {
        self.is_starting = false;
        if now < self.shrunk_at + link {
            return;
        }
        self.shrunk_at = now;
        self.window = (self.window / 10 * tenths).max(self.limits.window_bytes_min);
    }
}

/// The shortest time of the last minute, in two halves, so that a new way is learned.
#[derive(Clone, Copy, Debug, Default)]
struct Shortest {
    since: Instant,
    before: Option<Duration>,
    current: Option<Duration>,
}

impl Shortest {
    const HALF: Duration = Duration::from_secs(30);

    fn note(&mut self, now: Instant, link: Duration) {
        if now.since(self.since) > Self::HALF {
            *self = Self { since: now, before: self.current, current: None };
        }
        self.current = Some(self.current.map_or(link, |current| current.min(link)));
    }

    fn get(self) -> Duration {
        self.before.into_iter().chain(self.current).min().unwrap_or_default()
    }
}
