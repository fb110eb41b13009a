//! The launcher as a person uses it: programs under `verbena run`.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A person with a runtime directory, and so with nets, of their own.
struct Person {
    home: tempfile::TempDir,
}

impl Person {
    fn new() -> Person {
        Person { home: tempfile::tempdir().unwrap() }
    }

    /// The command line after `verbena`.
    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_verbena"));
        command.args(line);
        self.at_home(command)
    }

    fn at_home(&self, mut command: Command) -> Command {
        command
            .current_dir(self.home.path())
            .env("XDG_RUNTIME_DIR", self.home.path())
            .env_remove("VERBENA_PART_ID")
            .env_remove("VERBENA_NET");
        command
    }

    fn verbena(&self, line: &[&str]) -> Output {
        self.command(line).output().unwrap()
    }

    /// As [`Person::verbena`], which must end well.
    fn good(&self, line: &[&str]) -> Output {
        let output = self.verbena(line);
        assert!(output.status.success(), "{line:?}: {}", err(&output));
        output
    }

    /// A program of this person's: a script of the shell.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// What there is of nets.
    fn nets(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.home.path().join("verbena")) else {
            return Vec::new();
        };
        let paths = entries.flatten().map(|entry| entry.path());
        paths.filter(|path| !path.ends_with("lock") && !path.ends_with("staging")).collect()
    }

    /// Waits until every net of this person has ended.
    fn wait_for_silence(&self) {
        wait_until(|| format!("still there: {:?}", self.nets()), || self.nets().is_empty());
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.wait_for_silence();
        }
    }
}

/// Waits until something is so; says what is, instead, if that takes a minute.
fn wait_until(instead: impl Fn() -> String, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", instead());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An address of the loopback interface, another one for each number.
fn address(n: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 + (high & 127), low, n)
}

/// The option that connects a card's port to it.
fn by_udp(card: u8, n: u8) -> String {
    format!("{card}=udp:{}", address(n))
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The launcher fell back to environment variables: what is tested here cannot be seen so.
fn needs_namespaces(output: &Output) {
    let fallback = err(output).contains("environment variables");
    assert!(
        !fallback,
        "no namespaces may be made here; run the tests as root, or where user namespaces are allowed: {}",
        err(output)
    );
}

/// Fails where a program is missing, and says how to get it.
fn needs(program: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    assert!(found, "{program} is missing: `tests/setup` installs what the tests need (perftest, ibverbs-utils, util-linux)");
}

/// Ends a child when the test ends, however it ends.
struct KillOnDrop(std::process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl KillOnDrop {
    /// What it says after SIGTERM until it ends. (SIGINT may be ignored here, as it is in what a shell runs in the background.)
    fn terminated(mut self) -> String {
        assert!(Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap().success());
        wait_until(|| "it goes on after SIGTERM".into(), || self.0.try_wait().unwrap().is_some());
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

#[test]
fn a_program_sees_the_cards() {
    let person = Person::new();
    let output = person.verbena(&["run", "--cards", "3", "--", "ls", "/sys/class/infiniband"]);
    needs_namespaces(&output);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(out(&output), "verbena0\nverbena1\nverbena2\n");
    assert!(err(&output).contains("3 x f10a, private mount namespace"));
    person.wait_for_silence();
    let output = person.verbena(&["run", "--clock", "virtual", "--trace", "t", "--", "true"]);
    let said =
        format!("2 x f10a, simulated time, trace in {}, private", person.home.path().join("t").display());
    assert!(err(&output).contains(&said), "{}", err(&output));
}

#[test]
fn another_user_sees_them_through_a_user_namespace() {
    needs("unshare");
    let person = Person::new();
    // A user without any privilege, even if root runs the tests.
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-user=65534", "--map-group=65534"])
        .arg(env!("CARGO_BIN_EXE_verbena"))
        .args(["run", "--", "sh", "-c"])
        .arg("id -u; cat /sys/class/infiniband/verbena1/node_guid; echo x >/dev/null; ls /dev/infiniband");
    let output = person.at_home(command).output().unwrap();
    assert!(!err(&output).contains("unshare:"), "user namespaces are needed: {}", err(&output));
    needs_namespaces(&output);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(out(&output), "65534\n0056:42ff:fe00:0100\nuverbs0\nuverbs1\n");
    assert!(err(&output).contains("in the net's user namespace"));
}

#[test]
fn the_environment_is_the_fallback() {
    let person = Person::new();
    // The outer run provides the device nodes, which only root could make.
    let run = |options: &[&str], script: &str| {
        let mut command = person.command(&["run", "--quiet", "--network", "host", "--net", "outer", "--"]);
        command.args([env!("CARGO_BIN_EXE_verbena"), "run", "--net", "inner", "--no-namespace"]);
        let output = command.args(options).args(["--", "sh", "-c", script]).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        assert!(err(&output).contains("environment variables only (--no-namespace was given)"));
        // The tree, too.
        person.wait_for_silence();
        out(&output)
    };
    let said = run(
        &[],
        "cat $SYSFS_PATH/class/infiniband_verbs/uverbs1/ibdev; ls $RDMAV_DRIVERS-rdmav34.so >/dev/null",
    );
    assert_eq!(said, "verbena1\n");
    // The next net of that name is another.
    let gid = "cat $SYSFS_PATH/class/infiniband/verbena0/ports/1/gids/0";
    let [a, b, c, d] = address(1).octets();
    let gid_of_it = format!("0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}\n");
    assert_eq!(run(&["--port", &by_udp(0, 1)], gid), gid_of_it);
}

#[test]
fn the_program_is_the_process() {
    let person = Person::new();
    let output = person.verbena(&["run", "-q", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(err(&output), "");
    let output = person.verbena(&["run", "-q", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(err(&output).contains("there is no program `no-such-program`"));
    let output = person.verbena(&["run", "-q", "--", "/etc/passwd"]);
    assert_eq!(output.status.code(), Some(126));
    // Nothing that the program did not start: a shell's `wait` must not meet it.
    let output = person.verbena(&["run", "-q", "--", "sh", "-c", "cat /proc/$$/task/$$/children"]);
    assert_eq!(out(&output).split_whitespace().count(), 1, "{}", out(&output));
}

#[test]
fn programs_of_one_net_share_it() {
    let person = Person::new();
    let bin = env!("CARGO_BIN_EXE_verbena");
    let nested = |more: &[&str]| {
        let mut line = vec!["run", "-q", "--net", "lab", "--cards", "3", "--", bin, "run"];
        line.extend(more);
        person.verbena(&line)
    };
    let output = nested(&["-q", "--net", "lab", "--", "printenv", "VERBENA_SOCKET"]);
    assert!(out(&output).ends_with("/verbena/lab.sock\n"), "{}", err(&output));
    let output = nested(&["--net", "lab", "--cards", "2", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(err(&output).contains("net `lab` is running with 3 cards, not 2"));
    assert!(err(&nested(&["--card", "cx99", "--", "true"])).contains("cx99: no such card profile"));
    let output = nested(&["--net", "other", "--cards", "2", "--", "true"]);
    assert!(output.status.success(), "{}", err(&output));
    // What a program of the net starts means its net, unless it names another.
    assert!(err(&nested(&["--", "true"])).contains("net `lab`, 3 x f10a"));
    let output = person.verbena(&["run", "-q", "--net", "lab", "--", bin, "link"]);
    assert!(output.status.success() && out(&output).contains("verbena1/1"), "{}", err(&output));
    let output = person.verbena(&["link"]);
    let place = person.home.path().join("verbena");
    assert!(
        err(&output).contains(&format!("net `default` is not running in {}", place.display())),
        "{}",
        err(&output)
    );
}

/// Two that write one file would each destroy what the other has written.
#[test]
fn a_file_that_a_net_writes_is_no_other_nets() {
    let person = Person::new();
    let bin = env!("CARGO_BIN_EXE_verbena");
    let both = |options: &[&str]| {
        let line = |net| [&["run", "-q", "--net", net], options, &["--"]].concat();
        let (outer, inner) = (line("one"), line("two"));
        person.verbena(&[&outer[..], &[bin], &inner[..], &["true"]].concat())
    };
    for options in [&["--pcap", "file"][..], &["--clock", "virtual", "--trace", "file"]] {
        let output = both(options);
        assert_eq!(output.status.code(), Some(125), "{options:?}: {}", err(&output));
        let said = format!("another net is writing {}", person.home.path().join("file").display());
        assert!(err(&output).contains(&said), "{options:?}: {}", err(&output));
        person.wait_for_silence();
    }
    assert!(both(&["--pcap", "/dev/null"]).status.success());
    // At once: the keeper of the net before may still have it.
    for _ in 0..3 {
        let output = person.verbena(&["run", "-q", "--pcap", "file", "--", "true"]);
        assert!(output.status.success(), "{}", err(&output));
    }
    let output = person.verbena(&["run", "--pcap", "nowhere/file", "--", "true"]);
    assert!(err(&output).contains("/nowhere/file: No such file"), "{}", err(&output));
}

/// However short they are: the next program's net is its own, with its own options.
#[test]
fn a_net_ends_with_its_last_program() {
    let person = Person::new();
    for cards in ["1", "3", "2"].into_iter().cycle().take(12) {
        let count = "ls ${SYSFS_PATH:-/sys}/class/infiniband | wc -l";
        let output = person.verbena(&["run", "-q", "--cards", cards, "--", "sh", "-c", count]);
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(out(&output).trim(), cards);
    }
}

#[test]
fn a_foreign_part_id_is_announced() {
    let person = Person::new();
    let output = person.verbena(&["run", "-q", "--as", "cx5", "--", "printenv", "VERBENA_PART_ID"]);
    assert_eq!(out(&output), "4119\n");
    assert!(err(&output).contains("presents itself as ConnectX-5 (part id 4119)"));
    let output = person.verbena(&["run", "-q", "--", "printenv", "VERBENA_PART_ID"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn mistakes_are_explained() {
    let person = Person::new();
    let [first, second] = [0, 1].map(|card| by_udp(card, 2));
    let link_local = "which does not say on which interface it is: use a global or a unique local one";
    let cases: [(&[&str], &str); 11] = [
        (&["run", "--port", "0=udp:fe80::1", "--", "true"], link_local),
        (&["doctor", "--port", "0=udp:fe80::1"], link_local),
        (&["run", "--card", "cx99", "--", "true"], "cx99: no such card profile; there are f10a"),
        (&["run", "--net", "a/b", "--", "true"], "`a/b` is no net name"),
        (&["perftest", "ib_no_bw"], "apt-get install perftest"),
        (
            &["perftest", "ib_send_bw", "-a", "--clock", "virtual"],
            "`--clock` is no option of perftest's: put it before ib_send_bw",
        ),
        (&["perftest", "ib_send_bw", "--nonsense"], "unrecognized option '--nonsense'"),
        (&["perftest", "--loopback", "ib_send_bw", "-R"], "add --cards 1"),
        (&["perftest", "--port", &first, "ib_send_bw"], "only the port of verbena0 leads outside"),
        (&["perftest", "--port", &second, "ib_send_bw"], "only the port of verbena1 leads outside"),
        (&["decode", "wqe", "nonsense"], "neither hex nor a file"),
    ];
    for (line, message) in cases {
        let output = person.verbena(line);
        assert!(!output.status.success());
        assert!(err(&output).contains(message), "{line:?}: {}", err(&output));
    }
    // Options of a net, which cards in slots are not on.
    for option in
        ["--card=f10a", "--trace=t", "--wire=exact", "--gid=0=198.18.9.9", "--roce-v1", "--network=own"]
    {
        let output = person.verbena(&["run", "--device", "vfio:0000:01:00.0", option, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{option}: {}", err(&output));
        assert!(err(&output).contains("cannot be used with"), "{option}: {}", err(&output));
    }
}

#[test]
fn the_doctor_examines() {
    let person = Person::new();
    let examine = || {
        let output = person.verbena(&["doctor", "--json"]);
        let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        (output, findings)
    };
    let finding = |findings: &[serde_json::Value], name: &str| {
        let finding = findings.iter().find(|finding| finding["name"] == name);
        finding.unwrap_or_else(|| panic!("no finding {name}")).clone()
    };
    let (output, findings) = examine();
    let state = |name: &str| finding(&findings, name)["state"].clone();
    // `cargo test -p cli` makes no driver for DPDK.
    assert_ne!(state("libraries"), "FAIL");
    assert_eq!(state("shared memory"), "OK");
    // The doctor's own, which is ending, is none.
    assert_eq!(finding(&findings, "nets")["found"], "none is running, nothing was left behind");
    let failed = findings.iter().any(|finding| finding["state"] == "FAIL");
    assert_eq!(output.status.code(), Some(failed.into()), "{}", out(&output));
    person.wait_for_silence();
    // Where somebody listens, nothing is to be removed.
    let odd = person.home.path().join("verbena/odd.sock");
    let _other = UnixListener::bind(&odd).unwrap();
    let nets = finding(&examine().1, "nets");
    assert!(nets["found"].as_str().unwrap().contains("net `odd`: connecting to the keeper"), "{nets}");
    assert!(!nets["remedy"].as_str().unwrap().contains("odd.sock"), "{nets}");
    std::fs::remove_file(odd).unwrap();
}

#[test]
fn a_stock_program_lists_the_cards() {
    needs("ibv_devices");
    let person = Person::new();
    let output = person.verbena(&["run", "-q", "--", "ibv_devices"]);
    assert!(out(&output).contains("verbena1"), "{}", err(&output));
    assert!(out(&output).contains("005642fffe000100"));
}

#[test]
fn perftest_leaves_a_table_and_a_plot() {
    needs("ib_write_bw");
    let person = Person::new();
    // By the machine's clock a busy machine may have no figure, and so no plot.
    let line = ["perftest", "--clock", "virtual", "--out", "result", "ib_write_bw", "-s", "64", "-n", "100"];
    let output = person.verbena(&line);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("BW average[MB/sec]"));
    let read = |name: &str| std::fs::read_to_string(person.home.path().join("result").join(name));
    let csv = read("results.csv").unwrap();
    assert!(csv.contains("# command: ib_write_bw -s 64 -n 100\n"));
    assert!(csv.lines().last().unwrap().starts_with("64,100,"));
    assert!(read("plot.svg").unwrap().contains("bandwidth [MiB/s]"));
}

/// Also the first option behind a test's name is the test's, whatever the launcher's own are called.
#[test]
fn options_behind_a_test_are_its_own() {
    needs("ib_read_bw");
    let person = Person::new();
    // perftest's exit status is then 1.
    let help = out(&person.verbena(&["perftest", "ib_read_bw", "--help"]));
    assert!(help.contains("--outs=<num>") && !help.contains("verbena"), "{help}");
    let port = person.verbena(&["perftest", "ib_read_bw", "--port", "18515"]);
    assert!(err(&port).contains("leave out `--port`"), "{}", err(&port));
    let clock = person.verbena(&["perftest", "ib_read_bw", "--clock", "virtual"]);
    assert!(err(&clock).contains("`--clock` is no option of perftest's: put it before"), "{}", err(&clock));
    // `-o` is the trace's directory, and perftest's READs under way.
    let traced = out(&person.good(&["trace", "ib_read_bw", "-o", "4", "-n", "50"]));
    assert!(traced.contains("Outstand reads  : 4"), "{traced}");
    assert!(!person.home.path().join("4").exists());
}

/// A result says what its figures depend on: the net's wire, and whether these are all of its rows.
#[test]
fn a_result_says_what_it_is_of() {
    needs("ib_write_bw");
    let person = Person::new();
    let csv = |out: &str| std::fs::read_to_string(person.home.path().join(out).join("results.csv")).unwrap();
    let line = ["perftest", "--clock", "virtual", "--fault", "loss=0.01,seed=7", "--out", "lossy"];
    person.good(&[&line[..], &["ib_write_bw", "-s", "64", "-n", "100"]].concat());
    assert!(csv("lossy").contains("# wire: exact wire, faults loss=0.01,seed=7\n"), "{}", csv("lossy"));
    // Ended after the first rows of many.
    let mut command = person.command(&["perftest", "--out", "cut", "ib_write_bw", "-a", "-n", "100000"]);
    let mut child = KillOnDrop(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with(" 64 ")), "no row");
    let said = child.terminated();
    assert!(said.contains("plot.svg: the test did not come to its end"), "{said}");
    assert!(csv("cut").contains("# NOTE: the test did not come to its end"), "{}", csv("cut"));
}

/// What perftest says on a busy machine, and what that means for its table.
#[test]
fn a_perftest_without_figures_is_explained() {
    needs("ib_write_bw");
    let person = Person::new();
    let script = "echo 'Correlation coefficient r^2: 0.65668 < 0.9' >&2\nexec ib_write_bw \"$@\"";
    let path = person.script("ib_write_bw", script);
    let output = person.good(&["perftest", path.to_str().unwrap(), "-n", "100"]);
    assert!(err(&output).contains("rows of 0.00 are no figures"), "{}", err(&output));
}

/// Both sides by the connection manager, at the server's address, by either clock.
#[test]
fn perftest_connects_by_address() {
    needs("ib_write_bw");
    let person = Person::new();
    let [first, second] = [(0, 3), (1, 4)].map(|(card, n)| by_udp(card, n));
    let outside = ["--port", &first, "--port", &second];
    for (launcher, test) in [
        (&[][..], &["ib_write_bw", "-FR", "-n", "100"][..]),
        (&["--clock", "virtual"], &["ib_send_lat", "-R", "-n", "100", "-c", "UD"]),
        (&["--clock", "virtual"], &["ib_read_bw", "-z", "-n", "100"]),
        (&["--loopback", "--cards", "1"], &["ib_write_bw", "-R", "-F", "-n", "100"]),
    ] {
        let output = person.verbena(&[&["perftest"], launcher, test].concat());
        assert!(output.status.success(), "{launcher:?} {test:?}: {}", err(&output));
        person.wait_for_silence();
    }
    // It would measure the server's card with itself.
    let output = person.verbena(&[&["perftest"], &outside[..], &["ib_send_bw", "-R", "-n", "100"]].concat());
    assert!(!output.status.success() && err(&output).contains("by that port itself"), "{}", err(&output));
    person.wait_for_silence();
    let output = person.verbena(&["trace", "--", "ib_write_lat", "-R", "-n", "100"]);
    assert!(output.status.success() && out(&output).contains("== 2 bytes, "), "{}", err(&output));
}

#[test]
fn a_failing_perftest_is_reported() {
    needs("ib_write_bw");
    let person = Person::new();
    let output = person.verbena(&["perftest", "ib_write_bw", "-x", "9", "-n", "100"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("last lines"), "{}", err(&output));
}

/// Between its header and the result it says nothing.
#[test]
fn perftest_may_measure_longer_than_the_timeout() {
    needs("ib_write_bw");
    let person = Person::new();
    let output = person.verbena(&["perftest", "--timeout", "15", "ib_write_bw", "-s", "64", "-D", "17"]);
    assert!(output.status.success(), "{}", err(&output));
}

/// What is in a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path()).collect()
}

#[test]
fn a_matrix_that_is_ended_leaves_nothing() {
    let (person, work) = (Person::new(), tempfile::tempdir().unwrap());
    person.script("ibv_devices", "touch started\nexec sleep 1000");
    let path = format!("{}:{}", person.home.path().display(), std::env::var("PATH").unwrap());
    let mut command = person.command(&["matrix", "--only", "ibv_devices"]);
    command.env("PATH", path).env("TMPDIR", work.path()).stderr(std::process::Stdio::piped());
    let child = KillOnDrop(command.spawn().unwrap());
    let started = || files(work.path()).iter().any(|cell| cell.join("started").exists());
    wait_until(|| "no program starts".into(), started);
    let said = child.terminated();
    assert!(said.contains("ibv_devices: ended by signal 15"), "{said}");
    assert_eq!(files(work.path()), [] as [PathBuf; 0]);
}

#[test]
fn a_signal_ends_the_wait_for_another_starter() {
    needs("flock");
    needs("ib_write_bw");
    let person = Person::new();
    assert!(person.verbena(&["run", "-q", "--", "true"]).status.success());
    let lock = person.home.path().join("verbena/lock");
    let mut starter = Command::new("flock");
    let starter = KillOnDrop(starter.arg("--no-fork").arg(&lock).args(["sleep", "1000"]).spawn().unwrap());
    let has_locked =
        || std::fs::read_to_string(format!("/proc/{}/comm", starter.0.id())).unwrap() == "sleep\n";
    wait_until(|| "no lock".into(), has_locked);
    for (line, end) in [
        (&["perftest", "ib_write_bw"][..], "verbena: ended by signal 15\n"),
        (&["serve", "--socket", "s"], ""),
    ] {
        let child = KillOnDrop(person.command(line).stderr(std::process::Stdio::piped()).spawn().unwrap());
        let descriptors = format!("/proc/{}/fd", child.0.id());
        let waits = || {
            files(Path::new(&descriptors)).iter().any(|fd| std::fs::read_link(fd).ok() == Some(lock.clone()))
        };
        wait_until(|| format!("{line:?} does not wait"), waits);
        assert_eq!(child.terminated(), end, "{line:?}");
    }
}

#[test]
fn killing_perftest_ends_both_sides() {
    needs("ib_write_bw");
    let test = ["ib_write_bw", "-D", "1", "--run_infinitely"];
    killed(&["perftest"], &test);
    // It runs a `verbena perftest`.
    killed(&["trace", "--"], &test);
}

fn killed(command: &[&str], test: &[&str]) {
    let person = Person::new();
    let line = [command, test].concat();
    let mut command = person.command(&line);
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    let mut child = KillOnDrop(command.spawn().unwrap());
    wait_until(|| "no two sides".into(), || perftests_of(person.home.path()) >= 2);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    // The net ends with its last program.
    person.wait_for_silence();
    assert_eq!(perftests_of(person.home.path()), 0);
}

/// Running perftest programs whose working directory is `home`.
fn perftests_of(home: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| {
            let path = process.path();
            let command = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
            command.trim() == "ib_write_bw"
                && std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == home)
        })
        .count()
}
