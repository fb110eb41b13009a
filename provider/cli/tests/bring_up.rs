//! The commands for a new board as a person uses them: on a good modelled card, and on each defective one.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long what must come may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Every defect, the step that finds it, what the diagnosis says, and where it says to look.
const DEFECTS: [(&str, &str, &str, &str); 9] = [
    ("stuck-reset", "reset", "the reset does not end", "register STATUS (0x24), bit 1"),
    ("wrong-identity", "identity", "wrong identity: ID is 1bd4:10fb", "ID.device (bits 16 to 31)"),
    ("stuck-admin", "admin queue", "the admin queue is stuck", "register ASQ_DOORBELL (0x54"),
    ("lost-interrupts", "interrupts", "a lost interrupt", "MSI-X table entry 0"),
    ("cqe-phase", "completion", "a CQE with the wrong phase", "Cqe.phase (byte 63, bit 0"),
    ("dma-address", "DMA write", "DMA to a wrong address", "Command.out_iova (byte 24)"),
    ("wqe-fetch", "loopback send", "a corrupted WQE fetch", "QpContext.sq_iova"),
    ("link-flap", "link", "the link flaps", "port1.LINK.changes"),
    ("doorbell-page", "interrupts", "doorbell page 0x10000", "Reply.object (byte 4) of ALLOC_PAGE"),
];

/// Every defect, and what the first difference to the model is in.
const DIFFERENCES: [(&str, &str, &str); 9] = [
    ("stuck-reset", "register STATUS (0x24)", "resetting"),
    ("wrong-identity", "register ID (0x0)", "device"),
    ("stuck-admin", "register HEALTH (0x28)", "admin_stalled"),
    ("lost-interrupts", "interrupt vector 0", "it does not fire"),
    ("cqe-phase", "CQE 0 of CQ", "phase (byte 63)"),
    ("dma-address", "mailbox of QUERY_CARD", "max_qp"),
    ("wqe-fetch", "CQE 0 of CQ", "status (byte 22)"),
    ("link-flap", ".LINK (0x", "  field     "),
    ("doorbell-page", "to ALLOC_PAGE", "object (byte 4)"),
];

/// A directory of its own for files, and for nets.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_verbena"));
        command.args(line).current_dir(self.0.path()).env("XDG_RUNTIME_DIR", self.0.path());
        command
    }

    /// Runs to the end, which must come.
    fn run(&self, line: &[&str]) -> Output {
        let child = self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = child.id();
        let (done, finished) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(child.wait_with_output().unwrap()));
        finished.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|_| {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
            panic!("verbena {line:?} did not end within 120 s")
        })
    }

    /// Runs; the exit code must be this one. Gives what was printed.
    fn expect(&self, code: i32, line: &[&str]) -> String {
        let output = self.run(line);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "verbena {line:?} said\n{out}\n{err}");
        if code == 0 {
            out
        } else {
            out + &err
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

#[test]
fn a_good_card_passes_every_step() {
    let place = Place::new();
    let report = json(&place.expect(0, &["selftest", "--json", "--stress", "0.2"]));
    assert_eq!(report["passed"], true);
    let steps = report["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 15);
    for step in &steps[1..] {
        assert_eq!(step["result"], "PASS", "{step}");
    }
    // The one that a modelled card does not have.
    assert_eq!((&steps[0]["step"], &steps[0]["result"]), (&"config space".into(), &"SKIP".into()));
    assert!(steps[13]["note"].as_str().unwrap().contains("11 on RC, 4 on UC, 2 on UD"), "{}", steps[13]);
}

#[test]
fn every_defect_is_found_and_named() {
    let place = Place::new();
    for (defect, step, came, look) in DEFECTS {
        let device = format!("sim:{defect}");
        let report = json(&place.expect(1, &["selftest", "--json", "--stress", "0.05", "--device", &device]));
        let steps = report["steps"].as_array().unwrap();
        let (last, before) = steps.split_last().unwrap();
        assert!(
            before.iter().all(|step| step["result"] != "FAIL"),
            "{defect}: it stops at the first failure"
        );
        assert_eq!((&last["step"], &last["result"]), (&step.into(), &"FAIL".into()), "{defect}: {last}");
        assert!(last["came"].as_str().unwrap().contains(came), "{defect}: {last}");
        assert!(last["look"].as_str().unwrap().contains(look), "{defect}: {last}");
    }
}

#[test]
fn after_a_failure_it_goes_on_when_told() {
    let place = Place::new();
    let said =
        place.expect(1, &["selftest", "--keep-going", "--stress", "0.05", "--device", "sim:lost-interrupts"]);
    assert!(said.contains("interrupts       FAIL") && said.contains("stress           PASS"), "{said}");
    assert!(said.contains("1 steps failed; mend the first one first"), "{said}");
    // What cannot work at all still ends.
    std::thread::scope(|threads| {
        for defect in [
            "stuck-reset",
            "stuck-admin",
            "cqe-phase",
            "wqe-fetch",
            "link-flap",
            "wrong-identity",
            "doorbell-page",
        ] {
            let place = &place;
            threads.spawn(move || {
                let device = format!("sim:{defect}");
                let line = ["selftest", "--keep-going", "--stress", "0.05", "--device", &device];
                let said = place.expect(1, &line);
                assert!(said.contains(" 15  stress"), "{said}");
            });
        }
    });
}

#[test]
fn a_record_of_a_good_card_is_what_the_model_does() {
    let place = Place::new();
    place.expect(0, &["record", "good.rec", "selftest", "--stress", "0.05"]);
    let said = place.expect(0, &["replay", "good.rec"]);
    assert!(said.contains("no difference: the model does all"), "{said}");
    place
        .expect(0, &["record", "bench.rec", "bench", "--seconds", "0.001", "--largest", "512", "--qps", "2"]);
    assert!(place.expect(0, &["replay", "bench.rec"]).contains("no difference"));
    // Enough of everything is in it to be worth comparing.
    let record = std::fs::read_to_string(place.path("good.rec")).unwrap();
    for kind in
        ["memory", "read", "write", "command", "reply", "wqe", "recv", "bell", "cqe", "eqe", "interrupt"]
    {
        assert!(record.lines().any(|line| line.split(' ').next() == Some(kind)), "no {kind} in the record");
    }
}

#[test]
fn a_record_of_a_defective_card_differs_where_the_defect_is() {
    let place = Place::new();
    for (defect, what, field) in DIFFERENCES {
        let (device, file) = (format!("sim:{defect}"), format!("{defect}.rec"));
        place.expect(1, &["record", &file, "selftest", "--stress", "0.05", "--device", &device]);
        let said = place.expect(1, &["replay", &file]);
        assert!(said.contains(what) && said.contains(field), "{defect}:\n{said}");
        assert!(said.contains("(the model)") && said.contains("(the record)"), "{said}");
    }
}

#[test]
fn one_changed_bit_of_a_record_is_found() {
    let place = Place::new();
    place.expect(0, &["record", "good.rec", "selftest", "--stress", "0.01"]);
    let record = std::fs::read_to_string(place.path("good.rec")).unwrap();
    let number = record.lines().position(|line| line.starts_with("cqe")).unwrap();
    let changed = |line: &str| {
        // The status is byte 22.
        let (head, hex) = line.rsplit_once(' ').unwrap();
        format!("{head} {}0a{}", &hex[..44], &hex[46..])
    };
    let lines = record.lines().enumerate();
    let lines = lines.map(|(at, line)| if at == number { changed(line) } else { line.to_owned() });
    std::fs::write(place.path("bad.rec"), lines.collect::<Vec<_>>().join("\n")).unwrap();
    let said = place.expect(1, &["replay", "bad.rec"]);
    assert!(
        said.contains(&format!("bad.rec:{}:", number + 1)) && said.contains("status (byte 22)"),
        "{said}"
    );
    assert!(said.contains("REM_ACCESS_ERR"), "{said}");
    place.expect(0, &["replay", "bad.rec", "--ignore", "Cqe.status"]);
}

#[test]
fn what_is_no_record_is_told() {
    let place = Place::new();
    assert!(place.expect(1, &["replay", "nosuch.rec"]).contains("reading nosuch.rec"));
    std::fs::write(place.path("x.rec"), "hello\n").unwrap();
    assert!(place.expect(1, &["replay", "x.rec"]).contains("make one with verbena record"));
    for (line, why) in [
        ("read 0x0", "line 2: `read` needs more"),
        ("command 0x0 00 -", "a command has 64 bytes"),
        ("memory 0x1000 0xffffffffffff", "more memory than a replay gives"),
        ("recv 0x1 0x0 00", "a receive WQE has at least 16 bytes"),
        ("srq 0x1 0x0 -", "a receive WQE has at least 16 bytes"),
        ("bell 0x20 0x0", "a doorbell outside the doorbell pages"),
        ("bell 0xfffffff8 0x0", "a doorbell outside the doorbell pages"),
    ] {
        std::fs::write(place.path("x.rec"), format!("verbena-record 1\n{line}\n")).unwrap();
        let said = place.expect(1, &["replay", "x.rec"]);
        assert!(said.contains(why), "{line}:\n{said}");
    }
}

#[test]
fn probe_says_what_is_there_and_what_is_wrong() {
    let place = Place::new();
    let said = place.expect(0, &["probe"]);
    for part in [
        "1bd4:f10a",
        "RC UC UD",
        "port 2      up, 10000 Mb/s",
        "GID 1: ::ffff:198.18.0.1",
        "nothing is wrong",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let said = place.expect(1, &["probe", "--device", "sim:wrong-identity"]);
    assert!(
        said.contains("WRONG: ID is 1bd4:10fb") && said.contains("remedy: load the Verbena bitstream"),
        "{said}"
    );
    let report = json(&place.expect(0, &["probe", "--json"]));
    assert_eq!((&report["vendor"], &report["ports"][1]["speed_mbps"]), (&"1bd4".into(), &10_000.into()));
    assert_eq!(report["findings"].as_array().unwrap().len(), 0);
}

#[test]
fn registers_are_decoded_and_compared() {
    let place = Place::new();
    let said = place.expect(0, &["regs", "STATUS", "--doc"]);
    assert!(said.contains("0x00024  STATUS") && said.contains("A reset is in progress."), "{said}");
    assert!(place.expect(0, &["regs", "port2"]).contains("0x02000  port2.LINK"));
    assert!(place.expect(1, &["regs", "port0"]).contains("there is no block or register `port0`"));
    for (name, device) in [("a.json", "sim"), ("b.json", "sim"), ("c.json", "sim:wrong-identity")] {
        let dump = place.expect(0, &["regs", "--json", "--device", device]);
        std::fs::write(place.path(name), dump).unwrap();
    }
    assert_eq!(place.expect(0, &["diff", "a.json", "b.json"]), "");
    let said = place.expect(1, &["diff", "a.json", "c.json"]);
    assert_eq!(said, "ID.device: 61706 (0xf10a) -> 4347 (0x10fb)\n");
    let said = place.expect(0, &["regs", "TIME", "--watch", "0.01", "--count", "3"]);
    assert!(said.matches("TIME:").count() == 2, "{said}");
}

#[test]
fn a_watch_that_is_ended_has_recorded_and_leaves_nothing() {
    let place = Place::new();
    let work = place.path("work");
    std::fs::create_dir(&work).unwrap();
    let mut command = place.command(&["record", "watch.rec", "regs", "STATUS", "--watch", "0.01"]);
    command.env("TMPDIR", &work).stdout(Stdio::null());
    let watch = Running(command.spawn().unwrap());
    let recorded = || std::fs::read_to_string(place.path("watch.rec")).unwrap_or_default();
    let until = Instant::now() + LIMIT;
    while !recorded().contains("read ") {
        assert!(Instant::now() < until, "no register is read in\n{}", recorded());
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(watch);
    assert_eq!(std::fs::read_dir(work).unwrap().count(), 0);
    assert!(place.expect(0, &["replay", "watch.rec"]).contains("no difference"));
}

#[test]
fn poke_is_guarded() {
    let place = Place::new();
    let said = place.expect(0, &["poke", "SCRATCH", "0x1234"]);
    assert!(said.contains("is   0x0001c SCRATCH = 0x1234"), "{said}");
    for (register, why) in [
        ("CONTROL", "it enables and resets the function"),
        ("page0.SQ", "it is a doorbell"),
        ("STATUS", "it is read-only"),
        ("ASQ_BASE", "the card would read and write memory"),
    ] {
        let said = place.expect(1, &["poke", register, "0x2"]);
        assert!(said.contains("without --force") && said.contains(why), "{said}");
    }
    let said = place.expect(0, &["poke", "VECTOR_MASK", "0xff", "--force"]);
    assert!(said.contains("is   0x00084 VECTOR_MASK = 0xff"), "{said}");
    assert!(place.expect(1, &["poke", "SCRATCH", "0x100000000"]).contains("does not fit"));
    assert!(place.expect(0, &["peek", "0x24"]).contains("STATUS = 0x0 (ready no"));
    assert!(place.expect(1, &["peek", "page0.SQ"]).contains("can only be written"));
}

#[test]
fn bench_measures() {
    let place = Place::new();
    let line = ["bench", "--seconds", "0.005", "--largest", "8192", "--qps", "4", "--json"];
    let figures = json(&place.expect(0, &line));
    let sizes: Vec<u64> =
        figures["sizes"].as_array().unwrap().iter().map(|row| row["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [8, 32, 128, 512, 2048, 8192]);
    for row in figures["sizes"].as_array().unwrap() {
        for (latency, rate) in [("write", "write_mb_s"), ("read", "read_mb_s")] {
            assert!(
                row[latency]["min_us"].as_f64().unwrap() > 0.0 && row[rate].as_f64().unwrap() > 0.0,
                "{row}"
            );
            assert!(row[latency]["p99_us"].as_f64() >= row[latency]["median_us"].as_f64(), "{row}");
        }
    }
    // Short messages are in whole pages, too, which the card reaches without the kernel. A busy machine has slow moments.
    let least = |figures: &serde_json::Value, row: usize, opcode: &str| {
        figures["sizes"][row][opcode]["min_us"].as_f64().unwrap()
    };
    for opcode in ["write", "read"] {
        let fast = |figures: &serde_json::Value| least(figures, 0, opcode) < 1.5 * least(figures, 5, opcode);
        let tried = fast(&figures) || (0..20).any(|_| fast(&json(&place.expect(0, &line))));
        assert!(tried, "{opcode} of 8 bytes takes longer than one of 8192: {figures}");
    }
    assert_eq!(figures["rates"].as_array().unwrap().len(), 3);
    let said = place.expect(1, &["bench", "--device", "sim:stuck-admin"]);
    assert!(said.contains("verbena selftest finds out why"), "{said}");
}

/// A program that is ended when the test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let until = Instant::now() + LIMIT;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(place: &Place, socket: &Path) -> Running {
    let line = ["serve", "--net", "bench", "--socket", socket.to_str().unwrap()];
    let running = Running(place.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let until = Instant::now() + LIMIT;
    while !socket.exists() {
        assert!(Instant::now() < until, "nobody serves within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    running
}

#[test]
fn a_served_card_is_like_any_other() {
    let place = Place::new();
    let socket = place.path("card.sock");
    let device = format!("vfio-user:{}", socket.display());
    let said = place.expect(1, &["probe", "--device", &device]);
    assert!(said.contains("card.sock"), "{said}");
    let running = serve(&place, &socket);
    assert!(place.expect(0, &["probe", "--device", &device]).contains("PCI         1bd4:f10a"));
    let said = place.expect(0, &["selftest", "--stress", "0.1", "--device", &device]);
    assert!(said.contains("config space     PASS") && said.contains("stress           PASS"), "{said}");
    place.expect(0, &["record", "served.rec", "selftest", "--stress", "0.01", "--device", &device]);
    // A served card finds no memory on demand.
    let said = place.expect(1, &["replay", "served.rec"]);
    assert!(said.contains("ON_DEMAND"), "{said}");
    assert!(place.expect(0, &["replay", "--ignore", "FEATURES", "served.rec"]).contains("no difference"));
    drop(running);
}

#[test]
fn a_server_that_fails_leaves_no_socket() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    for (second, why) in [("b.sock", "opening verbena1 of net"), ("file", "file exists and is no socket")] {
        let cards = if second == "file" { "2" } else { "1" };
        let line = ["serve", "--net", second, "--cards", cards, "--socket", "a.sock", "--socket", second];
        let said = place.expect(1, &line);
        assert!(said.contains(why), "{said}");
        assert!(!place.path("a.sock").exists() && !place.path("b.sock").exists());
    }
}

#[test]
fn top_shows_the_cards_of_a_net() {
    let place = Place::new();
    let running = serve(&place, &place.path("card.sock"));
    let said = place.expect(0, &["top", "--net", "bench", "--count", "2", "--interval", "0.05"]);
    assert_eq!(said.matches("verbena1 of net `bench`").count(), 2, "{said}");
    // The server has each card open, and so has this command.
    assert!(said.contains("functions 2  QPs 0") && said.contains("tx MB/s"), "{said}");
    let said = place
        .expect(0, &["top", "--net", "bench", "--device", "verbena1", "--count", "1", "--interval", "0.05"]);
    assert!(said.contains("verbena1 of net `bench`") && !said.contains("verbena0"), "{said}");
    assert!(place
        .expect(1, &["top", "--net", "bench", "--device", "verbena7"])
        .contains("there is no verbena7"));
    drop(running);
    assert!(place.expect(1, &["top", "--net", "nosuch"]).contains("net `nosuch` is not running"));
    assert!(place.expect(1, &["top"]).contains("net `default` is not running"));
    let said = place.expect(0, &["top", "--device", "sim:link-flap", "--count", "1", "--interval", "0.05"]);
    assert!(said.contains("modelled card with a defect"), "{said}");
}

#[test]
fn top_sees_queues_and_traffic() {
    let place = Place::new();
    let socket = place.path("card.sock");
    let _running = serve(&place, &socket);
    // Dropped first: a card of the net with traffic of its own on it, again and again.
    let start = || {
        let line = "bench --net bench --device verbena0 --seconds 2 --largest 8 --qps 1";
        let mut busy = place.command(&line.split(' ').collect::<Vec<_>>());
        Running(busy.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let mut busy = start();
    let mut seen = String::new();
    let until = Instant::now() + LIMIT;
    while Instant::now() < until {
        if let Ok(Some(_)) = busy.0.try_wait() {
            busy = start();
        }
        seen = place.expect(0, &["top", "--net", "bench", "--count", "1", "--interval", "0.2"]);
        let card0 = seen.split("verbena1 of net").next().unwrap();
        if card0.contains("QPs 2") && !card0.contains("port 1  up     tx kpkt/s     0.000") {
            return;
        }
    }
    panic!("no QPs and no traffic of verbena0 in\n{seen}");
}

#[test]
fn a_device_that_is_not_there() {
    let place = Place::new();
    for (device, why) in [
        ("vfio:ffff:ff:1f.7", "there is no PCI device ffff:ff:1f.7"),
        ("vfio:1", "is not a PCI address"),
        ("vfio-user:/nosuch.sock", "/nosuch.sock"),
    ] {
        let said = place.expect(1, &["selftest", "--device", device]);
        assert!(said.contains(why), "{said}");
    }
    let said = place.expect(2, &["probe", "--device", "sim:nosuch"]);
    assert!(said.contains("there is no defect `nosuch`") && said.contains("link-flap"), "{said}");
    let of_net = ["probe", "--device", "verbena0", "--net", "nosuch"];
    assert!(place.expect(1, &of_net).contains("net `nosuch` is not running"));
    for device in ["sim", "vfio:0000:00:00.0"] {
        let said = place.expect(1, &["probe", "--net", "x", "--device", device]);
        assert!(said.contains("--net goes with a card of a net, as --device verbena0"), "{said}");
    }
}
