//! Ports that carry frames of network interfaces, in networks of the tests' own: TAP interfaces on a bridge, packet sockets beside
//! two kernels.

use std::time::Duration;

use tests::stock::{need, until_answered, verbena, EalFiles, Program, LIMIT};
use tests::unshare;

use super::groups::COUNT;

/// Two nets on two TAP interfaces of a bridge of the kernel, in a network of the test's own; each byte is compared.
#[test]
fn tap_interfaces_on_a_bridge() {
    need("ibv_rc_pingpong");
    let script = r#"
        set -e
        ip link set lo up
        ip link add bridge type bridge
        for tap in tap0 tap1; do
            ip tuntap add "$tap" mode tap
            ip link set "$tap" mtu 4200 master bridge up
        done
        ip link set bridge up
        run() { "$VERBENA" run -q --net "$1" --port "$2" -- $PINGPONG -d "$3" -g 1 -c -n 100 -p 18515 $4; }
        run one 0=tap:tap0 verbena0 >one 2>&1 &
        for i in $(seq 300); do
            grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 && break
            sleep 0.1
        done
        run other 1=tap:tap1 verbena1 127.0.0.1 || { cat one; false; }
        wait $! || { cat one; false; }
        cat one
    "#;
    let said = in_own_network(&[script], 2 * LIMIT);
    assert_eq!(said.matches("100 iters in").count(), 2, "{said}");
}

/// Two network namespaces, this one and that of `on_two`, with an interface each at the ends of one cable; waits for who listens for
/// the TCP of perftest's programs.
pub const TWO_KERNELS: &str = r#"
    set -e
    unshare --net sleep 1000 &
    two=$!
    trap 'kill $two' EXIT
    until [ "$(readlink /proc/$two/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
    ip link add eth0 mtu 4200 type veth peer name eth0 mtu 4200 netns $two
    on_two() { nsenter --target $two --net "$@"; }
    for side in '' on_two; do
        number=1; [ -z "$side" ] || number=2
        $side ip link set lo up
        $side ip addr add 192.0.2.$number/24 dev eth0
        $side ip link set eth0 up
    done
    listens() {
        for i in $(seq 300); do
            grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 && return
            sleep 0.1
        done
        cat out; false
    }
"#;

/// Two nets, each on the link of an interface of its own network namespace, which the kernels use too: they carry perftest's TCP.
/// An interface goes down for a moment, which costs some packets.
#[test]
fn packet_sockets_beside_two_kernels() {
    need("ibv_rc_pingpong");
    let script = r#"
        one() { "$VERBENA" run -q --net one --port 0=packet:eth0 --gid 0=10.107.0.1,vlan=107 -- "$@"; }
        two() { on_two "$VERBENA" run -q --net two --port 1=packet:eth0 --gid 1=10.107.0.2,vlan=107 -- "$@"; }
        # The last one is in a VLAN.
        for gid in 0 1 2; do
            one $PINGPONG -d verbena0 -g $gid -c -n 200 -s 20000 -p 18515 >out 2>&1 &
            listens
            two $PINGPONG -d verbena1 -g $gid -c -n 200 -s 20000 -p 18515 192.0.2.1 || { cat out; false; }
            wait $! || { cat out; false; }
            cat out
        done
        # The GID of the VLAN is of that, and not of a provider's VLAN (802.1ad) of its number.
        one sleep 1000 &
        held=$!
        for kind in 8100 88a8; do
            on_two python3 -c "$ASK" $kind
        done
        kill $held
        one ib_write_bw -d verbena0 -u 18 -D 10 -s 20000 >out 2>&1 &
        listens
        two ib_write_bw -d verbena1 -u 18 -D 10 -s 20000 192.0.2.1 >other 2>&1 &
        client=$!
        # Not while both still begin, by TCP: once packets flow.
        sent() { awk '$1 == "eth0:" { print $11 }' /proc/net/dev; }
        before=$(sent)
        for i in $(seq 600); do
            [ $(($(sent) - before)) -lt 500 ] || break
            sleep 0.1
        done
        [ $(($(sent) - before)) -ge 500 ] || { cat out other; false; }
        ip link set eth0 down
        sleep 0.2
        ip link set eth0 up
        wait $client || { cat out other; false; }
        echo "a pause is survived"
    "#;
    let said = in_own_network(&[TWO_KERNELS, script], 3 * LIMIT);
    assert_eq!(said.matches("200 iters in").count(), 6, "{said}");
    assert!(said.contains("8100: an answer\n88a8: silence\n"), "{said}");
    assert!(said.contains("a pause is survived"), "{said}");
}

/// A port is down while its interface is, or has no signal, as is that of a net that starts then; what is told again when
/// there is a link are its addresses.
#[test]
fn the_link_of_a_port_is_that_of_its_interface() {
    need("ibv_rc_pingpong");
    need("ibv_asyncwatch");
    let script = r#"
        ip tuntap add tap0 mode tap
        until_said() {
            for i in $(seq 600); do
                ! "$@" | grep -q "$said" || { echo "$what: $said"; return; }
                sleep 0.05
            done
            "$@" || true; echo "not: $what: $said"; false
        }
        ports() { "$VERBENA" link --net one; }
        downed() { "$VERBENA" run -q --net one -- cat /sys/class/infiniband/verbena0/ports/$1/counters/link_downed; }
        state() { "$VERBENA" run -q --net one -- ibv_devinfo -d verbena0 -i 1; }
        "$VERBENA" run -q --net one --port 0=packet:eth0 --port 0.2=tap:tap0 --port 1=udp:192.0.2.1 --port 1.2=stream:peer -- \
            ibv_asyncwatch -d verbena0 >events &
        held=$!
        what='at first' said='verbena0/1 up'; until_said ports
        said='verbena1/1 up'; until_said ports
        said='verbena1/2 down'; until_said ports
        python3 -c "$PEER" &
        peer=$!
        what='a peer' said='verbena1/2 up'; until_said ports
        kill $peer
        what='no peer' said='verbena1/2 down'; until_said ports
        said='verbena0/2 down'; until_said ports
        ip link set tap0 up
        what='tap0 up' said='verbena0/2 up'; until_said ports
        on_two ip link set eth0 down
        what='no signal' said='verbena0/1 down'; until_said ports
        said='verbena1/1 down'; until_said ports
        said=PORT_DOWN; until_said state
        said='PORT_ERR (10), port 1'; until_said cat events
        "$VERBENA" link --net one verbena0/1 up
        said='verbena0/1 down'; until_said ports
        on_two ip link set eth0 up
        what='a signal' said='verbena0/1 up'; until_said ports
        said='verbena1/1 up'; until_said ports
        said=PORT_ACTIVE; until_said state
        said='PORT_ACTIVE (9), port 1'; until_said cat events
        what='downs of verbena0/1' said=1; until_said downed 1
        [ "$(downed 2)" = 0 ] || { downed 2; echo 'verbena0/2 began without a link, and has not lost it'; false; }
        "$VERBENA" link --net one verbena0/1 down
        ip link set eth0 down
        ip link set eth0 up
        # What the kernel tells later is heard later.
        ip link set tap0 down
        what='pulled' said='verbena0/2 down'; until_said ports
        ports | grep -q 'verbena0/1 down' || { ports; false; }
        "$VERBENA" link --net one verbena0/1 up
        what='plugged in' said='verbena0/1 up'; until_said ports
        two() { on_two "$VERBENA" run -q --net two --port 1=packet:eth0 -- "$@"; }
        "$VERBENA" run -q --net one -- $PINGPONG -d verbena0 -g 0 -c -n 100 -p 18515 >out 2>&1 &
        server=$!
        listens
        two $PINGPONG -d verbena1 -g 0 -c -n 100 -p 18515 192.0.2.1 || { cat out; false; }
        wait $server || { cat out; false; }
        cat out
        ip link set tap0 up
        what='before they go' said='verbena0/2 up'; until_said ports
        ip link set tap0 netns $two
        sleep 0.3
        what='moved' said='verbena0/2 up'; until_said ports
        on_two ip link del tap0
        what='deleted' said='verbena0/2 down'; until_said ports
        ip addr del 192.0.2.1/24 dev eth0
        what='an address that goes' said='verbena1/1 down'; until_said ports
        ip link add other type veth peer name end
        ip addr add 192.0.2.1/24 dev other
        ip link set end up; ip link set other up
        what='and comes elsewhere' said='verbena1/1 up'; until_said ports
        kill $held
    "#;
    let said = in_own_network(&[TWO_KERNELS, script], 2 * LIMIT);
    assert_eq!(said.matches("100 iters in").count(), 2, "{said}");
}

/// A port that is disabled, or whose cable is pulled, is not to be found on its link. Then the kernel there hears of it by
/// nothing but an announcement: it has given up to ask.
#[test]
fn a_port_without_a_link_is_silent() {
    need("ping");
    let script = r#"
        "$VERBENA" run -q --net one --port verbena0/1=packet:eth0 -- sleep 1000 &
        trap "kill $two $!" EXIT
        on_two ip addr add 198.18.0.9/24 dev eth0
        knows() { on_two ip neigh show 198.18.0.1 | tee neighbour | grep -q "$1"; }
        asks() { on_two ip neigh flush dev eth0; on_two ping -q -c 1 -W 1 198.18.0.1 >/dev/null || true; }
        until_it() {
            for i in $(seq 200); do ! "$@" || return 0; sleep 0.05; done
            echo "not: $*"; cat neighbour; "$VERBENA" link --net one; false
        }
        answers() { asks; knows 02:56:42; }
        until_it answers
        for turn in 'disable enable' 'down up'; do
            set -- $turn
            "$VERBENA" link --net one verbena0/1 $1
            asks
            until_it knows FAILED
            "$VERBENA" link --net one verbena0/1 $2
            until_it knows 02:56:42
            answers
            echo "$turn: well"
        done
    "#;
    let said = in_own_network(&[TWO_KERNELS, script], LIMIT);
    assert_eq!(said.matches(": well\n").count(), 2, "{said}");
}

/// Connects to the socket of a port, and waits.
const PEER: &str = "
import socket, time
peer = socket.socket(socket.AF_UNIX)
peer.connect('peer')
time.sleep(1000)
";

/// Of packets that the other side's kernel sends at once, the interface at the end of a cable between namespaces gives one message: it is
/// cut, as that of a real network would be.
#[test]
fn packet_sockets_get_frames_though_the_interface_does_not_cut() {
    need("ibv_rc_pingpong");
    let script = r#"
        one() { "$VERBENA" run -q --net one --port 0=udp:192.0.2.1 -- "$@"; }
        two() { on_two "$VERBENA" run -q --net two --port 1=packet:eth0 --gid 1=192.0.2.22 -- "$@"; }
        one $PINGPONG -d verbena0 -g 0 -c -n 200 -s 60000 -p 18515 >out 2>&1 &
        listens
        two $PINGPONG -d verbena1 -g 2 -c -n 200 -s 60000 -p 18515 192.0.2.1 || { cat out; false; }
        wait $! || { cat out; false; }
        cat out
    "#;
    let said = in_own_network(&[TWO_KERNELS, script], 2 * LIMIT);
    assert_eq!(said.matches("200 iters in").count(), 2, "{said}");
}

/// DPDK's testpmd answers ARP and pings from its port's MAC, by which frames come to the port.
#[test]
fn a_program_has_the_mac_of_the_link() {
    need("dpdk-testpmd");
    need("ping");
    let script = r#"
        ip tuntap add tap0 mode tap
        ip link set tap0 up
        ip addr add 192.0.3.1/24 dev tap0
        mkfifo keys
        pings() {
            "$VERBENA" run -q --net "${1%:*}" --port "0=$1" -- dpdk-testpmd --no-huge -m 128 -l 0,1 --file-prefix "$PREFIX" \
                --vdev net_verbena0 -- --no-mlockall --total-num-mbufs=4096 --forward-mode=icmpecho --auto-start \
                <keys >out 2>&1 &
            program=$!
            # It ends at the end of its input.
            exec 9>keys
            $3 ping -q -c 3 -i 0.2 -w 60 "$2" || { cat out; false; }
            exec 9>&-
            wait $program || { cat out; false; }
            echo "$2 answers"
        }
        pings packet:eth0 192.0.2.3 on_two
        pings tap:tap0 192.0.3.3
    "#;
    let said = in_own_network(&[TWO_KERNELS, script], 3 * LIMIT);
    assert_eq!(said.matches(" answers\n").count(), 2, "{said}");
}

/// Asks for 10.107.0.1 in VLAN 107, by a tag of the EtherType that is its argument: for long in the customers' VLAN, where there
/// is an answer, and for two seconds in that of a provider.
const ASK: &str = "
import socket, struct, sys, time
tag = int(sys.argv[1], 16)
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(('eth0', 0))
link.settimeout(0.1)
mac = link.getsockname()[4]
request = struct.pack('!HHBBH6s4s6s4s', 1, 0x800, 6, 4, 1, mac, bytes([10, 107, 0, 9]), bytes(6), bytes([10, 107, 0, 1]))
request = b'\\xff' * 6 + mac + struct.pack('!HHH', tag, 107, 0x806) + request
end = time.monotonic() + (60 if tag == 0x8100 else 2)
said = 'silence'
while said == 'silence' and time.monotonic() < end:
    link.send(request)
    try:
        came = link.recv(2000)
        # The kernel takes the tag out.
        if came[12:14] == b'\\x08\\x06' and came[21] == 2 and came[28:32] == bytes([10, 107, 0, 1]):
            said = 'an answer'
    except TimeoutError:
        pass
print(f'{tag:x}: {said}')
";

const PINGPONG: &str = "timeout 40 ibv_rc_pingpong";

/// Runs a script of bash, in parts, in a network namespace and a directory of its own, as root there. What it says; it has to end
/// well within `limit`, once of three times if the machine is busy.
pub fn in_own_network(script: &[&str], limit: Duration) -> String {
    until_answered(|| {
        let directory = tempfile::tempdir().expect("a directory");
        // Of DPDK's programs.
        let files = EalFiles::new();
        let mut command = unshare(&["--net", "bash", "-c", &script.concat()]);
        command
            .current_dir(&directory)
            .env("VERBENA", verbena())
            .env("ASK", ASK)
            .env("COUNT", COUNT)
            .env("PEER", PEER)
            .env("PINGPONG", PINGPONG)
            .env("PREFIX", &files.prefix)
            .env("XDG_RUNTIME_DIR", directory.path());
        let ended = Program::start(command).wait(limit);
        match ended.good() {
            true => Ok(ended.said),
            false => Err(format!("{}; it said:\n{}", ended.how(), ended.said)),
        }
    })
}
