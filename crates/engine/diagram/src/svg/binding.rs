//! What the elements of a file are bound to: topics, nodes of the network, connections, sources.

use super::words::{EARTH, PARTS, POSITIONS, SWITCHES};
use super::xml::{Attribute, shortened};
use super::{Connection, Diagram, SvgError, is_diagram_name};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use tieline_core::Topic;

const TOPICS_MAX: usize = 2_000;
const NODES_MAX: usize = 5_000;
const CONNECTIONS_MAX: usize = 6_000;
const LINKS_MAX: usize = 256;
const NODE_BYTES_MAX: usize = 64;

/// A connection by the names of its nodes.
struct Named {
    line: usize,
    from: String,
    to: String,
    topic: Option<Topic>,
}

/// Gathers bindings; names become indices at the end.
#[derive(Default)]
pub struct Binder {
    topics: BTreeSet<Topic>,
    nodes: BTreeSet<String>,
    links: BTreeSet<String>,
    connections: Vec<Named>,
    sources: Vec<(String, Option<Topic>)>,
}

/// The attributes of one element that bind it.
#[derive(Default)]
struct Bound<'a> {
    topic: Option<&'a str>,
    symbol: Option<&'a str>,
    node: Option<&'a str>,
    from: Option<&'a str>,
    to: Option<&'a str>,
    source: Option<&'a str>,
    when: Option<&'a str>,
    link: Option<&'a str>,
}

impl<'a> Bound<'a> {
    fn of(attributes: &'a [Attribute<'_>]) -> Self {
        let mut bound = Self::default();
        for Attribute { name, value, .. } in attributes {
            let place = match *name {
                "data-topic" => &mut bound.topic,
                "data-symbol" => &mut bound.symbol,
                "data-node" => &mut bound.node,
                "data-from" => &mut bound.from,
                "data-to" => &mut bound.to,
                "data-source" => &mut bound.source,
                "data-when" => &mut bound.when,
                "data-link" => &mut bound.link,
                _ => continue,
            };
            *place = Some(value);
        }
        bound
    }
}

impl Binder {
    /// Takes the attributes of an element; what is wrong with them.
    pub fn bind(&mut self, line: usize, attributes: &[Attribute<'_>]) -> Option<SvgError> {
        let bound = Bound::of(attributes);
        self.bind_all(line, &bound).err().map(|(found, expected)| SvgError::new(line, found, expected))
    }

    fn bind_all(&mut self, line: usize, bound: &Bound<'_>) -> Result<(), (String, String)> {
        let topic = bound.topic.map(|text| self.topic("data-topic", text)).transpose()?;
        let is_switch = match bound.symbol {
            Some(symbol) if SWITCHES.contains(&symbol) => true,
            Some(symbol) if !PARTS.contains(&symbol) => {
                let known = format!("one of {}, {}", SWITCHES.join(", "), PARTS.join(", "));
                return Err((format!("data-symbol=\"{}\"", shortened(symbol)), known));
            }
            Some(_) | None => false,
        };
        if is_switch && topic.is_none() {
            return Err((
                format!("{} without data-topic", bound.symbol.unwrap_or_default()),
                "the topic of its position".into(),
            ));
        }
        if let Some(when) = bound.when.filter(|when| !POSITIONS.contains(when)) {
            return Err((format!("data-when=\"{}\"", shortened(when)), format!("one of {}", POSITIONS.join(", "))));
        }
        if let Some(link) = bound.link {
            if !is_diagram_name(link) || self.links.len() >= LINKS_MAX {
                let expected = format!("the name of a diagram (a-z, 0-9, - and _), at most {LINKS_MAX} of them");
                return Err((format!("data-link=\"{}\"", shortened(link)), expected));
            }
            self.links.insert(link.to_string());
        }
        if let Some(node) = bound.node {
            let node = node_name("data-node", node)?;
            if node == EARTH {
                return Err(("data-node=\"earth\"".into(), "another name: earth is where earth switches end".into()));
            }
            self.nodes.insert(node);
        }
        self.connect(line, bound, topic.filter(|_| is_switch))?;
        self.feed(bound)?;
        self.limits()
    }

    fn connect(&mut self, line: usize, bound: &Bound<'_>, topic: Option<Topic>) -> Result<(), (String, String)> {
        match (bound.from, bound.to) {
            (None, None) => Ok(()),
            (Some(from), Some(to)) if from != to => {
                let (from, to) = (node_name("data-from", from)?, node_name("data-to", to)?);
                self.connections.push(Named { line, from, to, topic });
                Ok(())
            }
            (Some(name), Some(_)) => {
                Err((format!("data-from and data-to are {}", shortened(name)), "two nodes".into()))
            }
            (Some(_), None) => Err(("data-from without data-to".into(), "both, or neither".into())),
            (None, Some(_)) => Err(("data-to without data-from".into(), "both, or neither".into())),
        }
    }

    fn feed(&mut self, bound: &Bound<'_>) -> Result<(), (String, String)> {
        let Some(source) = bound.source else { return Ok(()) };
        let Some(node) = bound.node else {
            return Err(("data-source without data-node".into(), "the node that it feeds in data-node".into()));
        };
        let topic = if source.is_empty() { None } else { Some(self.topic("data-source", source)?) };
        self.sources.push((node.to_string(), topic));
        Ok(())
    }

    fn topic(&mut self, attribute: &str, text: &str) -> Result<Topic, (String, String)> {
        let topic = Topic::new(text)
            .map_err(|error| (format!("{attribute}=\"{}\"", shortened(text)), format!("a topic: {error}")))?;
        self.topics.insert(topic.clone());
        Ok(topic)
    }

    fn limits(&self) -> Result<(), (String, String)> {
        let counts = [
            ("topics", self.topics.len(), TOPICS_MAX),
            ("nodes", self.nodes.len(), NODES_MAX),
            ("connections", self.connections.len() + self.sources.len(), CONNECTIONS_MAX),
        ];
        match counts.into_iter().find(|(_, count, most)| count > most) {
            Some((what, _, most)) => Err((format!("more {what}"), format!("at most {most}"))),
            None => Ok(()),
        }
    }

    /// All bindings, and connections that end nowhere.
    pub fn finish(self) -> (Diagram, Vec<SvgError>) {
        let Self { topics, nodes, links, connections, sources } = self;
        let (topics, nodes): (Vec<Topic>, Vec<String>) = (topics.into_iter().collect(), nodes.into_iter().collect());
        let node_of: BTreeMap<&str, usize> =
            nodes.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
        let topic_of = |topic: &Option<Topic>| topic.as_ref().and_then(|topic| topics.binary_search(topic).ok());
        let mut errors = Vec::new();
        let mut end_of = |line: usize, name: &str| {
            let index = node_of.get(name).copied();
            if index.is_none() && name != EARTH {
                let expected = format!("an element with data-node=\"{}\"", shortened(name));
                errors.push(SvgError::new(line, format!("the end {}", shortened(name)), expected));
            }
            index
        };
        let ends = connections.iter().map(|Named { line, from, to, topic }| Connection {
            from: end_of(*line, from),
            to: end_of(*line, to),
            topic: topic_of(topic),
        });
        let connections = ends.collect();
        let sources = sources.iter().filter_map(|(node, topic)| Some((*node_of.get(node.as_str())?, topic_of(topic))));
        let sources = sources.collect();
        drop(node_of);
        let links = links.into_iter().collect();
        (Diagram { title: None, topics, nodes, links, connections, sources }, errors)
    }
}

fn node_name(attribute: &str, name: &str) -> Result<String, (String, String)> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    if (1..=NODE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(name.to_string());
    }
    let expected = format!("a name of letters, digits and - _ . /, at most {NODE_BYTES_MAX}");
    Err((format!("{attribute}=\"{}\"", shortened(name)), expected))
}
