//! `[notify.NAME]` and `[[notify.route]]`: who is told of alarms.

use super::parse;
use super::reader::{Document, Finding, Section};
use super::settings::{
    NOTIFY_ALLOW_OWN, NOTIFY_HEARTBEAT, NOTIFY_ROUTE_GROUP_WAIT, NOTIFY_ROUTE_REPEAT, NOTIFY_ROUTE_STEPS_AFTER,
    NOTIFY_TLS,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tieline_alarms::Priority;
use tieline_core::{Filter, Words as _};
use tieline_notify::{Choice, Route, Step};
use tieline_senders::{
    Alertmanager, HAS_SMTP, Mail, MailTls, OnCall, PLACE, Receiver, Receivers, Sender, SenderKind, Webhook,
};
use toml::de::DeValue;

/// Receivers of one node.
const RECEIVERS_MAX: usize = 32;
/// Routes of one node.
const ROUTES_MAX: usize = 256;
/// Characters of the name of a receiver.
const NAME_CHARS: usize = 64;
/// Addresses of one mail.
const ADDRESSES_MAX: usize = 100;
/// The port of a mail server that takes mails of clients.
const SUBMISSION_PORT: u16 = 587;

const KIND_WORDS: &str = "\"smtp\", \"webhook\", \"mqtt\" or \"alertmanager\"";
const URL: &str = "an address, as in \"https://hooks.example/tieline\"";
const ADDRESSES: &str = "addresses, as in [\"duty@plant.example\"]";
const FROM: &str = "the address that writes, as in \"Tieline <tieline@plant.example>\"";
const SERVER: &str = "a mail server with its port or without, as in \"mail.example:587\"";
const PRIORITIES: [(&str, Priority); 4] =
    [("critical", Priority::Critical), ("high", Priority::High), ("medium", Priority::Medium), ("low", Priority::Low)];

/// Reads `[notify]`. Files are found beside `folder`; `node` is the name of the node, which messages have.
pub fn read_notify(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path, node: &str) -> Receivers {
    let routes = s.array(doc, "route");
    if let Some(section) = routes.get(ROUTES_MAX) {
        let found = format!("{} routes", routes.len());
        doc.report(section.at(), "notify.route", found, format!("{ROUTES_MAX} at most"));
    }
    let sections = s.sections(doc);
    if let Some((_, section)) = sections.get(RECEIVERS_MAX) {
        let found = format!("{} receivers", sections.len());
        doc.report(section.at(), "notify", found, format!("{RECEIVERS_MAX} at most"));
    }
    let names: Vec<Arc<str>> = sections.iter().map(|(name, _)| Arc::from(name.as_str())).collect();
    let mut receivers = BTreeMap::new();
    for (name, section) in sections {
        let receiver = read_receiver(&name, section, doc, folder);
        receivers.extend(receiver.map(|receiver| (Arc::from(name.as_str()), receiver)));
    }
    Receivers { node: node.to_owned(), routes: read_routes(routes, doc, &names), receivers }
}

fn read_receiver(name: &str, mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<Receiver> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(is_name) {
        let expected = format!("a name of 1 to {NAME_CHARS} letters, digits, - and _: it is part of a topic");
        doc.report(s.at(), "notify", format!("{name:?}"), expected);
    }
    let kind = s.required(doc, "kind", KIND_WORDS, parse::word(SenderKind::WORDS))?;
    let (mut on_call, mut heartbeat) = (None, None);
    let (sender, to) = match kind {
        SenderKind::Webhook => {
            let webhook = read_webhook(&mut s, doc, folder);
            heartbeat = Some(NOTIFY_HEARTBEAT.read(&mut s, doc)).filter(|every| !every.is_zero());
            (webhook.map(Sender::Webhook), Vec::new())
        }
        SenderKind::Alertmanager => {
            let url = s.required(doc, "url", URL, parse_url);
            let authorities = read_file(&mut s, doc, folder, "authorities");
            (url.map(|url| Sender::Alertmanager(Alertmanager { url, authorities })), Vec::new())
        }
        SenderKind::Smtp => {
            let mail = read_mail(&mut s, doc, folder);
            let to = read_addresses(&mut s, doc);
            on_call = read_on_call(&mut s, doc, folder, &to);
            (mail.map(Sender::Mail), to)
        }
        SenderKind::Mqtt => (Some(Sender::Mqtt), Vec::new()),
    };
    s.finish(doc);
    Some(Receiver { sender: sender?, to, on_call, heartbeat })
}

fn read_webhook(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<Webhook> {
    let url = s.required(doc, "url", URL, parse_url);
    let secret_file = read_file(s, doc, folder, "secret_file");
    let authorities = read_file(s, doc, folder, "authorities");
    let may_be_own = NOTIFY_ALLOW_OWN.read(s, doc);
    Some(Webhook { url: url?, secret_file, authorities, may_be_own })
}

fn read_mail(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<Mail> {
    if !HAS_SMTP {
        let found = "\"smtp\", which this binary was built without".to_owned();
        doc.report(s.value_at("kind"), &s.key("kind"), found, "a binary with the feature smtp".to_owned());
    }
    let server = s.required(doc, "server", SERVER, parse_server);
    let from = s.required(doc, "from", FROM, |value| {
        let from = value.as_str().filter(|text| tieline_senders::is_address(text));
        from.map(str::to_owned).ok_or_else(|| FROM.to_owned())
    });
    let tls = NOTIFY_TLS.read(s, doc, [MailTls::StartTls, MailTls::Tls, MailTls::None]);
    let authorities = read_file(s, doc, folder, "authorities");
    let user = s.optional(doc, "user", parse::text);
    let password_file = read_file(s, doc, folder, "password_file");
    if user.is_some() != password_file.is_some() && (!s.has("password_file") || user.is_none()) {
        let (key, found, expected) = match user {
            Some(_) => ("user", "a user without a password", "password_file beside it"),
            None => ("password_file", "a password without a user", "user beside it"),
        };
        doc.report(s.value_at(key), &s.key(key), found.to_owned(), expected.to_owned());
    }
    let (host, port) = server?;
    Some(Mail { host, port, tls, authorities, user: user.zip(password_file), from: from? })
}

fn read_addresses(s: &mut Section<'_>, doc: &mut Document<'_>) -> Vec<String> {
    let address = |text: &str| match tieline_senders::is_address(text) || text.contains(PLACE) {
        true => Ok(text.to_owned()),
        false => Err(ADDRESSES.to_owned()),
    };
    let (is_there, to) = (s.has("to"), s.each_text(doc, "to", ADDRESSES, address));
    if to.is_empty() || to.len() > ADDRESSES_MAX {
        let found = if is_there { format!("{} addresses", to.len()) } else { "nothing".to_owned() };
        doc.report(s.value_at("to"), &s.key("to"), found, format!("{ADDRESSES}, {ADDRESSES_MAX} at most"));
    }
    to
}

/// The calendar of those on call, where `to` has a place for them.
fn read_on_call(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path, to: &[String]) -> Option<Arc<OnCall>> {
    let path = s.optional(doc, "on_call", parse::text).map(|file| folder.join(file));
    let has_place = to.iter().any(|text| text.contains(PLACE));
    let path = match path {
        Some(path) if has_place => path,
        Some(_) => {
            let expected = format!("an address with {PLACE}, as in [\"{PLACE}\"]");
            doc.report(s.value_at("to"), &s.key("to"), "addresses that do not depend on on_call".to_owned(), expected);
            return None;
        }
        None if has_place && !s.has("on_call") => {
            let found = format!("{PLACE} without a calendar");
            doc.report(s.value_at("to"), &s.key("to"), found, "on_call = \"rota.ics\" beside it".to_owned());
            return None;
        }
        None => return None,
    };
    let (file, key) = (path.display().to_string(), s.key("on_call"));
    let mut report = |line: usize, found: String, expected: String| {
        doc.findings().push(Finding { file: file.clone(), line, column: 1, key: key.clone(), found, expected });
    };
    match OnCall::load(&path) {
        Ok(on_call) => {
            if let Some((line, text)) = on_call.no_address(to) {
                report(line, format!("an event that makes {text:?} of to"), "an address of a mail".to_owned());
            }
            Some(Arc::new(on_call))
        }
        Err(fault) => {
            report(fault.line, fault.found, fault.expected);
            None
        }
    }
}

/// A file that can be read.
fn read_file(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path, key: &'static str) -> Option<PathBuf> {
    let path = s.optional(doc, key, parse::text).map(|file| folder.join(file))?;
    if let Err(error) = File::open(&path) {
        let found = format!("{:?} ({error})", path.display().to_string());
        doc.report(s.value_at(key), &s.key(key), found, "a readable file".to_owned());
        return None;
    }
    Some(path)
}

fn read_routes(sections: Vec<Section<'_>>, doc: &mut Document<'_>, names: &[Arc<str>]) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    for section in sections {
        let at = section.at();
        let Some(route) = read_route(section, doc, names) else { continue };
        if routes.iter().any(|other| other.id() == route.id()) {
            let found = "a route with the filter, the priority, the groups and the receivers of another".to_owned();
            doc.report(at, "notify.route", found, "one of both".to_owned());
        }
        routes.push(route);
    }
    routes
}

fn read_route(mut s: Section<'_>, doc: &mut Document<'_>, names: &[Arc<str>]) -> Option<Route> {
    let filter = s.or(doc, "filter", Filter::new("#").ok()?, |value| {
        let filter = value.as_str().and_then(|text| Filter::new(text).ok());
        filter.ok_or_else(|| "a topic filter, as in \"site/#\"".to_owned())
    });
    let priority = s.or(doc, "priority", Priority::Low, parse::word(&PRIORITIES));
    let groups = s.each_text(doc, "groups", "groups of rules, as in [\"feeders\"]", |text| Ok(Arc::from(text)));
    let mut steps = Vec::new();
    for step in s.array(doc, "steps") {
        steps.extend(read_step(step, doc, names));
    }
    let group_wait = NOTIFY_ROUTE_GROUP_WAIT.read(&mut s, doc);
    let repeat = NOTIFY_ROUTE_REPEAT.read(&mut s, doc);
    let (at, key) = (s.value_at("steps"), s.key("steps"));
    s.finish(doc);
    let choice = Choice { filter, severity_min: priority.severity(), groups };
    match Route::new(choice, steps, group_wait, Some(repeat).filter(|repeat| !repeat.is_zero())) {
        Ok(route) => Some(route),
        Err(error) => {
            let expected =
                "steps in the order of their times, as in [{ to = \"duty\" }, { to = \"chief\", after = \"10m\" }]";
            doc.report(at, &key, error.to_string(), expected.to_owned());
            None
        }
    }
}

fn read_step(mut s: Section<'_>, doc: &mut Document<'_>, names: &[Arc<str>]) -> Option<Step> {
    let known = || match names {
        [] => "the NAME of a table [notify.NAME]; there is none".to_owned(),
        names => format!("one of {}", names.join(", ")),
    };
    let to = s.required(doc, "to", &known(), |value| {
        let to = value.as_str().and_then(|text| names.iter().find(|name| ***name == *text));
        to.cloned().ok_or_else(known)
    });
    let after = NOTIFY_ROUTE_STEPS_AFTER.read(&mut s, doc);
    s.finish(doc);
    Some(Step { to: to?, after })
}

fn parse_url(value: &DeValue<'_>) -> Result<String, String> {
    let url = value.as_str().filter(|text| {
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
            && text.chars().all(|c| c.is_ascii_graphic())
    });
    url.map(str::to_owned).ok_or_else(|| URL.to_owned())
}

/// A host and a port; an IPv6 address with a port is in brackets.
fn parse_server(value: &DeValue<'_>) -> Result<(String, u16), String> {
    let read = |text: &str| {
        let (host, port) = match (text.strip_prefix('['), text.rsplit_once(':')) {
            (Some(rest), _) => {
                let (host, after) = rest.split_once(']')?;
                (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
            }
            (None, Some((host, port))) if !host.contains(':') => (host, Some(port)),
            (None, _) => (text, None),
        };
        let port = port.map_or(Some(SUBMISSION_PORT), |port| port.parse().ok().filter(|port| *port > 0))?;
        let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-:".contains(c));
        is_host.then(|| (host.to_owned(), port))
    };
    value.as_str().and_then(read).ok_or_else(|| SERVER.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::from_text;
    use super::*;
    use std::time::Duration;

    const DUTY: &str = "[notify.duty]\nkind='webhook'\nurl='https://hooks.example/in'\n";

    fn read(text: &str) -> Result<Receivers, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "s\n").unwrap();
        from_text("t.toml", text, folder.path()).map(|config| config.notify).map_err(|error| error.to_string())
    }

    #[test]
    #[cfg_attr(not(feature = "smtp"), ignore = "needs the feature smtp")]
    fn receivers_and_routes_are_read() {
        assert_eq!(read("").unwrap().receivers.len(), 0);
        let text = "[node]\nname='north'\n\
            [notify.mail]\nkind='smtp'\nserver='mail.example'\nfrom='t@plant.example'\nto=['a@plant.example']\ntls='none'\n\
            [notify.hook]\nkind='webhook'\nurl='http://10.0.0.1/in'\nsecret_file='secret'\nallow_own=true\nheartbeat='1m'\n\
            [notify.board]\nkind='mqtt'\n\
            [notify.alerts]\nkind='alertmanager'\nurl='http://10.0.0.2:9093'\n\
            [[notify.route]]\nfilter='site/#'\npriority='high'\ngroups=['feeders']\nrepeat='0s'\n\
            steps=[{to='mail'},{to='hook',after='10m'}]\n\
            [[notify.route]]\nsteps=[{to='board'},{to='alerts'}]\n";
        let Receivers { node, routes, receivers } = read(text).unwrap();
        assert_eq!(node, "north");
        let kinds: Vec<_> = receivers.iter().map(|(name, of)| (&**name, of.sender.kind().word())).collect();
        let expect = [("alerts", "alertmanager"), ("board", "mqtt"), ("hook", "webhook"), ("mail", "smtp")];
        assert_eq!(kinds, expect);
        let Sender::Mail(mail) = &receivers["mail"].sender else { panic!("{:?}", receivers["mail"]) };
        assert_eq!((&*mail.host, mail.port, mail.tls), ("mail.example", 587, MailTls::None));
        let Sender::Webhook(hook) = &receivers["hook"].sender else { panic!("{:?}", receivers["hook"]) };
        assert!(hook.may_be_own && hook.secret_file.is_some());
        assert_eq!((receivers["hook"].heartbeat, receivers["mail"].heartbeat), (Some(Duration::from_mins(1)), None));
        let after: Vec<_> = routes[0].steps().iter().map(|step| (&*step.to, step.after)).collect();
        assert_eq!(after, [("mail", Duration::ZERO), ("hook", Duration::from_mins(10))]);
        assert_eq!(routes.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_expected() {
        let check = |text: &str, words: &[&str]| {
            let found = read(text).unwrap_err();
            for word in words {
                assert!(found.contains(word), "{word} is not in:\n{found}");
            }
        };
        let duty = |keys: &str| format!("[notify.duty]\nkind={keys}\n");
        let route = |keys: &str| format!("{DUTY}[[notify.route]]\n{keys}\n");
        check(&duty("'fax'"), &["t.toml:2", "notify.duty.kind", "\"fax\"", "alertmanager"]);
        check("[notify.'a b']\nkind='mqtt'\n", &["\"a b\"", "letters, digits"]);
        check(&duty("'mqtt'\nurl='http://a'"), &["unknown key \"url\""]);
        check(&duty("'webhook'"), &["notify.duty.url", "nothing", "hooks.example"]);
        check(&duty("'webhook'\nurl='http://a'\nheartbeat='1s'"), &["notify.duty.heartbeat", "10s"]);
        check(&duty("'mqtt'\nheartbeat='1m'"), &["unknown key \"heartbeat\""]);
        check(&duty("'webhook'\nurl='ftp://a'"), &["notify.duty.url", "ftp://a"]);
        check(&duty("'webhook'\nurl='http://a'\nsecret_file='none'"), &["notify.duty.secret_file", "a readable file"]);
        let mail = "'smtp'\nserver='m'\nfrom='t@p.example'\nto=['a@p.example']";
        check(&duty(&mail.replace("'m'", "'m:0'")), &["notify.duty.server", "mail.example:587"]);
        check(&duty(&mail.replace("t@p.example", "t")), &["notify.duty.from"]);
        check(&duty(&mail.replace("['a@p.example']", "['a']")), &["notify.duty.to", "duty@plant.example"]);
        check(&duty(&format!("{mail}\nuser='u'")), &["notify.duty.user", "password_file beside it"]);
        check(&duty(&format!("{mail}\ntls='ssl'")), &["notify.duty.tls", "starttls"]);
        check(&route("steps=[{to='chief'}]"), &["notify.route[0].steps[0].to", "\"chief\"", "one of duty"]);
        check(&route(""), &["notify.route[0].steps", "a route without a step"]);
        check(&route("steps=[{to='duty',after='2m'},{to='duty'}]"), &["a step before the one that precedes it"]);
        check(&route("priority='event'\nsteps=[{to='duty'}]"), &["notify.route[0].priority", "critical"]);
        check(&route("filter='a/#/b'\nsteps=[{to='duty'}]"), &["notify.route[0].filter", "a topic filter"]);
        check(&route("repeat='1s'\nsteps=[{to='duty'}]"), &["notify.route[0].repeat", "10s"]);
        let twice = "steps=[{to='duty'}]\n[[notify.route]]\nrepeat='1h'\nsteps=[{to='duty'}]";
        check(&route(twice), &["of another", "one of both"]);
    }

    #[test]
    #[cfg_attr(not(feature = "smtp"), ignore = "needs the feature smtp")]
    fn those_on_call_are_in_a_calendar_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let read = |to: &str, more: &str| {
            let keys = "[notify.duty]\nkind='smtp'\nserver='m'\nfrom='t@p.example'";
            let text = format!("{keys}\nto={to}\n{more}\n");
            from_text("t.toml", &text, folder.path()).map(|config| config.notify).map_err(|error| error.to_string())
        };
        let write = |who: &str, more: &str| {
            let event = format!("BEGIN:VEVENT\nSUMMARY:{who}\nDTSTART:20261130\n{more}END:VEVENT\n");
            std::fs::write(folder.path().join("rota.ics"), format!("BEGIN:VCALENDAR\n{event}END:VCALENDAR\n")).unwrap();
        };
        let refused = |to: &str, more: &str, words: &[&str]| {
            let found = read(to, more).unwrap_err();
            assert!(words.iter().all(|word| found.contains(word)), "{words:?} are not in:\n{found}");
        };
        let file = "on_call='rota.ics'";
        refused("['{on_call}']", "", &["t.toml:5", "notify.duty.to", "on_call = \"rota.ics\""]);
        refused("['{on_call}']", file, &["rota.ics:1", "notify.duty.on_call", "a readable iCalendar file"]);
        write("anna@p.example", "");
        let receivers = read("['{on_call}']", file).unwrap().receivers;
        assert!(receivers["duty"].on_call.is_some());
        refused("['a@p.example']", file, &["notify.duty.to", "{on_call}"]);
        write("anna", "");
        assert!(read("['{on_call}@p.example']", file).is_ok());
        refused("['{on_call}']", file, &["rota.ics:2", "\"anna\"", "an address of a mail"]);
        write("anna", "RRULE:FREQ=MONTHLY\n");
        refused("['{on_call}@p.example']", file, &["rota.ics:5", "RRULE:FREQ=MONTHLY", "FREQ=WEEKLY or DAILY"]);
    }

    #[test]
    fn a_mail_server_has_a_port_or_that_of_submission() {
        let check = |text: &str, expect: Option<(&str, u16)>| {
            let value = DeValue::String(text.into());
            let read = parse_server(&value).ok();
            assert_eq!(read.as_ref().map(|(host, port)| (&**host, *port)), expect, "{text}");
        };
        check("mail.example", Some(("mail.example", 587)));
        check("mail.example:25", Some(("mail.example", 25)));
        check("192.0.2.1:465", Some(("192.0.2.1", 465)));
        check("[2001:db8::1]:25", Some(("2001:db8::1", 25)));
        check("[2001:db8::1]", Some(("2001:db8::1", 587)));
        check("2001:db8::1", Some(("2001:db8::1", 587)));
        for wrong in ["", ":25", "a:", "a:0", "a:65536", "a b", "[::1", "[::1]25x"] {
            check(wrong, None);
        }
    }
}
