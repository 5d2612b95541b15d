//! Places bays on a grid and writes the SVG.

use super::symbols::{DEFS, POSITIONS};
use super::{BAYS_MAX, BUSBARS_MAX, Bay, Busbar, Drawing, DrawingError, ITEMS_MAX, Item, Kind, VALUES_MAX};
use crate::svg::is_diagram_name;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;
use tieline_core::Topic;

/// The width of a column.
const COLUMN: usize = 240;
/// Where the bay is in its column: texts are at its right.
const INSET: usize = 100;
/// The height of an item, and half the width of its symbol.
const ITEM: usize = 60;
const HALF: usize = 20;
const MARGIN: usize = 30;
/// From the column to an item beside it.
const BESIDE: usize = 70;
/// Height of a line of text.
const TEXT: usize = 18;
/// Room for the label at the end of a bay.
const LABEL: usize = 30;
/// Height of the title.
const TITLE: usize = 50;
/// Characters of a text that is drawn.
const TEXT_CHARS_MAX: usize = 60;

impl Drawing {
    /// Draws it as SVG that [`crate::Diagram::check`] accepts.
    ///
    /// # Errors
    /// Names that are wrong or twice, bays that lead nowhere, switches without topics, or too much of something.
    pub fn to_svg(&self) -> Result<String, Vec<DrawingError>> {
        let errors = self.errors();
        if !errors.is_empty() {
            return Err(errors);
        }
        let zones = self.zones();
        let columns = zones.iter().map(|zone| zone.bays.len()).max().unwrap_or(0).max(1);
        let (width, mut y) = (2 * MARGIN + columns * COLUMN, TITLE);
        let mut body = String::new();
        for (index, zone) in zones.iter().enumerate() {
            let bottom = y + zone.height();
            for (column, bay) in zone.bays.iter().enumerate() {
                let place = Place { x: MARGIN + column * COLUMN + INSET, top: y, bottom, is_up: bay.is_up };
                draw_bay(&mut body, bay, place);
            }
            if let Some(busbar) = self.busbars.get(index) {
                draw_busbar(&mut body, busbar, bottom, width);
            }
            y = bottom;
        }
        let height = y + MARGIN;
        let title = escaped(if self.title.is_empty() { "Single-line diagram" } else { &self.title });
        let mut svg = String::new();
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" fill=\"none\" stroke=\"currentColor\" \
             stroke-width=\"2\" font-family=\"sans-serif\" font-size=\"14\">\n<title>{title}</title>\n{DEFS}"
        );
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"30\" font-size=\"18\" fill=\"currentColor\" stroke=\"none\">{title}</text>"
        );
        svg.push_str(&body);
        svg.push_str("</svg>\n");
        Ok(svg)
    }

    /// What is above the first busbar, between two, and below the last one.
    fn zones(&self) -> Vec<Zone<'_>> {
        let mut zones: Vec<Zone<'_>> = (0..=self.busbars.len()).map(|_| Zone::default()).collect();
        for bay in &self.bays {
            let busbar = self.busbar(&bay.from).unwrap_or_default();
            if let Some(zone) = zones.get_mut(if bay.is_up { busbar } else { busbar + 1 }) {
                zone.bays.push(bay);
            }
        }
        zones
    }

    fn busbar(&self, name: &str) -> Option<usize> {
        self.busbars.iter().position(|busbar| busbar.name == name)
    }

    fn errors(&self) -> Vec<DrawingError> {
        let mut errors = Vec::new();
        let mut say = |of: String, found: String, expected: String| errors.push(DrawingError { of, found, expected });
        for (what, count, most) in [("busbars", self.busbars.len(), BUSBARS_MAX), ("bays", self.bays.len(), BAYS_MAX)] {
            if count == 0 || count > most {
                say("the diagram".into(), format!("{count} {what}"), format!("1 to {most}"));
            }
        }
        let busbars = self.busbars.iter().map(|busbar| ("busbar", &busbar.name));
        let named: Vec<_> = busbars.chain(self.bays.iter().map(|bay| ("bay", &bay.name))).collect();
        for (index, (what, name)) in named.iter().enumerate() {
            let of = format!("{what} {name:?}");
            if !is_diagram_name(name) || *name == "earth" {
                say(of.clone(), "its name".into(), "lower-case letters, digits, - and _; not earth".into());
            }
            if named.iter().take(index).any(|(_, other)| other == name) {
                say(of, "the name twice".into(), "a name of its own".into());
            }
        }
        for bay in &self.bays {
            let of = format!("bay {:?}", bay.name);
            for (found, expected) in self.errors_of(bay) {
                say(of.clone(), found, expected);
            }
        }
        for busbar in self.busbars.iter().filter(|busbar| busbar.values.len() > VALUES_MAX) {
            say(
                format!("busbar {:?}", busbar.name),
                format!("{} values", busbar.values.len()),
                format!("at most {VALUES_MAX}"),
            );
        }
        errors
    }

    fn errors_of(&self, bay: &Bay) -> Vec<(String, String)> {
        let mut found = Vec::new();
        match (self.busbar(&bay.from), bay.to.as_ref()) {
            (None, _) => found.push((format!("from = {:?}", bay.from), "the name of a busbar".to_string())),
            (Some(_), Some(to)) if bay.is_up => {
                found.push((format!("up, and to = {to:?}"), "one of the two".to_string()));
            }
            (Some(from), Some(to)) if self.busbar(to) != Some(from + 1) => {
                found.push((format!("to = {to:?}"), "the busbar after that of from".to_string()));
            }
            (Some(_), _) => {}
        }
        if bay.link.as_ref().is_some_and(|link| !is_diagram_name(link)) {
            found.push((
                format!("link = {:?}", bay.link.as_deref().unwrap_or_default()),
                "the name of a diagram".to_string(),
            ));
        }
        if bay.items.is_empty() || bay.items.len() > ITEMS_MAX {
            found.push((format!("{} items", bay.items.len()), format!("1 to {ITEMS_MAX}")));
        }
        let last = bay.items.iter().rposition(|item| !is_beside(item));
        for (index, item) in bay.items.iter().enumerate() {
            found
                .extend(errors_of_item(item).map(|(what, expected)| (format!("item {}: {what}", index + 1), expected)));
            let must_end = item.kind.is_end() || item.is_source;
            if must_end && !is_beside(item) && (Some(index) != last || bay.to.is_some()) {
                let what = format!("item {}: a {} that the bay goes on after", index + 1, item.kind.word());
                found.push((what, "it at the end of a bay without to, or beside = true".to_string()));
            }
        }
        found
    }
}

fn errors_of_item(item: &Item) -> Option<(String, String)> {
    let word = item.kind.word();
    if item.kind.is_switch() != item.topic.is_some() {
        let expected = if item.kind.is_switch() { "the topic of its position" } else { "no topic, but values" };
        return Some((
            format!("{word} {} topic", if item.topic.is_some() { "with" } else { "without" }),
            expected.to_string(),
        ));
    }
    if item.is_source && !matches!(item.kind, Kind::Line | Kind::Cable | Kind::Generator) {
        return Some((format!("{word} as source"), "a line, a cable or a generator".to_string()));
    }
    if item.live.is_some() && !item.is_source {
        return Some((format!("{word} with live"), "source = true".to_string()));
    }
    if item.is_beside && !(item.kind.is_end() || item.kind == Kind::EarthSwitch) {
        return Some((format!("{word} beside"), "an earth switch, a generator, a motor or a load".to_string()));
    }
    (item.values.len() > VALUES_MAX)
        .then(|| (format!("{} values of a {word}", item.values.len()), format!("at most {VALUES_MAX}")))
}

/// Whether it is beside the bay, and takes no place in it.
fn is_beside(item: &Item) -> bool {
    item.is_beside || item.kind == Kind::EarthSwitch
}

/// Bays between two busbars.
#[derive(Default)]
struct Zone<'a> {
    bays: Vec<&'a Bay>,
}

impl Zone<'_> {
    fn height(&self) -> usize {
        self.bays.iter().map(|bay| height_of(bay) + LABEL).max().unwrap_or(0) + MARGIN
    }
}

/// Each item takes a row; one beside the bay a row with a wire in the bay.
fn height_of(bay: &Bay) -> usize {
    bay.items.iter().map(room_of).sum::<usize>() + ITEM / 2
}

fn room_of(item: &Item) -> usize {
    let lines = item.values.len() + 1;
    if is_beside(item) { ITEM / 2 + ITEM + lines * TEXT } else { ITEM.max(lines * TEXT) }
}

/// Where a bay is: its column, and the lines above and below.
#[derive(Clone, Copy)]
struct Place {
    x: usize,
    top: usize,
    bottom: usize,
    is_up: bool,
}

/// Draws a bay from its busbar on.
struct Pen<'a> {
    out: &'a mut String,
    place: Place,
    /// How far from the busbar.
    at: usize,
    node: String,
    wires: usize,
}

impl Pen<'_> {
    /// The lower or the upper edge of a row that begins here.
    fn row(&self, room: usize) -> usize {
        if self.place.is_up { self.place.bottom.saturating_sub(self.at + room) } else { self.place.top + self.at }
    }

    fn wire(&mut self, length: usize) {
        let (x, y) = (self.place.x, self.row(length));
        let _ = writeln!(self.out, "<path data-node=\"{}\" d=\"M{x} {y}V{}\"/>", self.node, y + length);
        self.at += length;
    }

    fn next_node(&mut self, bay: &str) -> (String, String) {
        self.wires += 1;
        let next = format!("{bay}.{}", self.wires);
        (core::mem::replace(&mut self.node, next.clone()), next)
    }
}

fn draw_bay(out: &mut String, bay: &Bay, place: Place) {
    let mut pen = Pen { out, place, at: 0, node: bay.from.clone(), wires: 0 };
    pen.wire(ITEM / 4);
    let last = bay.items.len().saturating_sub(1);
    for (index, item) in bay.items.iter().enumerate() {
        let ends_at = bay.to.as_deref().filter(|_| index == last);
        draw_item(&mut pen, bay, item, ends_at);
    }
    if bay.to.is_some() {
        // Down to the next busbar.
        let rest = (place.bottom - place.top).saturating_sub(pen.at);
        pen.wire(rest);
    }
    let y = match (bay.to.is_some(), place.is_up) {
        (true, _) => place.top + ITEM / 2 + TEXT,
        (false, true) => pen.row(0).saturating_sub(TEXT / 2),
        (false, false) => pen.row(0) + TEXT,
    };
    let link = bay.link.as_ref().map(|link| format!(" data-link=\"{link}\"")).unwrap_or_default();
    let (x, anchor) = if bay.to.is_some() { (place.x - HALF - 8, "end") } else { (place.x, "middle") };
    let _ = writeln!(
        pen.out,
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"currentColor\" stroke=\"none\"{link}>{}</text>",
        escaped(&bay.label)
    );
}

fn draw_item(pen: &mut Pen<'_>, bay: &Bay, item: &Item, ends_at: Option<&str>) {
    if is_beside(item) {
        return draw_beside(pen, bay, item);
    }
    let (x, room) = (pen.place.x, room_of(item));
    let y = pen.row(ITEM);
    let (from, to) = if splits(item) {
        let (from, to) = pen.next_node(&bay.name);
        // The last item ends at the busbar itself, whose wire has its name.
        let to = ends_at.map_or(to, ToString::to_string);
        pen.node.clone_from(&to);
        (from, to)
    } else {
        (pen.node.clone(), pen.node.clone())
    };
    // A symbol that points away from its busbar is turned over where the bay goes up.
    let points = matches!(item.kind, Kind::Line) || item.kind.is_end();
    let turn = if pen.place.is_up && points { format!(" rotate(180 {HALF} {})", ITEM / 2) } else { String::new() };
    let _ = write!(
        pen.out,
        "<g data-symbol=\"{}\"{} transform=\"translate({} {y}){turn}\">",
        item.kind.word(),
        bindings(item, &from, &to),
        x - HALF
    );
    draw_symbol(pen.out, item, pen.place.is_up);
    pen.out.push_str("</g>\n");
    let text_y = if pen.place.is_up { pen.row(room) + room - ITEM } else { y };
    draw_texts(pen.out, item, x + HALF + 8, text_y + TEXT + 6);
    pen.at += ITEM;
    if splits(item) {
        // The node behind it has an element of its own, be it short.
        let rest = (room - ITEM).max(1);
        pen.wire(rest);
    } else if room > ITEM && !item.kind.is_end() {
        pen.wire(room - ITEM);
    } else {
        pen.at += room - ITEM;
    }
}

/// Whether what is behind an item is another node.
const fn splits(item: &Item) -> bool {
    item.kind.is_switch() || matches!(item.kind, Kind::Transformer)
}

fn bindings(item: &Item, from: &str, to: &str) -> String {
    let mut text = String::new();
    if let Some(topic) = &item.topic {
        let _ = write!(text, " data-topic=\"{}\"", escaped_whole(topic.as_str()));
    }
    if from == to {
        let _ = write!(text, " data-node=\"{from}\"");
    } else {
        let _ = write!(text, " data-from=\"{from}\" data-to=\"{to}\"");
    }
    if item.is_source {
        let live = item.live.as_ref().map(Topic::as_str).unwrap_or_default();
        let _ = write!(text, " data-source=\"{}\"", escaped_whole(live));
    }
    text
}

fn draw_symbol(out: &mut String, item: &Item, is_up: bool) {
    let word = item.kind.word();
    let _ = write!(out, "<title>{}</title>", escaped(if item.name.is_empty() { word } else { &item.name }));
    if item.kind.is_switch() {
        for position in POSITIONS {
            // Seen without a console, nothing is known.
            let hidden = if position == "unknown" { "" } else { " display=\"none\"" };
            let _ = write!(out, "<use href=\"#{word}-{position}\" data-when=\"{position}\"{hidden}/>");
        }
    } else {
        // Letters are not turned over with their symbol.
        let turn = if is_up && item.kind.is_end() && !matches!(item.kind, Kind::Load) {
            " transform=\"rotate(180 20 36)\""
        } else {
            ""
        };
        let _ = write!(out, "<use href=\"#{word}\"{turn}/>");
    }
}

fn draw_beside(pen: &mut Pen<'_>, bay: &Bay, item: &Item) {
    let (x, room) = (pen.place.x, room_of(item));
    let row = pen.row(room);
    let y = row + ITEM / 4;
    let side = x - BESIDE;
    let is_earth = item.kind == Kind::EarthSwitch;
    let node = pen.node.clone();
    pen.wire(room);
    let _ = writeln!(pen.out, "<path data-node=\"{node}\" d=\"M{x} {y}H{side}V{}\"/>", y + 5);
    let to = if is_earth { "earth" } else { node.as_str() };
    let _ = write!(
        pen.out,
        "<g data-symbol=\"{}\"{} transform=\"translate({} {})\">",
        item.kind.word(),
        bindings(item, &node, to),
        side - HALF,
        y + 5
    );
    draw_symbol(pen.out, item, false);
    pen.out.push_str("</g>\n");
    let label = if item.name.is_empty() { bay.name.as_str() } else { &item.name };
    let named = Item { name: label.to_string(), ..item.clone() };
    // Below the symbol: beside it is the bay.
    draw_texts(pen.out, &named, side - HALF, y + 5 + ITEM + TEXT - 6);
}

/// Names and values, below one another.
fn draw_texts(out: &mut String, item: &Item, x: usize, mut y: usize) {
    if !item.name.is_empty() {
        let _ = writeln!(out, "{}", text_of(x, y, "start", "12", &item.name));
        y += TEXT;
    }
    for topic in &item.values {
        draw_value(out, topic, x, y);
        y += TEXT;
    }
}

fn draw_value(out: &mut String, topic: &Topic, x: usize, y: usize) {
    let _ = writeln!(
        out,
        "<text data-topic=\"{}\" x=\"{x}\" y=\"{y}\" fill=\"currentColor\" stroke=\"none\">–</text>",
        escaped_whole(topic.as_str())
    );
}

fn draw_busbar(out: &mut String, busbar: &Busbar, y: usize, width: usize) {
    let Busbar { name, label, voltage, values } = busbar;
    let (left, right) = (MARGIN, width - MARGIN);
    let _ = writeln!(
        out,
        "<path data-symbol=\"busbar\" data-node=\"{name}\" stroke-width=\"6\" d=\"M{left} {y}H{right}\"/>"
    );
    let words = if voltage.is_empty() { label.clone() } else { format!("{label} · {voltage}") };
    let _ = writeln!(out, "{}", text_of(left, y - 10, "start", "14", &words));
    for (index, topic) in values.iter().enumerate() {
        draw_value(out, topic, left, y + TEXT + 4 + index * TEXT);
    }
}

fn text_of(x: usize, y: usize, anchor: &str, size: &str, words: &str) -> String {
    format!(
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"currentColor\" stroke=\"none\">{}</text>",
        escaped(words)
    )
}

/// A text that is drawn, cut to what fits.
fn escaped(text: &str) -> String {
    let cut: String = text.chars().take(TEXT_CHARS_MAX).collect();
    escaped_whole(&cut)
}

fn escaped_whole(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' | '\r' => out.push(' '),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
