//! What the journal promises, shown on a disk that may fail at every call.

mod crashes;
mod damage;
mod disk;
mod records;
#[path = "../../../seeds.rs"]
mod seeds;
