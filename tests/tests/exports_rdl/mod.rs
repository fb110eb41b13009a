//! The SystemRDL as PeakRDL understands it, against the register map.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tests::stock::repository;

use fpga_regs::regs::{registers, Mode, Register};
use serde_json::{json, Map, Value};

use super::{exported, peakrdl, said, succeeded};

/// What PeakRDL's compiler makes of a file: every register by its path.
fn elaborated(file: &Path) -> Map<String, Value> {
    let script = repository().join("tests/rdl/map.py");
    let output = Command::new(peakrdl("python")).args([&script, file]).output().unwrap();
    succeeded(&output);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The same from the register map.
fn declared() -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for (name, offset, register) in registers() {
        for cell in 0..register.count {
            let path = match register.count {
                1 => path(&name),
                _ => format!("{}[{cell}]", path(&name)),
            };
            let offset = offset + cell * register.bytes;
            let value = json!({ "offset": offset, "bytes": register.bytes, "fields": fields(register) });
            all.insert(path, value);
        }
    }
    all
}

/// `port2.gid3.GID` as `port[1].gid[3].GID`: an array counts from 0.
fn path(name: &str) -> String {
    let (blocks, register) =
        name.rsplit_once('.').map_or((None, name), |(blocks, name)| (Some(blocks), name));
    let blocks = blocks.into_iter().flat_map(|blocks| blocks.split('.')).map(|block| {
        let digits = block.find(|c: char| c.is_ascii_digit()).expect("the number of a block");
        let (kind, number) = block.split_at(digits);
        let number: u32 = number.parse().expect("the number of a block");
        format!("{kind}[{}].", if kind == "port" { number - 1 } else { number })
    });
    blocks.chain([register.to_string()]).collect()
}

fn fields(register: &Register) -> Value {
    let reset =
        |low: usize, width: usize| register.reset.map(|reset| reset >> low & (u64::MAX >> (64 - width)));
    let field = |name: &str, low: usize, width: usize| {
        let (hardware, storage) = hardware(register, name);
        let mode = register.mode.name();
        (name.to_string(), json!([low, low + width - 1, mode, reset(low, width), hardware, storage]))
    };
    let bits = register.bytes as usize * 8;
    let map: Map<String, Value> = match (register.fields(), register.mode) {
        ([], Mode::W1C) => (0..bits).map(|bit| field(&format!("VALUE{bit}"), bit, 1)).collect(),
        ([], _) => [field("VALUE", 0, bits)].into_iter().collect(),
        (fields, _) => fields.iter().map(|each| field(each.name, each.bit, each.width)).collect(),
    };
    map.into()
}

/// What hardware does to a field, and whether the field keeps what is written.
fn hardware(register: &Register, field: &str) -> (&'static str, bool) {
    match (register.mode, register.name, field) {
        (Mode::RO, "ID" | "VERSION" | "GID_COUNT" | "PKEY", _) => ("na", false),
        (Mode::RO, ..) => ("w", false),
        (Mode::RW, "CONTROL", "reset") => ("r hwclr", true),
        (Mode::RW | Mode::WO, ..) => ("r", true),
        (Mode::W1C, ..) => ("r hwset hwclr", true),
    }
}

/// Every difference, by the path of the register.
fn differences(found: &Map<String, Value>, wanted: &BTreeMap<String, Value>) -> Vec<String> {
    let missing =
        wanted.keys().filter(|path| !found.contains_key(*path)).map(|path| format!("{path} is missing"));
    let others = found.iter().filter_map(|(path, found)| match wanted.get(path) {
        Some(wanted) if wanted == found => None,
        Some(wanted) => Some(format!("{path} is {found}, not {wanted}")),
        None => Some(format!("{path} is not declared")),
    });
    missing.chain(others).collect()
}

#[test]
fn peakrdl_finds_the_same_map() {
    let directory = exported("rdl");
    let file = directory.path().join("verbena-export/verbena.rdl");
    let output = Command::new(peakrdl("peakrdl")).arg("dump").arg(&file).output().unwrap();
    succeeded(&output);
    assert!(!said(&output).contains("warning"), "{}", said(&output));
    let found = elaborated(&file);
    assert!(found.len() > 16_000, "{} registers", found.len());
    assert_eq!(differences(&found, &declared()), Vec::<String>::new());
}

#[test]
#[ignore = "the long form of the checks"]
fn a_changed_bit_in_the_map_is_found() {
    let directory = exported("rdl");
    let file = directory.path().join("verbena-export/verbena.rdl");
    let text = fs::read_to_string(&file).unwrap();
    let wanted = declared();
    let changes = [
        ("\\heartbeat [31:16]", "\\heartbeat [31:17]", "HEALTH"),
        ("} SCRATCH @ 0x1c;", "} SCRATCH @ 0x3c;", "SCRATCH"),
        ("} SCRATCH @ 0x1c;", "} SCRATCHED @ 0x1c;", "SCRATCH"),
        ("\\vendor [15:0] = 16'h1bd4", "\\vendor [15:0] = 16'h1bd5", "ID"),
        ("default onwrite = woclr;", "", "VECTOR_PENDING"),
        ("default hw = r;", "default hw = rw;", "SCRATCH"),
        (" hwclr; precedence = hw; } \\reset", " } \\reset", "CONTROL"),
        ("} port[2] @ 0x1000 += 0x1000;", "} port[2] @ 0x1000 += 0x1800;", "port[1]."),
    ];
    for (right, wrong, register) in changes {
        let changed = text.replacen(right, wrong, 1);
        assert_ne!(changed, text, "{right} is not in the file");
        fs::write(&file, changed).unwrap();
        let differences = differences(&elaborated(&file), &wanted);
        assert!(!differences.is_empty(), "{right} as {wrong} is not found");
        for difference in differences {
            assert!(difference.starts_with(register), "{difference}");
        }
    }
}
