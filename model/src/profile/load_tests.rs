use super::*;

/// The message of the loader for a built-in profile in which `from` is replaced.
fn refused(from: &str, to: &str) -> String {
    let text = builtin("f10a").unwrap();
    assert!(text.contains(from), "{from}");
    parse("mine.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn the_built_in_profiles_load_under_their_names() {
    for (name, text) in BUILTIN {
        let loaded = Profile::load(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((loaded.name.as_str(), loaded.profile.name()), (*name, *name));
        assert_eq!(loaded.notes.len(), NUMBERS.len());
        assert_eq!(parse(name, text).unwrap(), loaded);
    }
}

#[test]
fn units_are_converted() {
    let profile = Profile::load("f10a").unwrap().profile;
    assert_eq!(profile.sq.clock_ps, 6400);
    assert_eq!(profile.pcie.read_ps, 500_000);
    assert_eq!(profile.pcie.pcie_bps.bits_per_second(), 57_880_000_000);
    assert_eq!(profile.wire.rate_bps.bits_per_second(), 10_000_000_000);
    assert_eq!(profile.cycles(10), 64_000);
    // 1024 bytes of payload in the middle of a message: MTU + 82 bytes of 0.8 ns.
    assert_eq!(profile.wire.packet_ps(12 + 1024, 0), (1024 + 82) * 800);
    // An acknowledgement is padded to the smallest frame.
    assert_eq!(profile.wire.packet_ps(12 + 4, 0), (66 + 20) * 800);
    assert_eq!(profile.wire.packet_ps(0, 0), (64 + 20) * 800);
}

#[test]
fn what_is_wrong_is_named() {
    assert_eq!(
        refused("mmio_ns = [150", "mmio_ns = [-1"),
        "mine.toml: pcie.mmio_ns: -1 ns must not be negative"
    );
    let long = refused("mmio_ns = [150", "mmio_ns = [1000000001");
    assert_eq!(long, "mine.toml: pcie.mmio_ns: 1000000001 ns is impossible: 0 to 1000000000 ns");
    assert_eq!(refused("mps = [256", "mps = [300"), "mine.toml: pcie.mps: 300 is no power of two");
    assert!(refused("rate_gbps = [10", "rate_gbps = [0").contains("wire.rate_gbps: 0 Gb/s is impossible"));
    assert!(refused("rate_gbps = [10", "rate_gbps = [nan").contains("wire.rate_gbps: is not a number"));
    assert!(refused("rate_gbps = [10", "rate_gbps = [\"ten\"")
        .contains("wire.rate_gbps: must begin with a number"));
    assert!(refused("lanes = [8", "lanes = [3").contains("pcie.lanes: 3"));
    assert!(refused("lanes = [8", "lanes = [4").contains("pcie.tlp_gbps: 57.88 Gb/s: PCIe 3.0 x4 has 31.51"));
    assert!(refused("lanes = [8", "lanes = [8.5").contains("pcie.lanes: 8.5 must be a whole number"));
    assert!(refused("reads_outstanding = [64", "reads_outstanding = [257").contains("1 to 256"));
    assert!(refused("qpc_entries = [1024", "qpc_entries = [999999").contains("1 to 4096"));
    assert!(refused("mmio_ns =", "mmio =").contains("pcie.mmio: unknown; this section has gen, lanes"));
    assert!(refused("mmio_ns =", "mmio =").contains("pcie.mmio_ns: is missing"));
    assert!(refused("[pcie]", "[pci]").contains("mine.toml: pci: unknown; the sections are host, pcie"));
    assert!(refused("name =", "nome =").contains("mine.toml: nome: unknown"));
    assert!(refused("name = \"f10a\"", "name = \"f10a of mine, the second\"").contains("name: must be"));
    assert!(refused("[pcie]", "[pcie").contains("mine.toml: is not TOML"));
}

#[test]
fn a_number_without_a_source_is_refused() {
    let text = builtin("f10a").unwrap();
    let line = text.lines().find(|line| line.starts_with("mmio_ns")).unwrap();
    for bad in ["mmio_ns = 150", "mmio_ns = [150]"] {
        assert!(refused(line, bad).contains("pcie.mmio_ns: has no source"));
    }
    assert!(refused(line, "mmio_ns = [150, \" \"]").contains("pcie.mmio_ns: has an empty source"));
    assert!(refused(line, "mmio_ns = [150, 3]").contains("pcie.mmio_ns: must be [value, \"source\"]"));
    assert!(refused(line, "mmio_ns = { value = 1 }").contains("pcie.mmio_ns: must be [value, \"source\"]"));
}

#[test]
fn all_faults_are_told_at_once() {
    let text = builtin("f10a").unwrap().replace("mmio_ns", "mmio").replace("[rx]", "[rx2]");
    let error = parse("mine.toml", &text).unwrap_err();
    let numbers_of_rx = NUMBERS.iter().filter(|number| number.section == "rx").count();
    assert_eq!(error.faults.len(), 3 + numbers_of_rx, "{error}");
}

#[test]
fn what_is_no_profile() {
    let unknown = Profile::load("cx7").unwrap_err().to_string();
    assert!(unknown.contains("cx7: no such card profile; there are f10a, cx4lx"), "{unknown}");
    let missing = Profile::load("./nosuch.toml").unwrap_err().to_string();
    assert!(missing.contains("./nosuch.toml: cannot be read"), "{missing}");
}
