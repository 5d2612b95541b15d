//! `[[view]]`: topics derived from topics.

use super::reader::{Document, Section};
use super::settings::{VIEW_DELAY, VIEW_THROTTLE};
use super::{Checks, parse};
use tieline_core::{Filter, Words as _};
use tieline_views::{Aggregate, Condition, Operation, Pick, Pointer, Template, View};
use toml::de::DeValue;

/// Views of one node.
const VIEWS_MAX: usize = 1000;

/// Reads all `[[view]]`; views that cannot live together are told at the first of them.
pub fn read_views(all: Vec<Section<'_>>, doc: &mut Document<'_>, checks: Checks) -> Vec<View> {
    let at = all.first().map_or(0, Section::at);
    let count = all.len();
    let views: Vec<View> = all.into_iter().filter_map(|section| read_view(section, doc)).collect();
    if count > VIEWS_MAX {
        doc.report(at, "view", format!("{count} views"), format!("{VIEWS_MAX} at most"));
    }
    if views.len() == count
        && let Err(why) = (checks.views)(&views)
    {
        let expected = "names of their own, and no view that takes what it makes, over others or by itself";
        doc.report(at, "view", why, expected.to_owned());
    }
    views
}

fn read_view(mut s: Section<'_>, doc: &mut Document<'_>) -> Option<View> {
    let name = s.required(doc, "name", "a name of the view, as in \"amps\"", parse::text);
    let from = s.required(doc, "from", "the filter of its sources, as in \"site/+/amps\"", |v| {
        let words = |why: String| format!("a topic filter, as in \"site/+/amps\" ({why})");
        let text = v.as_str().ok_or_else(|| words("a text".to_owned()))?;
        Filter::new(text).map_err(|error| words(error.to_string()))
    });
    let expand = s.optional(doc, "expand", pointer);
    let expands = s.has("expand");
    let to = s.required(doc, "to", "the derived topics, as in \"amps/{1}\"", |v| {
        let words = |why: String| format!("a topic, as in \"amps/{{1}}\" ({why})");
        let text = v.as_str().ok_or_else(|| words("a text".to_owned()))?;
        let any = Filter::new("#").map_err(|error| error.to_string())?;
        Template::new(text, from.as_ref().unwrap_or(&any), expands).map_err(|error| words(error.to_string()))
    });
    let when = s.optional(doc, "when", |v| {
        let text = v.as_str().ok_or_else(|| "a condition, as in \"/v > 5\"".to_owned())?;
        Condition::new(text).map_err(|error| error.to_string())
    });
    let picked = s.optional(doc, "pick", |v| members(v, |v| pointer(v).map(Pick::Place))).unwrap_or_default();
    let fixed = s.optional(doc, "insert", |v| members(v, |v| json(v).map(Pick::Fixed))).unwrap_or_default();
    let operation = s.optional(doc, "aggregate", parse::word(Operation::WORDS));
    let of = s.optional(doc, "of", pointer);
    if of.is_some() && operation.is_none() && !s.has("aggregate") {
        doc.report(
            s.value_at("of"),
            &s.key("of"),
            "a place without an aggregate".to_owned(),
            "aggregate beside it".to_owned(),
        );
    }
    let delay = VIEW_DELAY.read(&mut s, doc);
    let throttle = VIEW_THROTTLE.read(&mut s, doc);
    s.finish(doc);
    Some(View {
        name: name?.into(),
        from: from?,
        to: to?,
        expand,
        when,
        pick: picked.into_iter().chain(fixed).collect(),
        aggregate: operation.map(|operation| Aggregate { operation, of: of.unwrap_or_else(value_of_a_point) }),
        delay,
        throttle,
    })
}

fn value_of_a_point() -> Pointer {
    Pointer::new("/v").unwrap_or_default()
}

fn pointer(value: &DeValue<'_>) -> Result<Pointer, String> {
    let text = value.as_str().ok_or_else(|| "a place in JSON, as in \"/meta/name\"".to_owned())?;
    Pointer::new(text).map_err(|error| error.to_string())
}

fn members(
    value: &DeValue<'_>,
    read: impl Fn(&DeValue<'_>) -> Result<Pick, String>,
) -> Result<Vec<(Box<str>, Pick)>, String> {
    let table = value.as_table().ok_or_else(|| "members, as in { name = \"/meta/name\" }".to_owned())?;
    let member = |name: &str, value: &DeValue<'_>| Ok::<_, String>((Box::from(name), read(value)?));
    table.iter().map(|(name, value)| member(name.get_ref(), value.get_ref())).collect()
}

/// A value of TOML as JSON.
fn json(value: &DeValue<'_>) -> Result<serde_json::Value, String> {
    use serde_json::Value;
    let number = |text: &str| serde_json::from_str(text).map_err(|_| "a number that JSON has".to_owned());
    Ok(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Integer(n) => number(n.as_str())?,
        DeValue::Float(n) => number(n.as_str())?,
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| json(item.get_ref())).collect::<Result<_, _>>()?),
        DeValue::Table(table) => {
            let member = |name: &str, value: &DeValue<'_>| Ok::<_, String>((name.to_owned(), json(value)?));
            let all = table.iter().map(|(name, value)| member(name.get_ref(), value.get_ref()));
            Value::Object(all.collect::<Result<_, _>>()?)
        }
    })
}
