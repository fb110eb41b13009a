//! `verbena capture`: the packets of a running net, as tcpdump shows those of an interface.
//!
//! | file | one idea |
//! |---|---|
//! | `mod` | the command: begins, takes what comes, ends |
//! | [`file`] | a pcapng file |
//! | [`line`] | a packet in one line |

mod file;
mod line;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use model::attach::LiveCapture;
use model::link::live::{Seen, View};
use model::link::Capture;
use model::packet::PortId;

use crate::args::{number, PortName};
use crate::net::runtime::{default_net, Net};
use crate::output;
use crate::signals;
use file::File;
use line::Lines;

/// How long nothing is done when there is nothing to take. The fastest wire fills a ring in four times that.
const PAUSE: Duration = Duration::from_millis(1);
/// What lines are made of is in these bytes.
const HEADERS: u32 = 160;

/// Options of `verbena capture`.
#[derive(Args)]
pub struct CaptureArgs {
    /// Only what this port sends and receives, as verbena0/1 (default: what all ports send, and what comes from outside)
    pub port: Option<PortName>,
    /// Only packets from or to queue pairs of this number, on any card
    #[arg(long, value_name = "N", value_parser = qpn)]
    pub qp: Option<u32>,
    /// Write a pcapng file, for Wireshark and tshark, instead of lines; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// End after this many packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Bytes of each packet that are written (default: all)
    #[arg(short, long, value_name = "BYTES", requires = "write", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub snaplen: Option<u32>,
    /// The net
    #[arg(long, value_name = "NAME", default_value_t = default_net())]
    pub net: String,
}

/// Where packets go.
enum Sink {
    Lines(Lines),
    File(File),
}

impl Sink {
    fn put(&mut self, seen: &Seen, frame: &[u8]) -> Result<()> {
        match self {
            Sink::Lines(lines) => {
                lines.put(seen, frame);
                Ok(())
            }
            Sink::File(file) => file.put(seen, frame),
        }
    }

    /// Shows what came so far. False: nobody reads it any more.
    fn flush(&mut self) -> Result<bool> {
        match self {
            Sink::Lines(lines) => {
                lines.flush();
                Ok(!output::failed())
            }
            Sink::File(file) => file.flush(),
        }
    }
}

/// Shows packets until it is told to end, has enough, or the net ends.
pub fn capture(args: CaptureArgs) -> Result<u8> {
    let net = Net::running(&args.net)?;
    let snaplen = match args.write {
        Some(_) => args.snaplen.unwrap_or(Capture::WHOLE),
        None => HEADERS,
    };
    let view = View { port: args.port.map(|name| name.0), qpn: args.qp, snaplen };
    let capture = LiveCapture::begin(&net.socket(), &view)?;
    let mut sink = match &args.write {
        Some(path) => Sink::File(File::new(path, &capture, &view)?),
        None => Sink::Lines(Lines::new(capture.is_simulated())),
    };
    // From here on: to open a file may take as long as somebody wants to read it.
    signals::watch();
    model::tell!("verbena: capturing {}; Ctrl-C ends it", subject(&net, &view));
    let mut taken = 0;
    let read = take_all(&capture, &mut sink, args.count.unwrap_or(u64::MAX), &mut taken);
    let dropped = capture.dropped();
    // The net need not wait for the rest.
    drop(capture);
    let lost = match dropped {
        0 => String::new(),
        _ => {
            ": they came faster than they were read".to_owned()
                + if args.write.is_some() {
                    " (-s 128 writes less of each)"
                } else {
                    " (-w writes them to a file)"
                }
        }
    };
    let s = if taken == 1 { "" } else { "s" };
    model::tell!("verbena: {taken} packet{s} captured, {dropped} dropped{lost}");
    read.map(|()| 0)
}

/// Takes packets, at most `most`, until there is a reason to end.
fn take_all(capture: &LiveCapture, sink: &mut Sink, most: u64, taken: &mut u64) -> Result<()> {
    let mut last = false;
    loop {
        let before = *taken;
        let mut put = Ok(());
        capture.take(|seen, frame| {
            if *taken < most && put.is_ok() {
                *taken += 1;
                put = sink.put(seen, frame);
            }
        })?;
        put?;
        if !sink.flush()? || last || *taken == most {
            return Ok(());
        }
        // What came before the end is shown.
        last = signals::received().is_some() || *taken == before && capture.net_ends_within(PAUSE);
    }
}

/// What is captured, in words.
fn subject(net: &Net, view: &View) -> String {
    let port = view.port.map_or("all ports".to_owned(), |port| PortName(port).to_string());
    let qp = view.qpn.map_or(String::new(), |qpn| format!(", QP {qpn:#08x}"));
    format!("{port} of net `{}`{qp}", net.name())
}

/// The port at which a frame was seen.
fn place(seen: &Seen, view: &View) -> PortId {
    match seen.received {
        true => view.port.unwrap_or(seen.to),
        false => seen.from,
    }
}

/// A queue pair's number.
fn qpn(text: &str) -> Result<u32, String> {
    let qpn = number(text).ok().filter(|qpn| (1..1 << 24).contains(qpn));
    qpn.map(|qpn| qpn as u32).ok_or("a QP number is 1 to 16777215, as 17 or 0x11".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_queue_pairs_have_24_bits() {
        assert_eq!(["17", "0x11", "0xffffff"].map(|text| qpn(text).unwrap()), [17, 17, 0xff_ffff]);
        for wrong in ["0", "0x1000000", "16777216", "-1", "x", "0x", ""] {
            assert!(qpn(wrong).unwrap_err().contains("0x11"), "{wrong}");
        }
    }
}
