//! What `verbena export` writes, under the tools that read it: gcc, g++, verilator, PeakRDL,
//! Python; and the examples of docs/exports.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fpga_regs::regs::FeatureSet;
use fpga_regs::{Cqe, CqeStatus, SqDoorbell, WqeCtrl, WqeOpcode};
use tempfile::TempDir;
use tests::place_for;
use tests::stock::{need, repository, target_dir, verbena};

mod exports_rdl;

/// A directory with `verbena-export`, written by the command.
fn exported(what: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(verbena()).args(["export", what]).current_dir(&directory).output().unwrap();
    succeeded(&output);
    let written = String::from_utf8(output.stdout).unwrap();
    assert!(!written.is_empty());
    for path in written.lines() {
        assert!(directory.path().join(path).is_file(), "{path} was named, not written");
    }
    directory
}

#[track_caller]
fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}: {}", output.status, said(output));
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// The block of code in this language in docs/exports.md.
fn example(language: &str) -> String {
    let page = repository().join("docs/exports.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once(&format!("```{language}\n")).expect("an example");
    rest.split_once("```").expect("its end").0.to_string()
}

/// A compiler with every warning an error, on the example of the page.
fn compile(directory: &TempDir, compiler: &str, options: &[&str]) -> Output {
    need(compiler);
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", "verbena-export", "-o", "entry"]);
    command.args(options).arg("entry.c").current_dir(directory).output().unwrap()
}

#[test]
fn the_header_compiles_as_c_and_cpp_and_gives_the_right_bytes() {
    let directory = exported("c");
    fs::write(directory.path().join("entry.c"), example("c")).unwrap();
    let ctrl = WqeCtrl::new()
        .with_opcode(WqeOpcode::WRITE)
        .with_ds(3)
        .with_signaled(true)
        .with_fence(true)
        .with_num_sge(1)
        .with_index(0x1234)
        .with_length(4096);
    let cqe = Cqe::new().with_qpn(0xab_cdef).with_status(CqeStatus::REM_ACCESS_ERR).with_phase(true);
    let bell = SqDoorbell::new(0xab_cdef, 0x1234_5678).0.to_le_bytes();
    let features = (FeatureSet::RC | FeatureSet::RSS).0.to_le_bytes();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    let wanted = [&ctrl.as_bytes()[..], cqe.as_bytes(), &bell, &features].map(hex).concat();
    for (compiler, options) in [("gcc", &["-std=c11"][..]), ("g++", &["-std=c++11", "-x", "c++"])] {
        succeeded(&compile(&directory, compiler, options));
        let output = Command::new(directory.path().join("entry")).output().unwrap();
        succeeded(&output);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted, "{compiler}");
    }
}

#[test]
fn the_compiler_refuses_a_header_whose_layout_is_wrong() {
    let directory = exported("c");
    fs::write(directory.path().join("entry.c"), example("c")).unwrap();
    let path = directory.path().join("verbena-export/verbena.h");
    let header = fs::read_to_string(&path).unwrap();
    let wrong = header.replacen("    uint16_t index;\n", "    uint32_t index;\n", 1);
    assert_ne!(header, wrong);
    fs::write(&path, wrong).unwrap();
    let output = compile(&directory, "gcc", &["-std=c11"]);
    assert!(
        !output.status.success() && said(&output).contains("static assertion failed"),
        "{}",
        said(&output)
    );
}

/// Runs verilator in the exported directory.
fn verilator(directory: &Path, arguments: &[&str]) -> Output {
    need("verilator");
    Command::new("verilator").args(arguments).current_dir(directory).output().unwrap()
}

#[test]
fn verilator_finds_nothing_in_the_package_and_the_example() {
    let directory = exported("sv");
    let at = directory.path().join("verbena-export");
    succeeded(&verilator(&at, &["--lint-only", "-Wall", "verbena_pkg.sv"]));
    fs::write(at.join("cqe_monitor.sv"), example("systemverilog")).unwrap();
    let arguments = ["--lint-only", "-Wall", "-Wno-UNUSED", "verbena_pkg.sv", "cqe_monitor.sv"];
    succeeded(&verilator(&at, &[&arguments[..], &["--top", "cqe_monitor"]].concat()));
}

#[test]
fn the_test_bench_agrees_with_the_golden_entries_and_finds_one_changed_bit() {
    let directory = exported("all");
    let at = directory.path().join("verbena-export");
    let bench = "vectors/verbena_vectors_tb.sv";
    // It runs for milliseconds: what counts is how fast it compiles.
    let fast = ["-MAKEFLAGS", "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"];
    let build = ["--binary", "verbena_pkg.sv", bench, "--top", "verbena_vectors_tb"];
    succeeded(&verilator(&at, &[&build[..], &fast].concat()));
    let run = || Command::new("obj_dir/Vverbena_vectors_tb").arg("+dir=vectors").current_dir(&at).output();
    let output = run().unwrap();
    succeeded(&output);
    let fields = fs::read_to_string(at.join("vectors/fields.hex")).unwrap();
    let fields = fields.lines().filter(|line| !line.starts_with("//")).count();
    let compared = said(&output);
    let compared: usize = compared.split_whitespace().next().unwrap().parse().unwrap();
    assert!(compared > fields && fields > 4000, "{compared} compared, {fields} fields");

    // Bit 40 of the third CQE belongs to its `qpn`.
    let path = at.join("vectors/cqe.hex");
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().filter(|line| !line.starts_with("//")).nth(2).unwrap();
    let place = line.len() - 11;
    let digit = u8::from_str_radix(&line[place..=place], 16).unwrap() ^ 1;
    let wrong = format!("{}{digit:x}{}", &line[..place], &line[place + 1..]);
    fs::write(&path, text.replacen(line, &wrong, 1)).unwrap();
    let output = run().unwrap();
    assert!(!output.status.success(), "a changed bit is not found");
    assert!(said(&output).contains("file 2, word 2, byte 0: Cqe.qpn is "), "{}", said(&output));
    assert!(said(&output).contains(" 1 of "), "{}", said(&output));
}

#[test]
fn the_json_agrees_with_the_hex() {
    need("python3");
    let directory = exported("vectors");
    let script = example("python");
    for (entry, format) in [("cqe", "Cqe"), ("eqe", "Eqe"), ("command", "Command"), ("reply", "Reply")] {
        let script =
            script.replace("cqe.json", &format!("{entry}.json")).replace("\"Cqe\"", &format!("\"{format}\""));
        let output = Command::new("python3").args(["-c", &script]).current_dir(&directory).output().unwrap();
        succeeded(&output);
        assert!(said(&output).ends_with("CQEs agree\n"), "{}", said(&output));
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let (_directory, file) = place_for("file");
    fs::write(&file, "").unwrap();
    let output =
        Command::new(verbena()).args(["export", "c", "--out"]).arg(file.join("below")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains("file/below") && text.contains("--out DIR"), "{text}");
}

/// A program of PeakRDL's environment, which `tests/setup exports` makes in the target directory.
fn peakrdl(program: &str) -> PathBuf {
    let path = target_dir().join("peakrdl/bin").join(program);
    assert!(path.is_file(), "{} is not there; get it with: tests/setup exports", path.display());
    path
}
