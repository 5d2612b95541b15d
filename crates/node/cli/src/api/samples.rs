//! The samples of Prometheus' text format (version 0.0.4), as JSON.

use serde_json::{Map, Value as Json, json};

/// A line as `name`, `labels` and `value`; none of a comment, an empty line, or what is no sample. A value that JSON has
/// no number for (`NaN`, `+Inf`) is a text.
pub fn sample(line: &str) -> Option<Json> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' ', '\t'])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Map::new(), rest),
    };
    // What may follow the value is its time.
    let word = rest.split_whitespace().next()?;
    // What is no number to JSON is one all the same.
    word.parse::<f64>().ok()?;
    let value = word.parse::<serde_json::Number>().map_or_else(|_| json!(word), Json::Number);
    Some(json!({ "name": name, "labels": labels, "value": value }))
}

/// The labels up to the closing brace, and what is behind it.
fn labels(mut rest: &str) -> Option<(Map<String, Json>, &str)> {
    let mut labels = Map::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, behind) = unquoted(quoted)?;
        labels.insert(name.trim().to_owned(), value.into());
        rest = behind;
    }
}

/// A text up to its quotation mark, and what is behind that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read() {
        let check = |line: &str, expect: Option<Json>| assert_eq!(sample(line), expect, "{line}");
        let of =
            |name: &str, labels: Json, value: Json| Some(json!({ "name": name, "labels": labels, "value": value }));
        check("# HELP a what it is", None);
        check("", None);
        check("tieline_up 1", of("tieline_up", json!({}), json!(1)));
        check("a{b=\"c\",d=\"e f\"} 2.5", of("a", json!({ "b": "c", "d": "e f" }), json!(2.5)));
        check(r#"a{b="q\"},\\n\n"} 3 1700000000"#, of("a", json!({ "b": "q\"},\\n\n" }), json!(3)));
        check("a{} +Inf", of("a", json!({}), json!("+Inf")));
        check("a{b=\"unfinished} 1", None);
        check("a b", None);
    }
}
