//! Other releases of libibverbs than the one that is installed: the programs of Debian 13 and of sid with their own
//! libraries, and copies under other names, as Python packages bring them.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::stock::{compile, compile_c, matrix, repository, verbena, Program, StockNet, LIMIT};

/// Runs these programs of a release that `tests/releases/fetch` has unpacked.
fn unpacked(name: &str, version: &str, only: &[&str]) {
    let root = repository().join("target/releases").join(name);
    assert!(
        root.join("stamp").is_file(),
        "the programs of release {name} are not there; get them with: tests/releases/fetch"
    );
    let said = matrix(root.to_str().expect("a path in UTF-8"), only);
    assert!(said.contains(version), "the release is not {version}:\n{said}");
}

/// Packages of programs that need verbs alone, or connect by address.
const VERBS: [&str; 3] = ["perftest", "ibverbs-utils", "rdmacm-utils"];

#[test]
fn installed() {
    let said = matrix("installed", &["pingpong -g"]);
    assert!(said.contains("rdma-core 44.0, ABI 34"), "{said}");
}

/// A program of each kind; the others in the long form of the checks.
#[test]
fn debian_13() {
    let some = [
        "ibverbs-utils",
        "ib_atomic_lat -F",
        "ib_send_lat -F",
        "ib_send_bw -F -n 50",
        "rping -v -V -C 10",
        "ib_send_bw -R -F -n 100 -c UD",
    ];
    unpacked("13", "rdma-core 56.1, ABI 34", &some);
}

#[test]
#[ignore = "the long form of the checks"]
fn all_of_debian_13() {
    unpacked("13", "rdma-core 56.1, ABI 34", &VERBS);
}

/// It moves on: the version may be a later one, if only the structs are known.
#[test]
#[ignore = "Debian sid is another one each day"]
fn debian_sid() {
    unpacked("sid", "ABI 6", &VERBS);
}

/// Release 65 has an event of a program's own.
#[test]
#[ignore = "the long form of the checks"]
fn programs_of_sid_write_events() {
    let program = compile_c("channels");
    let root = repository().join("target/releases/sid/usr");
    let (loader, libraries) = (root.join("lib64/ld-linux-x86-64.so.2"), root.join("lib/x86_64-linux-gnu"));
    let words =
        ["--library-path", libraries.to_str().expect("UTF-8"), program.to_str().expect("UTF-8"), "user"];
    let said = StockNet::new().run(loader, &words, LIMIT);
    assert!(said.contains("as in the kernel"), "{said}");
}

/// The installed libibverbs.
fn library() -> PathBuf {
    let said = Command::new("cc").arg("-print-file-name=libibverbs.so").output().expect("cc runs").stdout;
    let path = String::from_utf8(said).expect("a path in UTF-8");
    std::fs::canonicalize(path.trim()).expect("libibverbs.so: apt-get install libibverbs-dev")
}

/// The same library as Python packages bundle it: under another name, for the loader, too.
fn bundle(into: &Path) -> PathBuf {
    let mut bytes = std::fs::read(library()).expect("libibverbs");
    let name = b"libibverbs.so.1\0";
    let places: Vec<usize> =
        (0..bytes.len() - name.len()).filter(|&at| bytes[at..].starts_with(name)).collect();
    assert!(!places.is_empty(), "no name in libibverbs");
    places.into_iter().for_each(|at| bytes[at..at + 10].copy_from_slice(b"bundled-by"));
    let path = into.join("libibverbs-1de1263b.so.1.14.44.0");
    std::fs::write(&path, bytes).expect("a copy");
    path
}

/// A bundled copy shows both cards: alone, and with the installed one, whichever is loaded first.
fn finds_the_cards(bundled: &Path) {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("copies");
    // The program needs no libibverbs of its own.
    compile("cc", &["-O2", "-Wl,--as-needed"], &repository().join("tests/c/copies.c"), &program);
    let (bundled, installed) = (bundled.to_str().expect("UTF-8"), library());
    let installed = installed.to_str().expect("UTF-8");
    let net = StockNet::new();
    for copies in [&[bundled][..], &[installed], &[bundled, installed], &[installed, bundled]] {
        let said = net.run(&program, copies, LIMIT);
        assert_eq!(said.matches("has 2 devices").count(), copies.len(), "{copies:?}: {said}");
    }
    net.expect_gone();
}

#[test]
fn a_bundled_library_finds_the_cards_alone_and_beside_others() {
    let dir = tempfile::tempdir().expect("a directory");
    finds_the_cards(&bundle(dir.path()));
}

/// The same with a real one, in the long form of the checks only: it is 68 MB to download.
#[test]
#[ignore]
fn the_library_of_a_python_package_finds_the_cards() {
    let libraries = repository().join("target/releases/wheel");
    let found = std::fs::read_dir(&libraries).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = found.filter(|path| path.to_string_lossy().contains("libibverbs-"));
    let library = found.next();
    let library = library.expect("no library of a Python package; get it with: tests/releases/fetch --wheel");
    finds_the_cards(&library);
}

#[test]
fn an_unknown_release_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let (program, library) = (dir.path().join("program"), dir.path().join("libibverbs.so.1.20.71.0"));
    compile("cc", &["-Wl,--as-needed"], &repository().join("tests/c/unknown_release.c"), &program);
    compile(
        "cc",
        &["-shared", "-fPIC", "-DLIBRARY", "-Wl,--as-needed"],
        &repository().join("tests/c/unknown_release.c"),
        &library,
    );
    let mut command = Command::new(&program);
    command.arg(&library).arg(verbena().with_file_name("libverbena.so"));
    let said = Program::start(command).wait(LIMIT).expect_good();
    for words in ["libibverbs.so.1.20.71.0 has private ABI 71", "65 (rdma-core 65)", "do not get to see"] {
        assert!(said.contains(words), "no `{words}` in: {said}");
    }
    std::fs::write(dir.path().join("libibverbs.so.1"), b"\0IBVERBS_PRIVATE_71\0").expect("a file");
    let doctor = Command::new(verbena()).arg("doctor").env("LD_LIBRARY_PATH", dir.path()).output();
    let doctor = String::from_utf8(doctor.expect("doctor runs").stdout).expect("text");
    assert!(doctor.contains("libibverbs.so.1 has private ABI 71; Verbena knows 34"), "{doctor}");
}
