//! `tieline clock`: what a node's clock says, and its confirmation by another one.

use super::args::{ClockArgs, ClockVerb, ConfirmArgs};
use super::shown::facts;
use super::table::{lasting, plain};
use super::{ask, now, print};
use crate::who;
use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use std::io::{self, Write};
use std::net::IpAddr;
use std::process::ExitCode;

/// Shows the clock, or confirms it.
pub fn clock(args: &ClockArgs) -> Result<ExitCode> {
    match &args.verb {
        None => print(args.show.json, &ask(&args.show.node, "/v1/clock", &[])?, show),
        Some(ClockVerb::Confirm(args)) => confirm(args),
    }
}

fn show(answer: &Json, out: &mut dyn Write) -> io::Result<()> {
    let off = answer["off_s"].as_i64().unwrap_or(0);
    let way = if off < 0 { "behind" } else { "ahead of" };
    let (doubt, next) = match answer["in_doubt"] == true {
        false => ("no".to_owned(), String::new()),
        true => (
            format!("{} {way} {}, which is known", lasting(off.unsigned_abs()), plain(&answer["expected"])),
            "tieline clock confirm believes it".to_owned(),
        ),
    };
    facts(&[("time", plain(&answer["time"])), ("in doubt", doubt), ("", next)], out)
}

fn confirm(ConfirmArgs { node, time }: &ConfirmArgs) -> Result<ExitCode> {
    if time.is_none() && is_here(&who::http_target(&node.node)?.address) {
        bail!(
            "the node is on this machine, and its clock is the one that is to be confirmed; expected what another clock \
             says, as in --time 2026-11-20T09:36:00Z"
        );
    }
    let time = time.clone().unwrap_or_else(|| now().to_string());
    let answer: Json = who::http(&node.node, None)?.post("/v1/clock", &json!({ "time": time }))?;
    print(node.json, &answer, |answer, out| {
        writeln!(out, "confirmed: the node's clock says {}", plain(&answer["time"]))
    })
}

/// Whether an address is of this machine alone.
fn is_here(address: &str) -> bool {
    let authority = address.split_once("://").map_or(address, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let is_port = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    let host = authority.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(authority, |(host, _)| host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_on_this_machine_has_its_clock() {
        let check = |address: &str, expect: bool| assert_eq!(is_here(address), expect, "{address}");
        check("127.0.0.1:8080", true);
        check("http://localhost:8080/", true);
        check("https://[::1]:8443", true);
        check("127.0.0.2", true);
        check("plant.example:8080", false);
        check("10.0.0.7", false);
        check("https://[fe80::1]:8443", false);
    }

    #[test]
    fn it_is_shown_in_lines() {
        let check = |answer: Json, expect: &str| {
            let mut out = Vec::new();
            show(&answer, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        let fine = json!({ "time": "T", "in_doubt": false, "expected": null, "off_s": null });
        check(fine, "time      T\nin doubt  no\n");
        let back = json!({ "time": "T", "in_doubt": true, "expected": "E", "off_s": -7200 });
        check(
            back,
            "time      T\nin doubt  2h behind E, which is known\n          tieline clock confirm believes it\n",
        );
    }
}
