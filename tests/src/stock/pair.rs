//! A server and its client.

use std::time::{Duration, Instant};

use super::{free_port, need, until_calibrated, wait_until_listening, Ended, Program, StockNet};
use crate::wait::PAUSE;

/// What the pingpongs and perftest say when the other end did not run for as long as a message is sent again, which is half a
/// second by default (IBV_WC_RETRY_EXC_ERR).
const BUSY: [&str; 2] = ["transport retry counter exceeded", "Failed status 12"];

/// Runs something at most three times, until no end says that the other one was away for too long. The error is what both said.
/// Each try begins anew: whoever counts frames makes its nets in `run`.
pub fn until_answered<T>(mut run: impl FnMut() -> Result<T, String>) -> T {
    let mut tries = 0;
    loop {
        tries += 1;
        match run() {
            Ok(done) => return done,
            Err(said) => {
                let again = tries < 3 && BUSY.iter().any(|text| said.contains(text));
                assert!(again, "try {tries} of three: {said}");
            }
        }
    }
}

/// A test program run twice: as server, and as client that is given the server's host.
pub struct Pair<'a> {
    /// The net.
    pub net: &'a StockNet,
    /// Options of `verbena run`.
    pub launcher: &'a [&'a str],
    /// The program.
    pub program: &'a str,
    /// Device of the server and of the client.
    pub devices: [&'a str; 2],
    /// Where the client finds the server.
    pub host: &'a str,
    /// Arguments for both.
    pub arguments: &'a [&'a str],
    /// How long both may take together.
    pub limit: Duration,
}

/// How both ended.
pub struct Both {
    /// The server.
    pub server: Ended,
    /// The client.
    pub client: Ended,
}

impl<'a> Pair<'a> {
    /// Two cards and two minutes.
    pub fn new(net: &'a StockNet, program: &'a str, arguments: &'a [&'a str]) -> Pair<'a> {
        let limit = Duration::from_secs(120);
        Pair {
            net,
            launcher: &[],
            program,
            devices: ["verbena0", "verbena1"],
            host: "localhost",
            arguments,
            limit,
        }
    }

    /// The command lines as a user would type them, for messages.
    pub fn line(&self) -> String {
        let (launcher, arguments) = (self.launcher.join(" "), self.arguments.join(" "));
        let [server, client] = self.devices;
        format!("verbena run {launcher} -- {} -d {server}|{client} {arguments}", self.program)
    }

    /// Starts the server, waits until it listens, starts the client.
    pub fn start(&self) -> Result<(Program, Program), String> {
        need(self.program);
        let port = free_port();
        let mut server = self.side(self.devices[0], port, None);
        if !wait_until_listening(&mut server, port, self.limit) {
            let ended = server.wait(Duration::ZERO);
            return Err(format!("the server does not listen ({}); it said:\n{}", ended.how(), ended.said));
        }
        Ok((server, self.side(self.devices[1], port, Some(self.host))))
    }

    fn side(&self, device: &str, port: u16, host: Option<&str>) -> Program {
        let port = port.to_string();
        let mut arguments = vec!["-d", device, "-p", &port];
        arguments.extend(self.arguments);
        arguments.extend(host);
        Program::start(self.net.command(self.launcher, self.program, &arguments))
    }

    /// Runs both to their end, again if perftest could not calibrate its clock. An error unless both end well.
    pub fn run(&self) -> Result<Both, String> {
        let said = |ended: &Result<Both, String>| ended.as_ref().map_or_else(String::clone, Both::report);
        until_calibrated(|| self.run_once(), said)
    }

    /// As [`Pair::run`]; panics unless both end well.
    #[track_caller]
    pub fn good(&self) -> Both {
        self.run().unwrap_or_else(|error| panic!("{}: {error}", self.line()))
    }

    fn run_once(&self) -> Result<Both, String> {
        // The first start may build the programs.
        let (server, client) = self.start()?;
        Both::of([client, server], self.limit)
    }
}

impl Both {
    /// Waits for a client and its server. An error, with what both said, unless both end well.
    pub fn of([mut client, mut server]: [Program; 2], limit: Duration) -> Result<Both, String> {
        let start = Instant::now();
        // When one fails the other may wait for ever: there is no need to sit through that.
        let mut failed = None;
        while !(server.has_ended() && client.has_ended()) && start.elapsed() < limit {
            if failed.is_none() && (server.failed() || client.failed()) {
                failed = Some(Instant::now());
            }
            if failed.is_some_and(|at: Instant| at.elapsed() > Duration::from_secs(2)) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let line = client.line().to_owned();
        let both = Both { client: client.wait(Duration::ZERO), server: server.wait(Duration::ZERO) };
        match both.client.good() && both.server.good() {
            true => Ok(both),
            false => Err(format!("`{line}`\n{}", both.report())),
        }
    }

    /// What both said, for an error message.
    pub fn report(&self) -> String {
        let side = |name: &str, ended: &Ended| format!("{name}: {}\n{}", ended.how(), indent(&ended.said));
        format!("{}\n{}", side("server", &self.server), side("client", &self.client))
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
