//! What the ports of the cards count.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use driver::Registers;
use fpga_regs::regs::port;
use model::attach::SegmentCard;
use tests::stock::StockNet;

/// By card, port and name.
pub type Counters = BTreeMap<String, u64>;

/// Makes the FIFO at which a program waits before it ends.
pub fn make_fifo(at: &Path) {
    let path = std::ffi::CString::new(at.as_os_str().as_bytes()).expect("a path");
    // SAFETY: a string that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0, "{}", at.display());
}

/// Reads the counters of both cards when the program waits at its FIFO, and lets it end.
pub fn read(net: &StockNet, hold: &Path) -> Option<Counters> {
    // There is a reader when the program waits.
    let mut end = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(hold).ok()?;
    let mut all = Counters::new();
    for number in 0..2 {
        let card = SegmentCard::open(&net.socket(), number).expect("the card opens");
        for own in 0..model::packet::PORTS as u32 {
            for counter in port::counters() {
                let name = format!("card {number} port {own} {}", counter.name);
                all.insert(name, card.read64(port::base(own) + counter.offset));
            }
        }
    }
    end.write_all(&[0]).expect("the program waits");
    Some(all)
}

/// Counters that do not depend on what goes wrong: each mistake is refused, or dropped, once.
const ALWAYS: [&str; 5] = ["RX_QKEY_ERRORS", "RX_NO_RECV", "ACCESS_NAK", "INVALID_NAK", "OPERATION_NAK"];

/// Bytes of an acknowledgement over IPv4, from the Ethernet header to the ICRC.
const ACK_BYTES: u64 = 14 + 20 + 8 + 12 + 4 + 4;

/// The counters that differ. All are equal if nothing goes wrong (`orderly`), with one exception: in simulated time
/// an ACK that waits for its turn on the wire is replaced by the next one (`model/src/sim/flows.rs`), so the responder
/// may send fewer, the requester receive fewer, or its port drop fewer. If something goes wrong, the number of packets sent before the sender notices depends on timing,
/// as does the number of retries: then only those of [`ALWAYS`] are equal.
pub fn differences(a: &Counters, b: &Counters, orderly: bool, coalesces: bool) -> Vec<String> {
    let compared = |name: &str| orderly || ALWAYS.iter().any(|always| name.ends_with(always));
    let is_ack = |name: &str| {
        if name.ends_with("RX_NO_QP") {
            // ACKs of a responder that is connected to no QP.
            return coalesces && a[name] >= b[name];
        }
        let passed =
            |way: &str| name.ends_with(&format!("{way}_PACKETS")) || name.ends_with(&format!("{way}_BYTES"));
        if !passed("TX") && !passed("RX") {
            return false;
        }
        let way = name.rsplit_once('_').expect("as above").0;
        let fewer = |what: &str| a[&format!("{way}_{what}")].checked_sub(b[&format!("{way}_{what}")]);
        let (packets, bytes) = (fewer("PACKETS"), fewer("BYTES"));
        coalesces && packets.is_some() && bytes == packets.map(|packets| packets * ACK_BYTES)
    };
    let wrong = a.iter().filter(|(name, value)| compared(name) && b[*name] != **value && !is_ack(name));
    wrong.map(|(name, value)| format!("{name}: {value} and {}", b[name])).collect()
}

/// Datagrams that were dropped for their Q_Key, by all cards.
pub fn wrong_qkeys(all: &Counters) -> u64 {
    all.iter().filter(|(name, _)| name.ends_with("RX_QKEY_ERRORS")).map(|(_, value)| value).sum()
}
