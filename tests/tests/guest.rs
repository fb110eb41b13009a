//! The driver and the provider on real VFIO, in a guest: `tests/guest/run`.

use std::time::Duration;

use tests::guest::{Machine, Options};

const CARD: &str = env!("CARGO_BIN_EXE_guest-card");
const SHORT: Duration = Duration::from_secs(20);

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn boots() {
    let options = Options {
        arguments: ["-device", "e1000e", "-device", "edu"].map(String::from).into(),
        ..Options::default()
    };
    let mut guest = Machine::boot(CARD, &options);
    println!("{}", guest.good("uname -a; ls /sys/bus/pci/devices /dev/vfio; lsmod; cat /proc/meminfo | head -3; ls /sys/kernel/iommu_groups", SHORT));
    println!("{}", guest.good("verbena --version; verbena doctor", SHORT));
    println!("{}", guest.good("dmesg | tail -30", SHORT));
}
