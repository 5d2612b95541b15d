//! The outstation machine.
