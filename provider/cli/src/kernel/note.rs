//! What is known of an interface: a file beside the net's others, which the interface's process has locked while it runs. Its
//! first line names the process, the interface and the number of its network namespace; of a process that has failed a second
//! one says why.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use clap::Args;
use rustix::fs::FlockOperation;

use crate::args::PortName;
use crate::launch::namespace::Kind;
use crate::net::runtime::{default_net, Net};

/// Where `ip netns` keeps names.
pub const NAMES: &str = "/run/netns";

/// Which interface.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// The port, as verbena0/1
    pub port: PortName,
    /// The interface of this VLAN, whose tag the card strips and inserts
    #[arg(long, value_name = "VLAN", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,
    /// The net
    #[arg(long, value_name = "NAME", default_value_t = default_net())]
    pub net: String,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.port)?;
        self.vlan.map_or(Ok(()), |vlan| write!(f, ", VLAN {vlan}"))
    }
}

impl Which {
    /// Those that a net has notes of, in order.
    pub fn all(net: &Net) -> Result<Vec<Which>> {
        let entries = fs::read_dir(net.dir()).with_context(|| format!("reading {}", net.dir().display()))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut all: Vec<Which> = names.filter_map(|name| Which::of_file(net, &name)).collect();
        all.sort_by_key(|it| (it.port.0.card, it.port.0.port, it.vlan));
        Ok(all)
    }

    /// The command that removes it.
    pub fn down(&self) -> String {
        let vlan = self.vlan.map_or(String::new(), |vlan| format!(" --vlan {vlan}"));
        format!("verbena port down {}{vlan} --net {}", self.port, self.net)
    }

    fn file(&self, net: &Net) -> PathBuf {
        let vlan = self.vlan.map_or(String::new(), |vlan| format!(".{vlan}"));
        let port = self.port.to_string().replace('/', "p");
        net.dir().join(format!("{}.{port}{vlan}.kernel", net.name()))
    }

    fn of_file(net: &Net, name: &str) -> Option<Which> {
        let rest = name.strip_prefix(net.name())?.strip_prefix('.')?.strip_suffix(".kernel")?;
        let (port, vlan) = rest.split_once('.').map_or((rest, None), |(port, vlan)| (port, Some(vlan)));
        let vlan = vlan.map(str::parse).transpose().ok()?;
        let which = Which { port: port.replace('p', "/").parse().ok()?, vlan, net: net.name().to_owned() };
        // As this writes names, not as people may.
        Some(which).filter(|which| which.file(net).ends_with(name))
    }

    fn open(&self, net: &Net) -> Result<File> {
        let path = self.file(net);
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        file.with_context(|| format!("opening {}", path.display()))
    }

    /// Whether there ever was one.
    pub fn is_noted(&self, net: &Net) -> bool {
        self.file(net).exists()
    }

    /// What is noted. `None`: nothing.
    pub fn look(&self, net: &Net) -> Result<Option<Noted>> {
        if !self.is_noted(net) {
            return Ok(None);
        }
        let mut note = Note { file: self.open(net)? };
        // With those who look, too; the process has it alone.
        let runs = !try_lock(&note.file, FlockOperation::NonBlockingLockShared)?;
        Ok(note.read()?.map(|noted| Noted { runs, ..noted }))
    }

    /// The note, locked by this process; or what is noted of the process that has it instead.
    pub fn lock(&self, net: &Net) -> Result<Result<Note, Noted>> {
        let mut note = Note { file: self.open(net)? };
        while !try_lock(&note.file, FlockOperation::NonBlockingLockExclusive)? {
            if !try_lock(&note.file, FlockOperation::NonBlockingLockShared)? {
                let noted = note.read()?.unwrap_or_default();
                return Ok(Err(Noted { runs: true, ..noted }));
            }
            // Somebody only looks.
            rustix::fs::flock(&note.file, FlockOperation::Unlock)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Ok(note))
    }

    /// As [`lock`](Self::lock), and notes that it is this process's, which is in the interface's namespace.
    pub fn take(&self, net: &Net, name: &str) -> Result<Note> {
        let mut note = self.lock(net)?.map_err(|other| {
            anyhow!("{self} has the interface {} already; `{}` removes it", other.interface, self.down())
        })?;
        note.clear()?;
        write!(note.file, "{} {name} {}", std::process::id(), own_namespace()?)
            .context("noting who has the interface")?;
        Ok(note)
    }
}

fn try_lock(file: &File, how: FlockOperation) -> Result<bool> {
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error).context("locking the note of an interface"),
    }
}

/// The number of this process's network namespace.
pub fn own_namespace() -> Result<u64> {
    Ok(fs::metadata(Kind::Network.of_this_process()).context("reading which network this is")?.ino())
}

/// The file, locked.
pub struct Note {
    file: File,
}

impl Note {
    /// What it says.
    pub fn read(&mut self) -> Result<Option<Noted>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text).context("reading who has the interface")?;
        Ok(Noted::of(&text))
    }

    /// Leaves nothing of it.
    pub fn clear(&mut self) -> Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        Ok(())
    }

    /// Notes why the process ends.
    pub fn fail(&mut self, why: &str) {
        // There is nobody who could be told that this failed, too.
        let _ = write!(self.file, "\n{}", why.replace('\n', " "));
    }
}

/// What a note says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// The process; it may just be writing its number.
    pub pid: Option<i32>,
    pub interface: String,
    pub namespace: u64,
    /// Why the process has ended, if it has said so.
    pub failed: Option<String>,
    pub runs: bool,
}

impl Noted {
    fn of(text: &str) -> Option<Noted> {
        let (first, failed) = text.split_once('\n').map_or((text, None), |(a, b)| (a, Some(b.to_owned())));
        let mut words = first.split(' ');
        let pid = words.next()?.parse().ok()?;
        let interface = words.next()?.to_owned();
        let namespace = words.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Some(Noted { pid: Some(pid), interface, namespace, failed, runs: false })
    }

    /// Why it is no more.
    pub fn why(&self) -> String {
        let pid = self.pid.unwrap_or(0);
        self.failed
            .clone()
            .unwrap_or_else(|| format!("its process {pid} ended without an error message; was it killed?"))
    }

    /// A line of `verbena port`.
    pub fn line(&self, which: &Which) -> String {
        let vlan = which.vlan.map_or(String::new(), |vlan| format!(" vlan {vlan}"));
        let start = format!("{} {}{vlan}", which.port, self.interface);
        if !self.runs {
            return format!("{start} failed: {}", self.why());
        }
        let elsewhere = own_namespace().is_ok_and(|own| own != self.namespace);
        let place = if elsewhere { format!(" netns {}", name(self.namespace)) } else { String::new() };
        format!("{start}{place} pid {}", self.pid.unwrap_or(0))
    }
}

/// The name of a network namespace: that of `ip netns`, or else as `lsns` and `/proc/PID/ns/net` show it.
fn name(namespace: u64) -> String {
    let entries = fs::read_dir(Path::new(NAMES)).into_iter().flatten().flatten();
    let is = |path: &Path| fs::metadata(path).is_ok_and(|it| it.ino() == namespace);
    let found = entries.map(|entry| entry.path()).find(|path| is(path));
    let found = found.and_then(|path| path.file_name()?.to_str().map(str::to_owned));
    found.unwrap_or_else(|| format!("net:[{namespace}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_interface() {
        let net = Net::within(PathBuf::from("/tmp"), "a.b").unwrap();
        for vlan in [None, Some(107)] {
            let which = Which { port: "verbena1/2".parse().unwrap(), vlan, net: "a.b".into() };
            let file = which.file(&net);
            let name = file.file_name().and_then(|name| name.to_str()).unwrap();
            assert_eq!(Which::of_file(&net, name), Some(which));
        }
        for other in ["a.b.json", "a.b.verbena1.kernel", "a.verbena1p2.kernel", "a.b.c.verbena1p2.kernel"] {
            assert_eq!(Which::of_file(&net, other), None, "{other}");
        }
    }

    #[test]
    fn a_note_says_why_its_process_ended() {
        let which = Which { port: "verbena1/2".parse().unwrap(), vlan: Some(7), net: "n".into() };
        let noted = Noted::of("12 vb0 34\nthe card is gone").unwrap();
        assert_eq!(noted.line(&which), "verbena1/2 vb0 vlan 7 failed: the card is gone");
        let killed = Noted::of("12 vb0 34").unwrap();
        assert!(killed.line(&which).contains("failed: its process 12 ended"));
        let runs = Noted { runs: true, ..killed };
        assert_eq!(runs.line(&which), "verbena1/2 vb0 vlan 7 netns net:[34] pid 12");
        assert_eq!(Noted::of(""), None);
    }
}
