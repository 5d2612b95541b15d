//! When a recorded value is due in a replay.

use std::time::Duration;
use tieline_core::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A replay that is late by more than this goes on from where it is: values never come in a burst.
const LATE_MAX: Duration = Duration::from_secs(1);

/// How fast history is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as it was.
    Times(f64),
    /// As fast as values are taken.
    Max,
}

impl Speed {
    /// Reads a number above 0, or `max`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times = text.parse::<f64>().ok().filter(|times| (0.001..=1_000_000.0).contains(times));
        times.map(Self::Times).ok_or_else(|| "expected a number from 0.001 to 1000000, or max".to_owned())
    }
}

/// The clock of a replay.
#[derive(Debug)]
pub struct Pace {
    speed: Speed,
    /// At which instant which time of history is played.
    began: (Instant, Timestamp),
    /// How long values came late in all, because the node took them slowly or the process was stopped.
    late: Duration,
}

impl Pace {
    /// A clock that begins at this time of history.
    pub fn new(speed: Speed, from: Timestamp) -> Self {
        Self { speed, began: (Instant::now(), from), late: Duration::ZERO }
    }

    /// How long values came late in all.
    pub const fn late(&self) -> Duration {
        self.late
    }

    /// Waits until a time of history has come, and for as long as the replay is paused.
    pub async fn wait(&mut self, time: Timestamp, paused: &mut watch::Receiver<bool>) {
        loop {
            let since = Instant::now();
            if *paused.borrow_and_update() {
                if paused.wait_for(|is_paused| !is_paused).await.is_err() {
                    return;
                }
                self.began.0 += since.elapsed();
                continue;
            }
            let Speed::Times(times) = self.speed else { return };
            let passed =
                Duration::from_micros(time.micros().saturating_sub(self.began.1.micros()).max(0).cast_unsigned());
            let due = self.began.0 + passed.div_f64(times);
            let late = since.saturating_duration_since(due);
            if late > LATE_MAX {
                self.began.0 += late;
                self.late += late;
            }
            tokio::select! {
                () = sleep_until(due) => return,
                changed = paused.changed() => if changed.is_err() { return },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout_at;

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn speeds_are_read() {
        for (text, expect) in [("1", 1.0), ("10", 10.0), ("0.5", 0.5), ("1e3", 1000.0)] {
            assert_eq!(Speed::parse(text), Ok(Speed::Times(expect)));
        }
        assert_eq!(Speed::parse("max"), Ok(Speed::Max));
        for text in ["", "0", "-1", "nan", "inf", "fast", "1e9"] {
            assert!(Speed::parse(text).is_err(), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn values_come_when_they_are_due() {
        let (_keep, mut paused) = watch::channel(false);
        let began = Instant::now();
        let mut pace = Pace::new(Speed::Times(10.0), at(100));
        for (time, due) in [(100, 0), (90, 0), (110, 1000), (111, 1100), (111, 1100), (3700, 360_000)] {
            pace.wait(at(time), &mut paused).await;
            assert_eq!(began.elapsed().as_millis(), due, "{time}");
        }
        let mut pace = Pace::new(Speed::Max, at(0));
        pace.wait(at(9999), &mut paused).await;
        assert_eq!(began.elapsed().as_millis(), 360_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_moves_all_that_follows() {
        let (pause, mut paused) = watch::channel(false);
        let began = Instant::now();
        let mut pace = Pace::new(Speed::Times(1.0), at(0));
        let operator = async {
            for (at_s, is_paused) in [(5, true), (65, false)] {
                let _ = timeout_at(began + Duration::from_secs(at_s), std::future::pending::<()>()).await;
                pause.send_replace(is_paused);
            }
        };
        let values = async {
            let mut found = Vec::new();
            for time in [4, 10, 11] {
                pace.wait(at(time), &mut paused).await;
                found.push(began.elapsed().as_secs());
            }
            found
        };
        let (found, ()) = tokio::join!(values, operator);
        assert_eq!((found, pace.late()), (vec![4, 70, 71], Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_late_does_not_come_in_a_burst() {
        let (_keep, mut paused) = watch::channel(false);
        let began = Instant::now();
        let mut pace = Pace::new(Speed::Times(1.0), at(0));
        pace.wait(at(1), &mut paused).await;
        tokio::time::advance(Duration::from_secs(30)).await;
        let mut found = Vec::new();
        for time in [2, 3, 4] {
            pace.wait(at(time), &mut paused).await;
            found.push(began.elapsed().as_secs());
        }
        assert_eq!((found, pace.late().as_secs()), (vec![31, 32, 33], 29));
    }
}
