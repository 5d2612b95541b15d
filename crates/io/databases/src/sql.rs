//! What databases with tables share: values as columns, days, calls that end in time.

use crate::DatabaseError;
use std::borrow::Cow;
use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tieline_core::{Quality, Timestamp, Validity, Value};
use tokio::runtime::{Builder, Runtime};

/// Numbers of topics in memory; above it all are asked again.
pub(crate) const TOPICS_MAX: usize = 1 << 20;
/// The longest time to connect to one host.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Whole numbers up to here are doubles exactly.
const EXACT_MAX: u64 = 1 << 53;
const DAY_MICROS: i64 = 86_400_000_000;

/// A value as a number. Integers beyond 2^53 are near it; the text has them whole.
#[expect(clippy::cast_precision_loss, reason = "the text has what is lost")]
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::Int(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        Value::Null | Value::Text(_) | Value::Bytes(_) => None,
    }
}

/// What a column of text or bytes has.
pub(crate) type Column<'a> = Cow<'a, [u8]>;

/// A value as a text or bytes. PostgreSQL has no text with a zero in it: that is bytes.
pub(crate) fn words(value: &Value) -> (Option<Column<'_>>, Option<Column<'_>>) {
    match value {
        Value::Text(text) if text.contains('\0') => (None, Some(text.as_bytes().into())),
        Value::Text(text) => (Some(text.as_bytes().into()), None),
        Value::Bytes(bytes) => (None, Some(bytes.as_ref().into())),
        Value::Int(n) if n.unsigned_abs() > EXACT_MAX => (Some(n.to_string().into_bytes().into()), None),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => (None, None),
    }
}

/// The bits of the reasons of a validity.
pub(crate) fn reasons(validity: Validity) -> u16 {
    let each = (0..13).map(|bit| 1 << bit);
    each.filter(|bit| Quality::from_bits(*bit).validity() == validity).fold(0, |all, bit| all | bit)
}

/// The day of a moment, in days since 1970.
pub(crate) const fn day_of(time: Timestamp) -> i64 {
    time.micros().div_euclid(DAY_MICROS)
}

/// The first moment of a day.
pub(crate) const fn midnight(day: i64) -> Timestamp {
    Timestamp::from_micros(day * DAY_MICROS)
}

/// The day of the machine's clock.
pub(crate) fn today() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    day_of(Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)))
}

/// What a connection is called in the database's lists.
pub(crate) fn name_of(journal: &str) -> String {
    format!("tieline {journal}")
}

/// An error and its causes.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|cause: &dyn std::error::Error| (cause as &dyn Display).to_string()).collect::<Vec<_>>().join(": ")
}

/// Takes the runtime, or makes one.
pub(crate) fn runtime_of(kept: &mut Option<Runtime>) -> Result<Runtime, DatabaseError> {
    let system = |error: std::io::Error| DatabaseError::Refused(format!("the system gives no runtime: {error}"));
    kept.take().map_or_else(|| Builder::new_current_thread().enable_all().build().map_err(system), Ok)
}

/// Runs a call for the longest time that it may take.
pub(crate) fn run<T>(
    runtime: &Runtime,
    limit: Duration,
    call: impl Future<Output = Result<T, DatabaseError>>,
) -> Result<T, DatabaseError> {
    let late = || DatabaseError::Away(format!("no answer within {} s", limit.as_secs_f32()));
    runtime.block_on(async { tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(late())) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_validity_of_the_words() {
        assert_eq!(reasons(Validity::Bad) & Quality::AWAY.bits(), Quality::AWAY.bits());
        assert_eq!(reasons(Validity::Uncertain) & Quality::STALE.bits(), Quality::STALE.bits());
        assert_eq!((reasons(Validity::Bad) | reasons(Validity::Uncertain)) & Quality::TIME_UNSYNCED.bits(), 0);
    }

    #[test]
    fn days_begin_at_midnight() {
        assert_eq!(day_of(Timestamp::from_micros(-1)), -1);
        assert_eq!((day_of(midnight(20_000)), midnight(1).micros()), (20_000, DAY_MICROS));
    }
}
