//! What the fuzzers of the folder `fuzz` call: any bytes in, a panic where a promise is broken.
//!
//! The bodies are here and not there, so that the tests run the seeds of `fuzz/seeds` on a stable toolchain. A target is
//! a function; its first lines say what its bytes mean.

mod bacnet;
mod deltas;
mod derived;
mod diagrams;
mod extensions;
mod fabric;
mod goose;
mod iec104;
mod layers;
pub(crate) mod machines;
mod modbus;
mod mongo;
mod mqtt;
mod packets;
mod pair;
mod relay;
mod rota;
mod rsfn;
mod series;
mod websocket;

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name: each has a file in `fuzz/fuzz_targets` and a folder in `fuzz/seeds`.
pub const TARGETS: [(&str, Target); 46] = [
    ("bacnet_datagram", bacnet::datagram),
    ("bacnet_dissect", bacnet::dissect),
    ("bacnet_client", bacnet::client),
    ("bacnet_server", bacnet::server),
    ("bacnet_secure", bacnet::secure),
    ("derived_expression", derived::expression),
    ("diagram_svg", diagrams::svg),
    ("dnp3_link", layers::link),
    ("dnp3_transport", layers::transport),
    ("dnp3_app", layers::app),
    ("dnp3_objects", layers::objects),
    ("dnp3_dissect", layers::dissect),
    ("dnp3_endpoint", layers::endpoint),
    ("dnp3_lean", extensions::lean),
    ("dnp3_secure", extensions::secure),
    ("dnp3_file", extensions::file),
    ("dnp3_master", machines::master),
    ("dnp3_outstation", machines::outstation),
    ("dnp3_mutated", pair::mutated),
    ("dnp3_pair", pair::pair),
    ("delta_decoder", deltas::decoder),
    ("delta_hunk", deltas::hunk),
    ("delta_intake", deltas::intake),
    ("fabric_ask", fabric::ask),
    ("goose_frame", goose::frame),
    ("goose_subscriber", goose::subscriber),
    ("iec104_frame", iec104::frame),
    ("iec104_client", iec104::client),
    ("iec104_server", iec104::server),
    ("iec104_dissect", iec104::dissect),
    ("modbus_frame", modbus::frame),
    ("modbus_client", modbus::client),
    ("modbus_server", modbus::server),
    ("mongo_answer", mongo::answer),
    ("mqtt_session", mqtt::session),
    ("mqtt_packet", packets::packet),
    ("mqtt_server", packets::server),
    ("relay_batch", relay::batch),
    ("relay_call", relay::call),
    ("relay_receiver", relay::receiver),
    ("rota_calendar", rota::calendar),
    ("rsfn_header", rsfn::header),
    ("rsfn_envelope", rsfn::envelope),
    ("rsfn_inflate", rsfn::compressed),
    ("series_chunk", series::chunk),
    ("websocket", websocket::either_side),
];

/// Runs a target.
///
/// # Panics
/// There is none of that name, or it broke a promise.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of that name");
    target(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choices, Mutator};
    use std::path::Path;

    const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz");
    /// Bytes of all seeds together.
    const SEEDS_BYTES_MAX: usize = 200_000;

    /// Changed seeds of each target; `cargo xtask fuzz` runs any number.
    const CHANGED: u64 = 100;

    fn seeds_of(name: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(FUZZ).join("seeds").join(name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| std::fs::read(file).unwrap()).collect()
    }

    #[test]
    fn every_target_takes_its_seeds() {
        let (mut count, mut bytes) = (0, 0);
        for (name, target) in TARGETS {
            let seeds = seeds_of(name);
            assert!(!seeds.is_empty(), "{name} has no seeds");
            bytes += seeds.iter().map(Vec::len).sum::<usize>();
            count += seeds.len();
            seeds.iter().for_each(|seed| target(seed));
        }
        println!("{count} seeds, {bytes} bytes");
        assert!(bytes <= SEEDS_BYTES_MAX, "{bytes} bytes of seeds, at most {SEEDS_BYTES_MAX}");
    }

    #[test]
    fn every_target_takes_changed_seeds() {
        for (name, target) in TARGETS {
            let mutator = Mutator::new(seeds_of(name));
            for number in 0..CHANGED {
                println!("cargo xtask fuzz {name} --seed 0 --input {number}");
                target(&mutator.input(0, number));
            }
        }
    }

    #[test]
    fn every_target_has_a_fuzzer() {
        let manifest = std::fs::read_to_string(Path::new(FUZZ).join("Cargo.toml")).unwrap();
        for (name, _) in TARGETS {
            let file = std::fs::read_to_string(Path::new(FUZZ).join(format!("fuzz_targets/{name}.rs"))).unwrap();
            assert!(file.contains(&format!("\"{name}\"")), "fuzz_targets/{name}.rs runs another target");
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
        }
    }

    #[test]
    fn every_target_takes_any_bytes() {
        for (name, target) in TARGETS {
            for seed in 0..200 {
                let mut choices = Choices::seeded(seed);
                let count = usize::try_from(choices.between(0, 600)).unwrap();
                let bytes = choices.bytes(count);
                println!("{name} {seed}");
                target(&bytes);
            }
        }
    }
}
