//! What HTTP servers share: the loop that serves, connections, errors, JSON bodies, what a browser may be made to do, and
//! routes with their parameters and the OpenAPI document that is made of them.

pub mod body;
pub mod exchange;
pub mod guard;
pub mod listen;
pub mod openapi;
pub mod parameters;
pub mod places;
pub mod problem;
pub mod routes;
pub mod serve;
mod settings;
