//! DMA: both ways, exactly where it is allowed, and nowhere else.

use super::{bound, A, B, LONG, SHORT};

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
fn dma_outside_the_map_gets_nothing() {
    let (_served, mut guest) = bound();
    println!("{}", guest.good(&format!("guest-card outside {A} {B}"), LONG));
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
