//! DMA: both ways, exactly where it is allowed, and nowhere else.

use super::{bound, bound_with, A, B, LONG, SHORT};
use tests::guest::Machine;

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn data_both_ways_overlapping_regions_and_huge_pages() {
    let (_served, mut guest) = bound();
    guest.good(&format!("guest-card data {A} {B}"), LONG);
    guest.good(&format!("guest-card regions {A} {B}"), LONG);
    guest.good("echo 40 >/proc/sys/vm/nr_hugepages", SHORT);
    println!("{}", guest.good(&format!("guest-card huge {A} {B}"), LONG));
}

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn dma_outside_the_map_is_refused_by_the_server() {
    let (_served, mut guest) = bound();
    println!("{}", guest.good(&format!("guest-card outside {A} {B}"), LONG));
}

/// Each access of the card is a message here, which QEMU carries out as a device of the machine would:
/// through the IOMMU, whose faults the guest's kernel logs.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn dma_outside_the_map_is_refused_by_the_iommu() {
    let (_served, mut guest) = bound_with(&["--dma", "messages"]);
    guest.good(&format!("guest-card data {A} {B}"), LONG);
    let faults = |guest: &mut Machine| {
        let log = guest.kernel_log();
        let lines = log.lines().filter(|line| line.contains("DMAR: [DMA"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(faults(&mut guest), [""; 0], "no fault by accesses that are allowed");
    println!("{}", guest.good(&format!("guest-card outside {A} {B}"), LONG));
    let said = faults(&mut guest);
    // The address that the check names, and who tried.
    for access in ["[DMA Read", "[DMA Write"] {
        let found = said.iter().any(|line| line.contains(access) && line.contains("70dead0"));
        assert!(found, "no fault of {access} in {said:#?}");
    }
}

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn the_limit_of_locked_memory_is_told_with_the_number_to_raise_it_to() {
    let (_served, mut guest) = bound();
    guest.good("echo user:x:1000:1000::/:/bin/sh >>/etc/passwd", SHORT);
    let group = guest.good(&format!("basename $(readlink /sys/bus/pci/devices/{A}/iommu_group)"), SHORT);
    let group = group.trim();
    let pin = |mib: u32| format!("su user -c 'ulimit -l 65536; guest-card pin {A} {mib}'");
    guest.refused(&pin(1), &format!("sudo chown $USER /dev/vfio/{group}"), SHORT);
    guest.good(&format!("chown user /dev/vfio/{group}"), SHORT);
    guest.good(&pin(1), SHORT);
    guest.refused(&pin(100), "ulimit -l", SHORT);
}
