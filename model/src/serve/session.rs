//! One client from its first message to its end.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use fpga_regs::vfio_user::{
    flag, irq, irq_flag, region, unmap_flag, Command, DeviceInfo, DmaMap, DmaUnmap, IrqInfo, RegionAccess,
    RegionInfo, SetIrqs, Version, MAJOR, MAX_DATA, MAX_FDS, MINOR,
};

use super::function::Function;
use super::interrupts::Interrupts;
use super::maps::MAX_MAPS;
use super::wire::{self, Message, WireError};
use super::Refused;
use crate::attach::{ServedCard, VECTORS};

/// What a command is answered with: the parts of the reply's body.
type Answer = Result<Vec<u8>, Refused>;

/// See the module.
pub struct Session<'a> {
    socket: &'a UnixStream,
    function: Function<'a>,
    interrupts: &'a Interrupts,
    greeted: bool,
    /// Says what is worth knowing, one line each.
    say: &'a dyn Fn(&str),
}

impl<'a> Session<'a> {
    /// Serves the client until it goes; the card is as after a reset then, and reaches nothing of it.
    pub fn run(
        card: &'a ServedCard,
        interrupts: &'a Interrupts,
        socket: &'a UnixStream,
        say: &'a dyn Fn(&str),
    ) {
        let function = Function::new(card, interrupts);
        let mut session = Session { socket, function, interrupts, greeted: false, say };
        match session.serve() {
            Ok(()) => say("the client has gone"),
            Err(error) => say(&format!("{error}; the connection is closed")),
        }
        if let Err(error) = session.function.close() {
            say(&format!("cleaning up after the client: {}", error.reason));
        }
    }

    fn serve(&mut self) -> Result<(), WireError> {
        loop {
            let mut message = match wire::receive(self.socket) {
                Err(WireError::Closed) => return Ok(()),
                other => other?,
            };
            let header = message.header;
            if header.flags & flag::TYPE != 0 {
                (self.say)(&format!(
                    "a reply to {}, which was not asked: ignored",
                    wire::name(header.command)
                ));
                continue;
            }
            let answer = self.answer(&mut message);
            if let Err(refused) = &answer {
                let name = wire::name(header.command);
                let errno = io::Error::from_raw_os_error(refused.errno);
                (self.say)(&format!("{name} refused: {} ({errno})", refused.reason));
            }
            if header.flags & flag::NO_REPLY != 0 {
                continue;
            }
            let sent = match &answer {
                Ok(body) => wire::reply(self.socket, &header, Ok(&[body])),
                Err(refused) => wire::reply(self.socket, &header, Err(refused.errno)),
            };
            match sent {
                Ok(()) => {}
                // It has gone without waiting for the answer.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn answer(&mut self, message: &mut Message) -> Answer {
        let command = Command(message.header.command);
        if !self.greeted && command != Command::VERSION {
            return Err(Refused::invalid("VERSION must come first"));
        }
        let body = std::mem::take(&mut message.body);
        match command {
            Command::VERSION => self.version(&body),
            Command::DMA_MAP => {
                let (map, _) = parse(DmaMap::decode(&body))?;
                self.function.map(&map, std::mem::take(&mut message.fds)).map(|()| Vec::new())
            }
            Command::DMA_UNMAP => self.unmap(&body),
            Command::DEVICE_INFO => {
                let (_, _) = parse(DeviceInfo::decode(&body))?;
                let argsz = DeviceInfo::BYTES as u32;
                Ok(DeviceInfo { argsz, flags: 1 | 2, regions: region::COUNT, irqs: irq::COUNT }
                    .encode()
                    .to_vec())
            }
            Command::REGION_INFO => region_info(&body),
            Command::IRQ_INFO => irq_info(&body),
            Command::SET_IRQS => self.set_irqs(&body, std::mem::take(&mut message.fds)).map(|()| Vec::new()),
            Command::REGION_READ => self.read(&body),
            Command::REGION_WRITE => self.write(&body),
            Command::DEVICE_RESET => self.function.reset().map(|()| Vec::new()),
            _ => Err(Refused::new(libc::ENOTSUP, "not a command of this server")),
        }
    }

    fn version(&mut self, body: &[u8]) -> Answer {
        let (version, _) = parse(Version::decode(body))?;
        if (version.major, version.minor) != (MAJOR, MINOR) {
            let asked =
                format!("protocol {}.{} is not known, only {MAJOR}.{MINOR}", version.major, version.minor);
            // A lower minor version than the client's is for the client to accept.
            if version.major != MAJOR {
                return Err(Refused::new(libc::ENOTSUP, asked));
            }
        }
        self.greeted = true;
        let capabilities = format!(
            r#"{{"capabilities":{{"max_msg_fds":{MAX_FDS},"max_data_xfer_size":{MAX_DATA},"pgsizes":4096,"max_dma_maps":{MAX_MAPS}}}}}"#
        );
        let mut reply = Version { major: MAJOR, minor: MINOR }.encode().to_vec();
        reply.extend(capabilities.as_bytes());
        reply.push(0);
        Ok(reply)
    }

    fn unmap(&mut self, body: &[u8]) -> Answer {
        let (unmap, _) = parse(DmaUnmap::decode(body))?;
        if unmap.flags & unmap_flag::DIRTY_BITMAP != 0 {
            return Err(Refused::new(libc::ENOTSUP, "dirty pages are not tracked"));
        }
        self.function.unmap(&unmap)?;
        Ok(unmap.encode().to_vec())
    }

    fn set_irqs(&mut self, body: &[u8], fds: Vec<OwnedFd>) -> Result<(), Refused> {
        let (set, data) = parse(SetIrqs::decode(body))?;
        if set.index != irq::MSIX {
            // The other types have no vectors; taking none away is fine.
            return match set.count {
                0 => Ok(()),
                _ => Err(Refused::invalid("the card has MSI-X interrupts only")),
            };
        }
        let end = set.start.checked_add(set.count).filter(|&end| end as usize <= VECTORS);
        let end = end.ok_or(Refused::invalid(format!("the card has {VECTORS} vectors")))? as usize;
        let range = set.start as usize..end;
        if set.flags & irq_flag::TRIGGER == 0 {
            return Err(Refused::new(
                libc::ENOTSUP,
                "MSI-X vectors are masked by taking their eventfds away",
            ));
        }
        let data_flags = irq_flag::DATA_NONE | irq_flag::DATA_BOOL | irq_flag::DATA_EVENTFD;
        match set.flags & data_flags {
            irq_flag::DATA_EVENTFD if fds.is_empty() => {
                self.interrupts.assign(range.start, range.map(|_| None))
            }
            irq_flag::DATA_EVENTFD if fds.len() == range.len() => {
                if !fds.iter().all(is_eventfd) {
                    return Err(Refused::invalid("a descriptor is no eventfd"));
                }
                self.interrupts.assign(range.start, fds.into_iter().map(Some));
            }
            irq_flag::DATA_EVENTFD => {
                return Err(Refused::invalid(format!(
                    "{} descriptors for {} vectors",
                    fds.len(),
                    range.len()
                )))
            }
            // No vector at all: MSI-X is switched off.
            irq_flag::DATA_NONE if range.is_empty() => self.interrupts.assign(0, (0..VECTORS).map(|_| None)),
            irq_flag::DATA_NONE => self.interrupts.fire(range),
            irq_flag::DATA_BOOL if data.len() >= range.len() => {
                self.interrupts.fire(range.zip(data).filter(|(_, &fire)| fire != 0).map(|(v, _)| v));
            }
            _ => return Err(Refused::invalid("the data do not fit the flags")),
        }
        Ok(())
    }

    fn read(&mut self, body: &[u8]) -> Answer {
        let (access, _) = parse(RegionAccess::decode(body))?;
        check(&access)?;
        let mut reply = access.encode().to_vec();
        reply.resize(RegionAccess::BYTES + access.count as usize, 0);
        self.function.read(access.region, access.offset, &mut reply[RegionAccess::BYTES..]);
        Ok(reply)
    }

    fn write(&mut self, body: &[u8]) -> Answer {
        let (access, data) = parse(RegionAccess::decode(body))?;
        check(&access)?;
        if data.len() != access.count as usize {
            return Err(Refused::invalid(format!(
                "{} bytes came where {} were announced",
                data.len(),
                access.count
            )));
        }
        self.function.write(access.region, access.offset, data)?;
        Ok(access.encode().to_vec())
    }
}

/// The structure of a body, or the refusal of a body that is too short for it.
fn parse<T>(decoded: Option<T>) -> Result<T, Refused> {
    decoded.ok_or(Refused::invalid("the message is too short"))
}

/// An access must lie in its region.
fn check(access: &RegionAccess) -> Result<(), Refused> {
    let bytes = Function::region_bytes(access.region);
    let inside = access.offset.checked_add(u64::from(access.count)).is_some_and(|end| end <= bytes);
    if !inside || access.count == 0 || access.count as usize > MAX_DATA {
        let RegionAccess { offset, region, count } = access;
        return Err(Refused::invalid(format!(
            "{count} bytes at {offset:#x} do not lie in region {region} ({bytes} bytes)"
        )));
    }
    Ok(())
}

fn region_info(body: &[u8]) -> Answer {
    let (asked, _) = parse(RegionInfo::decode(body))?;
    if asked.index >= region::COUNT {
        return Err(Refused::invalid(format!("there is no region {}", asked.index)));
    }
    let size = Function::region_bytes(asked.index);
    let flags = if size == 0 { 0 } else { 1 | 2 };
    let argsz = RegionInfo::BYTES as u32;
    let offset = u64::from(asked.index) << 40;
    Ok(RegionInfo { argsz, flags, index: asked.index, cap_offset: 0, size, offset }.encode().to_vec())
}

fn irq_info(body: &[u8]) -> Answer {
    let (asked, _) = parse(IrqInfo::decode(body))?;
    if asked.index >= irq::COUNT {
        return Err(Refused::invalid(format!("there is no interrupt type {}", asked.index)));
    }
    let count = if asked.index == irq::MSIX { VECTORS as u32 } else { 0 };
    Ok(IrqInfo { argsz: IrqInfo::BYTES as u32, flags: 1, index: asked.index, count }.encode().to_vec())
}

/// Anything else could block or kill whoever writes to it.
fn is_eventfd(fd: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.is_ok_and(|target| target.as_os_str() == "anon_inode:[eventfd]")
}
