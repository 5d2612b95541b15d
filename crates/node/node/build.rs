//! Builds the crate again when the console was built again: its files are carried inside.

fn main() {
    println!("cargo::rerun-if-changed=../../../console/dist");
}
