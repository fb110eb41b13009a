//! A queue of a controller: one connection, one thread.
//!
//! A command takes one step, or two, each of which begins when the card has completed something:
//!
//! ```text
//! Write       capsule is here: RDMA READ of the data
//!             data are here:   write them, SEND the completion
//! Read        capsule is here: read the data, RDMA WRITE of them and SEND of the completion in one post
//! others      capsule is here: SEND of the completion
//! ```

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::binding::Wanted;
use crate::capsule::{fabrics, Capsule, Command, Data, COMMAND, IN_CAPSULE};
use crate::controller::{Controller, MOST_DATA};
use crate::rdma::{chunks, Chunk, Connection, Done, Listener, Request, Sizes};
use crate::status::{completion, Status};
use crate::step::Step;
use crate::target::{Target, CONNECT_DATA};
use crate::{admin, io as nvm};

/// Commands of a queue that are worked on at a time. More of them wait.
const AT_A_TIME: usize = 32;
/// How long a host may take from connection to Connect. It holds memory and a thread, and has not said who it is.
const UNTIL_CONNECT: Duration = Duration::from_secs(30);

/// A queue, with all that its thread needs.
pub struct Queue {
    connection: Connection,
    target: Arc<Target>,
    wanted: Wanted,
    /// Room for the data of commands that are worked on.
    free: Vec<Chunk>,
    waiting: VecDeque<Capsule>,
    /// Commands whose data are on their way, by the number of the READ, with the key to give back.
    fetching: HashMap<u64, (Command, Option<u32>)>,
    /// None before Connect.
    controller: Option<Arc<Controller>>,
    accepted: Instant,
    /// Place in the submission queue, and its entries.
    head: u16,
    entries: u16,
}

impl Queue {
    /// Accepts a request; none if it is refused.
    pub fn accept(
        listener: &mut Listener,
        request: Request,
        target: &Arc<Target>,
    ) -> io::Result<Option<Queue>> {
        let wanted = match Wanted::parse(&request) {
            Ok(wanted) => wanted,
            Err(why) => {
                println!("a connection is refused: {why}");
                return request.reject(&why.answer()).map(|()| None);
            }
        };
        let receives = wanted.receives();
        // A command that is worked on has a READ, or a WRITE and a SEND, outstanding.
        let sizes = Sizes { receives: receives.into(), sends: 2 * AT_A_TIME as u32 };
        let mut connection = listener.prepare(request, sizes)?;
        for chunk in chunks(connection.endpoint(), receives.into(), COMMAND + IN_CAPSULE)? {
            connection.receive(chunk)?;
        }
        let free = chunks(connection.endpoint(), AT_A_TIME, MOST_DATA)?;
        connection.endpoint().accept(&wanted.answer())?;
        Ok(Some(Queue {
            connection,
            target: target.clone(),
            wanted,
            free,
            waiting: VecDeque::new(),
            fetching: HashMap::new(),
            controller: None,
            accepted: Instant::now(),
            head: 0,
            entries: receives,
        }))
    }

    /// Serves the queue until its connection ends; without its admin queue, a controller is gone.
    pub fn serve(mut self) {
        let Err(why) = self.run();
        let Some(controller) = &self.controller else {
            return println!("a connection ends before Connect: {why}");
        };
        match self.wanted.queue {
            0 => {
                self.target.remove(controller);
                println!("controller {} is gone: {why}", controller.id);
            }
            queue => println!("controller {}: queue {queue} is gone: {why}", controller.id),
        }
    }

    fn run(&mut self) -> io::Result<Infallible> {
        loop {
            let (deadline, missed) = match (&self.controller, self.wanted.queue) {
                (None, _) => (Some(self.accepted + UNTIL_CONNECT), "Connect"),
                (Some(controller), 0) => (controller.deadline(), "Keep Alive"),
                // Its controller's end is its own.
                (Some(_), _) => (None, ""),
            };
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no {missed} in time")));
            }
            for done in self.connection.wait(deadline)? {
                match done? {
                    Done::Received(chunk, length) => self.received(chunk, length)?,
                    Done::Read(number, chunk) => {
                        let (command, key) = self.fetching.remove(&number).expect("read for a command");
                        self.finish(chunk, &command, key)?;
                    }
                    Done::Answered(chunk) => self.free.push(chunk),
                }
            }
            while !self.waiting.is_empty() {
                let Some(chunk) = self.free.pop() else { break };
                let capsule = self.waiting.pop_front().expect("not empty");
                self.begin(chunk, &capsule)?;
            }
        }
    }

    /// Takes a capsule. Its chunk receives the next one at once: a host that has an answer may send again.
    fn received(&mut self, chunk: Chunk, length: usize) -> io::Result<()> {
        let capsule = Capsule::parse(&chunk[..length]);
        self.connection.receive(chunk)?;
        let capsule = capsule.ok_or_else(|| io::Error::other(format!("a capsule of {length} bytes")))?;
        self.waiting.push_back(capsule);
        match self.waiting.len() > self.entries.into() {
            true => Err(io::Error::other("the host sends more commands than its queue has entries")),
            false => Ok(()),
        }
    }

    /// Does what can be done before the host's data are here.
    fn begin(&mut self, mut chunk: Chunk, capsule: &Capsule) -> io::Result<()> {
        let command = &capsule.command;
        let (length, result) = match self.step(command, &mut chunk) {
            Err(status) => return self.answer(chunk, command, Err(status), None),
            Ok(Step::Done(result)) => return self.answer(chunk, command, Ok(result), None),
            Ok(Step::Hold) => {
                self.free.push(chunk);
                return Ok(());
            }
            Ok(Step::Fetch(length)) => (length, None),
            Ok(Step::Deliver { length, result }) => (length, Some(result)),
        };
        match (command.data(length), result) {
            (Err(status), _) => self.answer(chunk, command, Err(status), None),
            (Ok(Data::Host(to, key)), Some(result)) => {
                let completion = self.completion(command, Ok(result));
                self.connection.answer(chunk, Some((length, to)), &completion, self.returned(key))
            }
            (Ok(Data::Host(from, key)), None) => {
                let number = self.connection.read(chunk, length, from)?;
                self.fetching.insert(number, (*command, key));
                Ok(())
            }
            // The host cannot read from a capsule.
            (Ok(Data::InCapsule(_)), Some(_)) => self.answer(chunk, command, Err(Status::FIELD), None),
            (Ok(Data::InCapsule(from)), None) => {
                let data = capsule.data.get(from..).and_then(|data| data.get(..length));
                let Some(data) = data else {
                    return self.answer(chunk, command, Err(Status::SGL_OFFSET), None);
                };
                chunk[..length].copy_from_slice(data);
                self.finish(chunk, command, None)
            }
        }
    }

    fn step(&self, command: &Command, data: &mut [u8]) -> Result<Step, Status> {
        command.check_flags()?;
        match (&self.controller, self.wanted.queue) {
            (None, _) if command.fabrics_type() == Some(fabrics::CONNECT) => Ok(Step::Fetch(CONNECT_DATA)),
            (None, _) => Err(Status::SEQUENCE),
            (Some(controller), 0) => admin::begin(&self.target, controller, command, data),
            (Some(_), _) if command.fabrics_type() == Some(fabrics::CONNECT) => Err(Status::SEQUENCE),
            (Some(_), _) => nvm::begin(&self.target.namespace, command, data),
        }
    }

    /// Does the rest of a command whose data are here: of Connect or Write, since no other fetches any.
    fn finish(&mut self, chunk: Chunk, command: &Command, key: Option<u32>) -> io::Result<()> {
        let result = match self.controller.clone() {
            None => self.connect(command, &chunk),
            // Its data were on their way when another Connect was done.
            Some(_) if command.fabrics_type() == Some(fabrics::CONNECT) => Err(Status::SEQUENCE),
            Some(controller) => nvm::write(&self.target.namespace, &controller, command, &chunk),
        };
        self.answer(chunk, command, result, key)
    }

    fn connect(&mut self, command: &Command, data: &[u8]) -> Result<u64, Status> {
        let (queue, endpoint) = (self.wanted.queue, self.connection.endpoint());
        let controller = self.target.connect(queue, self.entries, endpoint, command, data)?;
        match queue {
            0 => println!("controller {}: connected by {}", controller.id, controller.host.nqn),
            _ => println!("controller {}: queue {queue} connected", controller.id),
        }
        let id = controller.id;
        self.controller = Some(controller);
        Ok(id.into())
    }

    /// Sends a completion without data before it.
    fn answer(
        &mut self,
        chunk: Chunk,
        command: &Command,
        result: Result<u64, Status>,
        key: Option<u32>,
    ) -> io::Result<()> {
        let completion = self.completion(command, result);
        self.connection.answer(chunk, None, &completion, self.returned(key))
    }

    /// The next place in the submission queue is free with it.
    fn completion(&mut self, command: &Command, result: Result<u64, Status>) -> [u8; 16] {
        self.head = (self.head + 1) % self.entries;
        completion(result, self.head, self.wanted.queue, command.id())
    }

    /// The key that the host wants back with the completion, if the card can do that. Otherwise the host does it.
    fn returned(&self, key: Option<u32>) -> Option<u32> {
        key.filter(|_| self.connection.endpoint().invalidates)
    }
}
