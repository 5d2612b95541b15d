//! Counters of the devices' sessions, for `/metrics`: the shards are asked at each request.

use super::App;
use super::problem::Problem;
use crate::config::ProtocolName;
use crate::field::{Counted, FieldInput, MetricKind};
use std::collections::HashSet;
use std::time::Duration;
use tieline_service::exposition::Exposition;
use tokio::sync::oneshot;

/// How long a shard may take; one that is so busy is left out.
const PATIENCE: Duration = Duration::from_secs(1);

/// Adds what all shards have counted, of protocols that have devices.
pub(super) async fn metrics(e: &mut Exposition, app: &App) -> Result<Counted, Problem> {
    let shards = app.bus.field().await?;
    let mut answers = Vec::new();
    for shard in shards {
        let (answer, answered) = oneshot::channel();
        if shard.try_send(FieldInput::Count(answer)).is_ok() {
            answers.push(answered);
        }
    }
    let mut sum = Counted::default();
    for answered in answers {
        if let Ok(Ok(counted)) = tokio::time::timeout(PATIENCE, answered).await {
            sum.add(&counted);
        }
    }
    let devices = app.known.all();
    let used: HashSet<ProtocolName> = devices.iter().map(|device| device.config.protocol.name()).collect();
    write(e, &sum, |protocol| used.contains(&protocol));
    Ok(sum)
}

fn write(e: &mut Exposition, sum: &Counted, is_used: impl Fn(ProtocolName) -> bool) {
    for (protocol, metric) in sum.each().filter(|(protocol, _)| is_used(*protocol)) {
        let (kind, unit) = match metric.kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
        };
        let name = format!("tieline_{}_{}{unit}", protocol.word(), metric.name);
        e.family(&name, metric.meaning, kind);
        for (word, count) in &metric.values {
            let label = metric.label.map(|label| (label, *word));
            e.sample(&name, label.as_slice(), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_in_the_documents() {
        let mut e = Exposition::default();
        write(&mut e, &Counted::default(), |_| true);
        let text = e.into_text();
        let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert_eq!(names.len(), 101);
        let documents = include_str!("../../../../../docs/metrics.md");
        for name in names {
            assert!(documents.contains(&format!("`{name}")), "{name} is not in docs/metrics.md");
        }
    }

    #[test]
    fn metrics_are_named_by_their_protocol() {
        let mut e = Exposition::default();
        write(&mut e, &Counted::default(), |_| true);
        let text = e.into_text();
        for line in [
            "# HELP tieline_dnp3_frames_total Intact link frames of devices.",
            "# TYPE tieline_dnp3_frames_total counter",
            "tieline_dnp3_frames_total 0",
            "# TYPE tieline_dnp3_freezes_total counter",
            "tieline_dnp3_freezes_total{end=\"missed\"} 0",
            "# TYPE tieline_dnp3_lanes gauge",
            "tieline_dnp3_lanes{state=\"up\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
    }
}
