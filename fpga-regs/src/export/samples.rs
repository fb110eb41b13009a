//! Golden entries: every variant of every queue entry, command, reply and
//! context. Their numbers are chosen to differ, not to be executed.

use crate::catalog;
use crate::commands::{CommandSpec, COMMANDS};
use crate::decode::{self, CONTEXTS};
use crate::export::text::snake;
use crate::field::{Field, Format, Kind, Named};
use crate::*;

/// What a sample is an entry of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A send ring.
    Wqe,
    /// A receive ring.
    Recv,
    /// A completion queue.
    Cqe,
    /// An event queue.
    Eqe,
    /// The ring of admin commands.
    Command,
    /// The ring of admin replies.
    Reply,
    /// Memory that a command points to.
    Context,
}

impl Entry {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Wqe, Self::Recv, Self::Cqe, Self::Eqe, Self::Command, Self::Reply, Self::Context];

    /// Its name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wqe => "wqe",
            Self::Recv => "recv",
            Self::Cqe => "cqe",
            Self::Eqe => "eqe",
            Self::Command => "command",
            Self::Reply => "reply",
            Self::Context => "context",
        }
    }

    /// Bytes of a word of its file: what one entry has, or one unit of it.
    pub const fn word(self) -> usize {
        match self {
            Self::Wqe | Self::Context => WQE_BLOCK,
            Self::Recv => WQE_UNIT,
            Self::Cqe => Cqe::BYTES,
            Self::Eqe => Eqe::BYTES,
            Self::Command => Command::BYTES,
            Self::Reply => Reply::BYTES,
        }
    }
}

/// A format within a sample.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The format.
    pub format: &'static Format,
    /// Its first byte.
    pub byte: usize,
}

/// A golden entry.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its name, which is unique.
    pub name: String,
    /// What it is an entry of.
    pub entry: Entry,
    /// What it is, in one line.
    pub title: String,
    /// Its bytes, in the order of memory.
    pub bytes: Vec<u8>,
    /// The formats in it; inline data has none.
    pub parts: Vec<Part>,
}

/// Every golden entry, in a fixed order.
pub fn samples() -> Vec<Sample> {
    let mut all = sends();
    all.extend([0, 1, 2, 3, MAX_SGE].map(receive));
    all.extend(completions());
    all.extend(names(EventKind::VALUES, |known, seed| {
        let eqe = Eqe::from_slice(&filled(&Eqe::FORMAT, seed)).unwrap_or_default();
        single(Entry::Eqe, known.name, &Eqe::FORMAT, eqe.with_kind(EventKind(known.value as u8)).as_bytes())
    }));
    all.extend(COMMANDS.iter().enumerate().map(|(seed, spec)| command(spec, seed)));
    all.extend(replies());
    all.extend(contexts());
    all
}

/// One sample for each name.
fn names<'a>(
    values: &'a [Named],
    sample: impl Fn(&Named, usize) -> Sample + 'a,
) -> impl Iterator<Item = Sample> + 'a {
    values.iter().enumerate().map(move |(seed, known)| sample(known, seed))
}

/// A value that no neighbour has; the golden ratio's multiples spread well.
fn value(field: &Field, index: usize) -> u128 {
    let spread = |n: usize| 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(n as u64 + 1);
    match field.kind {
        Kind::Bool => (index % 2) as u128,
        Kind::Enum(names) => names.values[index % names.values.len()].value.into(),
        Kind::Flags(names) => {
            let set = |(at, known): (usize, &Named)| if at % 2 == index % 2 { known.value } else { 0 };
            names.values.iter().enumerate().map(set).sum::<u64>().into()
        }
        _ if field.width <= 64 => (spread(index) >> (64 - field.width)).into(),
        _ => u128::from(spread(index)) << 64 | u128::from(spread(index + 1)),
    }
}

/// Bytes in which every field has a value.
fn filled(format: &Format, seed: usize) -> Vec<u8> {
    let mut bytes = vec![0; format.bytes];
    for (index, field) in format.fields.iter().enumerate() {
        field.put(&mut bytes, value(field, index + seed));
    }
    bytes
}

/// A sample of one format.
fn single(entry: Entry, name: &str, format: &'static Format, bytes: &[u8]) -> Sample {
    let title = match entry {
        Entry::Cqe => decode::cqe(bytes).title,
        Entry::Eqe => decode::eqe(bytes).title,
        Entry::Command => decode::command(bytes).title,
        Entry::Reply => decode::reply(bytes).title,
        _ => decode::format(format, bytes).title,
    };
    let name = format!("{}_{}", entry.name(), name.to_lowercase());
    Sample { name, entry, title, bytes: bytes.to_vec(), parts: vec![Part { format, byte: 0 }] }
}

/// Every opcode with each of its shapes, and every flag.
fn sends() -> Vec<Sample> {
    let mut all = Vec::new();
    for (seed, known) in WqeOpcode::VALUES.iter().enumerate() {
        let opcode = WqeOpcode(known.value as u8);
        let full = matches!(opcode, WqeOpcode::SEND | WqeOpcode::WRITE);
        for (service, prefix) in Service::ALL.into_iter().zip(["", "ud_", "xrc_"]) {
            let same = opcode.segments(service) == opcode.segments(Service::Connected);
            if service != Service::Connected && same {
                continue;
            }
            let new = || start(opcode, service, seed);
            let name = format!("{prefix}{}", known.name);
            if !opcode.has_data() {
                all.push(send(&name, new()));
            } else if matches!(opcode, WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD) {
                all.push(send(&name, new().sge(0x7f00_0000_1000, 8, 0x100)));
            } else {
                let counts = [0, 1, 2, MAX_SGE].into_iter().filter(|count| *count <= 2 || full);
                all.extend(counts.map(|count| send(&format!("{name}_{count}_sges"), sges(new(), count))));
                let lengths = [0, 1, 16, 17, MAX_INLINE].into_iter();
                let lengths = lengths.filter(|length| opcode.allows_inline() && (*length == 17 || full));
                all.extend(lengths.map(|length| {
                    let data: Vec<u8> = (0..length).map(|i| b'a' + (i % 26) as u8).collect();
                    send(&format!("{name}_inline_{length}"), new().inline(&data))
                }));
            }
        }
    }
    // The flag `inline` shapes the WQE: it is handled above.
    let flags = WqeCtrl::FIELDS.iter().filter(|field| field.kind == Kind::Bool && field.name != "inline");
    all.extend(flags.map(|field| {
        let mut builder = sges(start(WqeOpcode::RAW_ETH, Service::Connected, 0), 1);
        builder.ctrl.set_flags(1 << (field.bit % 8));
        send(&format!("flag_{}", field.name), builder)
    }));
    all
}

/// A WQE whose segments are filled.
fn start(opcode: WqeOpcode, service: Service, seed: usize) -> WqeBuilder {
    let ctrl = WqeCtrl::from_slice(&filled(&WqeCtrl::FORMAT, seed)).unwrap_or_default();
    let bytes = |segment: Segment| filled(segment.format(), seed);
    WqeBuilder {
        ctrl: ctrl.with_opcode(opcode).with_flags(WqeCtrl::SIGNALED),
        address: (service == Service::Datagram)
            .then(|| WqeAddress::from_slice(&bytes(Segment::Address)).unwrap_or_default()),
        extended: service == Service::Extended,
        remote: WqeRemote::from_slice(&bytes(Segment::Remote)).unwrap_or_default(),
        atomic: WqeAtomic::from_slice(&bytes(Segment::Atomic)).unwrap_or_default(),
        bind: WqeBind::from_slice(&bytes(Segment::Bind)).unwrap_or_default(),
        tso: WqeTso::from_slice(&bytes(Segment::Tso)).unwrap_or_default(),
        ..WqeBuilder::default()
    }
}

fn sges(mut builder: WqeBuilder, count: usize) -> WqeBuilder {
    for i in 0..count as u32 {
        builder = builder.sge(0x7f00_0000_1000 + u64::from(i) * 0x1000, 64 + i, 0x100 + i * 0x100);
    }
    builder
}

fn send(name: &str, builder: WqeBuilder) -> Sample {
    let bytes = builder.build().expect("a sample is a WQE that can be built");
    let mut parts = vec![Part { format: &WqeCtrl::FORMAT, byte: 0 }];
    let mut byte = WqeCtrl::BYTES;
    for segment in builder.ctrl.opcode().segments(builder.service()) {
        parts.push(Part { format: segment.format(), byte });
        byte += segment.bytes();
    }
    parts.extend(sge_parts(byte, builder.sges.len()));
    let title = decode::wqe(&bytes).title;
    Sample { name: format!("wqe_{}", name.to_lowercase()), entry: Entry::Wqe, title, bytes, parts }
}

fn sge_parts(byte: usize, count: usize) -> impl Iterator<Item = Part> {
    (0..count).map(move |i| Part { format: &WqeSge::FORMAT, byte: byte + i * WqeSge::BYTES })
}

/// A receive WQE as in a ring made for its number of SGEs.
fn receive(count: usize) -> Sample {
    let head = RecvHead::from_slice(&filled(&RecvHead::FORMAT, count)).unwrap_or_default();
    let mut bytes = head.with_num_sge(count as u8).as_bytes().to_vec();
    for i in 0..count {
        bytes.extend(filled(&WqeSge::FORMAT, i));
    }
    bytes.resize(1 << recv_stride_log(count), 0);
    let mut parts = vec![Part { format: &RecvHead::FORMAT, byte: 0 }];
    parts.extend(sge_parts(RecvHead::BYTES, count));
    let title = decode::recv_wqe(&bytes).title;
    Sample { name: format!("recv_{count}_sges"), entry: Entry::Recv, title, bytes, parts }
}

/// A CQE of success: what each opcode gives. Then each status, each syndrome,
/// each flag, and values that have no name.
fn completions() -> Vec<Sample> {
    let base = |seed| {
        let cqe = Cqe::from_slice(&filled(&Cqe::FORMAT, seed)).unwrap_or_default();
        cqe.with_flags(0)
            .with_opcode(CqeOpcode::SEND)
            .with_status(CqeStatus::SUCCESS)
            .with_syndrome(Syndrome::NONE)
    };
    let cqe = |name: &str, cqe: Cqe| single(Entry::Cqe, name, &Cqe::FORMAT, cqe.as_bytes());
    let mut all: Vec<Sample> = names(CqeOpcode::VALUES, |known, seed| {
        let opcode = CqeOpcode(known.value as u8);
        cqe(
            &format!("opcode_{}", known.name),
            base(seed).with_opcode(opcode).with_recv(opcode >= CqeOpcode::RECV),
        )
    })
    .collect();
    all.extend(names(CqeStatus::VALUES, |known, seed| {
        cqe(&format!("status_{}", known.name), base(seed).with_status(CqeStatus(known.value as u8)))
    }));
    all.extend(names(Syndrome::VALUES, |known, seed| {
        let failed = base(seed).with_status(CqeStatus::GENERAL_ERR);
        cqe(&format!("syndrome_{}", known.name), failed.with_syndrome(Syndrome(known.value as u8)))
    }));
    let flags =
        Cqe::FIELDS.iter().filter(|field| field.kind == Kind::Bool && field.byte() != Cqe::PHASE_BYTE);
    all.extend(flags.map(|field| {
        let received = base(0).with_opcode(CqeOpcode::RECV).with_flags(Cqe::RECV | 1 << (field.bit % 8));
        cqe(&format!("flag_{}", field.name), received)
    }));
    let lap = |phase| base(1).with_phase(phase);
    let unknown =
        base(2).with_opcode(CqeOpcode(77)).with_status(CqeStatus(200)).with_syndrome(Syndrome(0xee));
    all.extend([cqe("phase_0", lap(false)), cqe("phase_1", lap(true)), cqe("unknown", unknown)]);
    all
}

/// A command with all that it takes.
fn command(spec: &CommandSpec, seed: usize) -> Sample {
    let base = Command::from_slice(&filled(&Command::FORMAT, seed)).unwrap_or_default();
    let mut command = Command::of(spec.opcode).with_tag(base.tag());
    if !spec.object.is_empty() {
        command.set_object(base.object());
    }
    if let Some(format) = spec.input {
        command = command.with_in_iova(base.in_iova()).with_in_len(format.bytes as u32);
    }
    if let Some(format) = spec.output {
        command = command.with_out_iova(base.out_iova()).with_out_len(format.bytes as u32);
    }
    for (index, field) in spec.params.iter().enumerate() {
        let number = match field.kind {
            Kind::Uint => 1 + (index as u128),
            _ => value(field, index + seed),
        };
        field.put(command.as_mut_bytes(), number);
    }
    single(Entry::Command, &spec.opcode.to_string(), &Command::FORMAT, command.as_bytes())
}

/// The good reply to each command, each status, and each syndrome.
fn replies() -> Vec<Sample> {
    let base = |seed| Reply::from_slice(&filled(&Reply::FORMAT, seed)).unwrap_or_default();
    let reply = |name: &str, reply: Reply| single(Entry::Reply, name, &Reply::FORMAT, reply.as_bytes());
    let good = COMMANDS.iter().enumerate().map(|(seed, spec)| {
        let object = if spec.result.is_empty() { 0 } else { base(seed).object() };
        let mut good = Reply::new().with_tag(base(seed).tag()).with_object(object).with_phase(seed % 2 == 0);
        for (index, field) in spec.values.iter().enumerate() {
            field.put(good.as_mut_bytes(), value(field, index + seed));
        }
        reply(&format!("to_{}", spec.opcode), good)
    });
    let ended = names(AdminStatus::VALUES, move |known, seed| {
        reply(&format!("status_{}", known.name), base(seed).with_status(AdminStatus(known.value as u8)))
    });
    let refused = names(Syndrome::VALUES, move |known, seed| {
        let refused = base(seed).with_status(AdminStatus::BAD_PARAM);
        reply(&format!("syndrome_{}", known.name), refused.with_syndrome(Syndrome(known.value as u8)))
    });
    good.chain(ended).chain(refused).collect()
}

/// Each context with every field filled, and with each value of its enums.
fn contexts() -> Vec<Sample> {
    let mut all = Vec::new();
    let short = |format: &Format| {
        let known = CONTEXTS.iter().find(|(_, known)| known.name == format.name);
        known.map_or(snake(format.name), |(name, _)| name.to_string())
    };
    for format in catalog::contexts() {
        let name = short(format);
        let sample = |name: &str, bytes: &[u8]| single(Entry::Context, name, format, bytes);
        all.extend([0, 1].map(|seed| sample(&format!("{name}_filled_{seed}"), &filled(format, seed))));
        for (seed, field) in format.fields.iter().enumerate() {
            let Kind::Enum(known) = field.kind else { continue };
            for named in known.values {
                let mut bytes = filled(format, seed);
                field.put(&mut bytes, named.value.into());
                all.push(sample(&format!("{name}_{}_{}", field.name, named.name), &bytes));
            }
        }
    }
    all
}
