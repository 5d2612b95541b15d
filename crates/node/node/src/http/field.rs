//! Counters of the devices' sessions, for `/metrics`: the shards are asked at each request.

use super::App;
use super::problem::Problem;
use crate::field::{Counted, FieldInput};
use std::time::Duration;
use tieline_service::exposition::Exposition;
use tokio::sync::oneshot;

/// How long a shard may take; one that is so busy is left out.
const PATIENCE: Duration = Duration::from_secs(1);

/// Adds what all shards have counted.
pub(super) async fn metrics(e: &mut Exposition, app: &App) -> Result<(), Problem> {
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
    write(e, &sum);
    Ok(())
}

fn write(e: &mut Exposition, sum: &Counted) {
    for (name, meaning, count) in sum.dnp3.each() {
        e.counter(&format!("tieline_dnp3_{name}_total"), meaning, count);
    }
    let ends = [
        ("done", sum.counters.freezes_done),
        ("failed", sum.counters.freezes_failed),
        ("missed", sum.counters.freezes_missed),
    ];
    e.labelled(("tieline_dnp3_freezes_total", "Scheduled freezes by what became of them.", "counter"), "end", ends);
    let [up, down] = sum.lanes;
    let lanes = ("tieline_dnp3_lanes", "Second connections of devices, by state.", "gauge");
    e.labelled(lanes, "state", [("up", up), ("down", down)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_in_the_documents() {
        let mut e = Exposition::default();
        write(&mut e, &Counted::default());
        let text = e.into_text();
        let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert_eq!(names.len(), 22);
        let documents = include_str!("../../../../../docs/metrics.md");
        for name in names {
            assert!(documents.contains(&format!("`{name}")), "{name} is not in docs/metrics.md");
        }
    }
}
