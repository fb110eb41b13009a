//! Binding, what is in the way, and two programs that want one card.

use super::{bound, guest, A, B, LONG, SHORT};

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn bind_unbind_and_rebind() {
    let (_served, mut guest) = guest();
    let bring_up = format!("guest-card bring-up {A}");
    guest.refused(&bring_up, &format!("verbena bind {A}"), SHORT);
    let list = guest.good("verbena list", SHORT);
    assert!(list.contains(&format!("verbena bind {A}")) && list.contains(B), "{list}");
    for _ in 0..2 {
        guest.good(&format!("verbena bind {A}"), SHORT);
        let list = guest.good("verbena list", SHORT);
        let line = list.lines().find(|line| line.starts_with(A)).unwrap_or_default();
        assert!(line.contains("vfio-pci") && line.ends_with("ready"), "{list}");
        guest.good(&bring_up, LONG);
        guest.good(&format!("verbena unbind {A}"), SHORT);
        guest.refused(&bring_up, &format!("verbena bind {A}"), SHORT);
    }
    guest.refused("guest-card bring-up 0000:00:1e.7", "no PCI device", SHORT);
    guest.refused("verbena bind 0000:00:1e.7", "no PCI device", SHORT);
}

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn the_second_program_is_refused_politely() {
    let (_served, mut guest) = bound();
    // `sleep` keeps the input of `hold` open until it is killed: a descriptor of the shell's ends with each command.
    let hold = format!(
        "mkfifo /tmp/end; sleep 1000 >/tmp/end & echo $! >/tmp/writer; \
         (guest-card hold {A} </tmp/end >/tmp/held 2>&1; echo $? >>/tmp/held) & \
         for i in $(seq 600); do grep -qs holding /tmp/held && break; sleep 0.1; done; grep holding /tmp/held"
    );
    guest.good(&hold, LONG);
    guest.refused(&format!("guest-card bring-up {A}"), "another program", SHORT);
    guest.refused(&format!("verbena run --device vfio:{A} -- true"), "another program", SHORT);
    let list = guest.good("verbena list", SHORT);
    assert!(list.lines().any(|line| line.starts_with(A) && line.ends_with("in use by a program")), "{list}");
    guest.refused(&format!("verbena unbind {A}"), "in use", SHORT);
    // The first one has not been disturbed.
    let end = "kill $(cat /tmp/writer) && \
               for i in $(seq 600); do grep -q passed /tmp/held && break; sleep 0.1; done; \
               grep 'hold passed' /tmp/held || { cat /tmp/held; exit 1; }";
    guest.good(end, LONG);
    guest.good(&format!("guest-card bring-up {A}"), LONG);
}
