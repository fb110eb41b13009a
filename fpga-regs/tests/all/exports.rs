//! The exports: the files in docs/export are fresh, and nothing is left out.
//! What real tools say of them is in tests/tests/exports.rs.

use crate::pages::check;
use fpga_regs::catalog;
use fpga_regs::export::{samples, Entry, Export, File};
use fpga_regs::field::Kind;
use fpga_regs::WqeBuilder;
use std::collections::HashSet;
use std::path::Path;

/// The files that docs/export keeps: all but those that repeat the hex files at
/// length.
fn kept() -> impl Iterator<Item = File> {
    let all = Export::ALL.into_iter().flat_map(|export| export.files());
    let repeats = [".json", "/parts.hex", "/fields.hex"];
    all.filter(move |file| !repeats.iter().any(|end| file.path.ends_with(end)))
}

#[test]
fn files_are_fresh() {
    for file in kept() {
        check(&format!("export/{}", file.path), &file.text);
    }
}

#[test]
fn no_file_is_left_from_before() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/export");
    let wanted: HashSet<_> = kept().map(|file| directory.join(file.path)).collect();
    for directory in [&directory, &directory.join("vectors")] {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            assert!(path.is_dir() || wanted.contains(&path), "{} is not exported any more", path.display());
        }
    }
}

/// How often a macro is called in the source of the card's definition; the protocol by which a card is
/// served is no part of it.
fn declared(call: &str) -> usize {
    fn count(directory: &Path, call: &str) -> usize {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries
            .filter(|path| !path.ends_with("vfio_user.rs"))
            .map(|path| match path.is_dir() {
                true => count(&path, call),
                false => std::fs::read_to_string(&path).unwrap().lines().filter(|line| *line == call).count(),
            })
            .sum()
    }
    count(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), call)
}

#[test]
fn the_catalog_has_everything_that_is_declared() {
    assert_eq!(catalog::formats().count(), declared("layout! {"));
    assert_eq!(catalog::words().count(), declared("word! {"));
    assert_eq!(catalog::BLOCKS.len(), declared("registers! {"));
    let sets = catalog::names().iter().filter(|(_, set)| *set).count();
    assert_eq!(sets, declared("flag_set! {"));
    assert_eq!(catalog::names().len() - sets, declared("open_enum! {"));
}

#[test]
fn samples_have_names_of_their_own() {
    let mut seen = HashSet::new();
    for sample in samples() {
        assert!(seen.insert(sample.name.clone()), "{} is there twice", sample.name);
    }
}

#[test]
fn samples_of_send_wqes_can_be_taken_apart() {
    for sample in samples().iter().filter(|sample| sample.entry == Entry::Wqe) {
        let parts = WqeBuilder::parse(&sample.bytes).unwrap();
        assert_eq!(parts.build().unwrap(), sample.bytes, "{}", sample.name);
    }
}

#[test]
fn every_named_value_and_both_values_of_every_flag_are_in_the_samples() {
    let samples = samples();
    let seen: HashSet<(&str, &str, u128)> = samples
        .iter()
        .flat_map(|sample| sample.parts.iter().map(move |part| (sample, part)))
        .flat_map(|(sample, part)| {
            let value = |field: &fpga_regs::Field| field.wide(&sample.bytes[part.byte..]).unwrap();
            part.format.fields.iter().map(move |field| (part.format.name, field.name, value(field)))
        })
        .collect();
    for format in catalog::formats() {
        for field in format.fields {
            let wanted: Vec<u128> = match field.kind {
                Kind::Bool => vec![0, 1],
                Kind::Enum(names) => names.values.iter().map(|known| known.value.into()).collect(),
                _ => continue,
            };
            for value in wanted {
                let there = seen.contains(&(format.name, field.name, value));
                assert!(there, "{}.{} is never {value}", format.name, field.name);
            }
        }
    }
}
