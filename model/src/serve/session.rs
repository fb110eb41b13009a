//! One client from its first message to its end.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fpga_regs::vfio_user::{
    flag, irq, irq_flag, region, unmap_flag, Command, DmaMap, DmaUnmap, Header, RegionAccess, SetIrqs,
};
use fpga_regs::DOORBELL_BASE;

use super::answers::{self, check, parse, Answer};
use super::asker::{Asker, Client, Waiting};
use super::config::Config;
use super::function::Function;
use super::interrupts::Interrupts;
use super::maps::DmaMode;
use super::refused::Refused;
use super::wire::{self, Message, WireError};
use crate::attach::{ServedCard, VECTORS};
use crate::panics::lock;

/// The state of the thread that reads from the client.
#[derive(Default)]
struct Reading {
    /// The client has agreed on the protocol.
    greeted: bool,
    /// Why there is nothing to read any more.
    ended: Option<WireError>,
}

/// Commands that came while another one was carried out.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Somebody carries out commands.
    busy: bool,
}

/// A command to carry out.
struct Job {
    message: Message,
    /// For a read that cannot wait for ever.
    read: Option<Arc<Waiting>>,
}

/// See the module.
pub struct Session<'a> {
    client: Arc<Client>,
    reading: Mutex<Reading>,
    queue: Mutex<Queue>,
    function: Mutex<Function<'a>>,
    config: &'a Mutex<Config>,
    interrupts: &'a Interrupts,
    asker: &'a Asker,
    mode: DmaMode,
    /// What registers read when they were read last, for reads that cannot wait.
    last: Mutex<HashMap<RegionAccess, Vec<u8>>>,
    /// Says what is worth knowing, one line each.
    say: &'a (dyn Fn(&str) + Sync),
}

/// Commands that wait, above which the client is slowed down while there is no DMA.
const QUEUE: usize = 4096;
/// Bytes of the largest register.
const REGISTER: u32 = 8;

impl<'a> Session<'a> {
    /// Serves the client until it goes; the card is as after a reset then, and reaches nothing of it.
    pub fn run(
        card: &'a ServedCard,
        interrupts: &'a Interrupts,
        asker: &'a Asker,
        mode: DmaMode,
        socket: Arc<UnixStream>,
        say: &'a (dyn Fn(&str) + Sync),
    ) {
        let client = Arc::new(Client::new(socket));
        asker.open(client.clone());
        let config = &Mutex::new(Config::new());
        let function = Mutex::new(Function::new(card, interrupts, config, mode));
        let session = Session {
            client,
            reading: Mutex::default(),
            queue: Mutex::default(),
            function,
            config,
            interrupts,
            asker,
            mode,
            last: Mutex::default(),
            say,
        };
        std::thread::scope(|threads| {
            threads.spawn(|| session.work());
            session.work();
        });
        let reading = lock(&session.reading);
        match &reading.ended {
            Some(WireError::Closed) | None => say("the client has gone"),
            Some(error) => say(&format!("{error}; the connection is closed")),
        }
        // The next client must find nothing of this one.
        while let Err(error) = lock(&session.function).close() {
            say(&format!("cleaning up after the client: {}", error.reason));
            if interrupts.is_over() || card.is_condemned() {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Reads what the client sends and carries out its commands, until it goes. Two threads do this in turn: the
    /// one that has read a command carries it out, and whatever comes meanwhile, while the other one reads on, so
    /// that answers to our own messages (DMA) find their way. Commands are carried out one by one, in order.
    fn work(&self) {
        loop {
            let mut reading = lock(&self.reading);
            if reading.ended.is_some() {
                return;
            }
            match self.read_message(&mut reading) {
                Ok(None) => {}
                Ok(Some(job)) => {
                    let mut queue = lock(&self.queue);
                    queue.jobs.push_back(job);
                    let others_turn = std::mem::replace(&mut queue.busy, true);
                    let full = queue.jobs.len() > QUEUE;
                    drop(queue);
                    if !others_turn {
                        drop(reading);
                        self.carry_out_all();
                    } else if full && !self.asker.is_asking() {
                        // The client is faster than the card.
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
                Err(error) => {
                    reading.ended = Some(error);
                    // Nothing is waited for any more, so that the other thread ends.
                    self.asker.close();
                }
            }
        }
    }

    fn carry_out_all(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let Some(job) = queue.jobs.pop_front() else {
                queue.busy = false;
                return;
            };
            drop(queue);
            self.carry_out(job);
        }
    }

    /// The next command; `None` for what was no command, or none to carry out.
    fn read_message(&self, reading: &mut Reading) -> Result<Option<Job>, WireError> {
        let message = wire::receive(&self.client.socket)?;
        let header = message.header;
        if header.flags & flag::TYPE != 0 {
            if !self.asker.reply(&header, message.body) {
                (self.say)(&format!(
                    "a reply to {}, which was not asked: ignored",
                    wire::name(header.command)
                ));
            }
            return Ok(None);
        }
        if !reading.greeted {
            reading.greeted = header.command == Command::VERSION.0;
            if !reading.greeted {
                self.refuse(&header, &Refused::invalid("VERSION must come first"));
                let _ = self.client.reply(&header, Err(libc::EINVAL));
                return Ok(None);
            }
        }
        Ok(Some(Job { read: self.note(&message), message }))
    }

    /// A read of a register can be answered with an old value if there is DMA that it would wait for; one of configuration
    /// space, which the card's lock is not for, with what is there.
    fn note(&self, message: &Message) -> Option<Arc<Waiting>> {
        let Header { command, flags, .. } = message.header;
        let awaited = command == Command::REGION_READ.0 && flags & flag::NO_REPLY == 0;
        if self.mode != DmaMode::Messages || !awaited {
            return None;
        }
        let (access, _) = RegionAccess::decode(&message.body)?;
        check(&access).ok().filter(|()| access.count <= REGISTER)?;
        let mut last = [&access.encode()[..], &[0; REGISTER as usize][..access.count as usize]].concat();
        if access.region == region::CONFIG {
            let config = lock(self.config);
            config.read(access.offset as usize, &mut last[RegionAccess::BYTES..]);
        } else if access.region != region::BAR0 {
            // The MSI-X table: a client that cannot wait has its own.
            return None;
        } else if let Some(known) = lock(&self.last).get(&access) {
            // Of a register that was never read, zero is better than nothing.
            last.clone_from(known);
        }
        Some(self.asker.note(message.header, last))
    }

    fn carry_out(&self, Job { mut message, read }: Job) {
        let header = message.header;
        let answer = self.answer(&mut message);
        if let Err(refused) = &answer {
            self.refuse(&header, refused);
        }
        if header.flags & flag::NO_REPLY != 0 || read.is_some_and(|read| !self.asker.claim(&read)) {
            return;
        }
        let _ = match &answer {
            Ok(body) => self.client.reply(&header, Ok(&[body])),
            Err(refused) => self.client.reply(&header, Err(refused.errno)),
        };
    }

    fn refuse(&self, header: &Header, refused: &Refused) {
        let errno = io::Error::from_raw_os_error(refused.errno);
        (self.say)(&format!("{} refused: {} ({errno})", wire::name(header.command), refused.reason));
    }

    fn answer(&self, message: &mut Message) -> Answer {
        let command = Command(message.header.command);
        let body = std::mem::take(&mut message.body);
        match command {
            Command::VERSION => {
                let answer = answers::version(&body)?;
                self.client.most.store(answers::most_data(&body)?, Ordering::Relaxed);
                Ok(answer)
            }
            Command::DMA_MAP => {
                let (map, _) = parse(DmaMap::decode(&body))?;
                lock(&self.function).map(&map, std::mem::take(&mut message.fds)).map(|()| Vec::new())
            }
            Command::DMA_UNMAP => self.unmap(&body),
            Command::DEVICE_INFO => answers::device_info(&body),
            Command::REGION_INFO => answers::region_info(&body),
            Command::IRQ_INFO => answers::irq_info(&body),
            Command::SET_IRQS => self.set_irqs(&body, std::mem::take(&mut message.fds)).map(|()| Vec::new()),
            Command::REGION_READ => self.read(&body),
            Command::REGION_WRITE => self.write(&body),
            Command::DEVICE_RESET => lock(&self.function).reset().map(|()| Vec::new()),
            _ => Err(Refused::new(libc::ENOTSUP, "not a command of this server")),
        }
    }

    fn unmap(&self, body: &[u8]) -> Answer {
        let (unmap, _) = parse(DmaUnmap::decode(body))?;
        if unmap.flags & unmap_flag::DIRTY_BITMAP != 0 {
            return Err(Refused::new(libc::ENOTSUP, "dirty pages are not tracked"));
        }
        lock(&self.function).unmap(&unmap)?;
        Ok(unmap.encode().to_vec())
    }

    fn set_irqs(&self, body: &[u8], fds: Vec<OwnedFd>) -> Result<(), Refused> {
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
                if !fds.iter().all(answers::is_eventfd) {
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

    fn read(&self, body: &[u8]) -> Answer {
        let (access, _) = parse(RegionAccess::decode(body))?;
        check(&access)?;
        let mut reply = access.encode().to_vec();
        reply.resize(RegionAccess::BYTES + access.count as usize, 0);
        lock(&self.function).read(access.region, access.offset, &mut reply[RegionAccess::BYTES..]);
        let register = access.region == region::BAR0 && access.count <= REGISTER;
        if self.mode == DmaMode::Messages && register && access.offset < DOORBELL_BASE.into() {
            lock(&self.last).insert(access, reply.clone());
        }
        Ok(reply)
    }

    fn write(&self, body: &[u8]) -> Answer {
        let (access, data) = parse(RegionAccess::decode(body))?;
        check(&access)?;
        if data.len() != access.count as usize {
            return Err(Refused::invalid(format!(
                "{} bytes came where {} were announced",
                data.len(),
                access.count
            )));
        }
        lock(&self.function).write(access.region, access.offset, data)?;
        Ok(access.encode().to_vec())
    }
}
