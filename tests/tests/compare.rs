//! `verbena compare` as a user runs it: the report is a whole page, own measurements are in it, and a
//! changed figure fails the check.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::Mutex;
use std::time::Duration;

use scraper::{Html, Selector};
use serde_json::Value as Json;
use tests::stock::{descendants, need, repository, verbena_in, wait_for, Program};

const LIMIT: Duration = Duration::from_secs(120);

/// Two spinning programs fill two cores: one pair at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Message sizes of a bandwidth test.
const SIZES: usize = 12;

fn compare(dir: &Path, options: &[&str]) -> Output {
    need("ib_write_bw");
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    verbena_in(dir).args(["compare", "--out", "out"]).args(options).output().expect("verbena runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn texts(html: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).expect("a selector");
    html.select(&selector).map(|element| element.text().collect::<String>()).collect()
}

#[test]
fn a_report_with_published_and_own_measurements() {
    let dir = tempfile::tempdir().expect("a directory");
    let add =
        |file: &str, label: &str| format!("{}={label}", repository().join("tests").join(file).display());
    let reference = repository().join("tests/reference/cx4lx-10g-ib_send_bw.csv");
    let output = compare(
        dir.path(),
        &[
            "--card=cx4lx",
            "--tests=send_bw,qps",
            "--reference",
            reference.to_str().expect("a path"),
            "--add",
            &add("perftest/send_bw_all.txt", "text of mine"),
            "--add",
            &add("perftest/send_bw_all.json", "old <JSON>"),
            "--add",
            &add("perftest/new-form/write_bw.json", "new JSON"),
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    // No group of its test was run, which is said.
    assert!(stderr(&output).contains("new JSON (ib_write_bw) is not shown"), "{}", stderr(&output));

    let page = fs::read_to_string(dir.path().join("out/report.html")).expect("a report");
    let html = Html::parse_document(&page);
    assert!(html.errors.is_empty(), "the page is no proper HTML: {:?}", html.errors);
    let legend = texts(&html, "#send_bw > ul.legend li");
    assert_eq!(legend, ["cx4lx (model)", "ConnectX-4 Lx EN 10GbE (published)", "text of mine", "old <JSON>"]);
    // Bandwidth, message rate and ratio; the rate by QPs.
    assert_eq!(texts(&html, "#send_bw svg").len(), 3);
    assert_eq!(texts(&html, "#qps svg").len(), 1);
    let warnings = texts(&html, "#send_bw p.warning");
    assert!(
        warnings
            .contains(&"Settings differ: MTU is 1024 for cx4lx (model), 4096 for text of mine.".to_owned()),
        "{warnings:?}"
    );
    assert!(
        !warnings.iter().any(|text| text.contains("published")),
        "the published settings are ours: {warnings:?}"
    );
    let raw = texts(&html, "#send_bw details.raw pre");
    assert_eq!(raw.len(), SIZES + 3);
    assert!(
        raw[SIZES - 1].contains("Send BW Test") && raw[SIZES - 1].contains(" 1048576 "),
        "{}",
        raw[SIZES - 1]
    );
    assert!(raw[SIZES].contains("A perftest output"), "{}", raw[SIZES]);
    no_outside_resources(&html);
    let picture = fs::read_to_string(dir.path().join("out/send_bw.svg")).expect("a picture");
    assert!(picture.contains("SEND bandwidth: average bandwidth") && picture.contains("old &lt;JSON&gt;"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.lines().any(|line| line.starts_with("send_bw") && line.contains("(published)")), "{said}");
    let left_out =
        "cx4lx (model) was not fitted to, of ConnectX-4 Lx EN 10GbE (published): the rows of 2 and 4 B";
    assert!(said.contains(left_out), "{said}");
    assert!(stderr(&output).contains("16 runs took "), "{}", stderr(&output));

    check_csv(dir.path());
}

/// Nothing is loaded from elsewhere: no addresses but those within the page.
fn no_outside_resources(html: &Html) {
    let any = Selector::parse("*").expect("a selector");
    for element in html.select(&any) {
        let value = element.value();
        assert!(
            !["link", "script", "img", "iframe", "object"].contains(&value.name()),
            "there is a {}",
            value.name()
        );
        for (name, value) in value.attrs() {
            let leads = ["href", "src", "xlink:href", "data"].contains(&name);
            assert!(!leads || value.starts_with('#'), "{name}={value}");
        }
    }
}

fn check_csv(dir: &Path) {
    let results = fs::read_to_string(dir.join("out/results.csv")).expect("results.csv");
    let lines: Vec<Vec<&str>> = results.lines().map(|line| line.split(',').collect()).collect();
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{results}");
    let with = |source: &str| lines.iter().filter(|line| line[1] == source).count();
    // And 4 numbers of QPs.
    assert_eq!(with("cx4lx (model)"), SIZES + 4, "{results}");
    assert_eq!(with("ConnectX-4 Lx EN 10GbE (published)"), 23);
    assert_eq!(with("old <JSON>"), 1);
    let ratios = fs::read_to_string(dir.join("out/ratios.csv")).expect("ratios.csv");
    let published: Vec<Vec<f64>> = ratios
        .lines()
        .filter(|line| line.contains("(published)"))
        .map(|line| line.split(',').skip(4).map(|cell| cell.parse().expect("a number")).collect())
        .collect();
    assert_eq!(published.len(), SIZES);
    let of = |bytes: f64| published.iter().find(|cells| cells[0] == bytes).expect("a ratio");
    assert_eq!(of(65536.0)[2], 1100.18);
    for cells in &published {
        assert!((cells[1] / cells[2] - cells[3]).abs() < 1e-5, "{cells:?}");
        // The model is the measured card, but for what no card of its kind shows (2 B).
        assert!(cells[0] < 8.0 || (cells[3] - 1.0).abs() < 0.03, "{cells:?}");
    }
}

#[test]
fn a_changed_figure_fails_the_check_and_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = compare(dir.path(), &["--cards=f10a", "--tests=qps", "--save=golden.json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let golden = dir.path().join("golden.json");
    let check = ["--check=golden.json"];
    let output = compare(dir.path(), &check);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("all figures are as in golden.json"), "{}", stderr(&output));

    let mut json: Json = serde_json::from_str(&fs::read_to_string(&golden).expect("a file")).expect("JSON");
    assert_eq!(
        (&json["clock"], &json["cards"][0], &json["tests"][0]),
        (&"virtual".into(), &"f10a".into(), &"qps".into())
    );
    let rate = &mut json["runs"][1]["rows"][0]["figures"]["msg_rate"];
    let (is, was) = (rate.as_f64().expect("a rate"), 1.5);
    *rate = was.into();
    fs::write(&golden, json.to_string()).expect("a changed file");
    let output = compare(dir.path(), &check);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let command = "ib_write_bw -s 64 -q 2 -m 1024 -n 1000 on f10a, 64 bytes";
    let named = &format!("changed: {command}: msg_rate_mpps was {was}, is {is} (");
    assert!(stderr(&output).contains(named), "no `{named}` in: {}", stderr(&output));
    assert!(stderr(&output).contains("changes against golden.json: 1"), "{}", stderr(&output));
}

#[test]
fn bad_input_is_refused_before_the_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("text"), "hello\n").expect("a file");
    let cases: [(&[&str], &str); 7] = [
        (&["--add", "nowhere.txt=x"], "--add: reading nowhere.txt"),
        (&["--add", "text=x"], "it is no perftest output"),
        (&["--reference", "text"], "--reference: text"),
        (&["--check", "text"], "was not written by --save"),
        (&["--tests", "write_bw,everything"], "there is no group of tests `everything`"),
        (&["--tolerance", "1"], "--check"),
        (&["--card", "f10a,no-such-card"], "--card no-such-card"),
    ];
    let mut said = BTreeSet::new();
    for (options, why) in cases {
        let output = compare(dir.path(), options);
        assert!(!output.status.success(), "{options:?}");
        assert!(stderr(&output).contains(why), "no `{why}` in: {}", stderr(&output));
        said.insert(stderr(&output));
    }
    assert_eq!(said.len(), cases.len());
    assert!(!dir.path().join("out").exists(), "something was made before the input was read");
}

#[test]
fn a_run_that_fails_is_named_and_fails_the_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = compare(dir.path(), &["--clock=wall", "--tests=qps", "--card=cx4lx,f10a"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("--card cx4lx") && said.contains("failed"), "{said}");
    let page = fs::read_to_string(dir.path().join("out/report.html")).expect("a report of the others");
    let html = Html::parse_document(&page);
    assert_eq!(texts(&html, "#qps > ul.legend li"), ["f10a (model)"]);
    let warnings = texts(&html, "p.warning");
    assert!(warnings.iter().any(|text| text.contains("--card cx4lx")), "{warnings:?}");
    assert!(warnings.iter().any(|text| text.contains("wall clock")), "{warnings:?}");
}

fn is_side(pid: &u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("ib_"))
}

/// Runs it until so many processes of perftest have begun, interrupts it, and gives what it said. The exit code is that of the
/// signal.
fn interrupted(dir: &Path, words: &[&str], sides: usize) -> String {
    // A terminal, timeout(1) or a shell may say it twice.
    interrupted_by(dir, words, sides, |command| (0..2).for_each(|_| command.signal(libc::SIGINT)))
}

fn interrupted_by(dir: &Path, words: &[&str], sides: usize, signal: impl Fn(&Program)) -> String {
    need("ib_send_lat");
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut command = verbena_in(dir);
    command.args(words);
    let running = Program::start(command);
    let mut begun = BTreeSet::new();
    wait_for("perftest has not begun", || {
        begun.extend(descendants(running.pid()).into_iter().filter(is_side));
        begun.len() >= sides
    });
    signal(&running);
    let ended = running.wait(LIMIT);
    assert!(ended.how().contains("130"), "{ended}");
    ended.said
}

/// What was measured before is in the report.
#[test]
fn an_interrupted_comparison_keeps_what_it_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let words = ["compare", "--out", "out", "--card=f10a", "--tests=send_lat,send_bw,write_bw,read_bw"];
    // Each run has two; the second one has begun, so the first one has ended.
    let said = interrupted(dir.path(), &words, 4);
    assert!(said.contains(" runs are done"), "{said}");
    let results = fs::read_to_string(dir.path().join("out/results.csv")).expect("results");
    assert!(results.lines().count() > 1, "{results}");
}

#[test]
fn an_interrupted_trace_says_by_what() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = interrupted(dir.path(), &["trace", "--out", "out", "--", "ib_send_lat", "-n", "5000000"], 2);
    assert!(said.contains("signal 2"), "{said}");
}

/// A terminal's Ctrl-C comes to all at once, and what the command runs may be the first to end of it.
#[test]
fn a_run_that_is_interrupted_first_has_not_failed() {
    let dir = tempfile::tempdir().expect("a directory");
    // Clock ticks of the processor's time that a process has had.
    let worked = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.split_whitespace().nth(13).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
    };
    let signal = |command: &Program| {
        // What a side has to say before it measures has been read.
        wait_for("perftest does not measure", || {
            let mut sides = descendants(command.pid()).into_iter().filter(is_side);
            sides.any(|side| worked(side) > 50)
        });
        let pid = command.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
        let run = children.split_whitespace().next().and_then(|run| run.parse().ok()).expect("a run");
        [run, pid].into_iter().for_each(|pid| tests::stock::signal(pid, libc::SIGINT));
    };
    let words = ["trace", "--out", "out", "--", "ib_send_lat", "-n", "5000000"];
    // The command looks for signals now and then, and may be in time.
    for _ in 0..5 {
        let said = interrupted_by(dir.path(), &words, 2, signal);
        assert!(said.contains("signal 2") && !said.contains("failed"), "{said}");
    }
}
