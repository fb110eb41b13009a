//! testpmd that locks all memory, which is all of the net's.

use tests::is_root;

use super::*;

/// Behind the option that each has in these tests.
const LOCKS: [&str; 2] = ["--mlockall", "-i"];

/// It says why, and not by being killed.
#[test]
fn testpmd_that_would_lock_all_memory_is_refused() {
    if !is_root() {
        return eprintln!("left out: only root may lock all memory");
    }
    let net = StockNet::alone();
    need("prlimit");
    // So many addresses that it can start, and too few for the memory of a net: whatever it does, it locks no more.
    let by = ["prlimit", "--as=17179869184"];
    let ended = Testpmd::start_by(&net, &by, &["net_verbena0"], &LOCKS).close();
    let why = "net_verbena0: testpmd would lock all memory of the net";
    let exited = ended.status.is_some_and(|status| status.code().is_some());
    assert!(exited && ended.said.contains(why) && ended.said.contains("--no-mlockall"), "{ended}");
    net.expect_gone();
}

/// Where the kernel refuses the lock, it does no harm.
#[test]
fn testpmd_that_may_not_lock_all_memory_gets_its_port() {
    let net = StockNet::alone();
    need("prlimit");
    need("setpriv");
    let unprivileged = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"];
    let limited = ["prlimit", "--memlock=65536"];
    let by = [if is_root() { &unprivileged[..] } else { &[] }, &limited].concat();
    let mut testpmd = Testpmd::start_by(&net, &by, &["net_verbena0"], &LOCKS);
    testpmd.expect("Port 0: 02:56:42:00:00:00");
    let said = testpmd.quit();
    assert!(said.contains("mlockall() failed"), "{said}");
    net.expect_gone();
}
