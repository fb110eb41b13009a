//! Two cards in simulated time with faults between them, and the record of what they send.

use std::path::PathBuf;
use std::sync::Arc;

use driver::Device;
use model::attach::{NetOptions, SegmentCard, Timeline};
use model::link::{Capture, Faults, LinkOptions, Wire};
use model::profile::Profile;

use model::wire::frame;
use tests::{connect, counter, Net, Options, Side, TestCard};

/// See the module.
pub struct Scene {
    // Before the net, which waits for them.
    a: Arc<Device<TestCard>>,
    b: Arc<Device<TestCard>>,
    clock: Timeline,
    net: Net,
    /// As on the command line.
    pub options: String,
    record: Option<PathBuf>,
    _directory: tempfile::TempDir,
}

fn f10a() -> Profile {
    Profile::load("f10a").expect("a profile of our own").profile
}

impl Scene {
    /// With faults as on the command line, and a record of all frames if it is wanted. The cards keep so many packets out of
    /// order.
    pub fn new(reorder: u32, faults: &str, recorded: bool) -> Scene {
        let mut profile = f10a();
        profile.rx.reorder_packets = reorder;
        Scene::start(profile, LinkOptions::default(), faults, recorded, None)
    }

    /// With a switch and congestion control. The record is what this card sees: the frames that come to it, as they come.
    pub fn congested(cc: &str, card: u8, faults: &str) -> Scene {
        let link = LinkOptions {
            switch: Some("pfc".parse().expect("a switch")),
            cc: Some(cc.parse().expect("congestion control")),
            ..LinkOptions::default()
        };
        let mut scene = Scene::start(f10a(), link, faults, true, Some(card));
        scene.options.insert_str(0, &format!("--switch pfc --cc {cc} --pcap-at {card} "));
        scene
    }

    fn start(profile: Profile, link: LinkOptions, faults: &str, recorded: bool, card: Option<u8>) -> Scene {
        let directory = tempfile::tempdir().expect("a directory");
        let record = recorded.then(|| directory.path().join("net.pcap"));
        let capture = record.clone().map(|path| Capture { path, snaplen: Capture::WHOLE, card });
        let options = format!("--fault \"{faults}\"");
        let faults = faults.parse::<Faults>().unwrap_or_else(|error| panic!("{faults}: {error}"));
        let link = LinkOptions { wire: Wire::Exact, faults, capture, ..link };
        let net = Net::with(NetOptions { link, clock: Some(profile), ..NetOptions::from(2) });
        let clock = SegmentCard::open(&net.socket(), 0).expect("the card opens").timeline();
        Scene {
            a: net.open(0),
            b: net.open(1),
            clock: clock.expect("simulated time"),
            net,
            options,
            record,
            _directory: directory,
        }
    }

    /// Two connected queue pairs.
    pub fn connect(&self, options: Options) -> (Side, Side) {
        connect(&self.a, &self.b, options)
    }

    /// Simulated time (ps).
    pub fn now(&self) -> u64 {
        self.clock.clock()
    }

    /// A counter of both cards, added up.
    pub fn counter(&self, name: &str) -> u64 {
        [&self.a, &self.b].iter().map(|device| counter(device, 1, name)).sum()
    }

    /// Ends the net. Its record: a line for each frame, when it was sent, whether it arrived or not.
    pub fn transcript(self) -> String {
        let Scene { a, b, clock, net, options, record, _directory } = self;
        drop((a, b, clock));
        drop(net);
        let records = tests::pcap::records(&record.expect("it was wanted"), Capture::WHOLE);
        let start = records.first().map_or(0, |record| record.time);
        let mut text = options + "\n";
        for record in records {
            text += &line(record.time - start, &record.kept);
        }
        text
    }
}

/// A frame in a line: time, cards, opcode, PSN, bytes, what else it says.
fn line(after: u64, bytes: &[u8]) -> String {
    let frame = frame::decode(bytes).expect("a frame with a right ICRC");
    let (path, h) = (frame.path, frame.headers);
    let opcode = h.bth.opcode;
    // Whether it can be marked, and is: only with congestion control.
    let mut notes = ["", " ECT(1)", " ECT(0)", " CE"][usize::from(path.network.ecn())].to_owned();
    if h.bth.ack_request {
        notes += " ack-req";
    }
    if opcode.has_aeth() {
        notes += &format!(" {} MSN {}", h.aeth.syndrome, h.aeth.msn);
    }
    let [from, to] = [path.src_mac[4], path.dst_mac[4]];
    let (us, ns) = (after / 1000, after % 1000);
    let (name, psn, len) = (opcode.to_string(), h.bth.psn, frame.payload.len());
    format!("{us:>7}.{ns:03} us  {from}>{to}  {name:<24} PSN {psn:<8} {len:>5} B {notes}")
        .trim_end()
        .to_owned()
        + "\n"
}
