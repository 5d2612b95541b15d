//! The quantiles of latencies, as rows have them.

use crate::rounds::{number, short};
use anyhow::Result;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Delays up to a minute are told apart, to three figures.
const NANOS_MAX: u64 = 60_000_000_000;
const FIGURES: u8 = 3;

/// Quantiles in µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Half are no longer.
    #[serde(rename = "latency_us_p50")]
    pub p50: u64,
    /// Nine of ten.
    #[serde(rename = "latency_us_p90")]
    pub p90: u64,
    /// 99 of 100.
    #[serde(rename = "latency_us_p99")]
    pub p99: u64,
}

impl Latency {
    /// Of latencies in µs.
    #[must_use]
    pub fn of(latencies: &Histogram<u64>) -> Self {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|quantile| latencies.value_at_quantile(quantile));
        Self { p50, p90, p99 }
    }
}

/// A histogram of delays in nanoseconds.
pub fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_max(NANOS_MAX, FIGURES)?)
}

/// A quantile in milliseconds.
pub fn quantile_ms(delays: &Histogram<u64>, quantile: f64) -> f64 {
    short(number(delays.value_at_quantile(quantile)) / 1e6)
}
