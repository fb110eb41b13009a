//! DMA by messages below the driver: clients that see each access of the card, and answer it when the test says.

use fpga_regs::vfio_user::{flag, region, Command, DmaAccess, DmaMap, Header, RegionAccess};
use fpga_regs::{admin, regs, CardLimits};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::protocol::message;
use super::{end, serving, BUS_MASTER, COMMAND, MEMORY, SOON};

const IOVA: u64 = 1 << 20;
const OUTPUT: usize = 1 << 10;
const REPLIES: usize = 1 << 11;

struct Client {
    socket: UnixStream,
    id: u16,
    memory: Vec<u8>,
    /// The most bytes of an access so far.
    most: usize,
}

impl Client {
    /// Has agreed on the protocol with these capabilities, and mapped its memory.
    fn new(path: &Path, capabilities: &str) -> Client {
        let socket = UnixStream::connect(path).expect("a server");
        socket.set_read_timeout(Some(SOON)).expect("a time-out");
        let mut client = Client { socket, id: 0, memory: vec![0; 1 << 12], most: 0 };
        client.call(Command::VERSION, format!("\0\0\0\0{capabilities}\0").as_bytes());
        let map = DmaMap { argsz: 32, flags: 3, offset: 0, address: IOVA, size: 1 << 12 };
        client.call(Command::DMA_MAP, &map.encode());
        client
    }

    fn send(&mut self, command: Command, body: &[u8]) -> u16 {
        self.id += 1;
        self.socket.write_all(&message(self.id, command.0, body)).expect("sent");
        self.id
    }

    fn next(&mut self) -> (Header, Vec<u8>) {
        let mut head = [0; Header::BYTES];
        self.socket.read_exact(&mut head).expect("a message");
        let (header, _) = Header::decode(&head).expect("a header");
        let mut body = vec![0; header.size as usize - Header::BYTES];
        self.socket.read_exact(&mut body).expect("its body");
        (header, body)
    }

    /// The reply to a command, before which the card's accesses are answered.
    fn reply(&mut self, id: u16) -> Vec<u8> {
        loop {
            let (header, body) = self.next();
            if header.flags & flag::TYPE == flag::REPLY {
                assert_eq!((header.id, header.flags & flag::ERROR), (id, 0));
                return body;
            }
            self.answer(header, &body);
        }
    }

    fn call(&mut self, command: Command, body: &[u8]) -> Vec<u8> {
        let id = self.send(command, body);
        self.reply(id)
    }

    /// Does what the card asks for.
    fn answer(&mut self, header: Header, body: &[u8]) {
        let (access, data) = DmaAccess::decode(body).expect("an access");
        let (at, count) = ((access.address - IOVA) as usize, access.count as usize);
        self.most = self.most.max(count);
        let place = &mut self.memory[at..at + count];
        let mut reply = access.encode().to_vec();
        match Command(header.command) {
            Command::DMA_WRITE => place.copy_from_slice(data),
            _ => reply.extend_from_slice(place),
        }
        let size = (Header::BYTES + reply.len()) as u32;
        let header = Header { flags: flag::REPLY, size, ..header };
        self.socket.write_all(&[&header.encode()[..], &reply].concat()).expect("sent");
    }

    fn send_write(&mut self, region: u32, offset: u32, value: &[u8]) -> u16 {
        let access = RegionAccess { offset: offset.into(), region, count: value.len() as u32 };
        self.send(Command::REGION_WRITE, &[&access.encode()[..], value].concat())
    }

    fn write(&mut self, region: u32, offset: u32, value: &[u8]) {
        let id = self.send_write(region, offset, value);
        self.reply(id);
    }

    fn send_read(&mut self, region: u32, offset: u32, count: u32) -> u16 {
        self.send(Command::REGION_READ, &RegionAccess { offset: offset.into(), region, count }.encode())
    }

    fn read(&mut self, region: u32, offset: u32, count: u32) -> Vec<u8> {
        let id = self.send_read(region, offset, count);
        self.reply(id).split_off(RegionAccess::BYTES)
    }

    /// The card comes up, with a command in its ring that asks for its limits.
    fn start(&mut self) {
        self.write(region::CONFIG, COMMAND, &[MEMORY | BUS_MASTER, 0]);
        self.write(0, regs::ASQ_BASE, &IOVA.to_le_bytes());
        self.write(0, regs::ACQ_BASE, &(IOVA + REPLIES as u64).to_le_bytes());
        self.write(0, regs::ADMIN_SIZE, &4_u32.to_le_bytes());
        self.write(0, regs::CONTROL, &regs::Control(0).with_enable(true).0.to_le_bytes());
        let command = admin::Command::of(admin::AdminOpcode::QUERY_CARD)
            .with_out_iova(IOVA + OUTPUT as u64)
            .with_out_len(CardLimits::BYTES as u32);
        self.memory[..command.as_bytes().len()].copy_from_slice(command.as_bytes());
    }
}

#[test]
fn reads_while_the_card_waits_for_the_client() {
    let (_net, server, path) = serving(&["--dma", "messages"]);
    let mut client = Client::new(&path, "{}");
    assert_eq!(client.read(region::CONFIG, COMMAND, 2), [0, 0]);
    client.start();
    client.write(0, regs::SCRATCH, &7_u32.to_le_bytes());
    assert_eq!(client.read(0, regs::SCRATCH, 4), [7, 0, 0, 0]);
    let doorbell = client.send_write(0, regs::ASQ_DOORBELL, &1_u32.to_le_bytes());
    let (asked, access) = client.next();
    assert_eq!(asked.command, Command::DMA_READ.0);
    // The card's lock is held until that is answered.
    for (at, count, value) in [(COMMAND, 2, &[6, 0][..]), (0x10, 4, &[4, 0, 0, 0])] {
        assert_eq!(client.read(region::CONFIG, at, count), value, "configuration space is as it was written");
    }
    assert_eq!(client.read(0, regs::SCRATCH, 4), [7, 0, 0, 0], "what the register read last");
    client.answer(asked, &access);
    client.reply(doorbell);
    let entry = client.memory[REPLIES..][..admin::Reply::BYTES].try_into().expect("as long");
    let reply = admin::Reply::from_bytes(&entry);
    assert!(reply.phase() && reply.status() == admin::AdminStatus::OK, "{reply:?}");
    drop(client);
    end(server, &path);
}

#[test]
fn a_client_says_how_many_bytes_it_takes_at_once() {
    let (_net, server, path) = serving(&[]);
    let most =
        [r#"{"capabilities":{}}"#, r#"{"capabilities": {"max_data_xfer_size" : 64, "pgsizes": 4096}}"#].map(
            |capabilities| {
                let mut client = Client::new(&path, capabilities);
                client.start();
                client.write(0, regs::ASQ_DOORBELL, &1_u32.to_le_bytes());
                let limits = client.memory[OUTPUT..][..CardLimits::BYTES].try_into().expect("as long");
                assert!(CardLimits::from_bytes(&limits).max_qp() > 0);
                client.most
            },
        );
    assert_eq!(most, [CardLimits::BYTES, 64]);
    end(server, &path);
}
