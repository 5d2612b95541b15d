//! The text that Prometheus reads: its exposition format 0.0.4, or OpenMetrics 1.0.

use axum::http::{HeaderMap, header};
use std::fmt::{Display, Write};
use tieline_core::Histogram;

/// How metrics are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus' exposition format 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0: counters are named without `_total` in their family, and the text has an end.
    OpenMetrics,
}

impl TextFormat {
    /// The one that a request prefers; the exposition format unless it asks for OpenMetrics.
    #[must_use]
    pub fn accepted(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
        let ranges: Vec<(&str, f32)> = lines.flat_map(|line| line.split(',')).filter_map(range).collect();
        let quality_of = |wanted: &[&str]| {
            let matching =
                ranges.iter().filter(|(name, _)| wanted.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)));
            matching.map(|(_, quality)| *quality).fold(0.0, f32::max)
        };
        // A range for all types asks for no type.
        let (open, text) = (quality_of(&["application/openmetrics-text"]), quality_of(&["text/plain", "text/*"]));
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The media type of the text.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A media range of `Accept` with its quality (RFC 9110 12.5.1); none of a version of OpenMetrics that is not written.
fn range(text: &str) -> Option<(&str, f32)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next()?;
    let mut quality = 1.0;
    for part in parts {
        let (key, value) = part.split_once('=')?;
        match key.trim().to_ascii_lowercase().as_str() {
            "q" => quality = value.trim().parse().ok().filter(|quality| (0.0..=1.0).contains(quality))?,
            "version" if name.eq_ignore_ascii_case("application/openmetrics-text") => {
                let version = value.trim().trim_matches('"');
                if !matches!(version, "1.0.0" | "0.0.1") {
                    return None;
                }
            }
            _ => {}
        }
    }
    Some((name, quality))
}

/// Metrics being written. Every family is opened once, with its help and its type, before its samples.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    format: TextFormat,
}

impl Exposition {
    /// Nothing yet, in a format.
    #[must_use]
    pub const fn new(format: TextFormat) -> Self {
        Self { text: String::new(), format }
    }

    /// The media type of the text.
    #[must_use]
    pub const fn media_type(&self) -> &'static str {
        self.format.media_type()
    }

    /// Durations by class.
    pub fn histogram(&mut self, name: &str, help: &str, durations: &Histogram) {
        self.family(name, help, "histogram");
        self.histogram_samples(name, &[], durations);
    }

    /// The samples of one histogram of the family that was opened last.
    pub fn histogram_samples(&mut self, name: &str, labels: &[(&str, &str)], durations: &Histogram) {
        let bucket = format!("{name}_bucket");
        for (edge, count) in durations.cumulated() {
            // The same text in both formats: the label tells time series apart.
            let edge = edge.map_or_else(|| "+Inf".to_owned(), |edge| format!("{:?}", edge.as_secs_f64()));
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", edge.as_str())]).collect();
            self.sample(&bucket, &labels, count);
        }
        self.sample(&format!("{name}_sum"), labels, durations.sum().as_secs_f64());
        self.sample(&format!("{name}_count"), labels, durations.count());
    }

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
        let name = match self.format {
            TextFormat::OpenMetrics if kind == "counter" => name.strip_suffix("_total").unwrap_or(name),
            TextFormat::OpenMetrics | TextFormat::Prometheus => name,
        };
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
    pub fn into_text(mut self) -> String {
        if self.format == TextFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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

    #[test]
    fn open_metrics_names_families_of_counters_without_total() {
        let mut e = Exposition::new(TextFormat::OpenMetrics);
        e.counter("a_total", "Help.", 3);
        let mut durations = Histogram::default();
        durations.record(Duration::from_millis(2));
        e.histogram("b_seconds", "Help.", &durations);
        let text = e.into_text();
        assert!(text.starts_with("# HELP a Help.\n# TYPE a counter\na_total 3\n"), "{text}");
        assert!(text.contains("b_seconds_bucket{le=\"0.0001\"} 0\n"), "{text}");
        assert!(text.contains("b_seconds_bucket{le=\"0.0025\"} 1\n"), "{text}");
        assert!(text.contains("b_seconds_bucket{le=\"10.0\"} 1\nb_seconds_bucket{le=\"+Inf\"} 1\n"), "{text}");
        assert!(text.ends_with("b_seconds_sum 0.002\nb_seconds_count 1\n# EOF\n"), "{text}");
    }

    #[test]
    fn a_request_chooses_the_format() {
        let check = |accept: Option<&str>, expect| {
            let mut headers = HeaderMap::new();
            accept.map(|accept| headers.insert(header::ACCEPT, accept.parse().unwrap()));
            assert_eq!(TextFormat::accepted(&headers), expect, "{accept:?}");
        };
        use TextFormat::{OpenMetrics, Prometheus};
        check(None, Prometheus);
        check(Some(""), Prometheus);
        check(Some("*/*"), Prometheus);
        check(Some("application/openmetrics-text"), OpenMetrics);
        check(Some("Application/OpenMetrics-Text; version=\"1.0.0\""), OpenMetrics);
        // Prometheus 2.42.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        check(Some(prometheus), OpenMetrics);
        check(Some("text/plain;version=0.0.4;q=0.7,application/openmetrics-text;q=0.3"), Prometheus);
        check(Some("application/openmetrics-text;version=2.0.0, text/plain;q=0.1"), Prometheus);
        check(Some("application/openmetrics-text;q=0"), Prometheus);
        check(Some("application/openmetrics-text;q=7"), Prometheus);
        check(Some(";;q=,=;application/openmetrics-text"), Prometheus);
    }
}
