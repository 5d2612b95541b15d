//! Answers of servers that speak MongoDB's protocol.

/// Any bytes as an answer: it is read to its end, or it is none.
pub(super) fn answer(bytes: &[u8]) {
    tieline_databases::mongo_fuzz::read(bytes);
}
