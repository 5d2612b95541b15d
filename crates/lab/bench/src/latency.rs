//! The quantiles of latencies, as rows have them.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

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
