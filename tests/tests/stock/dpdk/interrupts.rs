//! Interrupts of receive queues.

use tests::stock::EalFiles;

use super::*;

/// A program sleeps until a frame comes, uses hardly any processor meanwhile, and wakes within milliseconds. The program checks
/// that, and some of stopped queues and of reset that testpmd does not show.
#[test]
pub fn programs_sleep_until_frames_come() {
    let net = StockNet::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let sleeper = net.dpdk().compiled(directory.path(), "sleeper");
    let files = EalFiles::new();
    let core = files.core.to_string();
    let eal = ["--no-huge", "--no-pci", "-m", "64", "-l", &core, "--file-prefix", &files.prefix];
    let devices = ["--vdev", "net_verbena0", "--vdev", "net_verbena1"];
    let words: Vec<_> = sleeper.iter().map(String::as_str).chain(eal).chain(devices).collect();
    let said = net.start(words[0], &words[1..]).wait(LIMIT).expect_good_saying("done\n");
    assert_eq!(said.matches("ms after a frame is sent").count(), 3, "{said}");
    for trouble in ["unexpected intr type", "Error reading from fd"] {
        assert!(!said.contains(trouble), "{said}");
    }
    net.expect_gone();
}
