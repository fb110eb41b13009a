//! Stock programs on our provider on VFIO.

use std::process::Command;

use super::{bound, A, B, CARD, LONG, SHORT};
use tests::guest::{Machine, Options, Served};
use tests::stock::{free_port, rows, until_calibrated, verbena, Program};

/// Server and client of a test in the guest, each on a card of its own.
fn pair(guest: &mut Machine, program: &str, arguments: &str) -> String {
    let run =
        |device: &str| format!("verbena run -q --device vfio:{device} -- {program} -d verbena0 {arguments}");
    let command = format!(
        "({} >/tmp/server 2>&1; echo server ended $? >>/tmp/server) & \
         for i in $(seq 300); do netstat -ltn | grep -q :18515 && break; sleep 0.1; done; \
         {} 127.0.0.1 && for i in $(seq 100); do grep -q 'server ended' /tmp/server && break; sleep 0.1; done; \
         s=$?; cat /tmp/server; grep -q 'server ended 0' /tmp/server && exit $s",
        run(A),
        run(B)
    );
    until_calibrated(|| guest.good(&command, LONG), String::clone)
}

/// The row of a message size in perftest's table.
fn row(said: &str, bytes: u32) -> Vec<f64> {
    let row = rows(said).into_iter().find(|row| row[0] == f64::from(bytes));
    row.unwrap_or_else(|| panic!("no row of {bytes} bytes in:\n{said}"))
}

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn stock_perftest_between_two_slots() {
    let (_served, mut guest) = bound();
    for (program, arguments, bytes) in [
        ("ib_write_bw", "-p 18515 -s 65536 -n 200", 65536),
        ("ib_read_bw", "-p 18515 -s 65536 -n 200", 65536),
        ("ib_send_lat", "-p 18515 -s 64 -n 100", 64),
        ("ib_atomic_bw", "-p 18515 -n 200", 8),
    ] {
        let said = pair(&mut guest, program, arguments);
        let row = row(&said, bytes);
        assert!(row[3] > 0.0, "{said}");
        println!("{program}: {row:?}");
    }
}

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn pingpong_with_its_data_verified() {
    let (_served, mut guest) = bound();
    let devices =
        guest.good(&format!("verbena run -q --device vfio:{A} --device vfio:{B} -- ibv_devinfo"), LONG);
    assert_eq!(devices.matches("PORT_ACTIVE").count(), 4, "two ports of two cards:\n{devices}");
    for options in ["-c", "-c -e", "-c -s 100000 -m 1024"] {
        let said = pair(&mut guest, "ibv_rc_pingpong", &format!("-g 1 -p 18515 -n 100 {options}"));
        assert_eq!(said.matches("100 iters").count(), 2, "{said}");
        assert!(!said.contains("invalid data"), "{said}");
    }
}

/// The server is an ordinary program on this machine, on the other card of the same net; the two shake
/// hands through QEMU's user network, which leads to this machine's loopback.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn stock_perftest_between_this_machine_and_the_guest() {
    let served = Served::start(1, &[]);
    let mut options = Options::default().card(&served.sockets()[0]);
    options.arguments.extend(["-nic", "user,model=virtio-net-pci"].map(String::from));
    let mut guest = Machine::boot(&[(CARD, "guest-card")], &options);
    guest.good(&format!("ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; verbena bind {A}"), SHORT);
    for (program, arguments, bytes) in [
        ("ib_write_bw", "-s 65536 -n 200", 65536),
        ("ib_read_bw", "-s 65536 -n 200", 65536),
        ("ib_send_lat", "-s 64 -n 100", 64),
        ("ib_atomic_bw", "-n 200", 8),
    ] {
        let run = || {
            let port = free_port();
            let mut command = Command::new(verbena());
            command
                // The guest reaches this machine's network only.
                .args(["run", "-q", "--network", "host", "--with-parent", &std::process::id().to_string()])
                .args(["--", program, "-d", "verbena1", "-p", &port.to_string()])
                .args(arguments.split(' '))
                .env("XDG_RUNTIME_DIR", served.runtime());
            let mut server = Program::start(command);
            server.expect_listening(port);
            let client = format!(
                "verbena run -q --device vfio:{A} -- {program} -d verbena0 -p {port} {arguments} 10.0.2.2"
            );
            let said = guest.good(&client, LONG);
            server.wait(SHORT).expect_good();
            said
        };
        let said = until_calibrated(run, String::clone);
        assert!(row(&said, bytes)[3] > 0.0, "{said}");
    }
}
