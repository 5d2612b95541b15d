//! A message as alerts of Alertmanager, API version 2.

use crate::message::subject;
use crate::sender::{Envelope, Failure, WITHIN, judge, tls_of};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::Duration;
use tieline_client::Post;
use tieline_core::{Timestamp, json_value};
use tieline_notify::{Message, MessageKind, Notice};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4096;
/// How long an alert stands where nobody says that it is over: Alertmanager wants an end, and is told the true one then.
const STANDS_FOR: Duration = Duration::from_hours(7 * 24);
/// The same of a test.
const TEST_FOR: Duration = Duration::from_mins(1);

/// An Alertmanager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alertmanager {
    /// Its address, without `/api/v2/alerts`.
    pub url: String,
    /// A file with certificates of authorities; none: those that the machine trusts.
    pub authorities: Option<PathBuf>,
}

impl Alertmanager {
    pub(crate) fn send(&self, envelope: Envelope<'_>, message: &Message) -> Result<(), Failure> {
        let url = format!("{}/api/v2/alerts", self.url.trim_end_matches('/'));
        let body = alerts(envelope, message).to_string();
        let post = Post {
            url: &url,
            headers: &[("content-type", "application/json"), ("user-agent", "tieline")],
            body: body.as_bytes(),
            within: WITHIN,
            bytes_max: ANSWER_BYTES_MAX,
            refuses: |_| false,
        };
        judge(post.send(tls_of(&url, self.authorities.as_deref())?))
    }
}

/// The alerts of a message: its labels say which alarm it is, so they are the same until it has returned.
fn alerts(envelope: Envelope<'_>, message: &Message) -> Json {
    let Envelope { node, now, .. } = envelope;
    let stands = |ends: Timestamp| ends.to_string();
    match message.kind {
        MessageKind::Raised | MessageKind::Repeated | MessageKind::Resolved => {
            let ends = if message.kind == MessageKind::Resolved { now } else { now.later(STANDS_FOR) };
            let one = |notice: &Notice| {
                let mut shown = String::new();
                json_value(&notice.value, &mut shown);
                json!({
                    "labels": {
                        "alertname": &*notice.alarm.kind,
                        "topic": notice.alarm.topic.as_str(),
                        "priority": &*notice.priority,
                        "group": &*notice.group,
                        "receiver_name": &*message.to,
                        "node": node,
                    },
                    "annotations": {
                        "summary": subject(message),
                        "text": &*notice.text,
                        "value": shown,
                        "state": &*notice.state,
                        "occurrence": notice.seq.to_string(),
                        "consequences": notice.count.to_string(),
                    },
                    "startsAt": notice.since.min(ends).to_string(),
                    "endsAt": stands(ends),
                })
            };
            Json::Array(message.alarms.iter().map(one).collect())
        }
        MessageKind::Flood | MessageKind::FloodOver | MessageKind::Test | MessageKind::Heartbeat => {
            let (name, ends) = match message.kind {
                MessageKind::Flood => ("alarm_flood", now.later(STANDS_FOR)),
                MessageKind::FloodOver => ("alarm_flood", now),
                MessageKind::Test
                | MessageKind::Heartbeat
                | MessageKind::Raised
                | MessageKind::Repeated
                | MessageKind::Resolved => ("notification_test", now.later(TEST_FOR)),
            };
            json!([{
                "labels": {"alertname": name, "receiver_name": &*message.to, "node": node},
                "annotations": {"summary": subject(message), "total": message.total.to_string()},
                "endsAt": stands(ends),
            }])
        }
    }
}
