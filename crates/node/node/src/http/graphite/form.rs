//! The parameters of a request of Grafana, in its query and in a form.

use super::target;
use crate::http::problem::Problem;
use axum::extract::{FromRequest, Request};
use serde_json::json;
use tieline_core::Timestamp;
use tieline_service::http::body;
use tieline_service::http::openapi::{Input, Operation, Schemas};
use tieline_service::http::parameters::form;

/// What a request says where it names no times: the last day, as Graphite has it.
const FROM: &str = "-24h";

/// The parameters that are known, with what they are. Others are ignored, as Graphite does: Grafana sends such.
const PARAMETERS: [(&str, &str); 7] = [
    ("target", "Name, pattern or function; may be given up to 64 times"),
    ("query", "Pattern of names"),
    ("from", "Start: seconds since 1970, or as -6h"),
    ("until", "End: seconds since 1970, now, or as -6h"),
    ("format", "json"),
    ("maxDataPoints", "Points of a series at most"),
    ("tags", "Tags of events, all of which they have"),
];

/// The parameters of a request, in their order.
pub struct Pairs(Vec<(String, String)>);

/// The parameters of a request; those of a `POST` in its body, too.
pub struct GraphiteForm<const POST: bool>(pub Pairs);

impl Pairs {
    /// The first parameter of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All parameters of a name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The times that are asked for.
    ///
    /// # Errors
    /// One is none, or they are in the wrong order.
    pub fn span(&self, now: Timestamp) -> Result<(Timestamp, Timestamp), Problem> {
        let time = |name: &str, default: &str| {
            let text = self.get(name).unwrap_or(default);
            target::time(text, now).ok_or_else(|| {
                Problem::bad_request(format!(
                    "{name} is {text:?}, expected seconds since 1970, now, or a time before as -6h"
                ))
            })
        };
        let (from, until) = (time("from", FROM)?, time("until", "now")?);
        if from > until {
            return Err(Problem::bad_request(format!(
                "from is {from}, expected a time before until, which is {until}"
            )));
        }
        Ok((from, until))
    }
}

impl<S: Send + Sync, const POST: bool> FromRequest<S> for GraphiteForm<POST> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = form(request.uri().query().unwrap_or_default()).collect();
        if POST {
            let body = body::whole(request, state).await?;
            let text = std::str::from_utf8(&body);
            let text =
                text.map_err(|_| Problem::bad_request("the body: found bytes that are no text, expected a form"))?;
            pairs.extend(form(text));
        }
        Ok(Self(Pairs(pairs)))
    }
}

impl<const POST: bool> Input for GraphiteForm<POST> {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let text = || json!({ "type": "string" });
        for (name, words) in PARAMETERS {
            let parameter = json!({ "name": name, "in": "query", "description": words, "schema": text() });
            operation.parameter(parameter);
        }
        if POST {
            let members: serde_json::Map<_, _> =
                PARAMETERS.iter().map(|(name, _)| ((*name).to_owned(), text())).collect();
            let schema = json!({ "type": "object", "properties": members });
            operation.body("application/x-www-form-urlencoded", schema);
            operation.body_may_fail();
        }
        operation.may_fail(400, "A parameter is wrong");
    }
}
