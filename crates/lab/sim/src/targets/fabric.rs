//! Requests of servers that ask who may connect.

/// After 0 any bytes as a request, else any claims, which are signed: they are read, or refused.
pub(super) fn ask(bytes: &[u8]) {
    tieline_fabric::callout_fuzz::read(bytes);
}
