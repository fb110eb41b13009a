//! The script of a successful bring-up, to which tests add their own steps.

use driver::Device;
use fpga_regs::regs::{self, Control, FeatureSet, Status};
use fpga_regs::{AdminOpcode, CardLimits, Command, Reply};
use std::sync::Arc;

use super::scripted::{Ranges, Scripted, Step, FIRST_IOVA};

/// Where bring-up puts the rings: commands, replies, then 32 KiB of mailboxes.
pub const COMMANDS: u64 = FIRST_IOVA;
/// The reply ring.
pub const REPLIES: u64 = FIRST_IOVA + 0x1000;
/// The event ring, after the mailboxes.
pub const EVENTS: u64 = FIRST_IOVA + 0x2000 + 0x8000;

/// Limits of the scripted card.
pub fn limits() -> CardLimits {
    CardLimits::new()
        .with_max_qp(1024)
        .with_max_qp_wr(8192)
        .with_max_sge(30)
        .with_max_inline(512)
        .with_max_cq(1024)
        .with_max_cqe(65536)
        .with_max_mr(1024)
        .with_max_mr_size(1 << 40)
        .with_max_pd(64)
        .with_max_qp_rd_atom(16)
        .with_max_qp_init_rd_atom(16)
        .with_max_srq(64)
        .with_max_srq_wr(4096)
        .with_max_srq_sge(30)
        .with_max_mw(64)
        .with_ports(2)
        .with_gid_table_len(16)
        .with_pkey_table_len(1)
        .with_page_size_cap(0xfffff000)
        .with_eq_count(1)
}

/// All features of the scripted and the fake card.
pub fn features() -> FeatureSet {
    // RSS has limits of its own, which are asked for.
    FeatureSet(u64::MAX).without(FeatureSet::RSS)
}

/// The card reads the `n`th command and answers it: checks the opcode, gives the reply.
pub fn answer(n: u32, opcode: AdminOpcode, reply: Reply, out: Vec<u8>) -> Step {
    Step::Act(Box::new(move |memory: &mut Ranges| {
        let bytes = memory.read(COMMANDS + u64::from(n % 64) * 64, 64);
        let command = Command::from_slice(&bytes).unwrap();
        assert_eq!(command.opcode(), opcode, "command {n}");
        if !out.is_empty() {
            assert!(command.out_len() as usize >= out.len());
            memory.write(command.out_iova(), &out);
        }
        let reply = reply.with_tag(command.tag()).with_phase(n / 64 % 2 == 0);
        memory.write(REPLIES + u64::from(n % 64) * 32, reply.as_bytes());
    }))
}

/// The accesses of the `n`th command, answered with `reply`.
pub fn command(n: u32, opcode: AdminOpcode, reply: Reply, out: Vec<u8>) -> Vec<Step> {
    vec![
        Step::Write32(regs::ASQ_DOORBELL, n + 1),
        answer(n, opcode, reply, out),
        Step::Write32(regs::ACQ_CONSUMER, n + 1),
    ]
}

/// From the identity register to the enabled function.
pub fn start(features: FeatureSet) -> Vec<Step> {
    vec![
        Step::Read32(regs::ID, regs::ID_VALUE),
        Step::Read32(regs::VERSION, regs::VERSION_VALUE),
        Step::Read64(regs::FEATURES, features.0),
        Step::Read64(regs::SERIAL, 0x0056_42ff_fe00_0000),
        Step::Write32(regs::CONTROL, Control(0).with_reset(true).0),
        Step::Read32(regs::STATUS, Status(0).with_resetting(true).0),
        Step::Read32(regs::STATUS, 0),
        Step::Read32(regs::CONTROL, 0),
        Step::Write64(regs::ASQ_BASE, COMMANDS),
        Step::Write64(regs::ACQ_BASE, REPLIES),
        Step::Write32(regs::ADMIN_SIZE, 6),
        Step::Write32(regs::CONTROL, Control(0).with_enable(true).0),
        Step::Read32(regs::STATUS, 0),
        Step::Read32(regs::STATUS, Status(0).with_ready(true).0),
    ]
}

/// The reset when the device goes.
pub fn stop() -> Vec<Step> {
    vec![
        Step::Write32(regs::CONTROL, Control(0).with_reset(true).0),
        Step::Read32(regs::STATUS, 0),
        Step::Read32(regs::CONTROL, 0),
    ]
}

/// The first three commands: limits, doorbell page 3, event queue 0.
pub fn first_commands() -> Vec<Step> {
    let mut steps = command(0, AdminOpcode::QUERY_CARD, Reply::new(), limits().as_bytes().to_vec());
    steps.extend(command(1, AdminOpcode::ALLOC_PAGE, Reply::new().with_object(3), vec![]));
    steps.extend(command(2, AdminOpcode::CREATE_EQ, Reply::new(), vec![]));
    steps
}

/// A scripted card that was brought up; the next command is number 3.
pub fn opened(features: FeatureSet) -> (Scripted, Arc<Device<Scripted>>) {
    let card = Scripted::new();
    card.expect(start(features));
    card.expect(first_commands());
    let device = Device::open(card.clone()).unwrap();
    card.finish();
    (card, device)
}
