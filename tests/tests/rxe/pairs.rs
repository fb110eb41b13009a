//! Unmodified programs, one here on the card and one in the guest on rxe, in both directions.

use std::path::PathBuf;
use std::time::Duration;

use driver::Registers;
use fpga_regs::regs::port;
use model::attach::SegmentCard;

use super::{programs, SHORT};
use tests::guest::{Link, Rxe, Said};
use tests::pcap::records;
use tests::stock::{free_port, need, wait_until_listening, Ended, Program, StockNet};

/// A pair of programs; the machine may be busy.
const PAIR: Duration = Duration::from_secs(300);
/// A program that times out because the machine was busy is run again.
const TRIES: u32 = 3;
/// rxe did not run for half a second (IBV_WC_RETRY_EXC_ERR), or a program's TCP took too long.
const STALLED: &[&str] = &[
    "transport retry counter exceeded",
    "status 12",
    "syndrom 0x",
    "Couldn't connect to 127.0.0.1:",
    "Couldn't connect to 10.0.2.2:",
];
/// Linux gives the resolution of an address one second: for RTR, and for an address handle.
const UNRESOLVED: &[&str] = &["to RTR", "Failed to create AH", "create address handle"];
/// Nobody repeats a packet of UC or UD that a busy machine drops: a side waits until its limit ends it. busybox'
/// `timeout` becomes the program, which SIGTERM ends.
const LOST: &[&str] = &["client there (143)", "ended 143", "client here (killed"];

/// How both ended, and what they said.
fn both(own: &str, here: &Ended, other: &str, there: &Said) -> String {
    let (how, said, Said { status, text }) = (here.how(), &here.said, there);
    format!("{own} here ({how}):\n{said}\n{other} there ({status}):\n{text}")
}

/// The card and rxe, on one link.
pub struct Beside {
    pub rxe: Rxe,
    net: StockNet,
    port: String,
    record: PathBuf,
    /// Keeps the net.
    keeper: Program,
    /// Programs that were started in the guest and left to themselves.
    started: u32,
}

impl Beside {
    pub fn start(link: Link) -> Beside {
        Beside::start_with(link, &[])
    }

    /// With more options of the net.
    pub fn start_with(link: Link, options: &[&str]) -> Beside {
        Beside::with(Rxe::boot(programs(), link), 0, options)
    }

    /// The same guest with a new net, after the net of before was killed, first its keeper, then a program.
    pub fn killed(self, program: Program) -> Beside {
        let Beside { rxe, net, keeper, started, .. } = self;
        net.signal_keeper(libc::SIGKILL);
        program.signal(libc::SIGKILL);
        drop((program, keeper, net));
        Beside::with(rxe, started, &[])
    }

    /// The same guest with a new net, after the one of before has ended: it has another Ethernet address.
    pub fn renewed(self, options: &[&str]) -> Beside {
        self.expect_undamaged();
        let Beside { rxe, net, keeper, started, .. } = self;
        net.expect_gone_after(keeper);
        Beside::with(rxe, started, options)
    }

    fn with(rxe: Rxe, started: u32, more: &[&str]) -> Beside {
        let net = StockNet::new();
        let port = format!("0={}", rxe.medium());
        let record = rxe.peer().with_file_name("sent.pcap");
        let options = ["--port", &port, "--pcap", record.to_str().expect("a plain path"), "--snaplen", "64"];
        let options = [&options[..], more].concat();
        let keeper = net.hold(&options);
        Beside { rxe, net, port, record, keeper, started }
    }

    /// No packet that has come to the card so far was damaged or of another partition: what sysfs has as
    /// `rx_icrc_encapsulated` and `port_rcv_errors`, but from the registers, which are never old.
    fn expect_undamaged(&self) {
        let card = SegmentCard::open(&self.net.socket(), 0).expect("the net is up");
        let wrong = [port::RX_ICRC_ERRORS, port::RX_MALFORMED, port::RX_PKEY_ERRORS]
            .map(|counter| card.read64(port::base(0) + counter));
        assert_eq!(wrong, [0; 3], "packets of rxe with a wrong ICRC, without sense, of another partition");
    }

    /// Ends the net; the packets that it has sent.
    pub fn sent(self) -> usize {
        self.expect_undamaged();
        self.net.expect_gone_after(self.keeper);
        records(&self.record, 64).len()
    }

    /// The card's address of this family, and rxe's: the link-local one of IPv6.
    pub fn addresses(&self, v6: bool) -> (String, &'static str) {
        if !v6 {
            return ("198.18.0.1".to_owned(), Rxe::IPV4.0);
        }
        let gid = "cat /sys/class/infiniband/verbena0/ports/1/gids/0";
        let gid = self.net.command(&["--port", &self.port], "sh", &["-c", gid]).output().expect("a GID");
        (String::from_utf8_lossy(&gid.stdout).trim().to_owned(), Rxe::LINK_LOCAL)
    }

    /// Runs a program in the guest to its good end; gives what it said.
    pub fn there(&mut self, line: &str) -> String {
        self.rxe.machine().good(&format!("timeout 100 {line}"), PAIR)
    }

    /// Starts a program in the guest: one at a time.
    pub fn start_there(&mut self, line: &str) {
        let line = self.next_there(line);
        self.rxe.machine().good(&line, PAIR);
    }

    /// What the shell of the guest starts a program with. Each has a file of its own: the end of one before it may be
    /// written late.
    fn next_there(&mut self, line: &str) -> String {
        self.started += 1;
        let file = self.file_there();
        format!("(timeout 100 {line} >{file} 2>&1; echo ended $? >>{file}) &")
    }

    /// The file in the guest with what the last one that was started says.
    pub fn file_there(&self) -> String {
        format!("/tmp/server-{}", self.started)
    }

    /// Waits for its good end; gives what it said.
    pub fn ended_there(&mut self) -> String {
        let file = self.file_there();
        let end = format!(
            "for i in $(seq 600); do grep -qs '^ended' {file} && break; sleep 0.1; done; \
             cat {file}; grep -q 'ended 0' {file}"
        );
        self.rxe.machine().good(&end, PAIR)
    }

    /// Waits until a program of the net listens for connections by address at this port.
    pub fn expect_listener_here(&self, server: &mut Program, port: u16) {
        self.net.expect_listener(server, port);
    }

    /// Waits until so many programs in the guest do: one of each IP version may.
    pub fn expect_listeners_there(&mut self, count: u32, port: u16) {
        let listens = format!(
            "for i in $(seq 600); do \
             [ $(rdma resource show cm_id | grep 'state LISTEN' | grep -c ':{port} ') -ge {count} ] && exit; \
             sleep 0.1; done; exit 1"
        );
        let said = self.rxe.machine().run(&listens, PAIR);
        assert_eq!(said.status, 0, "fewer than {count} listen at port {port} in the guest");
    }

    /// Starts a program on the card.
    pub fn here(&self, program: &str, arguments: &str) -> Program {
        self.here_with(program, &arguments.split_whitespace().collect::<Vec<_>>())
    }

    /// The same with arguments of several words.
    pub fn here_with(&self, program: &str, arguments: &[&str]) -> Program {
        need(program);
        Program::start(self.net.command(&["--port", &self.port], program, arguments))
    }

    /// The server here, the client in the guest: what both said, and whether both ended well.
    fn server_here(&mut self, server: &str, client: &str, program: &str) -> (bool, String) {
        let port = free_port();
        let mut here = self.here(program, &format!("{server} -p {port}"));
        let listens = wait_until_listening(&mut here, port, SHORT);
        let there = format!("timeout 100 {program} {client} -p {port} {}", Rxe::HOST);
        let there = self.rxe.machine().run(&there, PAIR);
        let here = here.wait(SHORT);
        (listens && there.status == 0 && here.good(), both("server", &here, "client", &there))
    }

    /// The server in the guest, the client here.
    fn server_there(&mut self, server: &str, client: &str, program: &str) -> (bool, String) {
        let port = self.rxe.tcp;
        let start = format!(
            "{} for i in $(seq 300); do netstat -ltn | grep -q :{port} && exit; sleep 0.1; done; exit 1",
            self.next_there(&format!("{program} {server} -p {port}"))
        );
        let listens = self.rxe.machine().run(&start, PAIR).status == 0;
        let here = self.here(program, &format!("{client} -p {port} 127.0.0.1")).wait(PAIR);
        // By SIGKILL, which is not how its limit ends it.
        let file = self.file_there();
        let end = format!(
            "for i in $(seq 100); do grep -qs '^ended' {file} && break; sleep 0.2; done; \
             killall -q -9 {program}; cat {file}; grep -q 'ended 0' {file}"
        );
        let there = self.rxe.machine().run(&end, PAIR);
        (listens && there.status == 0 && here.good(), both("client", &here, "server", &there))
    }

    /// Runs a program's pair both ways, with the options of its end here and in the guest; gives what was said. Panics
    /// if it fails.
    pub fn both_ways(&mut self, program: &str, here: &str, there: &str) -> [String; 2] {
        let unreliable = ["_uc_", "_ud_"].iter().any(|it| program.contains(it))
            || ["-c UC", "-c UD"].iter().any(|it| here.contains(it));
        let lost = if unreliable { LOST } else { &[] };
        self.ways(program, here, there, &[STALLED, UNRESOLVED, lost].concat())
    }

    /// The same where the addresses have to be known: it is a failure if one is not resolved.
    pub fn both_ways_resolved(&mut self, program: &str, here: &str, there: &str) -> [String; 2] {
        self.ways(program, here, there, STALLED)
    }

    /// A pair that fails and says one of `busy` is run again.
    fn ways(&mut self, program: &str, here: &str, there: &str, busy: &[&str]) -> [String; 2] {
        [true, false].map(|server_here| {
            let mut tries = 0;
            loop {
                let (good, said) = match server_here {
                    true => self.server_here(here, there, program),
                    false => self.server_there(there, here, program),
                };
                if good {
                    self.expect_undamaged();
                    break said;
                }
                tries += 1;
                let again = tries < TRIES && busy.iter().any(|it| said.contains(it));
                assert!(again, "{program}, here `{here}`, there `{there}`, try {tries}: {said}");
            }
        })
    }
}
