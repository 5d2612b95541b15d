//! What fuzzers see: answers of a server.

use super::bson::{Bson, Document};
use super::connection::read_answer;
use super::documents::sample_of;
use super::{checked, first_batch};
use std::collections::HashSet;

/// Nested documents that are walked through.
const DEPTH_MAX: usize = 8;

/// Reads an answer in every way in which a connection does.
pub fn read(bytes: &[u8]) {
    let Ok(answer) = read_answer(bytes, 1) else { return };
    let _ = checked(answer);
    let mut there = HashSet::new();
    first_batch(answer).for_each(|document| sample_of(document, &mut there));
    walk(answer, DEPTH_MAX);
}

fn walk(document: Document<'_>, depth: usize) {
    for element in document.iter() {
        match element {
            Ok((_, Bson::Document(inner) | Bson::Array(inner))) if depth > 0 => walk(inner, depth - 1),
            _ => {}
        }
    }
}
