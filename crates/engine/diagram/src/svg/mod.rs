//! Checks an SVG file of a user, and finds what it is bound to.
//!
//! A file gets in only with elements that draw. It has no script, no foreign content, no style sheet, no animation, no attribute
//! that handles an event, and it refers to nothing outside itself: showing it runs nothing and sends no request.

mod binding;
mod words;
mod xml;

use self::binding::Binder;
use self::words::{BINDINGS, ELEMENTS};
use self::xml::{Attribute, Piece, Scanner, resolve, shortened};
use crate::topology::{Edge, Feed, Network, Position};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use tieline_core::Topic;

/// Bytes of a file.
pub const SVG_BYTES_MAX: usize = 1 << 20;
/// Bytes of the name of a diagram.
pub const NAME_BYTES_MAX: usize = 64;
const ELEMENTS_MAX: usize = 20_000;
const DEPTH_MAX: usize = 64;
const ERRORS_MAX: usize = 20;
const TITLE_CHARS_MAX: usize = 200;

const SVG: &str = "http://www.w3.org/2000/svg";
const XLINK: &str = "http://www.w3.org/1999/xlink";

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SvgError {
    /// Where, from 1.
    pub line: usize,
    /// What is there.
    pub found: String,
    /// What should be.
    pub expected: String,
}

impl SvgError {
    const fn new(line: usize, found: String, expected: String) -> Self {
        Self { line, found, expected }
    }
}

impl fmt::Display for SvgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: found {}, expected {}", self.line, self.found, self.expected)
    }
}

impl core::error::Error for SvgError {}

/// Whether a text is a name of a diagram: lower-case letters, digits, `-` and `_`.
#[must_use]
pub fn is_diagram_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// What a file is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagram {
    /// The `<title>` of the file.
    pub title: Option<String>,
    /// Topics that it shows, each once, sorted.
    pub topics: Vec<Topic>,
    /// Names of its nodes, sorted.
    pub nodes: Vec<String>,
    /// Diagrams to which it has links.
    pub links: Vec<String>,
    connections: Vec<Connection>,
    sources: Vec<(usize, Option<usize>)>,
}

/// Two nodes by their indices, `None` is earth; and the index of the topic that opens and closes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Connection {
    from: Option<usize>,
    to: Option<usize>,
    topic: Option<usize>,
}

impl Diagram {
    /// Checks a file.
    ///
    /// # Errors
    /// What is wrong with it, the first 20 errors in order. Nothing of it can be used then.
    pub fn check(text: &str) -> Result<Self, Vec<SvgError>> {
        if text.len() > SVG_BYTES_MAX {
            let found = format!("{} bytes", text.len());
            return Err([SvgError::new(1, found, format!("at most {SVG_BYTES_MAX}"))].into());
        }
        let mut reader = Reader::default();
        if let Err(error) = reader.read(text) {
            reader.errors.push(error);
        }
        let (diagram, unknown) = reader.binder.finish();
        reader.errors.extend(unknown);
        reader.errors.sort_by_key(|error| error.line);
        reader.errors.truncate(ERRORS_MAX);
        if reader.errors.is_empty() { Ok(Self { title: reader.title, ..diagram }) } else { Err(reader.errors) }
    }

    /// How many switches it has.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.connections.iter().filter(|connection| connection.topic.is_some()).count()
    }

    /// How many sources it has.
    #[must_use]
    pub const fn sources(&self) -> usize {
        self.sources.len()
    }

    /// The network with the positions of its topics. The states of its nodes are in the order of [`Diagram::nodes`].
    #[must_use]
    pub fn network(&self, position: impl Fn(&Topic) -> Position) -> Network {
        let of = |topic: Option<usize>| match topic.map(|index| self.topics.get(index)) {
            None => Position::Closed,
            Some(topic) => topic.map_or(Position::Unknown, &position),
        };
        let mut network = Network { nodes: self.nodes.len(), ..Network::default() };
        for Connection { from, to, topic } in &self.connections {
            match (*from, *to) {
                (Some(from), Some(to)) => network.edges.push(Edge { from, to, position: of(*topic) }),
                (Some(node), None) | (None, Some(node)) => {
                    network.earths.push(Feed { node, position: of(*topic) });
                }
                (None, None) => {}
            }
        }
        network.sources.extend(self.sources.iter().map(|(node, topic)| Feed { node: *node, position: of(*topic) }));
        network
    }
}

#[derive(Default)]
struct Reader<'a> {
    open: Vec<&'a str>,
    elements: usize,
    title: Option<String>,
    is_title: bool,
    errors: Vec<SvgError>,
    binder: Binder,
}

impl<'a> Reader<'a> {
    /// Reads all of a file; an error ends it where nothing after it can be understood.
    fn read(&mut self, text: &'a str) -> Result<(), SvgError> {
        let mut scanner = Scanner::new(text);
        loop {
            let line = scanner.line();
            let Some(piece) = scanner.next()? else { break };
            match piece {
                Piece::Start { name, attributes, is_empty } => self.start(line, name, &attributes, is_empty)?,
                Piece::End { name } => match self.open.pop() {
                    Some(open) if open == name => self.is_title = false,
                    open => {
                        let expected = open.map_or("the end of the file".to_string(), |open| format!("</{open}>"));
                        return Err(SvgError::new(line, format!("</{}>", shortened(name)), expected));
                    }
                },
                Piece::Text(text) => self.text(line, text)?,
            }
            if self.errors.len() >= ERRORS_MAX {
                return Ok(());
            }
        }
        match self.open.last() {
            Some(open) => Err(SvgError::new(scanner.line(), "the end of the file".into(), format!("</{open}>"))),
            None if self.elements == 0 => Err(SvgError::new(1, "no element".into(), format!("<svg xmlns=\"{SVG}\">"))),
            None => Ok(()),
        }
    }

    fn start(
        &mut self,
        line: usize,
        name: &'a str,
        attributes: &[Attribute<'a>],
        is_empty: bool,
    ) -> Result<(), SvgError> {
        let is_root = self.open.is_empty();
        if is_root && (self.elements > 0 || name != "svg") {
            return Err(SvgError::new(
                line,
                format!("<{}>", shortened(name)),
                "one element svg, which has all others".into(),
            ));
        }
        if is_root && !attributes.iter().any(|attribute| attribute.name == "xmlns" && attribute.value == SVG) {
            self.errors.push(SvgError::new(line, "<svg> without xmlns".into(), format!("xmlns=\"{SVG}\"")));
        }
        self.elements += 1;
        if self.elements > ELEMENTS_MAX {
            return Err(SvgError::new(line, "more elements".into(), format!("at most {ELEMENTS_MAX}")));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(SvgError::new(line, "a deeper element".into(), format!("at most {DEPTH_MAX} levels")));
        }
        match name.split_once(':') {
            // What a drawing program keeps for itself: nobody draws it.
            Some((prefix, _)) if prefix != "svg" => {}
            _ if ELEMENTS.contains(&name) => {}
            _ => self.errors.push(SvgError::new(line, format!("<{}>", shortened(name)), expected_of(name))),
        }
        for attribute in attributes {
            if let Err(expected) = check_attribute(attribute) {
                let found = format!("{}=\"{}\"", shortened(attribute.name), shortened(&attribute.value));
                self.errors.push(SvgError::new(attribute.line, found, expected));
            }
        }
        self.errors.extend(self.binder.bind(line, attributes));
        if !is_empty {
            self.is_title = name == "title" && self.open.len() == 1 && self.title.is_none();
            self.open.push(name);
        }
        Ok(())
    }

    fn text(&mut self, line: usize, text: &str) -> Result<(), SvgError> {
        let Some(resolved) = resolve(text) else {
            return Err(SvgError::new(line, shortened(text.trim()), "&amp; in the place of a lone &".into()));
        };
        if self.open.is_empty() && !text.trim().is_empty() {
            return Err(SvgError::new(line, shortened(text.trim()), "nothing outside <svg>".into()));
        }
        if self.is_title {
            self.title = Some(resolved.trim().chars().take(TITLE_CHARS_MAX).collect());
        }
        Ok(())
    }
}

/// What to do about an element that does not get in.
fn expected_of(name: &str) -> String {
    match name {
        "script" => "no script".into(),
        "style" => "attributes such as fill and stroke: no style sheet".into(),
        "foreignObject" => "<text>: no content of another kind".into(),
        "image" | "feImage" => "shapes: no picture from elsewhere".into(),
        "a" => "data-link=\"NAME\" of another diagram: no link".into(),
        "animate" | "animateMotion" | "animateTransform" | "set" => "no animation".into(),
        _ => format!("one of {}", ELEMENTS.join(", ")),
    }
}

/// Says what is expected in the place of an attribute that does not get in.
fn check_attribute(Attribute { name, value, .. }: &Attribute<'_>) -> Result<(), String> {
    let low = name.to_ascii_lowercase();
    // Also with a prefix, whatever it stands for.
    let local = low.rsplit(':').next().unwrap_or_default();
    if local.starts_with("on") {
        return Err("no attribute that handles an event".into());
    }
    if low == "xmlns" && value != SVG {
        return Err(format!("\"{SVG}\""));
    }
    if let Some(prefix) = low.strip_prefix("xmlns:") {
        return check_prefix(prefix, value);
    }
    if matches!(local, "href" | "src") && !(value.starts_with('#') && value.len() > 1) {
        return Err("#ID of an element of this file".into());
    }
    if local == "base" {
        return Err("no other base of references".into());
    }
    if low.starts_with("data-") && !BINDINGS.contains(name) {
        return Err(format!("one of {}", BINDINGS.join(", ")));
    }
    check_style(value)
}

/// A prefix may stand for what drawing programs write, and for nothing that a browser carries out.
fn check_prefix(prefix: &str, space: &str) -> Result<(), String> {
    match prefix {
        "svg" if space == SVG => Ok(()),
        "xlink" if space == XLINK => Ok(()),
        "svg" | "xlink" => Err(format!("\"{}\"", if prefix == "svg" { SVG } else { XLINK })),
        _ if space.contains("w3.org/2000/svg") || space.contains("xhtml") || space.contains("MathML") => {
            Err("a namespace of a drawing program".into())
        }
        _ => Ok(()),
    }
}

/// A value may refer to an element of the same file; escapes could hide a reference.
fn check_style(value: &str) -> Result<(), String> {
    let low = value.to_ascii_lowercase();
    let is_outside =
        low.split("url(").skip(1).any(|after| !after.trim_start_matches(['"', '\'', ' ']).starts_with('#'));
    if is_outside {
        return Err("url(#ID) of an element of this file".into());
    }
    if ["javascript:", "expression(", "@import", "image-set(", "\\"].iter().any(|word| low.contains(word)) {
        return Err("a plain value".into());
    }
    Ok(())
}
