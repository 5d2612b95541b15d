//! Encodes samples of one topic as columns, in chunks with a summary of their content.
//!
//! In: samples (time, body, quality) in any order, bytes of a chunk. Out: chunks, [`Summary`]s without decoding, the samples
//! again, exact in every bit, those of one time in the order in which they came, equal ones once; [`Buckets`] of them: means, sums,
//! percentiles; [`StateTimes`]: how long each state lasted; [`Downsampler`]: fewer samples in the place of many; samples as people
//! have edited them ([`Edits`]).
//!
//! Never: a file, a topic's name, a clock, a decision about how long something is kept.
//!
//! # Limits
//!
//! | limit | when full |
//! |---|---|
//! | [`SAMPLES_MAX`] samples of a chunk | the writer begins another; a reader refuses more |
//! | [`STATES_MAX`] states of a bucket | the question is refused |
//! | [`HeadLimits`] of samples in memory | heads are sealed, for the owner to write |
//!
//! Read first: `chunk.rs` (the format), then `column.rs`, `heads.rs`, `sweep.rs`, `integers.rs`, `floats.rs`.
#![no_std]
extern crate alloc;

mod aggregate;
mod buckets;
mod check;
mod chunk;
mod column;
mod downsample;
mod edits;
mod error;
mod fields;
mod floats;
mod heads;
mod integers;
mod runs;
mod samples;
mod states;
mod summary;
mod sweep;
#[cfg(test)]
mod tests;
mod times;

pub use aggregate::{Aggregate, Aggregated};
pub use buckets::{Bucket, Buckets, Extent, Frame, Grid, Needs, Take};
pub use chunk::{Chunk, Origin, SAMPLES_MAX, encode};
pub use column::{Column, Datum, Sample};
pub use downsample::{Downsampler, Keep};
pub use edits::{Change, Editor, Edits, Marked};
pub use error::SeriesError;
pub use fields::Fields;
pub use heads::{HeadLimits, Heads, Sealed};
pub use samples::Samples;
pub use states::{STATES_MAX, StateTime, StateTimes, TooManyStates};
pub use summary::{NumberKind, Numbers, Summary, ValidityCounts};
pub use sweep::{Span, Step, Sweep};
