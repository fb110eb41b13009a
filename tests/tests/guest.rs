//! The driver and the provider on real VFIO, in a guest: `tests/guest/run`.

use std::time::Duration;

use tests::guest::{Machine, Options, Served};

const CARD: &str = env!("CARGO_BIN_EXE_guest-card");
const SHORT: Duration = Duration::from_secs(30);

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn boots() {
    let served = Served::start(2, &[]);
    let mut options = Options::default();
    for socket in served.sockets() {
        options = options.card(&socket);
    }
    let mut guest = Machine::boot(CARD, &options);
    for command in std::env::var("TRY").unwrap_or_default().split("@@") {
        println!("## {command}");
        println!("{}", guest.run(command, Duration::from_secs(60)).text);
    }
    println!("{}", served.said());
}
