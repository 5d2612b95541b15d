//! Metrics of logins, of users and of what they may not; those of logins by the identity provider are its own.

use super::App;
use super::status::{AccessSeen, Seen};
use tieline_service::exposition::Exposition;

/// Nothing where no users are configured.
pub fn metrics(e: &mut Exposition, app: &App, seen: &Seen) {
    let Some(authenticator) = &app.authenticator else { return };
    let counts = authenticator.counts();
    let ends = [("good", counts.good), ("wrong", counts.wrong), ("too_often", counts.too_often), ("busy", counts.busy)];
    e.labelled(("tieline_logins_total", "Authentication attempts by result.", "counter"), "end", ends);
    e.gauge("tieline_logins_waiting", "Passwords and tokens that wait for their check.", counts.waiting);
    e.gauge("tieline_logins_known", "Users and their clients, by address, that logged in before.", counts.known);
    e.gauge("tieline_access_users", "Users in the file.", counts.users);
    e.gauge(
        "tieline_access_files_bad",
        "1 while the files of users and roles have errors.",
        u8::from(counts.files_bad),
    );
    e.counter("tieline_access_reloads_total", "Times that changed files were loaded.", counts.reloads);
    let logins = app.logins.count(app.about.clock.now().mono);
    e.gauge("tieline_access_logins", "Logins at the console and of the command line.", logins);
    if let Some(identities) = &app.identities {
        identities.expose(e);
    }
    let Some(AccessSeen { stats, denials, .. }) = &seen.access else { return };
    let denials = denials.iter().map(|(verb, count)| (verb.word(), *count));
    e.labelled(("tieline_denials_total", "Actions denied to users, by verb.", "counter"), "verb", denials);
    e.gauge("tieline_access_sessions", "MQTT sessions of users.", stats.sessions);
    e.counter("tieline_access_refused_total", "MQTT sessions of users that were refused.", stats.refused_sessions);
    e.counter(
        "tieline_access_ended_total",
        "MQTT sessions ended: user removed, password or certificate changed, token or certificate expired.",
        stats.ended,
    );
    e.counter(
        "tieline_access_over_rate_total",
        "Messages refused because of the rate limit of the session.",
        stats.over_rate,
    );
}
