//! The crate by cases that the console reads too, and by properties against naive second implementations.

mod drawing;
mod files;
mod networks;
