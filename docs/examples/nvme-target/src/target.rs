//! The target: one subsystem with one namespace, the discovery service, and the controllers that hosts have connected to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::capsule::Command;
use crate::controller::{Controller, Host, IO_QUEUES};
use crate::namespace::Namespace;
use crate::rdma::Endpoint;
use crate::status::Status;

/// The name of the discovery service, of every target.
pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Bytes of data of a Connect command.
pub const CONNECT_DATA: usize = 1024;

// Where the fields are, in the command and in its data.
const FORMAT: u16 = 40;
const QUEUE: u16 = 42;
const SIZE: u16 = 44;
const KEEP_ALIVE: u16 = 48;
const CONTROLLER: u16 = 16;
const SUBSYSTEM_NQN: u16 = 256;
const HOST_NQN: u16 = 512;
const NAME: usize = 256;

/// Asks for any controller.
const ANY: u16 = 0xffff;
/// The last number that a controller can have.
const LAST_CONTROLLER: u16 = 0xffef;

/// What this program serves.
pub struct Target {
    /// The subsystem's name.
    pub nqn: String,
    /// What it stores.
    pub namespace: Namespace,
    controllers: Mutex<BTreeMap<u16, Arc<Controller>>>,
}

/// A name in the data of Connect: up to the first zero.
fn name(data: &[u8], offset: u16) -> Result<&str, Status> {
    let bytes = &data[offset.into()..][..NAME];
    let end = bytes.iter().position(|&byte| byte == 0).ok_or(Status::connect_data(offset))?;
    std::str::from_utf8(&bytes[..end]).map_err(|_| Status::connect_data(offset))
}

impl Target {
    /// Without hosts.
    pub fn new(nqn: String, namespace: Namespace) -> Target {
        Target { nqn, namespace, controllers: Mutex::default() }
    }

    fn controllers(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<Controller>>> {
        self.controllers.lock().expect("no thread panics with the controllers")
    }

    /// Connect, on a connection that was made for queue `queue` with `entries` entries.
    pub fn connect(
        &self,
        queue: u16,
        entries: u16,
        endpoint: &Arc<Endpoint>,
        command: &Command,
        data: &[u8],
    ) -> Result<Arc<Controller>, Status> {
        if command.u16(FORMAT.into()) != 0 {
            return Err(Status::CONNECT_FORMAT);
        }
        if command.u16(QUEUE.into()) != queue {
            return Err(Status::connect_command(QUEUE));
        }
        if !(1..entries).contains(&command.u16(SIZE.into())) {
            return Err(Status::connect_command(SIZE));
        }
        let host = Host { id: std::array::from_fn(|n| data[n]), nqn: name(data, HOST_NQN)?.to_owned() };
        let subsystem = name(data, SUBSYSTEM_NQN)?;
        let number = u16::from_le_bytes([data[16], data[17]]);
        match queue {
            0 => {
                let keep_alive = Duration::from_millis(command.u32(KEEP_ALIVE.into()).into());
                self.new_controller(subsystem, number, host, endpoint, keep_alive)
            }
            _ => self.add_queue(subsystem, number, host, queue, endpoint),
        }
    }

    fn new_controller(
        &self,
        subsystem: &str,
        number: u16,
        host: Host,
        endpoint: &Arc<Endpoint>,
        keep_alive: Duration,
    ) -> Result<Arc<Controller>, Status> {
        let discovery = subsystem == DISCOVERY;
        if !discovery && subsystem != self.nqn {
            return Err(Status::connect_data(SUBSYSTEM_NQN));
        }
        if number != ANY {
            return Err(Status::connect_data(CONTROLLER));
        }
        let address = endpoint.local_address().map_err(|_| Status::INTERNAL)?;
        let mut controllers = self.controllers();
        let free = (1..=LAST_CONTROLLER).find(|id| !controllers.contains_key(id));
        let id = free.ok_or(Status::CONNECT_BUSY)?;
        let controller = Arc::new(Controller::new(id, host, discovery, address, keep_alive));
        controllers.insert(id, controller.clone());
        Ok(controller)
    }

    fn add_queue(
        &self,
        subsystem: &str,
        number: u16,
        host: Host,
        queue: u16,
        endpoint: &Arc<Endpoint>,
    ) -> Result<Arc<Controller>, Status> {
        let found = self.controllers().get(&number).cloned();
        let controller = found.ok_or(Status::connect_data(CONTROLLER))?;
        match () {
            () if subsystem != self.nqn || controller.discovery => Err(Status::connect_data(SUBSYSTEM_NQN)),
            () if controller.host != host => Err(Status::connect_data(HOST_NQN)),
            () if queue > IO_QUEUES => Err(Status::connect_command(QUEUE)),
            () => controller.add_queue(queue, endpoint).map(|()| controller),
        }
    }

    /// The admin queue of a controller is gone, and with it the controller.
    pub fn remove(&self, controller: &Controller) {
        self.controllers().remove(&controller.id);
        controller.end();
    }
}
