//! Programs of an ordinary user: `verbena run` shows them the cards inside a user namespace.

use tests::stock::{need, words, Pair, StockNet, LIMIT};

/// The kernel copies from a program to another of the same user namespace only.
#[test]
fn the_programs_of_a_net_share_a_user_namespace() {
    let net = StockNet::unprivileged();
    let mut holder = net.start("sh", &["-c", "readlink /proc/self/ns/user; exec sleep 1000"]);
    holder.expect("]", LIMIT);
    let second = net.run("readlink", &["/proc/self/ns/user"], LIMIT);
    assert_eq!(holder.said(), second);
    let ours = std::fs::read_link("/proc/self/ns/user").expect("the link");
    assert_ne!(
        second.trim(),
        ours.to_string_lossy(),
        "this machine lets no user make a user namespace, so this test cannot test; allow them: \
         sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, \
         kernel.apparmor_restrict_unprivileged_userns=0, or a container with CAP_SYS_ADMIN"
    );
    // A launcher in the namespace may not mount there, and need not: its program sees the cards already.
    let command = net.command(&[], "ibv_devices", &[]);
    let line = words(&command);
    let nested = net.run(line[0], &line[1..], LIMIT);
    assert!(nested.contains("verbena1") && !nested.contains("of its own"), "{nested}");
}

/// The buffers' last pages are partial, so they stay in the programs' own memory.
#[test]
fn the_ends_of_unaligned_buffers_arrive() {
    let net = StockNet::unprivileged();
    for client in ["verbena1", "verbena0"] {
        let mut pair = Pair::new(&net, "ibv_rc_pingpong", &["-g", "1", "-s", "70000", "-n", "200", "-c"]);
        pair.devices[1] = client;
        let both = pair.good();
        for side in [&both.client, &both.server] {
            // The tool exits with 0 after wrong data.
            let good = side.said.contains("usec/iter") && !side.said.contains("invalid data");
            assert!(good, "{}: {}", pair.line(), both.report());
        }
    }
    net.expect_gone();
}

#[test]
fn shared_memory_is_written() {
    need("ib_write_bw");
    let net = StockNet::unprivileged();
    let pair = Pair::new(&net, "ib_write_bw", &["-s", "65536", "-n", "200", "--mmap=/dev/zero"]);
    pair.good();
    net.expect_gone();
}
