//! Ports that lead outside and are one, `verbena lag`, beside kernels that pull the cables, count and learn.

use tests::stock::{need, StockNet, LIMIT};

use super::interfaces::{in_own_network, TWO_KERNELS};

/// Two nets with two cables between them, in two network namespaces; TCP has a third one. What the kernel counts at the cables.
const TWO_CABLES: &str = r#"
    for n in 1 2; do
        ip link add cable$n mtu 4200 type veth peer name cable$n mtu 4200 netns $two
        ip link set cable$n up
        on_two ip link set cable$n up
    done
    "$VERBENA" run -q --net one --port 0=packet:cable1 --port 0.2=packet:cable2 -- sleep 1000 &
    one=$!
    nsenter --target $two --net "$VERBENA" run -q --net two --port 1=packet:cable1 --port 1.2=packet:cable2 -- sleep 1000 &
    trap "kill $two $one $!" EXIT
    lag() { "$VERBENA" lag --net one verbena0 "$@" && on_two "$VERBENA" lag --net two verbena1 "$@"; }
    one() { "$VERBENA" run -q --net one -- "$@"; }
    two() { on_two "$VERBENA" run -q --net two -- "$@"; }
    until lag >/dev/null 2>&1; do sleep 0.1; done
    tell() { echo "not: $1"; lag; cat out other; false; }
    # The lines with these words are so many, of both bonds.
    until_lag() {
        for i in $(seq 300); do
            [ $(lag | grep -c -- "$2") -ne $1 ] || return 0
            sleep 0.1
        done
        tell "$1 lines with $2"
    }
    came() { awk -v cable="cable$1:" '$1 == cable { print $3 }' /proc/net/dev; }
    flows() {
        before=$(came $1)
        for i in $(seq 400); do
            [ $(($(came $1) - before)) -lt 500 ] || { echo "cable $1 carries"; return 0; }
            kill -0 $client 2>/dev/null || break
            sleep 0.05
        done
        tell "cable $1 carries"
    }
    # Nothing but what negotiates, once a second.
    rests() {
        before=$(came $1)
        sleep 0.3
        [ $(($(came $1) - before)) -lt 10 ] || tell "cable $1 rests"
    }
    >out; >other
"#;

/// Traffic goes on by the other cable when the kernel takes one away, and by both when it is back.
fn outlives_a_cable(mode: &str) {
    need("ib_write_bw");
    need("rping");
    let script = r#"
        lag --mode $MODE
        both() { [ $MODE = active-backup ] || "$@"; }
        both until_lag 4 ' active '
        one ib_write_bw -d verbena0 -x 1 -u 18 -q 4 -D 20 -s 20000 >out 2>&1 &
        server=$!
        listens
        two ib_write_bw -d verbena1 -x 1 -u 18 -q 4 -D 20 -s 20000 192.0.2.1 >other 2>&1 &
        client=$!
        flows 1
        both flows 2
        [ $MODE != active-backup ] || rests 2
        ip link set cable1 down
        until_lag 2 'port 1 down unused'
        flows 2
        ip link set cable1 up
        flows 1
        both flows 2
        [ $MODE != active-backup ] || rests 2
        wait $client || tell "a client ends well"
        wait $server || tell "a server ends well"
        # Neighbours are asked for by the cable that is left.
        on_two ip link set cable1 down
        until_lag 2 'port 1 down unused'
        one rping -s -a 198.18.0.1 -C 20 -V >out 2>&1 &
        server=$!
        for i in $(seq 100); do
            two rping -c -a 198.18.0.1 -C 20 -V >other 2>&1 && break
            sleep 0.1
        done
        wait $server || tell "a connection by address"
        one grep -H . /sys/class/infiniband/verbena0/ports/{1,2}/counters/port_{rcv,xmit}_packets
    "#;
    let said = in_own_network(&[TWO_KERNELS, TWO_CABLES, &script.replace("$MODE", mode)], 3 * LIMIT);
    let counters: Vec<u64> =
        said.lines().filter_map(|line| line.split_once("_packets:")?.1.parse().ok()).collect();
    // An acknowledgement is for several packets.
    assert!(counters.len() == 4 && counters.iter().all(|&packets| packets >= 50), "{said}");
}

#[test]
fn a_backup_outside_takes_over() {
    outlives_a_cable("active-backup");
}

#[test]
fn xor_outside_outlives_a_cable() {
    outlives_a_cable("xor");
}

#[test]
fn lacp_outside_outlives_a_cable() {
    outlives_a_cable("802.3ad");
}

/// A bridge of this kernel with two cables to a net.
const BRIDGE: &str = r#"
    ip link add bridge type bridge
    ip addr add 198.18.0.9/24 dev bridge
    for n in 1 2; do
        ip link add cable$n mtu 4200 type veth peer name switch$n mtu 4200
        ip link set switch$n master bridge up
        ip link set cable$n up
    done
    ip link set bridge up
    hold() {
        "$VERBENA" run -q --net one --port 0=packet:cable1 --port 0.2=packet:cable2 --gid 0=10.107.0.1,vlan=107 -- \
            sleep 1000 >/dev/null &
        echo $!
    }
"#;

/// A bridge of the kernel learns from nothing but announcements which of its ports leads to the bond, before and after each
/// fail-over; the port that stands by says nothing.
#[test]
fn a_switch_learns_where_the_backup_is() {
    let script = r#"
        python3 hear.py >>heard &
        hears=$!
        until grep -q hears heard; do sleep 0.05; done
        one=$(hold)
        trap "kill $two $hears $one" EXIT
        until_heard() {
            for i in $(seq 200); do
                ! grep -q "$1" heard || return 0
                sleep 0.05
            done
            echo "not heard: $1"; cat heard; "$VERBENA" lag --net one; false
        }
        learned() {
            set -- $1 "$(bridge fdb show br bridge | grep "$mac")"
            [[ $2 == *"dev switch$1 "* ]] || { echo "not at switch$1: $2"; false; }
            ip neigh flush dev bridge
            ping -q -c 1 -W 1 198.18.0.1 >/dev/null || true
            ip neigh show 198.18.0.1 | grep -q "$mac" || { echo "no neighbour at $1"; ip neigh; false; }
            bridge fdb show br bridge | grep "$mac" | grep -q "dev switch$1 " || { echo "another one answers than $1"; false; }
        }
        until_heard 'switch2 arp 198.18.1.1'
        "$VERBENA" lag --net one verbena0 --mode active-backup
        until_heard 'switch1 arp 198.18.0.1'
        mac=$(awk '/switch1 arp 198.18.0.1/ { print $4; exit }' heard)
        echo "$mac"
        for turn in '1 2' '2 1' '1 2'; do
            set -- $turn
            learned $1
            : >heard
            # Port 1 takes over again when its link is back.
            [ $2 = 1 ] && ip link set switch1 up || ip link set switch1 down
            for what in 'arp 198.18.0.1' 'arp 10.107.0.1' "na fe80"; do until_heard "switch$2 $what.* $mac"; done
            ! grep "switch$1" heard || { echo "the port that stands by speaks"; false; }
            learned $2
        done
        "$VERBENA" lag --net one verbena0 --off
        until_heard 'switch2 arp 198.18.1.1'
        echo done
    "#;
    let hear = format!("cat >hear.py <<'END'{HEAR}END\n");
    let said = in_own_network(&[TWO_KERNELS, BRIDGE, &hear, script], 2 * LIMIT);
    assert!(said.ends_with("done\n"), "{said}");
}

/// What a switch floods comes to both ports of a bond, of which the one that stands by drops it.
#[test]
fn a_member_of_a_group_gets_each_datagram_once() {
    need("mckey");
    let script = r#"
        ip link add cable3 mtu 4200 type veth peer name switch3 mtu 4200
        ip link set switch3 master bridge up
        ip link set cable3 up
        one=$(hold)
        trap "kill $two $one" EXIT
        until "$VERBENA" lag --net one verbena0 --mode active-backup 2>/dev/null; do sleep 0.1; done
        # It waits for more than are sent.
        "$VERBENA" run -q --net one -- bash -c 'echo $$ >pid; exec mckey -m 239.1.2.3 -b 198.18.0.1 -C 100' >out 2>&1 &
        until bridge mdb show dev bridge | grep -q 'port switch1 grp 239.1.2.3 '; do
            [ $SECONDS -lt 60 ] || { cat out; bridge mdb show dev bridge; false; }
            sleep 0.1
        done
        ip link set bridge type bridge mcast_snooping 0
        "$VERBENA" run -q --net two --port 1=packet:cable3 -- timeout 60 mckey -m 239.1.2.3 -b 198.18.0.2 -s -C 20 >other 2>&1 ||
            { cat out other; false; }
        received() { "$VERBENA" run -q --net one -- cat /sys/class/infiniband/verbena0/ports/1/counters/multicast_rcv_packets; }
        until [ $(received) -ge 20 ]; do
            [ $SECONDS -lt 90 ] || { received; cat out; false; }
            sleep 0.1
        done
        # The files are written at times.
        sleep 2
        echo "received: $(received)"
        kill $(cat pid)
    "#;
    let said = in_own_network(&[TWO_KERNELS, BRIDGE, script], 2 * LIMIT);
    let received = said.lines().find_map(|line| line.split_once("received: ")?.1.parse().ok());
    assert_eq!(received, Some(20), "{said}");
}

/// DPDK's one port sends and receives by whichever member is active.
#[test]
fn a_program_of_whole_frames_outlives_a_cable() {
    need("dpdk-testpmd");
    need("ping");
    let script = r#"
        one=$(hold)
        trap "kill $two $one" EXIT
        until "$VERBENA" lag --net one verbena0 --mode active-backup 2>/dev/null; do sleep 0.1; done
        mkfifo keys
        "$VERBENA" run -q --net one -- dpdk-testpmd --no-huge -m 128 -l 0,1 --file-prefix "$PREFIX" --vdev net_verbena0 -- \
            --no-mlockall --total-num-mbufs=4096 --forward-mode=icmpecho --auto-start <keys >out 2>&1 &
        program=$!
        exec 9>keys
        for to in up down up; do
            ip link set switch1 $to
            # At first the program is not there yet.
            until ping -q -c 3 -i 0.2 -w 3 198.18.0.3; do
                [ $SECONDS -lt 60 ] || { cat out; "$VERBENA" lag --net one; false; }
            done
        done
        exec 9>&-
        wait $program || { cat out; false; }
        "$VERBENA" run -q --net one -- grep -H . /sys/class/infiniband/verbena0/ports/{1,2}/counters/port_xmit_packets
    "#;
    let said = in_own_network(&[TWO_KERNELS, BRIDGE, script], 2 * LIMIT);
    let sent: Vec<u64> =
        said.lines().filter_map(|line| line.split_once("_packets:")?.1.parse().ok()).collect();
    assert!(sent.len() == 2 && sent.iter().all(|&packets| packets >= 3), "{said}");
}

#[test]
fn ports_without_frames_or_peers_in_common_are_not_made_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let stream = format!("stream:{}", directory.path().join("socket").display());
    let udp = format!("udp:{}", tests::loopback_address());
    for (second, why) in [(&udp, "without Ethernet frames"), (&"net".to_owned(), "no peers in common")] {
        let (first, second) = (format!("0={stream}"), format!("0.2={second}"));
        let (net, _holder) = StockNet::held(&["--port", &first, "--port", &second]);
        net.refuses(&["lag", "verbena0", "--mode", "xor"], why);
        assert_eq!(net.does(&["lag", "verbena0"]), "verbena0 off\n");
    }
}

/// Prints what hosts say of themselves on the ports of a switch without being asked: gratuitous ARP and neighbour advertisements.
const HEAR: &str = r"
import socket, select
links = []
for name in ('switch1', 'switch2'):
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    link.bind((name, 0))
    links.append((name, link))
print('hears', flush=True)
while True:
    for ready in select.select([link for _, link in links], [], [])[0]:
        name = next(name for name, link in links if link is ready)
        try:
            frame, (_, _, kind, _, _) = ready.recvfrom(2000)
        except OSError:
            # It is down, and up again later.
            continue
        body = frame[18:] if frame[12:14] == b'\x81\x00' else frame[14:]
        mac = frame[6:12].hex(':')
        if kind == 4 or mac[:8] != '02:56:42':
            continue
        if frame[:6] == b'\xff' * 6 and body[:2] == b'\x00\x01' and body[14:18] == body[24:28]:
            print(name, 'arp', socket.inet_ntoa(body[14:18]), mac, flush=True)
        if body[6] == 58 and body[40] == 136 and body[24:40] == socket.inet_pton(socket.AF_INET6, 'ff02::1'):
            print(name, 'na', socket.inet_ntop(socket.AF_INET6, body[48:64]), mac, flush=True)
";
