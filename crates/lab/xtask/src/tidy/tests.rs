//! Each rule refuses what it is there to refuse, on trees made for that, and keeps quiet on a clean one.

use super::{Tree, findings, rooms};

const ROOT: &str = "[workspace.dependencies]\nrt = { package = \"tokio\", version = \"1\" }\n";
const CRATE: &str = "//! A crate.\n#![no_std]\n";

fn manifest(name: &str, dependencies: &str) -> String {
    format!("[package]\nname = \"{name}\"\n\n[dependencies]\n{dependencies}\n")
}

/// A house with one crate in each room, which breaks no rule.
fn house() -> Tree {
    let mut tree = Tree::default();
    tree.insert("Cargo.toml", ROOT);
    let rooms = [
        ("core", "core", "serde_json = \"1\""),
        ("wire/mqtt", "mqtt", "core.workspace = true"),
        ("engine/topics", "topics", "core.workspace = true\nslab = \"1\""),
        ("io/net", "net", "core.workspace = true\ntokio = \"1\""),
        ("node/node", "node", "core = \"0\"\nmqtt = \"0\"\ntopics = \"0\"\nnet = \"0\"\ntokio = \"1\""),
        ("node/cli", "tieline", "node = \"0\"\ntieline-bench = \"0\"\nanyhow = \"1\""),
        ("lab/bench", "tieline-bench", "node = \"0\"\nanyhow = \"1\""),
    ];
    for (place, name, dependencies) in rooms {
        tree.insert(&format!("crates/{place}/Cargo.toml"), manifest(name, dependencies));
        tree.insert(&format!("crates/{place}/src/lib.rs"), CRATE);
    }
    tree
}

/// What the house says when `text` lies at `path`, one line a finding.
#[track_caller]
fn check(path: &str, text: &str, expect: &str) {
    let mut tree = house();
    tree.insert(path, text);
    let found: Vec<String> = findings(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(found.join("\n"), expect);
}

#[track_caller]
fn check_manifest(place: &str, name: &str, dependencies: &str, expect: &str) {
    check(&format!("crates/{place}/Cargo.toml"), &manifest(name, dependencies), expect);
}

#[test]
fn a_clean_house_has_no_findings() {
    check("README.md", "# A\n[a](crates/core)\n[b](#a)\n", "");
}

#[test]
fn tokio_in_wire_is_refused() {
    let expect = "crates/wire/mqtt/Cargo.toml:5: tokio in mqtt of wire, expected no clock, socket, thread, file or \
                  random source in core, wire and engine";
    check_manifest("wire/mqtt", "mqtt", "tokio.workspace = true", expect);
    // Under another name, for one target only, or for tests only, it is still tokio.
    check_manifest("wire/mqtt", "mqtt", "rt.workspace = true", expect);
    check_manifest("wire/mqtt", "mqtt", "quick = { package = \"tokio\", version = \"1\" }", expect);
    let elsewhere = expect.replace(":5:", ":7:");
    check_manifest("wire/mqtt", "mqtt", "\n[dev-dependencies]\ntokio = \"1\"", &elsewhere);
    check_manifest("wire/mqtt", "mqtt", "\n[target.'cfg(unix)'.dependencies]\ntokio = \"1\"", &elsewhere);
    check_manifest("wire/mqtt", "mqtt", "\n\n[dependencies.tokio]\nversion = \"1\"", &expect.replace(":5:", ":7:"));
}

#[test]
fn a_wire_crate_inside_an_engine_is_refused() {
    check_manifest(
        "engine/topics",
        "topics",
        "core = \"0\"\nmqtt.workspace = true",
        "crates/engine/topics/Cargo.toml:6: mqtt of wire inside topics of engine, expected only core",
    );
}

#[test]
fn rooms_see_only_what_they_may() {
    check_manifest(
        "core",
        "core",
        "mqtt = \"0\"",
        "crates/core/Cargo.toml:5: mqtt of wire inside core of core, expected nothing of ours",
    );
    check_manifest(
        "io/net",
        "net",
        "topics = \"0\"",
        "crates/io/net/Cargo.toml:5: topics of engine inside net of io, expected only core",
    );
    check_manifest(
        "node/node",
        "node",
        "tieline-bench = \"0\"",
        "crates/node/node/Cargo.toml:5: tieline-bench of lab inside node of node, expected only core, wire, engine, io, node",
    );
    check_manifest(
        "io/net",
        "net",
        "anyhow = \"1\"",
        "crates/io/net/Cargo.toml:5: anyhow in net, expected an error enum by blame; anyhow only in the commands",
    );
    check_manifest(
        "engine/topics",
        "topics",
        "chrono = \"0\"",
        &format!(
            "crates/engine/topics/Cargo.toml:5: chrono in topics of engine, expected one of {} (a crate without std joins \
             that list in rooms.rs)",
            rooms::PURE.join(", ")
        ),
    );
    check(
        "crates/attic/x/Cargo.toml",
        "[package]\nname = \"x\"",
        "crates/attic/x/Cargo.toml:1: a crate in the room \"attic\", expected core, wire, engine, io, node or lab",
    );
    check(
        "crates/io/x/Cargo.toml",
        "[package]",
        "crates/io/x/Cargo.toml:1: no package name, expected [package] with a name",
    );
}

/// What is found of the node's rooms, where these files are in its sources; one line a finding.
#[track_caller]
fn check_order(files: &[(&str, &str)], expect: &str) {
    let mut tree = house();
    for (path, text) in files {
        tree.insert(&format!("crates/node/node/src/{path}"), *text);
    }
    let found: Vec<String> = findings(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(found.join("\n").replace("crates/node/node/src/", ""), expect);
}

const ROOMS: (&str, &str) =
    ("lib.rs", "//! The node.\nmod access;\npub mod bus;\nmod broker;\npub(crate) mod config;\nmod node;\n");

#[test]
fn a_room_imports_rooms_below_it() {
    check_order(&[ROOMS, ("bus/mod.rs", "use crate::config::Config;\nuse crate::access::{self, Guard};\n")], "");
    check_order(&[ROOMS, ("node.rs", "use crate::{broker, bus::Bus};\nfn f() { crate::config::load() }\n")], "");
    // A room may name itself, prose may name any, and one's own module may have the name of a room.
    let own = "use crate::bus::state::Bus;\n// crate::broker::Broker\nconst A: &str = \"crate::broker\";\n";
    check_order(&[ROOMS, ("bus/flow.rs", own)], "");
    check_order(&[ROOMS, ("bus/flow.rs", "mod tests {\n    use super::super::broker;\n}\n")], "");
}

#[test]
fn an_arrow_up_is_refused_however_it_is_written() {
    let expect = |place: &str| {
        format!(
            "{place}: bus imports broker, which stands above it, expected only backup, config, wall_clock, trace, access, control, edge, field, history, sites, cluster"
        )
    };
    let check =
        |path: &str, text: &str, line: usize| check_order(&[ROOMS, (path, text)], &expect(&format!("{path}:{line}")));
    check("bus/mod.rs", "use std::fmt;\nuse crate::broker::Broker;\n", 2);
    check("bus/mod.rs", "fn f() {\n    let x: crate::broker::Broker;\n}\n", 2);
    check("bus/mod.rs", "use crate::{\n    config::{Config, load},\n    broker::Broker,\n};\n", 3);
    check("bus/mod.rs", "use super::broker::Broker;\n", 1);
    check("bus/flow.rs", "use super::super::broker;\n", 1);
    check("bus/ledger/mod.rs", "fn f() { super::super::broker::g() }\n", 1);
    check("bus.rs", "mod tests {\n    use super::super::broker;\n}\n", 2);
    check_order(
        &[ROOMS, ("config/mod.rs", "use crate::access::Guard;\n")],
        "config/mod.rs:1: config imports access, which stands above it, expected no room",
    );
}

#[test]
fn rooms_of_one_rank_do_not_know_each_other() {
    let lib = ("lib.rs", "//! The node.\nmod control;\nmod field;\n");
    check_order(
        &[lib, ("control/mod.rs", "use crate::field::Field;\n")],
        "control/mod.rs:1: control imports field, which stands beside it, expected only backup, config, wall_clock, trace",
    );
}

#[test]
fn two_rooms_do_not_import_each_other() {
    let expect = "broker/mod.rs:2: broker and bus import each other, bus in bus/mod.rs:1, expected one of the two, or what \
                  both need in a room below\n\
                  bus/mod.rs:1: bus imports broker, which stands above it, expected only backup, config, wall_clock, trace, access, \
                  control, edge, field, history, sites, cluster";
    check_order(
        &[ROOMS, ("broker/mod.rs", "\nuse crate::bus::Bus;\n"), ("bus/mod.rs", "use crate::broker::Broker;\n")],
        expect,
    );
}

#[test]
fn rooms_have_a_rank_and_are_few() {
    check_order(
        &[("lib.rs", "//! The node.\nmod bus;\nmod attic;\npub use bus::Bus;\n"), ("bus.rs", "use crate::Bus;\n")],
        "bus.rs:1: bus takes Bus from lib.rs, expected the path through the room that has it\n\
         lib.rs:3: the room attic without a rank, expected its place in ORDER of tidy/order.rs, or a room that has one",
    );
    let lib = format!("//! The node.\n{}", "mod bus;\n".repeat(16));
    check_order(
        &[("lib.rs", &lib)],
        "lib.rs:17: 16 rooms, bus among them, expected at most 15: a module inside a room",
    );
}

const DRIVERS: [(&str, &str); 2] =
    [("field/dnp3/mod.rs", "use tieline_dnp3::Master;\n"), ("field/modbus/mod.rs", "use super::driver::Driver;\n")];

#[track_caller]
fn check_drivers(path: &str, text: &str, expect: &str) {
    check_order(&[DRIVERS[0], DRIVERS[1], (path, text)], expect);
}

#[test]
fn files_beside_drivers_know_no_protocol() {
    let registration = "mod dnp3;\nmod modbus;\nfn f() -> dnp3::Dnp3 { modbus::g() }\n";
    check_drivers("field/mod.rs", registration, "");
    check_drivers("field/shard.rs", "// tieline_mqtt and dnp3\nconst A: &str = \"dnp3\";\nfn dnp3_of() {}\n", "");
    let expect = "no protocol: it goes into the folder of its driver";
    check_drivers(
        "field/shard.rs",
        "use std::rc::Rc;\nuse tieline_mqtt::Packet;\n",
        &format!("field/shard.rs:2: tieline_mqtt in shard.rs of field, expected {expect}"),
    );
    check_drivers(
        "field/shard.rs",
        "use super::{dnp3::Dnp3, driver::Driver};\nfn f() { crate::field::modbus::g() }\n",
        &format!(
            "field/shard.rs:1: dnp3 in shard.rs of field, expected {expect}\n\
             field/shard.rs:2: modbus in shard.rs of field, expected {expect}"
        ),
    );
    check_drivers(
        "field/mod.rs",
        "mod dnp3;\nuse tieline_mqtt::Packet;\n",
        &format!("field/mod.rs:2: tieline_mqtt in mod.rs of field, expected {expect}"),
    );
}

#[test]
fn a_driver_knows_no_other() {
    check_drivers(
        "field/dnp3/device.rs",
        "use super::dnp3;\nuse tieline_dnp3::Master;\nuse tieline_mqtt::Packet;\n",
        "",
    );
    let expect = "no other driver: what both need is in field";
    check_drivers(
        "field/modbus/device.rs",
        "use crate::field::dnp3::Dnp3;\nuse tieline_dnp3::Master;\n",
        &format!(
            "field/modbus/device.rs:1: dnp3 in modbus/device.rs of field, expected {expect}\n\
             field/modbus/device.rs:2: tieline_dnp3 in modbus/device.rs of field, expected {expect}"
        ),
    );
    check_drivers(
        "field/dnp3/mod.rs",
        "use super::modbus;\n",
        &format!("field/dnp3/mod.rs:1: modbus in dnp3/mod.rs of field, expected {expect}"),
    );
}

#[test]
fn a_crate_opens_with_a_header_and_without_std() {
    check(
        "crates/wire/mqtt/src/lib.rs",
        "// #![no_std]\n",
        "crates/wire/mqtt/src/lib.rs:1: a crate of wire with std, expected #![no_std]\n\
         crates/wire/mqtt/src/lib.rs:1: no header, expected //! what it does, in and out, what it never does, what to read first",
    );
}

#[test]
fn long_files_are_refused_and_their_tests_do_not_count() {
    let body = "fn a() {}\n".repeat(500);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn b() {}\n".repeat(300));
    check("crates/core/src/a.rs", &format!("{body}{tests}"), "");
    let expect = "501 lines without tests, expected at most 500: find the missing noun";
    check(
        "crates/core/src/a.rs",
        &format!("{body}fn a() {{}}\n{tests}"),
        &format!("crates/core/src/a.rs:501: {expect}"),
    );
    check("console/src/a.tsx", &format!("{body}\n"), &format!("console/src/a.tsx:501: {expect}"));
    check("crates/core/src/tests.rs", &format!("{body}{body}"), "");
    check("crates/core/src/generated.rs", &format!("{body}{body}"), "");
}

#[test]
fn empty_names_are_refused() {
    check(
        "crates/core/src/utils.rs",
        "",
        "crates/core/src/utils.rs:1: the name utils.rs, expected a noun that says what is inside",
    );
    check(
        "console/src/common/a.ts",
        "",
        "console/src/common/a.ts:1: the name common, expected a noun that says what is inside",
    );
}

#[test]
fn unsafe_has_one_place() {
    let expect = "1: unsafe, expected it only in sys.rs files of io";
    check("crates/io/net/src/poll.rs", "fn a() { unsafe {} }", &format!("crates/io/net/src/poll.rs:{expect}"));
    check("crates/core/src/sys.rs", "unsafe fn a() {}", &format!("crates/core/src/sys.rs:{expect}"));
    check("crates/io/net/src/sys.rs", "fn a() { unsafe {} }", "");
    check("crates/core/src/a.rs", "// unsafe\nconst A: &str = \"unsafe\";", "");
}

#[test]
fn tests_neither_sleep_nor_skip_nor_fix_a_port() {
    let test =
        |line: &str| format!("fn a() {{ sleep(1); bind(\"[::]:80\"); }}\n#[cfg(test)]\nmod tests {{\n{line}\n}}\n");
    let path = "crates/io/net/src/a.rs";
    check(path, &test(""), "");
    let slept = format!("{path}:4: a sleep in a test, expected virtual time, or a wait for a condition");
    check(path, &test("fn b() { std::thread::sleep(D); }"), &slept);
    check(path, &test("fn b() { tokio::time::sleep(D).await; }"), &slept);
    check(path, &test("fn b() { std::thread::sleep(D); } // start_paused"), &slept);
    check(path, &test("fn b() { builder.start_paused(true); tokio::time::sleep(D).await; }"), "");
    check(path, &test("#[ignore = \"slow\"]"), &format!("{path}:4: #[ignore], expected a test that runs, or none"));
    let port = format!("{path}:4: the fixed port 8080 in a test, expected port 0, and the address that it got");
    check(path, &test("fn b() { TcpListener::bind(\"127.0.0.1:8080\"); }"), &port);
    check(
        path,
        &test("fn b() { TcpListener::bind(\"127.0.0.1:0\"); parse(\"127.0.0.1:8080\"); }")
            .replace("; parse", ";\nparse"),
        "",
    );
}

#[test]
fn paths_of_one_machine_are_refused() {
    let text = format!(
        "See {}me/x.\nSee docs{}me/x and https://host{}me.\n",
        concat!("/", "home/"),
        concat!("/", "home/"),
        concat!("/", "home/")
    );
    check(
        "docs/a.md",
        &text,
        &format!(
            "docs/a.md:1: the machine path {}, expected a path that holds on every machine",
            concat!("/", "home/")
        ),
    );
}

#[test]
fn tests_that_documents_name_exist() {
    let text = "[`the_sun_rises`](../crates/core/src/lib.rs), [`README.md`](../Cargo.toml)";
    check(
        "docs/a.md",
        text,
        "docs/a.md:1: the test the_sun_rises, which ../crates/core/src/lib.rs does not have, \
         expected a test of that name in the linked file",
    );
}

#[test]
fn links_lead_somewhere() {
    check(
        "docs/a.md",
        "# One two\n[a](../crates/core/src/lib.rs) [b](#one-two) [c](https://host/x)\n```\n[d](x)\n```\n`[e](x)`\n",
        "",
    );
    check(
        "docs/a.md",
        "[a](b.md)\n[c](#there)\n[d](../../x)",
        "docs/a.md:1: a link to b.md, which is not here, expected a link that leads somewhere\n\
         docs/a.md:2: a link to #there, where no heading has that name, expected a link that leads somewhere\n\
         docs/a.md:3: a link to ../../x, which is not here, expected a link that leads somewhere",
    );
}

#[test]
fn packages_and_documents_have_the_version_of_the_workspace() {
    let check = |path: &str, text: &str, expect: &str| {
        let mut tree = house();
        tree.insert("Cargo.toml", format!("[workspace.package]\nversion = \"1.2.3\"\n{ROOT}"));
        tree.insert(path, text);
        let found: Vec<String> = findings(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found.join("\n"), expect);
    };
    let that = "expected 1.2.3, that of Cargo.toml";
    check("sdk/python/pyproject.toml", "[project]\nversion = \"1.2.3\"\n", "");
    check(
        "sdk/python/pyproject.toml",
        "[project]\nversion = \"1.2.2\"\n",
        &format!("sdk/python/pyproject.toml:2: version \"1.2.2\", {that}"),
    );
    check("sdk/typescript/package.json", "{}", &format!("sdk/typescript/package.json:1: version \"\", {that}"));
    check(
        "docs/a.md",
        "tieline 1.2.3, ./tieline_1.2.3-1_amd64.deb, tieline 1.1, nats 2.1.0 and tieline 127.0.0.1:80\n",
        "",
    );
    check("docs/a.md", "a\ntieline:1.2.0\n", &format!("docs/a.md:2: version \"1.2.0\", {that}"));
    check("docs/upgrade.md", "# Upgrade\n\n## To 1.2\n\n## To 1.1\n", "");
    let that = "expected 1.2, that of Cargo.toml";
    check("docs/upgrade.md", "# Upgrade\n\n## To 1.3\n", &format!("docs/upgrade.md:3: version \"1.3\", {that}"));
}
