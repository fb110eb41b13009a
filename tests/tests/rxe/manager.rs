//! The connection manager beside Linux's: the same events, errors and attributes, and the same datagrams, byte for byte.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::mads::{exchanges, Exchange};
use super::pairs::Beside;
use super::{programs, LONG, SHORT};
use tests::guest::Link;
use tests::stock::Program;

/// The first port of `manager serve`: its cases have one after the other.
const FIRST_PORT: u16 = 7400;
/// Cases in which a side asks for patience.
const SLOW: [&str; 2] = ["slow server", "slow client"];
/// The port space of the services.
const TCP: u64 = 0x0106_0000;

/// The lines of each case, of either side. rxe's queue pairs have rights to flush memory, which no request of the card does.
fn cases(said: &str, side: &str) -> BTreeMap<String, Vec<String>> {
    let mut cases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in said.lines() {
        if let Some((case, rest)) = line.split_once(": ").filter(|(_, rest)| rest.starts_with(side)) {
            cases.entry(case.to_owned()).or_default().push(rest.replace("access 30e", "access e"));
        }
    }
    cases
}

/// The card has said what rxe has said, in the cases in which either said anything.
fn expect_same(ours: &str, theirs: &str, sides: &[&str]) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for side in sides {
        let (ours, theirs) = (cases(ours, side), cases(theirs, side));
        count += ours.len();
        for case in ours.keys().chain(theirs.keys().filter(|case| !ours.contains_key(*case))) {
            let (ours, theirs) = (ours.get(case), theirs.get(case));
            if ours != theirs {
                wrong.push(format!("{case}\n  rxe: {theirs:#?}\n  verbena: {ours:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 10, "only {count} cases:\n{ours}");
}

/// Exchanges of the card and of rxe in its place, by what was asked for.
fn pairs(beside: &Beside) -> Vec<(Exchange, Exchange)> {
    let (mut ours, mut theirs): (Vec<_>, Vec<_>) =
        exchanges(&beside.rxe.record()).into_iter().partition(|exchange| exchange.ours);
    for list in [&mut ours, &mut theirs] {
        list.sort_by_key(Exchange::kind);
    }
    let kinds = |list: &[Exchange]| list.iter().map(Exchange::kind).collect::<Vec<_>>();
    assert_eq!(kinds(&ours), kinds(&theirs), "other requests");
    ours.into_iter().zip(theirs).collect()
}

/// Each datagram of the card is as rxe's in its place, but for what `mads.rs` lists. In exchanges about services that are not
/// `patient` it does not matter whether a side has asked for patience. Gives the kinds of the card's datagrams.
fn expect_same_datagrams(beside: &Beside, patient: &[u64]) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    for (ours, theirs) in pairs(beside) {
        let [ours, theirs] = match patient.contains(&ours.service) {
            true => [ours, theirs],
            false => [ours, theirs].map(Exchange::without_patience),
        };
        let differences = ours.differences(&theirs);
        if !differences.is_empty() {
            wrong.push(format!("service {:#x}: {}", ours.service, differences.join("\n    ")));
        } else {
            ours.expect_changes_to_be_found(&theirs, &mut seen);
            theirs.expect_changes_to_be_found(&ours, &mut seen);
        }
    }
    assert!(wrong.is_empty(), "the card's datagrams are not Linux':\n{}", wrong.join("\n"));
    seen
}

/// `tests/c/manager.c` at both ends, both ways, by IPv4 and IPv6.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn the_same_connections_to_the_bit() {
    let mut beside = Beside::start(Link::Datagrams);
    let program = programs()[1].to_str().expect("a plain path");
    let families = [false, true].map(|v6| beside.addresses(v6));
    let owner = beside.rxe.machine().good(&format!("manager owner {}", families[0].1), SHORT);
    assert_eq!(owner, format!("{}: rxe0 port 1\nto itself: rxe0 port 1\n", families[0].1));
    // Errors without a peer.
    for ((ours, theirs), (nobody, foreign)) in
        families.iter().zip([("198.18.0.77", "203.0.113.7"), ("fe80::77", "2001:db8::1")])
    {
        let here = finished(beside.here(program, &format!("alone {ours} {nobody} {foreign}")));
        let there = format!("manager alone {theirs} {} {foreign}", scoped(nobody));
        assert_eq!(here, beside.rxe.machine().good(&there, SHORT), "without a peer: the card, and rxe");
        assert!(here.contains("RDMA_CM_EVENT_ADDR_ERROR ETIMEDOUT, in time"), "{here}");
    }
    // Servers of both families here and there, each with all cases.
    let mut servers: Vec<Program> =
        families.iter().map(|(own, _)| beside.here(program, &format!("serve {own}"))).collect();
    servers.iter_mut().for_each(|server| server.expect("serving", SHORT));
    let start: String = (0..)
        .zip(&families)
        .map(|(n, (_, theirs))| format!("manager serve {theirs} >/tmp/server{n} 2>&1 & "))
        .collect();
    beside.rxe.machine().good(&format!("{start} sleep 0.1"), SHORT);
    beside.expect_listeners_there(2, FIRST_PORT + 18);
    // All clients at once: most of the time they wait.
    let runs = || families.iter().map(|family| (family, "")).chain(SLOW.map(|case| (&families[0], case)));
    let clients: Vec<Program> = runs()
        .map(|((own, theirs), case)| beside.here_with(program, &["connect", own, theirs, case]))
        .collect();
    let start: String = (0..)
        .zip(runs())
        .map(|(n, ((ours, own), case))| {
            let to = scoped(ours);
            format!(
                "manager connect {own} {to} '{case}' >/tmp/client{n} 2>&1 || echo failed >>/tmp/client{n} & "
            )
        })
        .collect();
    let mut theirs = beside.rxe.machine().good(&format!("{start} wait; cat /tmp/client?"), LONG);
    let mut ours: String = clients.into_iter().map(finished).collect();
    assert_eq!(theirs.matches("all cases").count(), 4, "{theirs}");
    // Programs that are killed: a client each way, then the servers.
    for case in ["client dies", "server dies"] {
        let (card, rxe) = families[0].clone();
        ours += &beside.here_with(program, &["connect", &card, rxe, case]).wait(LONG).said;
        theirs += &beside.rxe.machine().run(&format!("manager connect {rxe} {card} '{case}'"), LONG).text;
    }
    expect_same(&ours, &theirs, &["client", "second"]);
    let mut here = String::new();
    for server in servers {
        server.signal(libc::SIGTERM);
        here += &server.wait(SHORT).said;
    }
    let there = beside.rxe.machine().good("killall -q manager; cat /tmp/server?", SHORT);
    expect_same(&here, &there, &["server"]);
    let slow = [15, 16].map(|case| TCP | u64::from(FIRST_PORT + case));
    let mut seen = expect_same_datagrams(&beside, &slow);
    seen.sort_unstable();
    assert_eq!(seen, ["DREP", "DREQ", "MRA", "REJ", "REP", "REQ", "RTU", "SIDR_REP", "SIDR_REQ"]);
}

/// An address of the card as the guest needs it.
fn scoped(address: &str) -> String {
    let scope = if address.starts_with("fe80") { "%eth0" } else { "" };
    format!("{address}{scope}")
}

fn finished(client: Program) -> String {
    let line = client.line().to_owned();
    let ended = client.wait(LONG);
    assert!(ended.good(), "{line}: {}\n{}", ended.how(), ended.said);
    ended.said
}

/// Stock programs, both ways, by IPv4 and IPv6: rping compares the data. Then their datagrams are compared, too.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn stock_programs_connect_by_address() {
    let mut beside = Beside::start(Link::Datagrams);
    let mut port = FIRST_PORT..;
    for v6 in [false, true] {
        let (ours, theirs) = beside.addresses(v6);
        for &(program, server, client) in PROGRAMS {
            let port = if program == "udaddy" { UDADDYS_PORT } else { port.next().expect("a port") };
            let line = |options: &str, own: &str, to: &str| {
                options.replace("OWN", own).replace("TO", to).replace("PORT", &port.to_string())
            };
            // The server here.
            let mut here = beside.here(program, &line(server, &ours, theirs));
            beside.expect_listener_here(&mut here, port);
            let said = beside.there(&format!("{program} {}", line(client, theirs, &scoped(&ours))));
            let here = finished(here);
            // The server there.
            beside.start_there(&format!("{program} {}", line(server, theirs, &ours)));
            beside.expect_listeners_there(1, port);
            let there = finished(beside.here(program, &line(client, &ours, theirs)));
            let served = beside.ended_there();
            if program == "rping" {
                for said in [said, here, there, served] {
                    assert_eq!(said.matches("ping data: rdma-ping-").count(), 20, "{said}");
                }
            }
        }
    }
    let seen = expect_same_datagrams(&beside, &[]);
    for kind in ["REQ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"] {
        assert!(seen.contains(&kind), "no {kind} among {seen:?}");
    }
    peers_that_are_killed(&mut beside);
    a_net_that_is_killed(beside);
}

/// In the middle of their work, either side of either.
fn peers_that_are_killed(beside: &mut Beside) {
    let (ours, theirs) = beside.addresses(false);
    let mut ports = KILLED..;
    for kill_here in [true, false] {
        for server_here in [true, false] {
            let port = ports.next().expect("a port");
            let (server, client) = (format!("-s -v -p {port} -a"), format!("-c -v -p {port} -a"));
            let mut here;
            if server_here {
                here = beside.here("rping", &format!("{server} {ours}"));
                beside.expect_listener_here(&mut here, port);
                beside.start_there(&format!("rping {client} {ours}"));
            } else {
                beside.start_there(&format!("rping {server} {theirs}"));
                beside.expect_listeners_there(1, port);
                here = beside.here("rping", &format!("{client} {theirs}"));
            }
            here.expect("rdma-ping-20", SHORT);
            let side = if server_here == kill_here { "client" } else { "server" };
            // Or the queue pair fails first: what the killed side had is taken down in any order.
            let [event, failed] = [&format!("{side} DISCONNECT EVENT"), "cq completion failed status 1"];
            if kill_here {
                here.signal(libc::SIGKILL);
                // rxe's server says so, and does not end.
                let file = beside.file_there();
                let waits = format!(
                    "for i in $(seq 300); do grep -qE '{event}|{failed}' {file} && break; sleep 0.1; done; \
                     killall -q rping; grep -E '{event}|{failed}' {file} || {{ tail -n 5 {file}; exit 1; }}"
                );
                beside.rxe.machine().good(&waits, SHORT);
            } else {
                beside.rxe.machine().good("killall -9 rping", SHORT);
                let start = Instant::now();
                while !here.said().contains(event) && !here.said().contains(failed) {
                    assert!(start.elapsed() < SHORT, "it does not notice: {}", here.said());
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }
}

/// A net that is killed with its keeper says nothing to its peers. Another one in its place, with the same GUIDs and addresses,
/// is not taken for it.
fn a_net_that_is_killed(mut beside: Beside) {
    let theirs = beside.addresses(false).1;
    beside.start_there(&format!("rping -s -P -a {theirs} -p {KILLED}"));
    beside.expect_listeners_there(1, KILLED);
    let line = format!("-c -v -a {theirs} -p {KILLED}");
    let mut killed = beside.here("rping", &line);
    killed.expect("rdma-ping-20", SHORT);
    let mut again = beside.killed(killed);
    for _ in 0..3 {
        finished(again.here("rping", &format!("{line} -C 3")));
    }
    again.rxe.machine().good("killall rping", SHORT);
}

/// The first port of programs that are killed.
const KILLED: u16 = 7600;

/// perftest with connections by address, both ways. It has them by IPv4 only.
pub fn perftest_by_address(beside: &mut Beside) {
    let (ours, theirs) = beside.addresses(false);
    let mut ports = FIRST_PORT..;
    for (program, options) in PERFTEST {
        for server_here in [true, false] {
            let mut run = || {
                let line = format!("-R -F -u 18 -n 20 {options} -p {}", ports.next().expect("a port"));
                let port = ports.start - 1;
                match server_here {
                    true => perftest_here(beside, program, &line, port, &ours),
                    false => perftest_there(beside, program, &line, port, theirs),
                }
            };
            // A server listens twice, for two connections, and its client does not wait for the second time.
            let mut failed = Vec::new();
            while let Err(said) = run() {
                failed.push(said);
                assert!(failed.len() < TRIES, "{program} {options}, server here: {server_here}: {failed:#?}");
            }
        }
    }
}

const TRIES: usize = 8;
const PERFTEST: [(&str, &str); 3] =
    [("ib_write_bw", "-s 65536"), ("ib_send_lat", "-s 100"), ("ib_send_bw", "-c UD -s 1024 -t 8")];

fn perftest_here(
    beside: &mut Beside,
    program: &str,
    line: &str,
    port: u16,
    ours: &str,
) -> Result<(), String> {
    let mut here = beside.here(program, line);
    beside.expect_listener_here(&mut here, port);
    let there = beside.rxe.machine().run(&format!("timeout 60 {program} {line} {ours}"), LONG);
    if there.status != 0 {
        return Err(there.text);
    }
    finished(here);
    Ok(())
}

fn perftest_there(
    beside: &mut Beside,
    program: &str,
    line: &str,
    port: u16,
    theirs: &str,
) -> Result<(), String> {
    beside.start_there(&format!("{program} {line}"));
    beside.expect_listeners_there(1, port);
    let here = beside.here(program, &format!("{line} {theirs}")).wait(LONG);
    if !here.good() {
        beside.rxe.machine().run(&format!("killall -q {program}"), SHORT);
        return Err(here.said);
    }
    beside.ended_there();
    Ok(())
}

/// It has no option for another one.
const UDADDYS_PORT: u16 = 7174;

/// Programs that connect by address, with the options of the server and the client.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("rping", "-s -a OWN -p PORT -V -v -C 20", "-c -a TO -p PORT -V -v -C 20"),
    ("rping", "-s -a OWN -p PORT -V -v -C 20 -S 4000", "-c -a TO -p PORT -V -v -C 20 -S 4000"),
    ("ucmatose", "-b OWN -p PORT -c 3 -C 5 -S 3000", "-s TO -p PORT -c 3 -C 5 -S 3000"),
    ("udaddy", "-b OWN -c 2 -C 5", "-s TO -c 2 -C 5"),
];
