//! `verbena compare` as a user runs it: the report is a whole page, own measurements are in it, and a
//! changed figure fails the check. With the wall clock, whose figures mean nothing but come the same way.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use scraper::{Html, Selector};
use serde_json::Value as Json;
use tests::stock::{need, verbena};

/// Two spinning programs fill two cores: one pair at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn compare(dir: &Path, options: &[&str]) -> Output {
    need("ib_write_bw");
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Command::new(verbena())
        .args(["compare", "--out", "out"])
        .args(options)
        .current_dir(dir)
        .env("XDG_RUNTIME_DIR", dir)
        .output()
        .expect("verbena runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn texts(html: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).expect("a selector");
    html.select(&selector).map(|element| element.text().collect::<String>()).collect()
}

#[test]
fn a_report_with_published_and_own_measurements() {
    let dir = tempfile::tempdir().expect("a directory");
    let add = |file: &str, label: &str| format!("{}={label}", repository(file).display());
    let reference = repository("reference/cx4lx-10g-ib_send_bw.csv");
    let output = compare(
        dir.path(),
        &[
            "--clock=wall",
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
    assert!(texts(&html, "p.warning").iter().any(|text| text.contains("wall clock")));
    let legend = texts(&html, "#send_bw > ul.legend li");
    assert_eq!(legend, ["f10a (model)", "ConnectX-4 Lx EN 10GbE (published)", "text of mine", "old <JSON>"]);
    // Bandwidth, message rate and ratio; the rate by QPs.
    assert_eq!(texts(&html, "#send_bw svg").len(), 3);
    assert_eq!(texts(&html, "#qps svg").len(), 1);
    let warnings = texts(&html, "#send_bw p.warning");
    assert!(
        warnings
            .contains(&"Settings differ: MTU is 1024 for f10a (model), 4096 for text of mine.".to_owned()),
        "{warnings:?}"
    );
    assert!(
        !warnings.iter().any(|text| text.contains("published")),
        "the published settings are ours: {warnings:?}"
    );
    let raw = texts(&html, "#send_bw details.raw pre");
    assert_eq!(raw.len(), 4);
    assert!(raw[0].contains("Send BW Test") && raw[0].contains(" 8388608 "), "{}", raw[0]);
    assert!(raw[1].contains("A published perftest"), "{}", raw[1]);
    no_outside_resources(&html);

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
    // 23 sizes and 4 numbers of QPs.
    assert_eq!(with("f10a (model)"), 27, "{results}");
    assert_eq!(with("ConnectX-4 Lx EN 10GbE (published)"), 23);
    assert_eq!(with("old <JSON>"), 1);
    let ratios = fs::read_to_string(dir.join("out/ratios.csv")).expect("ratios.csv");
    let line = ratios.lines().find(|line| line.contains("published),65536,")).expect("a ratio");
    let cells: Vec<f64> = line.split(',').skip(5).map(|cell| cell.parse().expect("a number")).collect();
    assert_eq!(cells[1], 1100.18, "{line}");
    assert!((cells[0] / cells[1] - cells[2]).abs() < 1e-5, "{line}");
}

#[test]
fn a_changed_figure_fails_the_check_and_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = compare(dir.path(), &["--clock=wall", "--tests=qps", "--save=golden.json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let golden = dir.path().join("golden.json");
    // The wall clock's figures vary: any factor up to 10,000 passes here.
    let check = ["--check=golden.json", "--tolerance=1000000"];
    let output = compare(dir.path(), &check);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("all figures are as in golden.json"), "{}", stderr(&output));

    let mut json: Json = serde_json::from_str(&fs::read_to_string(&golden).expect("a file")).expect("JSON");
    assert_eq!(
        (&json["clock"], &json["cards"][0], &json["tests"][0]),
        (&"wall".into(), &"f10a".into(), &"qps".into())
    );
    let row = &mut json["runs"][1]["rows"][0];
    assert_eq!(row["figures"]["iterations"], 400.0);
    row["figures"]["iterations"] = 0.001.into();
    fs::write(&golden, json.to_string()).expect("a changed file");
    let output = compare(dir.path(), &check);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let named =
        "changed: ib_write_bw -s 64 -q 2 -m 1024 -n 200 on f10a, 64 bytes: iterations was 0.001, is 400";
    assert!(stderr(&output).contains(named), "no `{named}` in: {}", stderr(&output));
    assert!(stderr(&output).contains("changes against golden.json: 1"), "{}", stderr(&output));
}

#[test]
fn bad_input_is_refused_before_the_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("text"), "hello\n").expect("a file");
    let cases: [(&[&str], &str); 6] = [
        (&["--add", "nowhere.txt=x"], "--add: reading nowhere.txt"),
        (&["--add", "text=x"], "it is no perftest output"),
        (&["--reference", "text"], "--reference: text"),
        (&["--check", "text"], "was not written by --save"),
        (&["--tests", "write_bw,everything"], "there is no group of tests `everything`"),
        (&["--tolerance", "1"], "--check"),
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
    let output = compare(dir.path(), &["--clock=wall", "--tests=qps", "--cards=no-such-card,f10a"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("--card no-such-card") && said.contains("failed"), "{said}");
    let page = fs::read_to_string(dir.path().join("out/report.html")).expect("a report of the others");
    let html = Html::parse_document(&page);
    assert_eq!(texts(&html, "#qps > ul.legend li"), ["f10a (model)"]);
    assert!(texts(&html, "p.warning").iter().any(|text| text.contains("no-such-card")));
}
