//! The packages, installed in containers that have nothing of the source tree, and the lines of `docs/ci.md`.
//!
//! `tests/check --guest` makes the packages (`provider/cli/package/build`) and runs these tests, as root.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::stock::repository;

/// The one package with this ending.
fn package(ending: &str) -> PathBuf {
    let made = repository().join("target/package");
    let entries = std::fs::read_dir(&made).into_iter().flatten().flatten().map(|entry| entry.path());
    let found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
    match found.as_slice() {
        [one] => one.clone(),
        _ => panic!("one .{ending} in {}, made by provider/cli/package/build: {found:?}", made.display()),
    }
}

/// A container, which has the packages in its working directory.
#[derive(Clone, Default)]
struct Container {
    options: Vec<String>,
}

impl Container {
    fn new(options: &[&str]) -> Container {
        Container { options: options.iter().map(|&option| option.to_owned()).collect() }
    }

    /// What the lines print; they must all succeed.
    fn run(&self, lines: &str) -> String {
        let (good, said) = self.attempt(lines);
        assert!(good, "{:?}\n{lines}\nfailed:\n{said}", self.options);
        said
    }

    fn attempt(&self, lines: &str) -> (bool, String) {
        let (deb, wheel) = (package("deb"), package("whl"));
        let name = |path: &Path| path.file_name().expect("a file").to_string_lossy().into_owned();
        let start = format!(
            "exec 2>&1; cd $(mktemp -d); cp /mnt/{} verbena.deb; cp /mnt/{} .; {lines}",
            name(&deb),
            name(&wheel)
        );
        let mut command = Command::new(repository().join("tests/package/container"));
        command.args(&self.options).arg("--see").arg(&deb).arg("--see").arg(&wheel).arg(start);
        let output = command.output().expect("tests/package/container");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }
}

const PAIR: &str = "
verbena run -q -- stdbuf -oL ib_write_bw -d verbena0 -n 1000 >server 2>&1 &
for i in $(seq 1200); do grep -q 'Waiting for client' server && break; sleep 0.05; done
grep -q 'Waiting for client' server || { cat server; exit 1; }
verbena run -q -- ib_write_bw -d verbena1 -n 1000 localhost
wait $!
";

#[test]
#[ignore = "needs the packages: provider/cli/package/build"]
fn the_deb_installs_runs_and_is_removed() {
    let container = Container::new(&["--security", "privileged"]);
    let said = container.run(&format!(
        "dpkg -i verbena.deb
        type -P verbena
        {PAIR}
        verbena perftest --clock virtual --card cx4lx ib_send_bw -n 1000 >virtual
        verbena completions bash | cmp - /usr/share/bash-completion/completions/verbena
        verbena completions zsh | cmp - /usr/share/zsh/vendor-completions/_verbena
        set +u; . /usr/share/bash-completion/bash_completion; set -u
        _completion_loader verbena || [ $? = 124 ]
        complete -p verbena
        verbena man man1
        for page in man1/*; do zcat -f /usr/share/man/$page* | cmp - $page; done
        man --where verbena verbena-run
        MANPAGER=cat man verbena-run | grep -e --shell
        dpkg --purge verbena
        for path in /etc/libibverbs.d/verbena.driver /usr/lib/verbena /usr/share/man/man1/verbena.1.gz; do
            [ ! -e $path ]
        done"
    ));
    for text in ["/usr/bin/verbena\n", "65536      1000 ", "-F _verbena verbena\n", "man1/verbena-run.1"] {
        assert!(said.contains(text), "no `{text}` in {said}");
    }
}

/// Libibverbs finds the provider by the installed driver file alone.
#[test]
#[ignore = "needs the packages: provider/cli/package/build"]
fn the_driver_file_leads_to_the_provider() {
    let lines = "dpkg -i verbena.deb; verbena run --no-namespace -- env -u RDMAV_DRIVERS ibv_devices";
    let said = Container::default().run(lines);
    assert!(said.contains("verbena1"), "{said}");
}

#[test]
#[ignore = "needs the packages: provider/cli/package/build"]
fn the_wheel_installs_and_runs() {
    let container = Container::new(&["--security", "unconfined", "--user", "1000"]);
    let said = container.run(&format!(
        "python3 -m venv venv; venv/bin/pip install --no-index ./*.whl; PATH=$PWD/venv/bin:$PATH
        verbena run -- python3 -c 'import os; print(os.listdir(\"/sys/class/infiniband\"))'
        {PAIR}
        verbena perftest --clock virtual --card cx4lx ib_send_bw -n 1000 >virtual
        man --where verbena-run"
    ));
    for text in ["'verbena1'", "65536      1000 ", "venv/share/man/man1/verbena-run.1"] {
        assert!(said.contains(text), "no `{text}` in {said}");
    }
}

/// The wheel's name promises the oldest glibc that it works with, for the libraries too.
#[test]
#[ignore = "needs the packages: provider/cli/package/build"]
fn the_wheel_needs_no_newer_glibc_than_it_says() {
    let wheel = package("whl");
    let name = wheel.file_name().expect("a file").to_string_lossy();
    let promised = name.split("manylinux_2_").nth(1).and_then(|rest| rest.split('_').next());
    let promised: u32 =
        promised.and_then(|minor| minor.parse().ok()).unwrap_or_else(|| panic!("a tag in {name}"));
    let libraries = repository().join("target/package/verbena.data/data/lib/verbena");
    let mut looked = 0;
    for library in std::fs::read_dir(&libraries).expect("the libraries").flatten() {
        let output = Command::new("objdump").arg("-T").arg(library.path()).output().expect("objdump");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let minors = text.split("GLIBC_2.").skip(1).filter_map(|rest| {
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|minor| minor.parse::<u32>().ok())
        });
        let newest = minors.max().expect("a version");
        assert!(newest <= promised, "{} needs glibc 2.{newest}", library.path().display());
        looked += 1;
    }
    assert_eq!(looked, 3);
    let page = std::fs::read_to_string(repository().join("docs/ci.md")).expect("the page");
    assert!(page.contains(&format!("glibc 2.{promised} or newer")), "docs/ci.md does not say 2.{promised}");
}

/// What a container forbids is said, with the remedy, by the launcher and by the doctor.
#[test]
#[ignore = "needs the packages: provider/cli/package/build"]
fn what_is_forbidden_is_said() {
    let install = "dpkg -x verbena.deb d; PATH=$PWD/d/usr/bin:$PATH";
    let user = Container::new(&["--user", "1000"]);
    let said = user
        .run(&format!("{install}; verbena run -- true || echo status $?; verbena doctor || echo doctor $?"));
    for text in [
        "status 125",
        "--device /dev/null:/dev/infiniband/uverbs0",
        "doctor 1",
        "FAIL  discovery",
        "seccomp=unconfined",
    ] {
        assert!(said.contains(text), "no `{text}` in {said}");
    }
    let said = Container::default().run(&format!(
        "{install}; verbena run -- ibv_devices; verbena doctor
        verbena run --net v --clock virtual -- true || echo status $?"
    ));
    for text in [
        "environment variables only",
        "verbena1",
        "WARN  namespaces",
        "WARN  simulated time",
        "status 125",
        "OK    discovery",
    ] {
        assert!(said.contains(text), "no `{text}` in {said}");
    }
}

/// Lines of the page, and the container that they are for.
struct Block {
    container: Container,
    lines: Vec<String>,
}

fn security(text: &str) -> Vec<String> {
    let unconfined = text.contains("seccomp=unconfined");
    let runner = text.contains("runs-on:") && !text.contains("container:");
    let name = if runner {
        "privileged"
    } else if unconfined {
        "unconfined"
    } else {
        "docker"
    };
    vec!["--security".to_owned(), name.to_owned()]
}

/// `docker run OPTIONS rdma-tests COMMAND`.
fn docker_run(line: &str) -> Block {
    let (options, command) = line.split_once(" rdma-tests ").unwrap_or_else(|| panic!("an image in {line}"));
    let mut container = Container { options: security(options) };
    let words: Vec<&str> = options.split(' ').collect();
    for pair in words.windows(2) {
        match pair[0] {
            "--user" => container.options.extend(["--user".to_owned(), pair[1].to_owned()]),
            "--device" => {
                let node = pair[1].strip_prefix("/dev/null:").expect("a /dev/null");
                container.options.extend(["--null".to_owned(), node.to_owned()]);
            }
            _ => {}
        }
    }
    // The image has the package installed; a user cannot install it here.
    let install = "dpkg -x verbena.deb d; PATH=$PWD/d/usr/bin:$PATH".to_owned();
    Block { container, lines: vec![install, command.to_owned()] }
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    for fenced in page.split("```").skip(1).step_by(2) {
        let (language, text) = fenced.split_once('\n').expect("a language");
        let lines = text.lines().map(str::trim);
        let lines: Vec<String> = match language {
            "yaml" => lines
                .filter_map(|line| line.strip_prefix("- "))
                .filter(|line| !line.starts_with("uses:"))
                .map(|line| line.strip_prefix("run: ").unwrap_or(line).to_owned())
                .collect(),
            "dockerfile" => lines
                .filter_map(|line| {
                    let copied = line.strip_prefix("COPY ").map(|rest| format!("cp {rest}"));
                    copied.or_else(|| line.strip_prefix("RUN ").map(str::to_owned))
                })
                .collect(),
            "sh" => {
                found.extend(lines.map(docker_run));
                continue;
            }
            other => panic!("a block of {other}"),
        };
        found.push(Block { container: Container { options: security(text) }, lines });
    }
    found
}

#[test]
#[ignore = "needs the packages: provider/cli/package/build"]
fn the_lines_of_the_page_work() {
    let page = std::fs::read_to_string(repository().join("docs/ci.md")).expect("the page");
    let blocks = blocks(&page);
    assert!(blocks.len() >= 9, "{} blocks", blocks.len());
    for block in blocks {
        let lines = block.lines.join("\n");
        assert!(lines.contains("verbena "), "{lines}");
        block.container.run(&lines);
    }
}
