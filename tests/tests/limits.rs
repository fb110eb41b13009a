//! The limits that the card reports: requests within them work, those beyond are refused with the
//! man pages' errno, and freed objects can be allocated again.

use driver::{QpCaps, SrqAttr};
use fpga_regs::{QpType, WqeOpcode};
use tests::{connect, join, Net, Options, Peer};

fn small() -> Options {
    Options { depth: 16, bytes: 1 << 16, cqes: 128, ..Default::default() }
}

/// Makes objects until no more can be had; twice, so that freed ones are used again.
fn exhaust<T>(what: &str, limit: u32, make: impl Fn(usize) -> Result<T, driver::Error>) {
    for round in 0..2 {
        let mut objects = Vec::new();
        let error = loop {
            match make(objects.len()) {
                Ok(object) => objects.push(object),
                Err(error) => break error,
            }
            assert!(objects.len() <= limit as usize, "more {what} than the card reports ({limit})");
        };
        assert_eq!(error.errno(), libc::ENOMEM, "{what}: {error}");
        assert!(objects.len() + 16 >= limit as usize, "{what}, round {round}: {} of {limit}", objects.len());
    }
}

#[test]
fn full_tables() {
    let (_net, device) = Net::one();
    let limits = *device.limits();
    exhaust("domains", limits.max_pd(), |_| device.alloc_pd());
    let pd = device.alloc_pd().expect("a PD");
    exhaust("SRQs", limits.max_srq(), |_| pd.create_srq(&SrqAttr { max_wr: 1, max_sge: 1, limit: 0 }));
    let ud = || {
        let peer =
            Peer::new(&device, Options { qp_type: QpType::UD, bytes: 4096, depth: 1, cqes: 2, ..small() });
        peer.init();
        peer
    };
    let group = |n: usize| [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, (n >> 8) as u8, n as u8];
    let member = ud();
    let joined = (0..).take_while(|&n| member.qp.attach_mcast(&group(n)).is_ok()).count();
    assert_eq!(joined as u32, limits.max_mcast_grp());
    member.qp.detach_mcast(&group(5)).expect("left");
    member.qp.attach_mcast(&group(1000)).expect("a group is free again");
    member.qp.destroy().expect("destroyed, and out of all groups");
    let members: Vec<_> = (0..limits.max_mcast_qp_attach()).map(|_| ud()).collect();
    members.iter().for_each(|m| m.qp.attach_mcast(&group(7)).expect("joined"));
    assert!(ud().qp.attach_mcast(&group(7)).is_err());
}

#[test]
fn the_largest_queues_work_and_larger_ones_are_refused() {
    let (_net, a, b) = Net::new(2).both();
    let limits = *a.limits();
    let caps = QpCaps {
        max_send_wr: limits.max_qp_wr(),
        max_recv_wr: limits.max_qp_wr(),
        max_send_sge: limits.max_sge(),
        max_recv_sge: limits.max_sge(),
        max_inline: limits.max_inline(),
    };
    let beyond: [fn(&mut QpCaps); 5] = [
        |c| c.max_send_wr += 1,
        |c| c.max_recv_wr += 1,
        |c| c.max_send_sge += 1,
        |c| c.max_recv_sge += 1,
        |c| c.max_inline += 1,
    ];
    let x = Peer::tuned(&a, Options { cqes: 1 << 16, ..small() }, None, |init| init.caps = caps);
    let y = Peer::tuned(&b, Options { cqes: 1 << 16, ..small() }, None, |init| init.caps = caps);
    let granted = *x.qp.caps();
    assert!(granted.max_send_wr >= caps.max_send_wr && granted.max_recv_sge >= caps.max_recv_sge);
    for (n, change) in beyond.into_iter().enumerate() {
        let mut init = x.qp.init().expect("queues").clone();
        init.caps = caps;
        change(&mut init.caps);
        let error = x.pd.create_qp(&init).err().unwrap_or_else(|| panic!("cap {n} is beyond the limit"));
        assert_eq!(error.errno(), libc::EINVAL);
    }
    join(&x, &y);
    // As many as the queues take, in one call each.
    let depth = u64::from(limits.max_qp_wr());
    let mut chain = y.qp.recv();
    (0..depth).for_each(|n| chain.push(n, &[y.sge(n as usize % 60_000, 4)]).expect("room"));
    chain.ring();
    let sge = [x.sge(0, 4)];
    let mut chain = x.qp.send();
    (0..depth).for_each(|n| chain.push(&x.wr(n, WqeOpcode::SEND, &sge)).expect("room"));
    chain.ring();
    for n in 0..depth {
        x.expect(n);
        y.expect(n);
    }
    assert!(a.create_cq(limits.max_cqe() + 1, 0).is_err());
    assert!(a.create_cq(0, 0).is_err());
    assert!(a.create_cq(16, limits.eq_count()).is_err(), "no such event vector");
    let srq = |max_wr, max_sge| x.pd.create_srq(&SrqAttr { max_wr, max_sge, limit: 0 });
    assert!(srq(limits.max_srq_wr() + 1, 1).is_err());
    assert!(srq(1, limits.max_srq_sge() + 1).is_err());
    assert!(srq(limits.max_srq_wr(), limits.max_srq_sge()).is_ok());
}

#[test]
fn a_thousand_connections() {
    let (_net, a, b) = Net::new(2).both();
    let (first, second) =
        (Peer::new(&a, Options { cqes: 4096, ..small() }), Peer::new(&b, Options { cqes: 4096, ..small() }));
    // All share the queues and memory of the first two.
    let like = |peer: &tests::Side| peer.pd.create_qp(peer.qp.init().expect("queues")).expect("a QP");
    let pairs: Vec<_> = (0..1000).map(|_| (like(&first), like(&second))).collect();
    let (mut x, mut y) = (first, second);
    for (n, (p, q)) in pairs.iter().enumerate() {
        (x.qp, y.qp) = (p.clone(), q.clone());
        join(&x, &y);
        x.post(&[x.remote(n as u64, WqeOpcode::WRITE, &[x.sge(0, 8)], &y, 8 * n)]);
    }
    for n in 0..1000 {
        assert_eq!(x.expect(n).qpn, pairs[n as usize].0.qpn());
    }
    let mut numbers: Vec<_> = pairs.iter().map(|p| p.0.qpn()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 1000, "QPNs are unique");
}

#[test]
fn keys_belong_to_the_context_that_made_them() {
    let net = Net::new(1);
    // Two programs, as it were, with the same card open.
    let (a, b) = (net.open(0), net.open(0));
    let (x, y) = connect(&a, &b, small());
    let foreign = driver::Sge { lkey: y.mr.lkey(), ..y.sge(0, 8) };
    x.post(&[x.wr(1, WqeOpcode::SEND, &[foreign])]);
    x.expect_status(1, fpga_regs::CqeStatus::LOC_PROT_ERR);
}
