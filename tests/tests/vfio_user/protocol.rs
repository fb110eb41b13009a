//! The protocol below the driver: clients that send nonsense, or take their memory away.

use fpga_regs::vfio_user::{flag, region, DmaMap, Header, RegionAccess, SetIrqs};
use fpga_regs::{admin, regs, CardLimits};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tests::Random;

use super::{end, serving, works, BUS_MASTER, COMMAND, MEMORY, SOON};

/// A command of the protocol: header and body, as bytes.
pub fn message(id: u16, command: u16, body: &[u8]) -> Vec<u8> {
    let header = Header { id, command, size: (Header::BYTES + body.len()) as u32, flags: 0, error: 0 };
    [&header.encode()[..], body].concat()
}

/// The reply to it: the errno, or the body.
fn reply(socket: &mut UnixStream, id: u16) -> Result<Vec<u8>, u32> {
    let mut head = [0; Header::BYTES];
    socket.read_exact(&mut head).expect("a reply");
    let (header, _) = Header::decode(&head).expect("a header");
    assert_eq!((header.id, header.flags & flag::TYPE), (id, flag::REPLY));
    let mut body = vec![0; header.size as usize - Header::BYTES];
    socket.read_exact(&mut body).expect("its body");
    if header.flags & flag::ERROR != 0 {
        return Err(header.error);
    }
    Ok(body)
}

/// A client that has agreed on the protocol.
fn raw(path: &Path) -> UnixStream {
    let mut socket = UnixStream::connect(path).expect("a server");
    socket.set_read_timeout(Some(SOON)).expect("a time-out");
    socket.write_all(&message(1, 1, b"\0\0\0\0{}\0")).expect("sent");
    assert!(reply(&mut socket, 1).expect("a version").starts_with(&[0, 0, 0, 0, b'{']));
    socket
}

#[test]
fn clients_that_send_nonsense() {
    let (net, mut server, path) = serving(&[]);

    // What makes no sense, but leaves the connection in order, is refused by name.
    let mut socket = raw(&path);
    let region =
        |region: u32, offset: u64, count: u32| RegionAccess { offset, region, count }.encode().to_vec();
    let map = |address, size| DmaMap { argsz: 32, flags: 3, offset: 0, address, size }.encode().to_vec();
    let irqs = |flags, start, count| SetIrqs { argsz: 20, flags, index: 2, start, count }.encode().to_vec();
    let cases: Vec<(u16, Vec<u8>, i32, &str)> = vec![
        (77, vec![1; 40], libc::ENOTSUP, "command 77 refused: not a command of this server"),
        (1, b"\x07\0\0\0{}\0".to_vec(), libc::ENOTSUP, "VERSION refused: protocol 7.0 is not known"),
        (
            1,
            b"\0\0\0\0{\"capabilities\":{\"max_data_xfer_size\":0}}\0".to_vec(),
            libc::EINVAL,
            "max_data_xfer_size is less than 64",
        ),
        (9, vec![0; 3], libc::EINVAL, "REGION_READ refused: the message is too short"),
        (9, region(0, u64::MAX, 4), libc::EINVAL, "are not inside region 0"),
        (9, region(0, 0, u32::MAX), libc::EINVAL, "4294967295 bytes at 0x0"),
        (9, region(1, 0, 4), libc::EINVAL, "region 1 (0 bytes)"),
        (9, region(99, 0, 4), libc::EINVAL, "region 99"),
        (10, region(0, 0, 8), libc::EINVAL, "0 bytes came where 8 were announced"),
        (5, vec![0xff; 32], libc::EINVAL, "there is no region"),
        (7, vec![0xff; 16], libc::EINVAL, "there is no interrupt type"),
        (2, map(0x1001, 4096), libc::EINVAL, "multiples of 4096"),
        (2, map(u64::MAX - 4095, 8192), libc::EINVAL, "wraps around"),
        (2, map(0, 0), libc::EINVAL, "multiples of 4096"),
        (8, irqs(4 | 32, 7, 2), libc::EINVAL, "the card has 8 vectors"),
        (8, irqs(4 | 32, u32::MAX, 2), libc::EINVAL, "the card has 8 vectors"),
        (8, irqs(2 | 32, 0, 8), libc::EINVAL, "the data do not fit the flags"),
    ];
    for (n, (command, body, errno, said)) in cases.into_iter().enumerate() {
        let id = n as u16 + 2;
        socket.write_all(&message(id, command, &body)).expect("sent");
        assert_eq!(reply(&mut socket, id), Err(errno as u32), "{said}");
        server.expect(said, SOON);
    }
    // Descriptors that are nothing to map, or no eventfd.
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    for (id, command, body, said) in [
        (90, 2, map(0x10000, 4096), "no file that can be mapped"),
        (91, 8, irqs(4 | 32, 0, 1), "a descriptor is no eventfd"),
    ] {
        send_with_fd(&socket, &message(id, command, &body), &null);
        assert_eq!(reply(&mut socket, id), Err(libc::EINVAL as u32));
        server.expect(said, SOON);
    }
    drop(socket);

    // What leaves it in no order ends it.
    let ends: [(&[u8], &str); 5] = [
        (&[0xff; 16], "a message of 4294967295 bytes"),
        (&[0; 16], "a message of 0 bytes"),
        (&message(1, 1, &[0; 9])[..20], "in the middle of a message (20 of 25 bytes)"),
        (&[1, 2, 3], "in the middle of a message (3 of 16 bytes)"),
        (&message(3, 9, &[0; 16]), "VERSION must come first"),
    ];
    for (bytes, said) in ends {
        let mut socket = UnixStream::connect(&path).expect("a server");
        socket.write_all(bytes).expect("sent");
        socket.shutdown(std::net::Shutdown::Write).expect("shut down");
        let mut rest = Vec::new();
        socket.set_read_timeout(Some(SOON)).expect("a time-out");
        let _ = socket.read_to_end(&mut rest);
        server.expect(said, SOON);
    }

    // And the card still works.
    works(&net, &path);
    end(server, &path);
}

/// A message that makes sense, or nearly so: a command, and what follows it.
fn nearly(random: &mut Random) -> (u16, Vec<u8>) {
    let small = |random: &mut Random| match random.below(4) {
        0 => random.next(),
        1 => u64::from(random.next() as u32),
        _ => random.below(5) * random.of(&[1, 4, 4096]),
    };
    let command = 1 + random.below(15) as u16;
    let mut body = match command {
        1 => b"\0\0\0\0{\"capabilities\":{\"max_msg_fds\":8}}\0".to_vec(),
        2 => {
            let (address, size, offset) = (small(random), small(random), small(random));
            DmaMap { argsz: 32, flags: random.below(8) as u32, offset, address, size }.encode().to_vec()
        }
        8 => {
            let flags = 1 << random.below(3) | 8 << random.below(3);
            let (index, start, count) = (random.below(4) as u32, small(random) as u32, small(random) as u32);
            SetIrqs { argsz: 20, flags, index, start, count }.encode().to_vec()
        }
        9 | 10 => {
            let region = random.below(10) as u32;
            let other = small(random) as u32;
            let count = random.of(&[1, 2, 4, 8, 8, other]);
            let access = RegionAccess { offset: small(random), region, count };
            let data = if command == 10 { (count as usize).min(64) } else { 0 };
            [&access.encode()[..], &vec![random.next() as u8; data]].concat()
        }
        _ => (0..random.below(12)).flat_map(|_| (small(random) as u32).to_le_bytes()).collect(),
    };
    if random.percent(20) && !body.is_empty() {
        let at = random.below(body.len());
        body[at] = random.next() as u8;
    }
    if random.percent(10) {
        body.truncate(random.below(body.len() + 1));
    }
    (command, body)
}

/// Whether a command is answered, and the connection goes on. What the server asks for meanwhile is refused.
fn answered(socket: &mut UnixStream, id: u16) -> bool {
    loop {
        let mut head = [0; Header::BYTES];
        match socket.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) => {
                let ended = [std::io::ErrorKind::UnexpectedEof, std::io::ErrorKind::ConnectionReset];
                assert!(ended.contains(&error.kind()), "no answer within {SOON:?}: {error}");
                return false;
            }
        }
        let (header, _) = Header::decode(&head).expect("a header");
        let mut body = vec![0; header.size as usize - Header::BYTES];
        socket.read_exact(&mut body).expect("its body");
        if header.flags & flag::TYPE == flag::REPLY {
            assert_eq!(header.id, id);
            return true;
        }
        let refusal = Header {
            size: Header::BYTES as u32,
            flags: flag::REPLY | flag::ERROR,
            error: libc::EINVAL as u32,
            ..header
        };
        socket.write_all(&refusal.encode()).expect("sent");
    }
}

/// Any messages are answered, or end their connection; the card serves the next client.
#[test]
fn any_messages() {
    let rounds =
        std::env::var("VERBENA_ROUNDS").map_or(20, |n| n.parse().expect("VERBENA_ROUNDS is a number"));
    let mut random = Random::seeded();
    let (net, server, path) = serving(&[]);
    let file = tempfile::tempfile().expect("a file");
    file.set_len(1 << 16).expect("sized");
    for _ in 0..rounds {
        let mut socket = raw(&path);
        for id in 2..200 {
            let (command, body) = nearly(&mut random);
            let bytes = message(id, command, &body);
            match random.percent(10) {
                true => send_with_fd(&socket, &bytes, &file),
                false => socket.write_all(&bytes).expect("sent"),
            }
            if !answered(&mut socket, id) {
                break;
            }
        }
    }
    works(&net, &path);
    end(server, &path);
}

/// The server has mapped the file of the client, which nothing keeps from making it shorter.
#[test]
fn a_client_that_shortens_its_file_loses_its_card_only() {
    const IOVA: u64 = 1 << 20;
    const OUTPUT: u64 = 1 << 14;
    const REPLIES: u64 = 1 << 15;
    let (net, server, path) = serving(&[]);
    let file = tempfile::tempfile().expect("a file");
    file.set_len(1 << 16).expect("sized");
    let mut socket = raw(&path);
    let map = DmaMap { argsz: 32, flags: 3, offset: 0, address: IOVA, size: 1 << 16 };
    send_with_fd(&socket, &message(2, 2, &map.encode()), &file);
    reply(&mut socket, 2).expect("mapped");
    let mut id = 2;
    let mut write = |region: u32, offset: u32, value: &[u8]| {
        id += 1;
        let access = RegionAccess { offset: offset.into(), region, count: value.len() as u32 };
        socket.write_all(&message(id, 10, &[&access.encode()[..], value].concat())).expect("sent");
        reply(&mut socket, id).expect("written");
    };
    write(region::CONFIG, COMMAND, &[MEMORY | BUS_MASTER, 0]);
    write(0, regs::ASQ_BASE, &IOVA.to_le_bytes());
    write(0, regs::ACQ_BASE, &(IOVA + REPLIES).to_le_bytes());
    write(0, regs::ADMIN_SIZE, &4_u32.to_le_bytes());
    write(0, regs::CONTROL, &regs::Control(0).with_enable(true).0.to_le_bytes());
    let command = admin::Command::of(admin::AdminOpcode::QUERY_CARD)
        .with_out_iova(IOVA + OUTPUT)
        .with_out_len(CardLimits::BYTES as u32);
    file.write_all_at(command.as_bytes(), 0).expect("a command");
    write(0, regs::ASQ_DOORBELL, &1_u32.to_le_bytes());
    let mut entry = [0; admin::Reply::BYTES];
    file.read_exact_at(&mut entry, REPLIES).expect("a reply");
    let reply = admin::Reply::from_bytes(&entry);
    assert!(reply.phase() && reply.status() == admin::AdminStatus::OK, "{reply:?}");
    let mut limits = [0; CardLimits::BYTES];
    file.read_exact_at(&mut limits, OUTPUT).expect("the limits");
    assert!(CardLimits::from_bytes(&limits).max_qp() > 0);

    file.set_len(0).expect("shortened");
    write(0, regs::ASQ_DOORBELL, &2_u32.to_le_bytes());
    drop(socket);
    works(&net, &path);
    end(server, &path);
}

/// A write to it would wait for a reader.
#[test]
fn an_eventfd_that_is_full_does_not_stop_the_card() {
    let (_net, server, path) = serving(&[]);
    let mut socket = raw(&path);
    // SAFETY: a new descriptor, which nothing else closes.
    let mut full = unsafe { std::fs::File::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) };
    full.write_all(&(u64::MAX - 1).to_ne_bytes()).expect("the highest value");
    let master = RegionAccess { offset: COMMAND.into(), region: region::CONFIG, count: 1 };
    let irqs = |flags| SetIrqs { argsz: 20, flags, index: 2, start: 0, count: 1 }.encode();
    send_with_fd(&socket, &message(2, 8, &irqs(4 | 32)), &full);
    reply(&mut socket, 2).expect("assigned");
    for (id, command, body) in
        [(3, 10, [&master.encode()[..], &[BUS_MASTER]].concat()), (4, 8, irqs(1 | 32).to_vec())]
    {
        socket.write_all(&message(id, command, &body)).expect("sent");
        reply(&mut socket, id).expect("carried out");
    }
    drop(socket);
    end(server, &path);
}

#[test]
fn a_server_without_descriptors_listens_on() {
    let (_net, mut server, path) = serving(&[]);
    let pid = server.pid() as i32;
    let set = |new: Option<&libc::rlimit>| {
        let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: a call with two structures, of the test's own child.
        let result = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, new, &mut old) };
        assert_eq!(result, 0, "prlimit of process {pid}");
        old
    };
    let before = set(None);
    set(Some(&libc::rlimit { rlim_cur: 3, ..before }));
    let mut socket = UnixStream::connect(&path).expect("a server");
    server.expect("Too many open files", SOON);
    set(Some(&before));
    socket.set_read_timeout(Some(SOON)).expect("a time-out");
    socket.write_all(&message(1, 1, b"\0\0\0\0{}\0")).expect("sent");
    reply(&mut socket, 1).expect("a version");
    drop(socket);
    end(server, &path);
}

fn send_with_fd(socket: &UnixStream, bytes: &[u8], file: &std::fs::File) {
    use vmm_sys_util::sock_ctrl_msg::ScmSocket;
    assert_eq!(socket.send_with_fd(bytes, file.as_raw_fd()).expect("sent"), bytes.len());
}
