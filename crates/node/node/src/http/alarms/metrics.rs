//! Alarms in `/metrics`; nothing where none are configured.

use tieline_alarms::{Counts, Priority, Stats};
use tieline_core::Words as _;
use tieline_service::exposition::Exposition;

pub fn metrics(e: &mut Exposition, alarms: Option<&(Counts, Stats)>) {
    let Some((counts, stats)) = alarms else { return };
    let help = "Alarms by priority and state, without hidden ones and consequences of others.";
    e.family("tieline_alarms", help, "gauge");
    for (priority, of) in Priority::words().zip(counts.by_priority) {
        for (state, count) in [("active", of.active), ("unacknowledged", of.unacknowledged)] {
            e.sample("tieline_alarms", &[("priority", priority), ("state", state)], count);
        }
    }
    let hidden = ("tieline_alarms_hidden", "Alarms that are not annunciated, by reason.", "gauge");
    let reasons = [
        ("shelved", counts.shelved),
        ("suppressed", counts.suppressed),
        ("out_of_service", counts.out_of_service),
        ("consequence", counts.consequences),
    ];
    e.labelled(hidden, "reason", reasons);
    e.gauge("tieline_alarms_chattering", "Alarms that come and go too often.", counts.chattering);
    e.gauge("tieline_alarms_latched", "Alarms that stay until they are reset.", counts.latched);
    e.gauge("tieline_alarms_known", "Alarms, normal ones included.", stats.alarms);
    e.counter("tieline_alarms_annunciated_total", "Annunciations.", stats.annunciated);
    e.counter("tieline_alarms_refused_total", "Alarms that were not made: there are alarm.alarms_max.", stats.refused);
    e.gauge(
        "tieline_alarm_flood",
        "1 while there are more annunciations than operators can take.",
        u8::from(stats.is_flood),
    );
}
