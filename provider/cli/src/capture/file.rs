//! Packets as a pcapng file, with an interface for each port.

use std::borrow::Cow;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result};
use model::attach::LiveCapture;
use model::link::live::{Seen, View};
use model::packet::PortId;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::{DataLink, PcapError};

use super::place;
use crate::args::PortName;

/// Times are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Directions of a packet, in its flags.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

pub struct File {
    path: PathBuf,
    writer: PcapNgWriter<BufWriter<Box<dyn Write>>>,
    /// Its interfaces.
    ports: Vec<PortId>,
    view: View,
    /// Who read it has left.
    left: bool,
}

impl File {
    /// A new file, or standard output if that is `-`.
    pub fn new(path: &Path, capture: &LiveCapture, view: &View) -> Result<File> {
        let out: Box<dyn Write> = match path.as_os_str() == "-" {
            true => Box::new(io::stdout().lock()),
            false => Box::new(std::fs::File::create(path).with_context(|| format!("-w {}", path.display()))?),
        };
        let seen = |port: PortId| view.port.is_none_or(|only| port == only);
        let all = capture.ports().iter().copied();
        let ports: Vec<_> = all.filter(|&(port, _)| seen(port)).collect();
        let failed = |error| failed(path, error);
        let mut writer = PcapNgWriter::new(BufWriter::with_capacity(1 << 16, out)).map_err(failed)?;
        for &(port, mac) in &ports {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(PortName(port).to_string())),
                InterfaceDescriptionOption::IfMacAddr(Cow::Owned(mac.to_vec())),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            let block =
                InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: view.snaplen, options };
            writer.write_pcapng_block(block).map_err(failed)?;
        }
        let ports = ports.into_iter().map(|(port, _)| port).collect();
        let mut file = File { path: path.to_owned(), writer, ports, view: *view, left: false };
        file.flush()?;
        Ok(file)
    }

    pub fn put(&mut self, seen: &Seen, frame: &[u8]) -> Result<()> {
        let at = place(seen, &self.view);
        // Of a net's ports there is no other one, unless some program has written over the frame's head.
        let interface = self.ports.iter().position(|port| *port == at).unwrap_or(0);
        let direction = if seen.received { INBOUND } else { OUTBOUND };
        let block = EnhancedPacketBlock {
            interface_id: interface as u32,
            timestamp: Duration::from_nanos(seen.at),
            original_len: seen.length,
            data: Cow::Borrowed(frame),
            options: vec![EnhancedPacketOption::Flags(direction)],
        };
        let written = self.writer.write_pcapng_block(block).map(drop);
        self.check(written)
    }

    /// Writes what is held back. False: nobody reads it any more.
    pub fn flush(&mut self) -> Result<bool> {
        let flushed = self.writer.get_mut().flush().map_err(PcapError::IoError);
        self.check(flushed)?;
        Ok(!self.left)
    }

    /// A reader that leaves is no failure.
    fn check(&mut self, result: Result<(), PcapError>) -> Result<()> {
        match result {
            Err(PcapError::IoError(error)) if error.kind() == ErrorKind::BrokenPipe => {
                self.left = true;
                Ok(())
            }
            result => result.map_err(|error| failed(&self.path, error)),
        }
    }
}

fn failed(path: &Path, error: PcapError) -> Error {
    let error = match error {
        // Its own words are of reading.
        PcapError::IoError(error) => Error::new(error),
        error => Error::new(error),
    };
    error.context(format!("writing {}", path.display()))
}
