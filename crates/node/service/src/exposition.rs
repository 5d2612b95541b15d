//! The text that Prometheus reads (exposition format 0.0.4).

use std::fmt::{Display, Write};

/// The media type of the text.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics being written. Every family is opened once, with its help and its type, before its samples.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// A value that only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, help, "counter");
        self.sample(name, &[], value);
    }

    /// A value that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, help, "gauge");
        self.sample(name, &[], value);
    }

    /// A family whose samples differ in one label.
    pub fn labelled<L: AsRef<str>, V: Display>(
        &mut self,
        (name, help, kind): (&str, &str, &str),
        label: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, help, kind);
        for (text, value) in samples {
            self.sample(name, &[(label, text.as_ref())], value);
        }
    }

    /// Opens a family of samples with labels.
    pub fn family(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample of the family that was opened last.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        let mut open = '{';
        for (label, text) in labels {
            let _ = write!(self.text, "{open}{label}=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
            open = ',';
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// The whole text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted() {
        let mut e = Exposition::default();
        e.counter("a_total", "Help.", 3);
        e.family("b", "Help.", "gauge");
        e.sample("b", &[("x", "a\"b\\c\nd"), ("y", "z")], 1.5);
        let expect = "# HELP a_total Help.\n# TYPE a_total counter\na_total 3\n# HELP b Help.\n# TYPE b gauge\n\
                      b{x=\"a\\\"b\\\\c\\nd\",y=\"z\"} 1.5\n";
        assert_eq!(e.into_text(), expect);
    }
}
