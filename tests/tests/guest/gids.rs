//! GIDs that follow the VLAN interfaces of a kernel that has 8021q.

use super::{Machine, Options, CARD, LONG, SHORT};

/// Waits until the first GIDs of the cards do, or do not, contain an address of the VLAN.
const WAIT: &str = "until_there() { \
        for i in $(seq 100); do \
            [ $(for card in 0 1; do ibv_devinfo -v -d verbena$card -i 1; done | grep -c ffff:10.107.0) = $1 ] && return; \
            sleep 0.1; \
        done; \
        echo the GIDs did not become $1; exit 1; \
    }; ";
/// Makes an interface in VLAN 107, with an address, on the first port of each card.
const MAKE: &str = "\
    for card in 0 1; do \
        port=verbena${card}p1; \
        ip link add link $port name $port.107 type vlan id 107 && ip addr add 10.107.0.$((card + 1))/24 dev $port.107 && \
        ip link set $port.107 up || exit; \
    done; until_there 2; ";
/// A ping-pong between the two.
const PINGPONG: &str = "\
    ibv_rc_pingpong -c -n 100 -d verbena0 -g 2 & \
    for i in $(seq 300); do netstat -ltn | grep -q :18515 && break; sleep 0.1; done; \
    ibv_rc_pingpong -c -n 100 -d verbena1 -g 2 localhost || exit; wait $! || exit; ";

/// Addresses of VLAN interfaces become GIDs of their VLAN, by which programs talk; without the interfaces they are gone.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn vlan_interfaces_make_gids() {
    let mut guest = Machine::boot(&[(CARD, "guest-card")], &Options::default());
    guest.good("modprobe veth && modprobe 8021q", SHORT);
    let what =
        "ibv_devinfo -v -d verbena0 -i 1 | grep GID; cat /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/2; ";
    let remove = "ip link del verbena0p1.107; ip link del verbena1p1.107; until_there 0";
    let said = guest
        .good(&format!("verbena run -q --cards 2 -- sh -c '{WAIT}{MAKE}{what}{PINGPONG}{remove}'"), LONG);
    assert!(said.contains("GID[  2]:\t\t::ffff:10.107.0.1, RoCE v2"), "{said}");
    assert!(said.contains("verbena0p1.107\nverbena1p1.107\n"), "{said}");
    assert_eq!(said.matches("100 iters").count(), 2, "{said}");
}
