//! A card that `verbena serve` offers over vfio-user, driven by the driver's own client.
#![allow(unsafe_code)]

#[path = "vfio_user/messages.rs"]
mod messages;
#[path = "vfio_user/protocol.rs"]
mod protocol;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::backend::vfio_user::VfioUserCard;
use driver::{Card, CardError, Device, Interrupts, Memory, Mr, PageList, Registers, SendWr, Wc};
use fpga_regs::{regs, CqeStatus, WqeOpcode, XrcdFlags};
use model::attach::SegmentCard;
use tests::stock::{Program, StockNet};
use tests::{connect, expect_completion_event, expect_no_event, Buffer, Options, Peer};

const SOON: Duration = Duration::from_secs(60);

/// Messages cost more than calls: the timers of a test have time.
fn options() -> Options {
    Options { depth: 32, bytes: 1 << 18, timeout: 18, cqes: 128, ..Default::default() }
}

fn served(path: &Path) -> Arc<Device<VfioUserCard>> {
    let card = VfioUserCard::open(path).unwrap_or_else(|error| panic!("opening {}: {error}", path.display()));
    Device::open(card).expect("the served card comes up")
}

fn in_process(net: &StockNet, card: u32) -> Arc<Device<SegmentCard>> {
    let card = SegmentCard::open(&net.socket(), card).expect("the card opens");
    Device::open(card).expect("the card comes up")
}

/// A new net whose first card is served, by a server with these options, and the socket.
fn serving(options: &[&str]) -> (StockNet, Program, PathBuf) {
    let net = StockNet::new();
    let (server, mut paths) = net.serve(0, &["card"], options);
    (net, server, paths.remove(0))
}

/// Does something with a served card and another one in this process.
fn with_served(work: impl FnOnce(Arc<Device<VfioUserCard>>, Arc<Device<SegmentCard>>)) {
    let (net, server, path) = serving(&[]);
    work(served(&path), in_process(&net, 1));
    end(server, &path);
}

/// SEND, WRITE, READ and atomics of several sizes from `x` to `y`, with the data looked at.
fn exchange<C: Card, D: Card>(x: &mut Peer<C>, y: &mut Peer<D>) {
    for (n, size) in [1_usize, 64, 1000, 5000, 100_000].into_iter().enumerate() {
        let n = n as u64;
        x.buffer.pattern(n as u8 + 1);
        y.buffer.fill(0);
        y.recv(n, &[y.sge(0, size)]);
        x.completes(x.wr(n, WqeOpcode::SEND, &[x.sge(0, size)]));
        assert_eq!(y.expect(n).byte_len as usize, size);
        assert!(y.buffer[..size] == x.buffer[..size], "SEND of {size} bytes");

        let at = 120_000;
        x.completes(x.remote(n, WqeOpcode::WRITE, &[x.sge(0, size)], y, at));
        assert!(y.buffer[at..at + size] == x.buffer[..size], "WRITE of {size} bytes");
        assert!(y.buffer[at + size..].iter().all(|&byte| byte == 0), "and nothing after it");

        y.buffer.pattern(n as u8 + 100);
        x.completes(x.remote(n, WqeOpcode::READ, &[x.sge(at, size)], y, 7));
        assert!(x.buffer[at..at + size] == y.buffer[7..7 + size], "READ of {size} bytes");
    }
    y.buffer[0..8].copy_from_slice(&41_u64.to_ne_bytes());
    let sges = [x.sge(64, 8)];
    let add = SendWr { compare_add: 1, ..x.remote(9, WqeOpcode::FETCH_ADD, &sges, y, 0) };
    x.completes(add);
    assert_eq!((&x.buffer[64..72], &y.buffer[0..8]), (&41_u64.to_ne_bytes()[..], &42_u64.to_ne_bytes()[..]));
}

/// The card that is served at this socket works, with one of this process.
fn works(net: &StockNet, path: &Path) {
    let (a, b) = (served(path), in_process(net, 1));
    let (mut x, mut y) = connect(&a, &b, options());
    exchange(&mut x, &mut y);
}

/// Ends a server as a user does; it must go well and take its socket along.
fn end(server: Program, socket: &Path) -> String {
    server.signal(libc::SIGTERM);
    let said = server.wait(SOON).expect_good();
    assert!(!socket.exists(), "the socket stays");
    said
}

#[test]
fn a_served_card_and_one_in_this_process() {
    let net = StockNet::new();
    let (server, paths) = net.serve(1, &["card"], &["--cards", "2"]);
    {
        let (a, b) = (served(&paths[0]), in_process(&net, 0));
        let (mut x, mut y) = connect(&a, &b, options());
        exchange(&mut x, &mut y);
        exchange(&mut y, &mut x);
    }
    end(server, &paths[0]);
}

#[test]
fn two_served_cards_of_one_server_and_of_two() {
    let net = StockNet::new();
    let (one, mut paths) = net.serve(0, &["card0", "card1"], &["--cards", "3"]);
    let (other, more) = net.serve(2, &["card2"], &[]);
    paths.extend(more);
    {
        let devices: Vec<_> = paths.iter().map(|path| served(path)).collect();
        for (a, b) in [(0, 1), (2, 0)] {
            let (mut x, mut y) = connect(&devices[a], &devices[b], options());
            exchange(&mut x, &mut y);
            exchange(&mut y, &mut x);
        }
    }
    end(one, &paths[0]);
    end(other, &paths[2]);
}

#[test]
fn completion_events_come_as_interrupts() {
    with_served(|a, b| {
        let (x, y) = connect(&a, &b, options());
        for n in 0..20 {
            x.cq.arm(false);
            x.recv(n, &[x.sge(0, 64)]);
            expect_no_event(&a);
            y.post(&[y.wr(n, WqeOpcode::SEND, &[y.sge(0, 64)])]);
            expect_completion_event(&a, x.cq.cqn());
            x.expect(n);
            y.expect(n);
        }
    });
}

/// A region of one page that the test maps and unmaps itself, below the driver.
struct OwnPage {
    buffer: Buffer,
    iova: u64,
    mr: Arc<Mr<VfioUserCard>>,
}

impl OwnPage {
    const BYTES: usize = 4096;

    fn new(peer: &Peer<VfioUserCard>) -> OwnPage {
        let buffer = Buffer::new(Self::BYTES);
        let iova = peer.device.card().map(buffer.addr(0) as *mut u8, Self::BYTES, true).expect("mapped");
        let list = PageList { pages: &[iova], page_shift: 12, first_offset: 0, length: Self::BYTES as u64 };
        // SAFETY: the buffer lives as long as the region; that the page is unmapped earlier is what is tested.
        let mr = unsafe { peer.pd.reg_pages(&list, 0, options().access) }.expect("a region");
        OwnPage { buffer, iova, mr }
    }

    /// A WRITE of `from` to it.
    fn write<D: Card>(&self, from: &Peer<D>, wr_id: u64) -> Wc {
        let sges = [from.sge(0, 64)];
        let wr = from.wr(wr_id, WqeOpcode::WRITE, &sges);
        from.post(&[SendWr { remote_addr: 0, rkey: self.mr.rkey(), ..wr }]);
        from.wait()
    }

    fn unmap(&self, device: &Device<VfioUserCard>) {
        device.card().unmap(self.iova, self.buffer.addr(0) as *mut u8, Self::BYTES);
    }
}

#[test]
fn what_is_unmapped_is_out_of_reach() {
    with_served(|a, b| {
        let (x, mut y) = connect(&a, &b, options());
        let mut page = OwnPage::new(&x);
        y.buffer.fill(3);
        assert_eq!(page.write(&y, 1).status, CqeStatus::SUCCESS);
        assert!(page.buffer[..64].iter().all(|&byte| byte == 3));
        page.unmap(&a);
        page.buffer.fill(7);
        assert_eq!(page.write(&y, 2).status, CqeStatus::REM_OP_ERR);
        assert!(page.buffer.iter().all(|&byte| byte == 7), "nothing was written");
    });
}

const COMMAND: u32 = 4;

const MEMORY: u8 = 1 << 1;

const BUS_MASTER: u8 = 1 << 2;

#[test]
fn without_bus_master_there_is_no_dma() {
    with_served(|a, b| {
        let (x, y) = connect(&a, &b, options());
        let page = OwnPage::new(&x);
        a.card().write_config(COMMAND, &[MEMORY, 0]);
        assert_eq!(page.write(&y, 1).status, CqeStatus::REM_OP_ERR);
        assert!(page.buffer.iter().all(|&byte| byte == 0), "nothing was written");
        // Registers answer, until memory space is off too.
        assert_eq!(a.card().read32(regs::ID), regs::ID_VALUE);
        a.card().write_config(COMMAND, &[0, 0]);
        assert_eq!(a.card().read32(regs::ID), u32::MAX);
        a.card().write_config(COMMAND, &[MEMORY | BUS_MASTER, 0]);
        assert_eq!(a.card().read32(regs::ID), regs::ID_VALUE);
    });
}

#[test]
fn configuration_space_is_that_of_a_pci_express_function() {
    let (_net, server, path) = serving(&[]);
    let card = VfioUserCard::open(&path).expect("a card");
    let mut config = [0; 256];
    card.read_config(0, &mut config);
    assert_eq!(config[..4], [0xd4, 0x1b, 0x0a, 0xf1]);
    let mut at = usize::from(config[0x34]);
    let mut capabilities = Vec::new();
    while at != 0 {
        capabilities.push(config[at]);
        at = usize::from(config[at + 1]);
    }
    assert_eq!(capabilities, [0x01, 0x11, 0x10], "power management, MSI-X, PCI Express");
    // Asleep, it answers nothing; awake again, it has forgotten nothing.
    card.write32(regs::SCRATCH, 0x1234);
    card.write_config(0x44, &[3]);
    assert_eq!(card.read32(regs::SCRATCH), u32::MAX);
    card.write_config(0x44, &[0]);
    assert_eq!(card.read32(regs::SCRATCH), 0x1234);
    drop(card);
    end(server, &path);
}

#[test]
fn a_function_level_reset_in_mid_traffic() {
    let (net, server, path) = serving(&[]);
    {
        let b = in_process(&net, 1);
        let short = Options { timeout: 8, retry_cnt: 1, ..options() };
        let a = served(&path);
        let (x, y) = connect(&a, &b, short);
        for n in 0..16 {
            y.post(&[y.remote(n, WqeOpcode::WRITE, &[y.sge(0, 100_000)], &x, 0)]);
        }
        // Device control of the PCI Express capability, as Linux does it.
        a.card().write_config(0x60 + 8, &0xa810_u16.to_le_bytes());
        let mut command = [0xff; 2];
        a.card().read_config(COMMAND, &mut command);
        assert_eq!(command, [0, 0], "a reset switches everything off");
        a.card().write_config(COMMAND, &[MEMORY | BUS_MASTER, 0]);
        assert!(!regs::Control(a.card().read32(regs::CONTROL)).enable());
        // The peer sees what it sees of any card that is gone.
        let mut last = CqeStatus::SUCCESS;
        for n in 0..16 {
            let wc = y.wait();
            assert_eq!(wc.wr_id, n);
            last = wc.status;
        }
        y.post(&[y.remote(99, WqeOpcode::WRITE, &[y.sge(0, 8)], &x, 0)]);
        let after = y.wait().status;
        let gone = [CqeStatus::RETRY_EXC_ERR, CqeStatus::WR_FLUSH_ERR];
        assert!(gone.contains(&after), "after the reset: {last}, {after}");
        std::mem::forget(x); // Its queues are gone: to destroy them would only wait for replies.
        std::mem::forget(a);
    }
    // (The client was forgotten with its connection: the next one must wait for nothing but its end.)
    end(server, &path);
}

#[test]
fn one_client_after_another_and_not_two_at_once() {
    let (net, mut server, path) = serving(&[]);
    let b = in_process(&net, 1);
    for _ in 0..3 {
        let a = served(&path);
        let (mut x, mut y) = connect(&a, &b, options());
        exchange(&mut x, &mut y);
        let Err(error) = VfioUserCard::open(&path) else { panic!("two clients at once") };
        assert!(error.to_string().contains("one client at a time"), "{error}");
    }
    server.expect("a second client has come: refused", SOON);
    drop(b);
    end(server, &path);
}

/// Run by the next test in a process of its own: traffic until it is killed.
#[test]
fn as_a_child_exchange_until_killed() {
    let Some(path) = std::env::var_os("VERBENA_TEST_CLIENT") else { return };
    let a = served(Path::new(&path));
    let (x, y) = connect(&a, &a, options());
    println!("in the middle");
    for n in 0.. {
        x.completes(x.remote(n, WqeOpcode::WRITE, &[x.sge(0, 200_000)], &y, 0));
    }
}

#[test]
fn a_client_that_is_killed_in_mid_transfer() {
    let (net, mut server, path) = serving(&[]);
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child.args(["--exact", "as_a_child_exchange_until_killed", "--nocapture"]);
        let mut child = Program::start({
            child.env("VERBENA_TEST_CLIENT", &path);
            child
        });
        child.expect("in the middle", SOON);
        std::thread::sleep(Duration::from_millis(5 * round));
        child.signal(libc::SIGKILL);
        drop(child);
        // The next client finds a card that works.
        works(&net, &path);
    }
    assert!(!server.has_ended());
    end(server, &path);
}

#[test]
fn a_server_that_dies_is_told_of() {
    let (net, server, path) = serving(&[]);
    let a = served(&path);
    let x = Peer::new(&a, options());
    x.init();
    server.signal(libc::SIGKILL);
    drop(server);
    assert_eq!(a.card().read32(regs::ID), u32::MAX, "as a card that was pulled out");
    let start = Instant::now();
    assert!(matches!(a.card().wait_interrupt(0, SOON), Err(CardError::Gone)));
    assert!(a.alloc_pd().is_err());
    drop((x, a));
    assert!(start.elapsed() < SOON, "nothing waits for the dead");
    let Err(error) = VfioUserCard::open(&path) else { panic!("nobody serves") };
    assert!(error.to_string().contains("verbena serve"), "{error}");
    // A new server takes the place of the dead one.
    let (server, _) = net.serve(0, &["card"], &[]);
    drop(served(&path));
    end(server, &path);
}

#[test]
fn all_dma_by_messages() {
    let (net, server, path) = serving(&["--dma", "messages"]);
    let (other, more) = net.serve(1, &["other"], &[]);
    {
        let (a, b, c) = (served(&path), in_process(&net, 1), served(&more[0]));
        let (mut x, mut y) = connect(&a, &b, options());
        // The client answers the rings' own accesses too: what it shares is not used.
        exchange(&mut x, &mut y);
        exchange(&mut y, &mut x);
        let (mut x, mut z) = connect(&a, &c, options());
        exchange(&mut x, &mut z);
        exchange(&mut z, &mut x);
        // What is not mapped is refused by the client.
        let page = OwnPage::new(&x);
        page.unmap(&a);
        assert_eq!(page.write(&z, 1).status, CqeStatus::REM_OP_ERR);
    }
    end(server, &path);
    end(other, &more[0]);
}

#[test]
fn the_xrc_domains_of_a_client_are_its_own() {
    let (net, server, path) = serving(&[]);
    {
        let (a, b) = (served(&path), in_process(&net, 0));
        let key = [7, 8];
        let _client = a.open_xrcd(key, XrcdFlags::CREATE).expect("the client's");
        assert!(b.open_xrcd(key, XrcdFlags::empty()).is_err(), "found by a process of the net");
        let _own = b.open_xrcd(key, XrcdFlags::CREATE | XrcdFlags::EXCLUSIVE).expect("another");
        assert!(a.open_xrcd(key, XrcdFlags::CREATE | XrcdFlags::EXCLUSIVE).is_err(), "its own is there");
    }
    end(server, &path);
}
