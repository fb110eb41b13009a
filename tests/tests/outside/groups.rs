//! Multicast groups beyond a port: a bridge of the kernel that snoops and asks (IGMP, MLD) forwards a group only to who has
//! told it.

use std::time::Duration;

use driver::SendWr;
use fpga_regs::{QpType, WqeOpcode};
use tests::stock::{need, LIMIT};
use tests::{loopback_address, wait_for, Options, Peer, Side};

use super::interfaces::in_own_network;
use super::{net_at, options};

/// A switch with three machines, which are network namespaces: `forwards MACHINE GROUP` waits until the switch forwards it,
/// `forgets` until it does not, `count GROUP` counts RoCE packets for a group that come to the third one.
const SWITCH: &str = r#"
    set -e
    ip link set lo up
    ip link add switch type bridge mcast_snooping 1 mcast_query_response_interval 100 mcast_startup_query_interval 100 \
        mcast_query_interval 300 mcast_last_member_interval 20
    ip link set switch type bridge mcast_querier 1
    ip link set switch up
    pids=
    trap 'kill $pids' EXIT
    number=0
    for name in one two three; do
        number=$((number + 1))
        unshare --net sleep 1000 &
        pids="$pids $!"
        declare on_$name="nsenter --target $! --net"
        until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
        ip link add $name type veth peer name eth0 netns $!
        ip link set $name master switch up
        on=on_$name on=${!on}
        $on ip link set lo up
        $on ip addr add 192.0.2.$number/24 dev eth0
        $on ip addr add fd00::$number/64 dev eth0 nodad
        $on ip link set eth0 up
    done
    member() { bridge mdb show dev switch | grep -q "port $1 grp $2 "; }
    forwards() {
        for i in $(seq 300); do ! member $1 $2 || return 0; sleep 0.1; done
        cat $1.out; bridge mdb show dev switch; echo "the switch does not forward $2 to $1"; false
    }
    forgets() {
        for i in $(seq 300); do member $1 $2 || return 0; sleep 0.1; done
        cat $1.out; bridge mdb show dev switch; echo "the switch still forwards $2 to $1"; false
    }
    count() { $on_three python3 -c "$COUNT" $1 >counted & counter=$!; until grep -q ready counted; do sleep 0.1; done; }
    counted() { kill $counter; wait $counter || true; grep counted: counted; }
    # Until it has asked, the switch forwards everything to all.
    sleep 2.5
"#;

/// Counts packets for the group that is its argument, for UDP port 4791. If it is told to, it is a member.
pub const COUNT: &str = r#"
import ipaddress, signal, socket, sys
group = ipaddress.ip_address(sys.argv[1].removeprefix('+'))
ipv6 = group.version == 6
link = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x86dd if ipv6 else 0x800))
link.bind(('eth0', 0))
if sys.argv[1][0] == '+':
    member = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
    index = socket.if_nametoindex('eth0')
    if ipv6:
        member.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group.packed + index.to_bytes(4, sys.byteorder))
    else:
        member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group.packed + bytes(4) + index.to_bytes(4, sys.byteorder))
count = 0
def end(*_):
    print('counted:', 'some' if count else 'none', flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
print('ready', flush=True)
while True:
    came = link.recv(9000)
    to, udp = (came[24:40], came[40:]) if ipv6 else (came[16:20], came[20:])
    protocol = came[6] if ipv6 else came[9]
    count += to == group.packed and protocol == 17 and udp[2:4] == (4791).to_bytes(2, 'big')
"#;

/// `mckey` on machine two receives a group that `mckey` on machine one sends to. The third machine gets nothing of it unless it has
/// joined, which shows that the switch looks.
fn a_group_passes_a_switch_that_snoops(group: &str, ports: [(&str, &str); 2], receiver: &str) {
    need("mckey");
    let [(one_port, one_address), (two_port, two_address)] = ports;
    let script = format!(
        r#"
        group={group} receiver={receiver}
        [ $receiver != tap0 ] || {{ ip tuntap add tap0 mode tap; ip link set tap0 master switch up; }}
        on_receiver=on_$receiver
        one=($on_one "$VERBENA" run -q --net one --port 0={one_port} --)
        two=(${{!on_receiver}} "$VERBENA" run -q --net two --port 1={two_port} --)
        # The nets outlive the programs.
        "${{one[@]}}" sleep 1000 & pids="$pids $!"
        "${{two[@]}}" sleep 1000 & pids="$pids $!"
        from={one_address} to={two_address}
        [ $from != gid ] || from=$("${{one[@]}}" cat /sys/class/infiniband/verbena0/ports/1/gids/0)
        [ $to != gid ] || to=$("${{two[@]}}" cat /sys/class/infiniband/verbena1/ports/1/gids/0)
        receive() {{ "${{two[@]}}" bash -c 'echo $$ >pid; exec mckey "$@"' - -m $group -b $to -C 20 >$receiver.out 2>&1 & receiving=$!; }}
        for member in '' +; do
            receive
            forwards $receiver $group
            count $member$group
            [ -z "$member" ] || forwards three $group
            "${{one[@]}}" timeout 60 mckey -m $group -b $from -s -C 20 >out 2>&1 || {{ cat out; false; }}
            wait $receiving || {{ cat $receiver.out; false; }}
            counted
            forgets $receiver $group
            grep 'return status' $receiver.out
        done
        receive
        forwards $receiver $group
        kill -9 $(cat pid)
        forgets $receiver $group
        echo 'the dead leave'
    "#
    );
    let said = in_own_network(&[SWITCH, &script], 4 * LIMIT);
    // Among them bash says what was killed.
    let told =
        |line: &&str| ["counted:", "return status", "the dead"].iter().any(|begin| line.starts_with(begin));
    let lines: Vec<_> = said.lines().filter(told).collect();
    let received = "return status 0";
    assert_eq!(lines, ["counted: none", received, "counted: some", received, "the dead leave"], "{said}");
}

#[test]
fn packet_ports_tell_of_groups() {
    let ports = [("packet:eth0", "198.18.0.1"), ("packet:eth0", "198.18.0.2")];
    a_group_passes_a_switch_that_snoops("239.1.2.3", ports, "two");
}

#[test]
fn packet_ports_tell_of_groups_of_ipv6() {
    a_group_passes_a_switch_that_snoops(
        "ff0e::4321",
        [("packet:eth0", "gid"), ("packet:eth0", "gid")],
        "two",
    );
}

#[test]
fn the_port_behind_a_tap_interface_tells_of_groups() {
    let ports = [("packet:eth0", "198.18.0.1"), ("tap:tap0", "198.18.0.2")];
    a_group_passes_a_switch_that_snoops("239.1.2.3", ports, "tap0");
}

#[test]
fn udp_ports_join_groups() {
    let ports = [("udp:192.0.2.1", "192.0.2.1"), ("udp:192.0.2.2", "192.0.2.2")];
    a_group_passes_a_switch_that_snoops("239.1.2.3", ports, "two");
}

#[test]
fn udp_ports_join_groups_of_ipv6() {
    let ports = [("udp:fd00::1", "fd00::1"), ("udp:fd00::2", "fd00::2")];
    a_group_passes_a_switch_that_snoops("ff0e::4321", ports, "two");
}

/// On one interface as on different ones: each member gets one copy, a sender that is a member too, and nobody else any.
#[test]
fn members_in_two_nets_get_one_copy() {
    const GROUP: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 77, 1, 2];
    let nets = [(); 3].map(|()| net_at(loopback_address()));
    let [mut x, mut y, z] = nets.each_ref().map(|net| {
        let peer = Peer::new(&net.open(0), Options { qp_type: QpType::UD, ..options() });
        peer.init();
        peer.rtr(0, [0; 16], 0);
        peer.rts();
        peer
    });
    let send = |from: &Side| {
        let ah = from.pd.create_ah(&from.av(GROUP)).expect("an AH");
        let sges = [from.sge(5000, 333)];
        let wr = from.wr(9, WqeOpcode::SEND, &sges);
        from.post(&[SendWr { ah: Some(&ah), remote_qpn: 0xff_ffff, remote_qkey: tests::QKEY, ..wr }]);
    };
    // Nobody waits for these. They are sent until the keeper has joined.
    for (from, to) in [(&x, &y), (&y, &x)] {
        to.qp.attach_mcast(&GROUP).expect("joined");
        let before = to.counter("rx_multicast");
        wait_for("the group is not joined", || {
            send(from);
            from.expect(9);
            std::thread::sleep(Duration::from_millis(50));
            to.counter("rx_multicast") > before
        });
    }
    std::thread::sleep(Duration::from_millis(200));
    for peer in [&x, &y, &z] {
        (7..9).for_each(|n| peer.recv(n, &[peer.sge(0, 2000)]));
    }
    x.buffer.pattern(3);
    send(&x);
    let mut own = [x.wait(), x.wait()].map(|wc| wc.wr_id);
    own.sort_unstable();
    assert_eq!(own, [7, 9], "a sender that is a member hears itself");
    assert_eq!(y.expect(7).byte_len, 40 + 333);
    assert!(y.buffer[40..373] == x.buffer[5000..5333]);
    y.buffer.fill(0);
    [&x, &y, &z].iter().for_each(|peer| peer.quiet_for(Duration::from_millis(50)));
    assert_eq!(z.counter("rx_multicast"), 0);
}
