//! Answers of the API as people read them.

use super::table::{Align, age, count, lasting, plain, write};
use serde_json::Value as Json;
use std::io::{self, Write};
use std::time::Duration;
use tieline_core::Timestamp;

type Out<'a> = &'a mut dyn Write;

/// One fact a line.
pub(super) fn facts(facts: &[(&str, String)], out: Out<'_>) -> io::Result<()> {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let said = facts.iter().filter(|(_, fact)| !fact.is_empty());
    said.into_iter().try_for_each(|(name, fact)| writeln!(out, "{name:width$}  {fact}"))
}

fn whole(json: &Json) -> usize {
    json.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
}

fn number(json: &Json) -> f64 {
    json.as_f64().unwrap_or(0.0)
}

/// Bytes in the unit that is read best.
fn bytes(json: &Json) -> String {
    match json.as_u64().unwrap_or(0) {
        few @ 0..10_000 => format!("{few} B"),
        many @ 10_000..10_000_000 => format!("{} kB", many / 1000),
        most => format!("{} MB", most / 1_000_000),
    }
}

pub(super) fn status(answer: &Json, out: Out<'_>) -> io::Result<()> {
    let (devices, history, lag) = (&answer["devices"], &answer["history"], &answer["lag"]);
    let up = Duration::try_from_secs_f64(number(&answer["uptime_s"])).unwrap_or_default().as_secs();
    let behind = match whole(&lag["sessions"]) {
        0 => "no session is behind".to_owned(),
        some => format!("{} behind, by {} ms at most", count(some, "session"), lag["ms"]),
    };
    let mut recorded = plain(&history["state"]);
    if recorded != "off" {
        recorded = format!("{recorded}, {} stored", count(whole(&history["stored"]), "value"));
        if whole(&history["backlog"]) > 0 {
            recorded = format!("{recorded}, {} waiting", history["backlog"]);
        }
    }
    let detail = plain(&history["detail"]);
    let mut said = vec![
        ("node", format!("{}, tieline {}", plain(&answer["name"]), plain(&answer["version"]))),
        ("up", format!("{}, since {}", lasting(up), plain(&answer["started"]))),
        ("devices", format!("{} of {} online", devices["online"], devices["total"])),
        ("points", answer["points"].to_string()),
        ("topics", answer["topics"].to_string()),
        ("sessions", format!("{}, {}", answer["sessions"], count(whole(&answer["subscriptions"]), "subscription"))),
        ("updates", format!("{:.1} a second", number(&answer["updates_per_s"]))),
        ("delivery", behind),
        ("history", recorded),
        ("", if detail.is_empty() { detail } else { format!("history: {detail}") }),
    ];
    said.extend(upstreams(&answer["edge"]));
    said.extend([
        ("centre", centre(answer)),
        ("cluster", leads(&answer["cluster"])),
        ("", standbys(&answer["cluster"])),
        ("memory", bytes(&answer["process"]["memory_bytes"])),
        ("mqtt", plain(&answer["mqtt"])),
        ("http", plain(&answer["http"])),
    ]);
    facts(&said, out)
}

/// How the links of an edge are, and what its upstreams refuse; nothing of a node that is none.
fn upstreams(edge: &Json) -> Vec<(&'static str, String)> {
    let all = edge["upstreams"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut said = Vec::new();
    for one in all {
        let name = if all.len() > 1 { format!("{}: ", plain(&one["name"])) } else { String::new() };
        let (link, refused) = upstream(one);
        said.push((if said.is_empty() { "upstream" } else { "" }, format!("{name}{link}")));
        if !refused.is_empty() {
            said.push(("", format!("{name}{refused}")));
        }
    }
    said
}

/// How one link is, and what the upstream refuses.
fn upstream(edge: &Json) -> (String, String) {
    let (state, at, why) = (plain(&edge["state"]), plain(&edge["upstream"]), plain(&edge["why"]));
    let topics = format!("{} with values", count(whole(&edge["topics"]), "topic"));
    let link = match state.as_str() {
        "up" => format!("{at} is up, {topics}"),
        "circle" => format!("{at}: {why}"),
        "away" => format!("{at} is away: {why}; {topics}, {} from before", edge["away"]),
        _ => format!("{state}: no upstream has answered yet"),
    };
    let refused = edge["refused"].as_array().into_iter().flatten();
    let refused: Vec<String> =
        refused.map(|refused| format!("{} ({})", plain(&refused["filter"]), plain(&refused["why"]))).collect();
    let words = if refused.is_empty() { String::new() } else { format!("upstream refuses: {}", refused.join(", ")) };
    (link, words)
}

/// How a site is joined to its centre, or the sites of a centre; nothing of a node that is neither.
fn centre(answer: &Json) -> String {
    let (site, centre) = (&answer["site"], &answer["centre"]);
    let link = |of: &Json| match (plain(&of["state"]), plain(&of["why"])) {
        (state, why) if why.is_empty() => state,
        (state, why) => format!("{state}: {why}"),
    };
    let mut told = Vec::new();
    if !site.is_null() {
        let waiting = count(whole(&site["waiting"]), "record");
        let lost = if whole(&site["lost"]) > 0 { format!(", {} lost", site["lost"]) } else { String::new() };
        let name = plain(&site["name"]);
        told.push(format!("{}; {waiting} waiting{lost}, as site {name}{}", link(site), messages(&site["events"])));
    }
    if !centre.is_null() {
        told.push(format!("{}; {}, {} away", link(centre), count(whole(&centre["sites"]), "site"), centre["away"]));
    }
    told.join("; centre ")
}

/// Messages for other sites that wait or are lost; nothing where there are none.
fn messages(events: &Json) -> String {
    let (waiting, lost) = (whole(&events["waiting"]), whole(&events["lost"]));
    let some = |number: usize, word: &str| {
        if number > 0 { format!("; {} {word}", count(number, "message")) } else { String::new() }
    };
    format!("{}{}", some(waiting, "waiting"), some(lost, "lost"))
}

/// Who leads a core; nothing of a node that is in none.
fn leads(cluster: &Json) -> String {
    let (core, term) = (plain(&cluster["cluster"]), whole(&cluster["term"]));
    match cluster["leader"].as_str() {
        None if cluster.is_null() => String::new(),
        None => format!("{core}: no leader is heard, the last term is {term}"),
        Some(leader) => format!("{core}: {leader} leads in term {term}"),
    }
}

/// Members that do not lead, and how far each is.
fn standbys(cluster: &Json) -> String {
    let all = cluster["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let said = all.iter().filter(|member| member["role"] != "leader").map(|member| {
        let lag = member["lag"].as_u64().map_or("lag unknown".to_owned(), |lag| format!("lag {lag}"));
        let age = member["behind_s"].as_f64().map_or(String::new(), |seconds| format!(", {seconds:.1} s behind"));
        format!("{} {}, {lag}{age}", plain(&member["name"]), plain(&member["role"]).replace('_', " "))
    });
    said.collect::<Vec<_>>().join("; ")
}

/// All members of a core, a line each.
fn members(answer: &Json, mut out: Out<'_>) -> io::Result<()> {
    let all = answer["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let known = |json: &Json, said: String| if json.is_null() { "unknown".to_owned() } else { said };
    let row = |member: &Json| {
        let lag = known(&member["lag"], plain(&member["lag"]));
        let behind = known(&member["behind_s"], format!("{:.1} s", number(&member["behind_s"])));
        let (role, heard) =
            (plain(&member["role"]).replace('_', " "), format!("{:.0} s ago", number(&member["heard_s"])));
        [plain(&member["name"]), role, plain(&member["term"]), lag, behind, heard, plain(&member["reference"])]
    };
    let head = [
        ("member", Align::Left),
        ("role", Align::Left),
        ("term", Align::Right),
        ("lag", Align::Right),
        ("behind", Align::Right),
        ("heard", Align::Right),
        ("reference", Align::Left),
    ];
    write(head, &all.iter().map(row).collect::<Vec<_>>(), &mut out)
}

pub(super) fn cluster(answer: &Json, out: Out<'_>) -> io::Result<()> {
    let log = format!("message {} of {}", answer["applied"], answer["last"]);
    let node = format!("{}, {}", plain(&answer["node"]), plain(&answer["role"]).replace('_', " "));
    let times = |name: &str| count(whole(&answer[name]), "time");
    let changes = format!("elected {}, stepped down {}", times("elections"), times("depositions"));
    facts(
        &[
            ("core", leads(answer)),
            ("reference", plain(&answer["reference"])),
            ("this node", node),
            ("", plain(&answer["trouble"])),
            ("log", log),
            ("changes", changes),
        ],
        out,
    )?;
    writeln!(out)?;
    members(answer, out)
}

pub(super) fn health(answer: &Json, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "{}", plain(&answer["status"]))?;
    answer["detail"].as_array().into_iter().flatten().try_for_each(|detail| writeln!(out, "{}", plain(detail)))
}

pub(super) fn whoami(answer: &Json, out: Out<'_>) -> io::Result<()> {
    let Some(user) = answer["user"].as_str() else {
        return writeln!(out, "no user: the node does not require authentication at this address");
    };
    let roles: Vec<String> = answer["roles"].as_array().into_iter().flatten().map(plain).collect();
    writeln!(out, "{user}: {}", if roles.is_empty() { "no roles".to_owned() } else { roles.join(", ") })
}

fn why(device: &Json) -> String {
    plain(&device["stats"]["why"])
}

pub(super) fn devices(devices: &[Json], now: Timestamp, mut out: Out<'_>) -> io::Result<()> {
    let row = |device: &Json| {
        let ago = |name: &str| age(device[name].as_str().unwrap_or_default(), now);
        let state = plain(&device["state"]);
        let why = if state == "online" { String::new() } else { why(device) };
        let points = device["points"].to_string();
        [plain(&device["topic"]), state, ago("since"), ago("last_seen"), points, plain(&device["address"]), why]
    };
    let head = [
        ("device", Align::Left),
        ("state", Align::Left),
        ("for", Align::Right),
        ("seen", Align::Right),
        ("points", Align::Right),
        ("address", Align::Left),
        ("why", Align::Left),
    ];
    write(head, &devices.iter().map(row).collect::<Vec<_>>(), &mut out)
}

pub(super) fn device(device: &Json, now: Timestamp, out: Out<'_>) -> io::Result<()> {
    let time = |name: &str| match device[name].as_str() {
        Some(time) => format!("{time} ({} ago)", age(time, now)),
        None => "never".to_owned(),
    };
    let all = device["points"].as_array().map_or(&[][..], Vec::as_slice);
    let state = plain(&device["state"]);
    facts(
        &[
            ("device", plain(&device["topic"])),
            ("why", if state == "online" { String::new() } else { why(device) }),
            ("state", state),
            ("since", time("since")),
            ("last seen", time("last_seen")),
            ("protocol", plain(&device["protocol"])),
            ("address", plain(&device["address"])),
            ("points", all.len().to_string()),
        ],
        out,
    )?;
    writeln!(out)?;
    points(all, out)
}

pub(super) fn points(points: &[Json], mut out: Out<'_>) -> io::Result<()> {
    let row = |point: &Json| {
        let takes = match (point["writable"].as_bool(), &point["states"], &point["min"], &point["max"]) {
            (Some(true), Json::Array(states), _, _) => states.iter().map(plain).collect::<Vec<_>>().join(", "),
            (Some(true), _, Json::Null, Json::Null) => plain(&point["kind"]),
            (Some(true), _, min, max) => format!("{} to {}", plain(min), plain(max)),
            _ => String::new(),
        };
        let place = format!("{} {}", plain(&point["type"]), point["index"]);
        [plain(&point["topic"]), place, plain(&point["unit"]), takes, plain(&point["description"])]
    };
    let head = [
        ("topic", Align::Left),
        ("point", Align::Left),
        ("unit", Align::Left),
        ("takes", Align::Left),
        ("description", Align::Left),
    ];
    write(head, &points.iter().map(row).collect::<Vec<_>>(), &mut out)
}

pub(super) fn sessions(sessions: &[Json], answer: &Json, mut out: Out<'_>) -> io::Result<()> {
    let row = |session: &Json| {
        let rate = format!("{:.1}", number(&session["messages_per_s"]));
        let of = |name: &str| plain(&session[name]);
        [
            of("client"),
            of("subscriptions"),
            of("waiting"),
            of("late_ms"),
            rate,
            bytes(&session["bytes_out"]),
            of("conflated"),
            of("dropped"),
        ]
    };
    let head = [
        ("client", Align::Left),
        ("subscriptions", Align::Right),
        ("waiting", Align::Right),
        ("late ms", Align::Right),
        ("messages/s", Align::Right),
        ("sent", Align::Right),
        ("conflated", Align::Right),
        ("dropped", Align::Right),
    ];
    write(head, &sessions.iter().map(row).collect::<Vec<_>>(), &mut out)?;
    let (connected, away) = (whole(&answer["connected"]), whole(&answer["away"]));
    writeln!(out, "{} connected, {away} away", count(connected, "session"))
}

pub(super) fn busiest(topics: &[Json], mut out: Out<'_>) -> io::Result<()> {
    let row = |topic: &Json| {
        let rate = format!("{:.1}", number(&topic["updates_per_s"]));
        [plain(&topic["topic"]), rate, format!("{:.0}", number(&topic["bytes_per_s"]))]
    };
    let head = [("topic", Align::Left), ("updates/s", Align::Right), ("bytes/s", Align::Right)];
    write(head, &topics.iter().map(row).collect::<Vec<_>>(), &mut out)
}

pub(super) fn derived(all: &[Json], mut out: Out<'_>) -> io::Result<()> {
    let row = |series: &Json| {
        let last = |name: &str| plain(&series["last"][name]);
        let every =
            series["every_s"].as_f64().map_or(String::new(), |every| lasting(Duration::from_secs_f64(every).as_secs()));
        let state = match (plain(&series["state"]), series["progress"].as_f64()) {
            (state, Some(progress)) if state == "backfilling" => format!("{state} {:.0} %", progress * 100.0),
            (state, _) => state,
        };
        let words = [plain(&series["value"]), plain(&series["error"])];
        let words = words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ! ");
        [plain(&series["topic"]), every, state, last("v"), last("q"), last("t"), plain(&series["results"]), words]
    };
    let head = [
        ("topic", Align::Left),
        ("every", Align::Right),
        ("state", Align::Left),
        ("last", Align::Right),
        ("quality", Align::Left),
        ("time", Align::Left),
        ("results", Align::Right),
        ("value", Align::Left),
    ];
    write(head, &all.iter().map(row).collect::<Vec<_>>(), &mut out)
}

pub(super) fn sites(all: &[Json], mut out: Out<'_>) -> io::Result<()> {
    let seconds = |json: &Json, digits: usize| json.as_f64().map_or(String::new(), |it| format!("{it:.digits$} s"));
    let row = |site: &Json| {
        let of = |name: &str| plain(&site[name]);
        let (lag, offset) = (seconds(&site["lag_s"], 1), seconds(&site["clock_offset_s"], 3));
        let state = if site["doubled"] == true { format!("{}, two nodes", of("state")) } else { of("state") };
        let events = events(&site["events"]);
        let behind = behind(&site["behind"]);
        [of("name"), state, of("since"), lag, of("waiting"), of("lost"), offset, of("records"), events, behind]
    };
    let head = [
        ("site", Align::Left),
        ("state", Align::Left),
        ("since", Align::Left),
        ("lag", Align::Right),
        ("waiting", Align::Right),
        ("lost", Align::Right),
        ("clock offset", Align::Right),
        ("records", Align::Right),
        ("messages", Align::Left),
        ("behind", Align::Left),
    ];
    write(head, &all.iter().map(row).collect::<Vec<_>>(), &mut out)
}

/// Messages between sites, as far as the site wants some or is asked for some.
fn events(events: &Json) -> String {
    let (wants, shares) = (whole(&events["asked"]), whole(&events["wanted"]));
    let (waiting, lost) = (whole(&events["waiting"]), whole(&events["lost"]));
    if wants + shares + waiting + lost == 0 {
        return String::new();
    }
    let mut told = vec![format!("wants {wants}, asked for {shares}")];
    told.extend((waiting > 0).then(|| format!("{waiting} waiting")));
    told.extend((lost > 0).then(|| format!("{lost} lost")));
    told.join(", ")
}

/// What is behind a site that is a centre; nothing of another one.
fn behind(behind: &Json) -> String {
    match (behind.is_null(), whole(&behind["away"])) {
        (true, _) => String::new(),
        (false, 0) => count(whole(&behind["sites"]), "site"),
        (false, away) => format!("{}, {away} away", count(whole(&behind["sites"]), "site")),
    }
}

pub(super) fn audit(entries: &[Json], mut out: Out<'_>) -> io::Result<()> {
    let row = |entry: &Json| {
        let of = |name: &str| plain(&entry[name]);
        let why = match (of("reason"), of("detail")) {
            (reason, detail) if reason.is_empty() => detail,
            (reason, detail) if detail.is_empty() => reason,
            (reason, detail) => format!("{reason}: {detail}"),
        };
        [of("time"), of("phase"), of("topic"), of("value"), of("who"), why]
    };
    let head = [
        ("time", Align::Left),
        ("phase", Align::Left),
        ("topic", Align::Left),
        ("value", Align::Left),
        ("who", Align::Left),
        ("why", Align::Left),
    ];
    write(head, &entries.iter().map(row).collect::<Vec<_>>(), &mut out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(shown: impl FnOnce(Out<'_>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        shown(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn devices_that_are_away_say_why() {
        let device = |state: &str| {
            json!({"topic": "a/b", "state": state, "since": "2026-11-20T09:36:00Z", "last_seen": null, "points": 3,
                   "address": "h:20000", "stats": {"why": "Connection refused"}})
        };
        let now = "2026-11-20T09:36:05Z".parse().unwrap();
        let told = text(|out| devices(&[device("online"), device("away")], now, out));
        assert_eq!(
            told,
            "device  state   for  seen  points  address  why\n\
             a/b     online   5s             3  h:20000\n\
             a/b     away     5s             3  h:20000  Connection refused\n"
        );
    }

    #[test]
    fn points_say_what_they_take() {
        let point = |states: Json, max: Json, writable: bool| {
            json!({"topic": "t", "type": "binary", "index": 1, "unit": "", "kind": "bool", "writable": writable,
                   "states": states, "min": max.clone(), "max": max, "description": ""})
        };
        let told = text(|out| {
            let all = [
                point(json!(["open", "closed"]), Json::Null, true),
                point(Json::Null, json!(5), true),
                point(Json::Null, json!(5), false),
            ];
            points(&all, out)
        });
        let takes: Vec<&str> =
            told.lines().skip(1).map(|line| line.trim_start_matches("t      binary 1").trim()).collect();
        assert_eq!(takes, ["open, closed", "5 to 5", ""]);
    }

    #[test]
    fn health_and_callers_are_told() {
        let told = text(|out| health(&json!({"status": "degraded", "detail": ["ledger: no\u{7}space"]}), out));
        assert_eq!(told, "degraded\nledger: no space\n");
        let me = text(|out| whoami(&json!({"user": "anna", "roles": ["VIEWER", "OPERATOR"]}), out));
        assert_eq!(me, "anna: VIEWER, OPERATOR\n");
    }
}
