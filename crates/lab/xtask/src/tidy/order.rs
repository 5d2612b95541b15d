//! The order of the node's rooms, the modules of its `lib.rs`: a room imports only rooms of lower ranks. And inside the room of
//! drivers: a driver is a folder, and knows no other; the files beside the folders know no protocol.
//!
//! Read are the paths `crate::ROOM`, `crate::{ROOM, …}` and `super::ROOM` of the code, and the names of drivers and protocols
//! wherever they are in it; tests included.

use super::masked::{line_of, lines_with_word, mask};
use super::{Finding, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// The crate whose modules are rooms.
const SOURCES: &str = "crates/node/node/src/";

/// Its rooms, the lowest rank first. Rooms of one rank do not know each other.
const ORDER: [&[&str]; 7] = [
    &["backup", "config", "wall_clock"],
    &["trace"],
    &["access", "control", "edge", "field", "history", "sites"],
    &["cluster"],
    &["bus"],
    &["broker", "http"],
    &["node"],
];

/// Rooms at most.
const ROOMS_MAX: usize = 15;

/// The room whose folders are drivers, one for each protocol.
const DRIVERS: &str = "crates/node/node/src/field/";
/// The file directly in it that registers drivers.
const REGISTRATION: &str = "mod.rs";
/// The crates that are protocols, one a folder: `dnp3` is the crate `tieline_dnp3`.
const PROTOCOLS: &str = "crates/wire/";

/// One room's use of another: who uses whom, and where first.
type Arrows<'a> = BTreeMap<(&'a str, String), (&'a str, usize)>;

pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = findings_of_drivers(tree);
    let root = format!("{SOURCES}lib.rs");
    let Some(text) = tree.get(&root) else { return findings };
    let rooms = modules(text);
    findings.extend(rooms_without_rank(&root, &rooms));
    let mut arrows = Arrows::new();
    for (path, text) in tree.files().filter(|(path, _)| path.starts_with(SOURCES) && path.ends_with(".rs")) {
        let Some(from) = room_of(path).filter(|from| *from != "lib") else { continue };
        for (line, to) in root_names(path, text).into_iter().filter(|(_, to)| to != from) {
            if !rooms.iter().any(|(_, room)| *room == to) {
                let what = format!("{from} takes {to} from lib.rs");
                findings.push(Finding::new(path, line, what, "the path through the room that has it"));
                continue;
            }
            if let (Some(low), Some(high)) = (rank(from), rank(&to))
                && high >= low
            {
                let place = if high > low { "above" } else { "beside" };
                let what = format!("{from} imports {to}, which stands {place} it");
                findings.push(Finding::new(path, line, what, below(low)));
            }
            arrows.entry((from, to)).or_insert((path, line));
        }
    }
    findings.extend(mutual(&arrows));
    findings
}

/// What is wrong with the list of rooms itself.
fn rooms_without_rank(root: &str, rooms: &[(usize, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, room) in rooms.iter().filter(|(_, room)| rank(room).is_none()) {
        let what = format!("the room {room} without a rank");
        findings.push(Finding::new(root, *line, what, "its place in ORDER of tidy/order.rs, or a room that has one"));
    }
    if let Some((line, room)) = rooms.get(ROOMS_MAX) {
        let what = format!("{} rooms, {room} among them", rooms.len());
        findings.push(Finding::new(root, *line, what, format!("at most {ROOMS_MAX}: a module inside a room")));
    }
    findings
}

/// Rooms that import each other.
fn mutual(arrows: &Arrows<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ((from, to), (path, line)) in arrows {
        let back = arrows.iter().find(|((other, target), _)| other == to && target == from);
        if let Some((_, (back, at))) = back.filter(|_| *from < to.as_str()) {
            let what = format!("{from} and {to} import each other, {to} in {back}:{at}");
            findings.push(Finding::new(path, *line, what, "one of the two, or what both need in a room below"));
        }
    }
    findings
}

/// Protocols where none may be, and drivers that know another.
fn findings_of_drivers(tree: &Tree) -> Vec<Finding> {
    let (drivers, protocols) = (folders(tree, DRIVERS), folders(tree, PROTOCOLS));
    let crate_of = |folder: &&str| format!("tieline_{}", folder.replace('-', "_"));
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".rs")) {
        let Some(inside) = path.strip_prefix(DRIVERS) else { continue };
        let own = inside.split_once('/').map(|(own, _)| own);
        let others = drivers.iter().filter(|driver| Some(**driver) != own);
        let (crates, expected): (Vec<String>, _) = match own {
            None => (protocols.iter().map(crate_of).collect(), "no protocol: it goes into the folder of its driver"),
            Some(_) => (others.clone().map(crate_of).collect(), "no other driver: what both need is in field"),
        };
        let may_name_drivers = inside == REGISTRATION;
        let modules = others.filter(|_| !may_name_drivers).map(|driver| (*driver).to_owned());
        let masked = mask(text);
        for word in crates.into_iter().chain(modules) {
            let found = lines_with_word(&masked, &word);
            findings
                .extend(found.map(|line| Finding::new(path, line, format!("{word} in {inside} of field"), expected)));
        }
    }
    findings
}

/// The folders directly in another.
fn folders<'a>(tree: &'a Tree, above: &str) -> BTreeSet<&'a str> {
    tree.files().filter_map(|(path, _)| Some(path.strip_prefix(above)?.split_once('/')?.0)).collect()
}

/// The modules that a `lib.rs` declares, with their lines.
fn modules(text: &str) -> Vec<(usize, &str)> {
    let declared = |code: &str| {
        let code = code.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        Some(code.strip_prefix("mod ")?.strip_suffix(';')?.len())
    };
    let masked = mask(text);
    let lines = masked.lines().zip(text.lines()).enumerate();
    lines
        .filter_map(|(n, (code, line))| {
            let name = line.trim_end().strip_suffix(';')?;
            Some((n + 1, name.get(name.len() - declared(code)?..)?))
        })
        .collect()
}

/// The room of a file: its folder below the sources, or itself.
fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(SOURCES)?;
    let first = inside.split('/').next()?;
    Some(first.strip_suffix(".rs").unwrap_or(first))
}

fn rank(room: &str) -> Option<usize> {
    ORDER.iter().position(|rooms| rooms.contains(&room))
}

fn below(rank: usize) -> String {
    match ORDER.get(..rank).map(<[_]>::concat).unwrap_or_default().as_slice() {
        [] => "no room".to_owned(),
        rooms => format!("only {}", rooms.join(", ")),
    }
}

/// The names of the crate's root that a file uses, with their lines.
fn root_names(path: &str, text: &str) -> Vec<(usize, String)> {
    let masked = mask(text);
    let mut names = Vec::new();
    for (at, _) in masked.match_indices("crate::") {
        let is_whole = !masked[..at].ends_with(|c: char| c.is_alphanumeric() || "_$:".contains(c));
        if is_whole {
            names.extend(first_names(&masked, at + "crate::".len()));
        }
    }
    for (at, _) in masked.match_indices("super::") {
        if masked[..at].ends_with("super::") {
            continue;
        }
        let (chain, depth) = (masked[at..].split("super::").take_while(|part| part.is_empty()).count(), depth_of(path));
        if chain >= depth && chain == depth + inline_depth(&masked, at) {
            names.extend(first_names(&masked, at + chain * "super::".len()));
        }
    }
    names.into_iter().map(|(at, name)| (line_of(&masked, at), name)).collect()
}

/// The name that a path goes on with, or all names of `{a, b::c, …}`; with their places.
fn first_names(masked: &str, start: usize) -> Vec<(usize, String)> {
    let name_at = |at: usize| {
        let rest = masked.get(at..).unwrap_or_default();
        let at = at + rest.len() - rest.trim_start().len();
        let name: String = rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (!name.is_empty()).then_some((at, name))
    };
    let Some(group) = masked.get(start..).and_then(|rest| rest.strip_prefix('{')) else {
        return name_at(start).into_iter().collect();
    };
    let (mut depth, mut begins) = (0_usize, vec![start + 1]);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => break,
            b'}' => depth -= 1,
            b',' if depth == 0 => begins.push(start + 1 + at + 1),
            _ => {}
        }
    }
    begins.into_iter().filter_map(name_at).filter(|(_, name)| name != "self").collect()
}

/// How many `super` lead from a file to the crate's root.
fn depth_of(path: &str) -> usize {
    let inside = path.strip_prefix(SOURCES).unwrap_or(path);
    let folders = inside.matches('/').count();
    if inside.ends_with("/mod.rs") { folders } else { folders + 1 }
}

/// How many modules that are written out around a place are in the same file.
fn inline_depth(masked: &str, place: usize) -> usize {
    let (mut depth, mut modules) = (0_usize, Vec::new());
    for (at, byte) in masked.bytes().enumerate().take(place) {
        match byte {
            b'{' => {
                depth += 1;
                let head = masked[..at].rsplit(['{', '}', ';', ']']).next().unwrap_or_default();
                if head.split_whitespace().any(|word| word == "mod") {
                    modules.push(depth);
                }
            }
            b'}' => {
                modules.retain(|opened| *opened != depth);
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    modules.len()
}
