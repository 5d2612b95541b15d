//! `tieline reload`: has a node read its configuration again.

use crate::api::args::NodeArgs;
use crate::api::table::count;
use crate::exit::Exit;
use crate::who;
use anyhow::Result;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;

/// Runs the verb. Devices that could not be started are left out: the rest was done.
pub fn reload(NodeArgs { node, json }: &NodeArgs) -> Result<ExitCode> {
    let done: Value = who::http(node, None)?.post("/v1/reload", &json!({}))?;
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{done}")?,
        false => out.write_all(words_of(&done).as_bytes())?,
    }
    let is_whole = done["not_started"].as_array().is_none_or(Vec::is_empty);
    Ok(if is_whole { ExitCode::SUCCESS } else { Exit::Incomplete.into() })
}

/// A line for devices, one for views where there are any, and one for each thing that a person should see to.
fn words_of(done: &Value) -> String {
    let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
    let devices = &done["devices"];
    let [added, removed, changed, kept, unchanged] =
        ["added", "removed", "changed", "kept_connection", "unchanged"].map(|name| number(&devices[name]));
    let kept = if changed == 0 { String::new() } else { format!(" ({kept} without a new connection)") };
    let mut words =
        format!("devices: {added} added, {removed} removed, {changed} changed{kept}, {unchanged} unchanged\n");
    let views = number(&done["views"]);
    if views > 0 {
        let derived = count(number(&done["derived"]), "topic");
        words.push_str(&format!("{}, {derived} derived\n", count(views, "view")));
    }
    let series = number(&done["derived_series"]);
    if series > 0 {
        words.push_str(&format!("{series} derived series\n"));
    }
    for device in done["not_started"].as_array().into_iter().flatten() {
        let text = |name: &str| device[name].as_str().unwrap_or_default().to_owned();
        words.push_str(&format!("not started: device.{}: {}\n", text("name"), text("detail")));
    }
    for setting in done["restart_needed"].as_array().into_iter().flatten() {
        words.push_str(&format!("restart needed: {}\n", setting.as_str().unwrap_or_default()));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_told_in_lines() {
        let counts = json!({"added": 1, "removed": 2, "changed": 3, "kept_connection": 1, "unchanged": 9_994});
        let not_started = json!([{"name": "meter7", "detail": "the address is in use"}]);
        let done = json!({
            "status": "ok", "devices": counts, "views": 1, "derived": 4, "not_started": not_started,
            "restart_needed": ["http.listen", "node.workers"],
        });
        let expect = "devices: 1 added, 2 removed, 3 changed (1 without a new connection), 9994 unchanged\n\
                      1 view, 4 topics derived\n\
                      not started: device.meter7: the address is in use\n\
                      restart needed: http.listen\nrestart needed: node.workers\n";
        assert_eq!(words_of(&done), expect);
        let counts = json!({"added": 0, "removed": 0, "changed": 0, "kept_connection": 0, "unchanged": 1});
        assert_eq!(words_of(&json!({"devices": counts})), "devices: 0 added, 0 removed, 0 changed, 1 unchanged\n");
    }
}
