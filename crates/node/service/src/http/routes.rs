//! The routes of a server: what is added is served and described in one go. There is no route that the OpenAPI document
//! does not have, and none in it that is not served; and none without an authorization, which is its handler's first
//! argument.

use super::body::BodyBytesMax;
use super::openapi::{Described, Document, Operation};
use super::parameters::form;
use super::problem::Problem;
use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler;
use axum::middleware::map_request;
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};

/// Routes with the state `S`.
#[derive(Debug)]
pub struct Routes<S> {
    router: Router<S>,
    document: Document,
    body_bytes_max: Option<usize>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// None yet besides what a router has, which is not described.
    #[must_use]
    pub fn over(router: Router<S>) -> Self {
        Self { router, document: Document::default(), body_bytes_max: None }
    }

    /// Limits the bodies of the routes that are added from now on.
    #[must_use]
    pub fn bodies_at_most(mut self, bytes: usize) -> Self {
        self.body_bytes_max = Some(bytes);
        self
    }

    /// Answers GET and HEAD at a path.
    #[must_use]
    pub fn get<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.add(("get", MethodFilter::GET), path, handler, operation, None)
    }

    /// Answers POST at a path.
    #[must_use]
    pub fn post<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.add(("post", MethodFilter::POST), path, handler, operation, None)
    }

    /// The same with a limit of its own for the body.
    #[must_use]
    pub fn post_at_most<H, T>(self, bytes_max: usize, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.add(("post", MethodFilter::POST), path, handler, operation, Some(bytes_max))
    }

    /// Answers PUT at a path.
    #[must_use]
    pub fn put<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.add(("put", MethodFilter::PUT), path, handler, operation, None)
    }

    /// The same with a limit of its own for the body.
    #[must_use]
    pub fn put_at_most<H, T>(self, bytes_max: usize, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.add(("put", MethodFilter::PUT), path, handler, operation, Some(bytes_max))
    }

    /// Answers DELETE at a path.
    #[must_use]
    pub fn delete<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.add(("delete", MethodFilter::DELETE), path, handler, operation, None)
    }

    fn add<H, T>(
        mut self,
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        handler: H,
        operation: Operation,
        bytes_max: Option<usize>,
    ) -> Self
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        let bytes_max = bytes_max.or(self.body_bytes_max);
        let takes = self.document.add(method, path, &handler, operation, bytes_max);
        let mut route = on(filter, handler);
        if takes.are_refused(path) {
            route = route.layer(map_request(refuse_parameters));
        }
        if let Some(bytes_max) = bytes_max {
            route = route.layer(Extension(BodyBytesMax(bytes_max)));
            route = route.layer(DefaultBodyLimit::max(bytes_max));
        }
        self.router = self.router.route(path, route);
        self
    }

    /// What serves them.
    pub fn into_router(self) -> Router<S> {
        self.router
    }

    /// What describes them.
    #[must_use]
    pub fn into_document(self) -> Document {
        self.document
    }
}

/// A route without parameters answers the same whatever a query asks for: that would be an answer to another question.
async fn refuse_parameters(request: Request) -> Result<Request, Problem> {
    let first = form(request.uri().query().unwrap_or_default()).next();
    match first {
        Some((name, _)) => Err(Problem::bad_request(format!("the parameter {name:?} is unknown, expected none"))),
        None => Ok(request),
    }
}
