//! A controller: what a host has connected to, and configures.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use crate::rdma::Endpoint;
use crate::status::Status;

/// Entries of a submission queue, at most.
pub const QUEUE_ENTRIES: u16 = 128;
/// I/O queues of a controller, at most.
pub const IO_QUEUES: u16 = 8;
/// Bytes that a command moves at most, as a power of two.
pub const MOST_DATA_SHIFT: u8 = 17;
/// Bytes that a command moves at most.
pub const MOST_DATA: usize = 1 << MOST_DATA_SHIFT;
/// Asynchronous Event Requests that can wait.
pub const EVENTS: u8 = 4;
/// Version 1.3 of the base specification.
pub const VERSION: u32 = 0x0001_0300;

// Properties, by offset, and their fields.
const CAP: u32 = 0x00;
const VS: u32 = 0x08;
const CC: u32 = 0x14;
const CSTS: u32 = 0x1c;
const CC_ENABLE: u32 = 1;
/// Command set NVM, pages of 4 KiB, entries of 64 and 16 bytes: what CC may say, without enable and shutdown.
const CC_FIXED: u32 = 6 << 16 | 4 << 20;
const CC_CONFIGURED: u32 = 0x00ff_3ff0;
const CC_SHUTDOWN: u32 = 3 << 14;
const CSTS_READY: u32 = 1;
const CSTS_FATAL: u32 = 1 << 1;
const CSTS_SHUT_DOWN: u32 = 2 << 2;
/// Queues are contiguous, ready within 7.5 s, command set NVM.
const CAPABILITIES: u64 = (QUEUE_ENTRIES as u64 - 1) | 1 << 16 | 15 << 24 | 1 << 37;

// Features.
const WRITE_CACHE: u8 = 0x06;
const QUEUES: u8 = 0x07;
const EVENT_CONFIGURATION: u8 = 0x0b;
const KEEP_ALIVE: u8 = 0x0f;

/// Who a host says it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Host {
    /// A UUID.
    pub id: [u8; 16],
    /// Its name.
    pub nqn: String,
}

/// A controller of one host, from Connect of its admin queue to the end of that connection.
pub struct Controller {
    /// Its number.
    pub id: u16,
    /// Its host.
    pub host: Host,
    /// True if it tells where the storage is, and has none.
    pub discovery: bool,
    /// Our address that the host has found.
    pub address: SocketAddr,
    state: Mutex<State>,
}

struct State {
    configuration: u32,
    status: u32,
    write_cache: bool,
    event_configuration: u32,
    waiting_events: u8,
    keep_alive: Duration,
    last_sign: Instant,
    queues: BTreeMap<u16, Weak<Endpoint>>,
}

impl Controller {
    /// A new one, not enabled. Without signs of life for `keep_alive` its time is over; zero is for ever.
    pub fn new(
        id: u16,
        host: Host,
        discovery: bool,
        address: SocketAddr,
        keep_alive: Duration,
    ) -> Controller {
        let state = State {
            configuration: 0,
            status: 0,
            write_cache: true,
            event_configuration: 0,
            waiting_events: 0,
            keep_alive,
            last_sign: Instant::now(),
            queues: BTreeMap::new(),
        };
        Controller { id, host, discovery, address, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the state of a controller")
    }

    /// Property Get, of 4 or 8 bytes.
    pub fn property(&self, offset: u32, size: usize) -> Result<u64, Status> {
        let state = self.state();
        match (offset, size) {
            (CAP, 8) => Ok(CAPABILITIES),
            (VS, 4) => Ok(VERSION.into()),
            (CC, 4) => Ok(state.configuration.into()),
            (CSTS, 4) => Ok(state.status.into()),
            _ => Err(Status::FIELD),
        }
    }

    /// Property Set, of the one that can be set. True if the host shuts the controller down.
    pub fn set_property(&self, offset: u32, size: usize, value: u64) -> Result<bool, Status> {
        if (offset, size) != (CC, 4) {
            return Err(Status::FIELD);
        }
        let value = value as u32;
        let mut state = self.state();
        let changed = value ^ std::mem::replace(&mut state.configuration, value);
        if changed & CC_ENABLE != 0 {
            state.status = match () {
                () if value & CC_ENABLE == 0 => 0,
                () if value & CC_CONFIGURED == CC_FIXED => CSTS_READY,
                () => CSTS_FATAL,
            };
            if value & CC_ENABLE == 0 {
                state.disconnect();
            }
        }
        let shuts_down = changed & CC_SHUTDOWN != 0 && value & CC_SHUTDOWN != 0;
        if shuts_down {
            state.status |= CSTS_SHUT_DOWN;
        }
        Ok(shuts_down)
    }

    /// True when it is enabled.
    pub fn is_ready(&self) -> bool {
        self.state().is_ready()
    }

    /// Get Features: the current value.
    pub fn feature(&self, feature: u8) -> Result<u64, Status> {
        let state = self.state();
        match feature {
            WRITE_CACHE if !self.discovery => Ok(state.write_cache.into()),
            QUEUES if !self.discovery => Ok(queue_counts()),
            EVENT_CONFIGURATION => Ok(state.event_configuration.into()),
            KEEP_ALIVE => Ok(state.keep_alive.as_millis() as u64),
            _ => Err(Status::FIELD),
        }
    }

    /// Set Features.
    pub fn set_feature(&self, feature: u8, value: u32) -> Result<u64, Status> {
        let mut state = self.state();
        match feature {
            WRITE_CACHE if !self.discovery => state.write_cache = value & 1 != 0,
            // The host may not ask for 65536; whatever else it asks for, it gets all there are.
            QUEUES if self.discovery || value as u16 == u16::MAX || value >> 16 == 0xffff => {
                return Err(Status::FIELD)
            }
            QUEUES => return Ok(queue_counts()),
            EVENT_CONFIGURATION => state.event_configuration = value,
            KEEP_ALIVE => {
                state.keep_alive = Duration::from_millis(value.into());
                state.last_sign = Instant::now();
            }
            _ => return Err(Status::FIELD),
        }
        Ok(0)
    }

    /// False if what is written has to be on the disk.
    pub fn caches_writes(&self) -> bool {
        self.state().write_cache
    }

    /// The host lives.
    pub fn keep_alive(&self) {
        self.state().last_sign = Instant::now();
    }

    /// When its time is over.
    pub fn deadline(&self) -> Option<Instant> {
        let state = self.state();
        (!state.keep_alive.is_zero()).then(|| state.last_sign + state.keep_alive)
    }

    /// One more Asynchronous Event Request waits. There are no events here, so it waits for the end.
    pub fn hold_event(&self) -> Result<(), Status> {
        let mut state = self.state();
        if state.waiting_events == EVENTS {
            return Err(Status::EVENT_LIMIT);
        }
        state.waiting_events += 1;
        Ok(())
    }

    /// An I/O queue of the host is connected, by this connection.
    pub fn add_queue(&self, queue: u16, endpoint: &Arc<Endpoint>) -> Result<(), Status> {
        let mut state = self.state();
        if !state.is_ready() {
            return Err(Status::SEQUENCE);
        }
        if state.queues.get(&queue).is_some_and(|there| there.strong_count() > 0) {
            return Err(Status::CONNECT_BUSY);
        }
        state.queues.insert(queue, Arc::downgrade(endpoint));
        Ok(())
    }

    /// Its time is over: ends the connections of its I/O queues, and takes no more.
    pub fn end(&self) {
        let mut state = self.state();
        state.status = 0;
        state.disconnect();
    }
}

impl State {
    fn is_ready(&self) -> bool {
        self.status & (CSTS_READY | CSTS_SHUT_DOWN) == CSTS_READY
    }

    fn disconnect(&mut self) {
        for (_, queue) in std::mem::take(&mut self.queues) {
            if let Some(endpoint) = queue.upgrade() {
                endpoint.disconnect();
            }
        }
    }
}

/// How many submission and completion queues there are for I/O, less one each.
fn queue_counts() -> u64 {
    u64::from(IO_QUEUES - 1) << 16 | u64::from(IO_QUEUES - 1)
}
