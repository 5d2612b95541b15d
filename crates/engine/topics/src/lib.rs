//! Under construction.
#![no_std]
extern crate alloc;
