//! The master machine.
