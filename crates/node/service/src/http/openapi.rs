//! The OpenAPI document of a server, made from the routes that it serves.
//!
//! A handler is a function of typed arguments to a typed answer. Each of these types says what it adds to an operation:
//! [`Input`] parameters, a body and what may be wrong with them, [`Output`] answers. [`Described`] is a handler all of
//! whose types say so, the first of which is its [`Authorization`]. Schemas come from the types that read and write JSON. What no type can say, a route's name,
//! its summary and what an answer means there, is its [`Operation`], beside its path in the table of routes.

use super::problem::ProblemBody;
use axum::Extension;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::{RecursiveTransform, ReplaceBoolSchemas, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The topics that there may be, as a regular expression.
pub const TOPIC: &str = r"^[^+#\u0000]+$";
/// Those that clients may publish to.
pub const CLIENT_TOPIC: &str = r"^[^$+#\u0000][^+#\u0000]*$";

const PROBLEM: &str = "application/problem+json";

/// The schemas of what is read and of what is written: a member with a default may be absent only where it is read.
#[derive(Debug)]
pub struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12()
                .with(|settings| settings.definitions_path = "/components/schemas".into())
                .with_transform(RecursiveTransform(simplify))
                .with_transform(bool_schemas())
        };
        let written = settings().for_serialize().with_transform(RecursiveTransform(absent_is_not_null));
        Self { read: settings().for_deserialize().into_generator(), written: written.into_generator() }
    }
}

/// Generators of clients do not take `true` for a schema.
fn bool_schemas() -> ReplaceBoolSchemas {
    let mut transform = ReplaceBoolSchemas::default();
    transform.skip_additional_properties = true;
    transform
}

/// Leaves out the widths of Rust's numbers, and of doc comments the lines and the full stop; one word is a constant.
fn simplify(schema: &mut Schema) {
    let types = schema.get("type").map(ToString::to_string).unwrap_or_default();
    if types.contains("integer") || types.contains("number") {
        schema.remove("format");
    }
    if let Some(Value::String(words)) = schema.get_mut("description") {
        *words = words.trim_end_matches('.').replace('\n', " ");
    }
    if let Some([word]) = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice) {
        let word = word.clone();
        schema.remove("enum");
        schema.insert("const".to_owned(), word);
    }
}

/// A member that may be absent from what is written is so where it has no value: it is never null.
fn absent_is_not_null(schema: &mut Schema) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (_, property) in properties.iter_mut().filter(|(name, _)| !required.contains(&Value::from(name.as_str()))) {
        let Value::Object(property) = property else { continue };
        property.remove("default");
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [kind] = types.as_slice() {
                let kind = kind.clone();
                property.insert("type".to_owned(), kind);
            }
        }
        if let Some(Value::Array(words)) = property.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
    }
}

impl Schemas {
    /// Of a type that is read.
    pub fn read<T: JsonSchema>(&mut self) -> Value {
        plain(self.read.subschema_for::<T>())
    }

    /// Of a type that is written.
    pub fn written<T: JsonSchema>(&mut self) -> Value {
        plain(self.written.subschema_for::<T>())
    }

    /// The words for a type that is written.
    pub fn words<T: JsonSchema>(&self) -> Option<String> {
        let schema = self.written.definitions().get(&*T::schema_name())?;
        Some(schema.get("description")?.as_str()?.trim_end_matches('.').replace('\n', " "))
    }

    /// All that have a name.
    fn into_named(mut self) -> Map<String, Value> {
        let mut named = self.read.take_definitions(true);
        named.append(&mut self.written.take_definitions(true));
        named
    }
}

fn plain(mut schema: Schema) -> Value {
    RecursiveTransform(simplify).transform(&mut schema);
    bool_schemas().transform(&mut schema);
    match schema.to_value() {
        Value::Bool(_) => json!({}),
        schema => schema,
    }
}

/// One method at one path: the words of its route, and what the types of its handler add.
#[derive(Debug, Default)]
pub struct Operation {
    id: &'static str,
    summary: &'static str,
    description: Option<&'static str>,
    parameters: Vec<Value>,
    body: Option<Value>,
    responses: BTreeMap<u16, Reply>,
    /// Bytes of the body, where that is known before the server runs.
    body_bytes_max: Option<usize>,
    is_public: bool,
}

#[derive(Debug, Default)]
struct Reply {
    description: Option<String>,
    headers: Map<String, Value>,
    content: Map<String, Value>,
}

/// Words of a route.
impl Operation {
    /// With the name that clients in programming languages give it, and what it does.
    #[must_use]
    pub fn new(id: &'static str, summary: &'static str) -> Self {
        Self { id, summary, ..Self::default() }
    }

    /// More about what it does.
    #[must_use]
    pub fn about(mut self, words: &'static str) -> Self {
        self.description = Some(words);
        self
    }

    /// What an answer of this status means here.
    #[must_use]
    pub fn says(mut self, status: u16, words: &str) -> Self {
        self.reply(status).description = Some(words.to_owned());
        self
    }

    /// An answer that is a page for people, and what it means here.
    #[must_use]
    pub fn page(mut self, status: u16, words: &str) -> Self {
        self.content(status, "text/html", json!({ "type": "string" }));
        self.says(status, words)
    }

    /// A problem that this route answers, and what it means here.
    #[must_use]
    pub fn problem(mut self, status: u16, words: &str) -> Self {
        self.may_fail(status, words);
        self.says(status, words)
    }
}

/// What types add.
impl Operation {
    fn reply(&mut self, status: u16) -> &mut Reply {
        self.responses.entry(status).or_default()
    }

    /// A parameter, as OpenAPI's object.
    pub fn parameter(&mut self, parameter: Value) {
        self.parameters.push(parameter);
    }

    /// A header of the request, which may be absent.
    pub fn header(&mut self, name: &str, schema: &Value, words: &str) {
        let parameter =
            json!({ "name": name, "in": "header", "required": false, "description": words, "schema": schema });
        self.parameter(parameter);
    }

    /// The body of the request in one of its forms.
    pub fn body(&mut self, media_type: &str, schema: Value) {
        let body = self.body.get_or_insert_with(|| json!({ "required": true, "content": {} }));
        body["content"][media_type] = json!({ "schema": schema });
    }

    /// An answer with content.
    pub fn content(&mut self, status: u16, media_type: &str, schema: Value) {
        let content = if schema.is_null() { json!({}) } else { json!({ "schema": schema }) };
        self.reply(status).content.insert(media_type.to_owned(), content);
    }

    /// An answer, and what it means unless the route says.
    pub fn means(&mut self, status: u16, words: &str) {
        self.reply(status).description.get_or_insert_with(|| words.to_owned());
    }

    /// A header of an answer.
    pub fn told(&mut self, status: u16, header: &str, schema: &Value, words: &str) {
        let header_object = json!({ "description": words, "schema": schema });
        self.reply(status).headers.insert(header.to_owned(), header_object);
    }

    /// A problem, and what it means unless the route says.
    pub fn may_fail(&mut self, status: u16, words: &str) {
        self.content(status, PROBLEM, json!({ "$ref": "#/components/schemas/Problem" }));
        self.means(status, words);
    }

    /// What may be wrong with any body.
    pub fn body_may_fail(&mut self) {
        self.may_fail(408, "The body did not come in time");
        let words = match self.body_bytes_max {
            Some(bytes) if bytes >= 1 << 20 => format!("The body is longer than {} MiB", bytes >> 20),
            Some(bytes) => format!("The body is longer than {} KiB", bytes >> 10),
            None => "The body is too long".to_owned(),
        };
        self.may_fail(413, &words);
    }

    /// Nobody has to show who it is.
    pub const fn public(&mut self) {
        self.is_public = true;
    }

    fn into_json(self) -> Value {
        let responses = self.responses.into_iter().map(|(status, reply)| (status.to_string(), reply.into_json()));
        let responses: Map<String, Value> = responses.collect();
        let mut operation = json!({ "operationId": self.id, "summary": self.summary, "responses": responses });
        if let Some(description) = self.description {
            operation["description"] = description.into();
        }
        if !self.parameters.is_empty() {
            operation["parameters"] = self.parameters.into();
        }
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        if self.is_public {
            operation["security"] = json!([]);
        }
        operation
    }
}

impl Reply {
    fn into_json(self) -> Value {
        let mut reply = json!({ "description": self.description.unwrap_or_default() });
        if !self.headers.is_empty() {
            reply["headers"] = self.headers.into();
        }
        if !self.content.is_empty() {
            reply["content"] = self.content.into();
        }
        reply
    }
}

/// An argument of a handler.
pub trait Input {
    /// What it adds to an operation; unless it says, nothing.
    fn describe(_operation: &mut Operation, _schemas: &mut Schemas) {}
}

/// The first argument of a handler, which says who may call its route.
pub trait Authorization: Input {}

/// An answer of a handler.
pub trait Output {
    /// What it adds to an operation; unless it says, nothing: the route has words for all its answers then.
    fn describe(_operation: &mut Operation, _schemas: &mut Schemas) {}
}

impl Input for HeaderMap {}
impl Input for Uri {}
impl<T> Input for Extension<T> {}
impl<T> Input for ConnectInfo<T> {}
impl Output for Response {}

impl<T: Output, E: Output> Output for Result<T, E> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        T::describe(operation, schemas);
        E::describe(operation, schemas);
    }
}

/// A handler whose types say what it takes and what it answers; `T` is as that of [`axum::handler::Handler`].
pub trait Described<T> {
    /// What its types add to an operation.
    fn describe(operation: &mut Operation, schemas: &mut Schemas);
}

macro_rules! described {
    ($first:ident $($argument:ident)*) => {
        impl<F, Answer, M, $first: Authorization, $($argument: Input),*> Described<(M, $first, $($argument,)*)> for F
        where
            F: Fn($first, $($argument),*) -> Answer,
            Answer: Future<Output: Output>,
        {
            fn describe(operation: &mut Operation, schemas: &mut Schemas) {
                // What an answer means is better known than what may be wrong with arguments.
                <Answer::Output as Output>::describe(operation, schemas);
                $first::describe(operation, schemas);
                $($argument::describe(operation, schemas);)*
            }
        }
    };
}

described!(A);
described!(A B);
described!(A B C);
described!(A B C D);
described!(A B C D E);

/// A document that grows with each route of [`Routes`](super::routes::Routes).
#[derive(Debug, Default)]
pub struct Document {
    operations: Vec<(String, &'static str, Operation)>,
    schemas: Schemas,
}

impl Document {
    /// Adds a route. `path` is as axum has it; `method` is in small letters.
    pub(super) fn add<H: Described<T>, T>(
        &mut self,
        method: &'static str,
        path: &str,
        _handler: &H,
        mut operation: Operation,
        body_bytes_max: Option<usize>,
    ) -> TakesParameters {
        operation.body_bytes_max = body_bytes_max;
        H::describe(&mut operation, &mut self.schemas);
        let takes = TakesParameters(operation.parameters.iter().any(|parameter| parameter["in"] == "query"));
        if takes.are_refused(path) {
            operation.may_fail(400, "The request has parameters");
        }
        self.operations.push((path.replace("{*", "{"), method, operation));
        takes
    }

    /// The document; `base` has what is not of a route.
    #[must_use]
    pub fn into_json(mut self, base: Value) -> Value {
        let mut document = base;
        self.schemas.written::<ProblemBody<'_>>();
        for (path, method, operation) in self.operations {
            document["paths"][path][method] = operation.into_json();
        }
        document["components"]["schemas"] = self.schemas.into_named().into();
        document
    }
}

/// Whether a route has parameters in its query.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakesParameters(bool);

impl TakesParameters {
    /// Whether a query is an error at a path. Probes and scrapers add parameters of their own to the routes outside of the API.
    pub(super) fn are_refused(self, path: &str) -> bool {
        !self.0 && path.starts_with("/v1/")
    }
}

/// What a document leaves out or says twice, for the tests of servers: neither types nor words have said it.
#[must_use]
pub fn gaps(document: &Value) -> Vec<String> {
    let mut gaps = Vec::new();
    let mut names = BTreeSet::new();
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    for (path, methods) in members(&document["paths"]) {
        for (method, operation) in members(&methods) {
            let mut gap = |what: &str| gaps.push(format!("{method} {path}: {what}"));
            if !names.insert(operation["operationId"].to_string()) {
                gap("another operation has its name");
            }
            let responses = members(&operation["responses"]);
            if !responses.keys().any(|status| status.starts_with(['2', '3'])) {
                gap("no answer of success");
            }
            for (status, response) in responses {
                if response["description"] == "" {
                    gap(&format!("no words for {status}"));
                }
            }
        }
    }
    let text = document.to_string();
    let references = text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next());
    let absent = references.filter(|pointer| document.pointer(pointer).is_none());
    gaps.extend(absent.map(|pointer| format!("{pointer}: nothing is there")));
    gaps
}

#[cfg(test)]
mod tests {
    use super::super::body::{Answer, Json};
    use super::super::problem::Problem;
    use super::super::routes::Routes;
    use super::*;
    use axum::Router;

    /// An authorization that says nothing.
    struct Anybody;

    impl<S: Sync> axum::extract::FromRequestParts<S> for Anybody {
        type Rejection = std::convert::Infallible;

        async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, Self::Rejection> {
            Ok(Self)
        }
    }

    impl Input for Anybody {}
    impl Authorization for Anybody {}

    /// What is asked
    /// for.
    #[derive(serde::Deserialize, JsonSchema)]
    struct Asked {
        name: String,
        #[serde(default)]
        count: u32,
    }

    /// What is told.
    #[derive(serde::Serialize, JsonSchema)]
    struct Told {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        count: Option<u32>,
        last: Option<u32>,
    }

    async fn tell(_: Anybody, Json(asked): Json<Asked>) -> Result<Answer<Told>, Problem> {
        Ok(Answer(Told { name: asked.name, count: Some(asked.count), last: None }))
    }

    fn document(operation: Operation) -> Value {
        let routes: Routes<()> = Routes::over(Router::new()).bodies_at_most(64 << 10);
        routes.post("/v1/{*topic}", tell, operation).into_document().into_json(json!({ "openapi": "3.1.0" }))
    }

    #[test]
    fn an_operation_is_described_by_its_types_and_its_words() {
        let document = document(Operation::new("tell", "Tells").problem(404, "None").problem(400, "Wrong"));
        assert_eq!(gaps(&document), Vec::<String>::new());
        let post = &document["paths"]["/v1/{topic}"]["post"];
        let said = |status: &str| post["responses"][status]["description"].as_str();
        let statuses = ["200", "400", "404", "408", "413", "415", "422"];
        let words = ["What is told", "Wrong", "None", "The body did not come in time"];
        assert_eq!(members(&post["responses"]), statuses);
        assert_eq!(statuses.map(said)[..4], words.map(Some));
        assert_eq!(said("413"), Some("The body is longer than 64 KiB"));
        let schemas = &document["components"]["schemas"];
        assert_eq!(members(schemas), ["Asked", "Problem", "Told"]);
        assert_eq!(schemas["Asked"]["description"], "What is asked for");
        assert_eq!(schemas["Asked"]["required"], json!(["name"]));
        assert_eq!(schemas["Told"]["required"], json!(["name", "last"]));
        let count = &schemas["Told"]["properties"]["count"];
        assert_eq!((&count["type"], &count["format"]), (&json!("integer"), &Value::Null));
    }

    #[test]
    fn what_nothing_says_is_found() {
        let mut document = document(Operation::new("tell", "Tells").says(404, ""));
        document["components"]["schemas"]["Problem"].take();
        document["components"]["schemas"].as_object_mut().unwrap().remove("Told");
        let expect = ["post /v1/{topic}: no words for 404", "/components/schemas/Told: nothing is there"];
        assert_eq!(gaps(&document), expect);
    }

    fn members(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }
}
