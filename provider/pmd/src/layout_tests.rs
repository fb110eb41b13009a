//! What the driver declares by hand is where a program's compiler puts it: C programs with DPDK's headers of each release say
//! that it is, and what bytes they write. Of headers for drivers, which distributions do not ship, that of flow rules is there.

use std::fmt::Write;
use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use crate::abi::ethdev::{self, FlowControl, RetaEntries, RssConf, Stats, Xstat, XstatName};
use crate::abi::flow::{action, item, Action, ActionRss, Attr, Cause, FlowError, FlowOps, Item, QueryCount};
use crate::abi::info::{self, DescLim, DevInfo, Limits, PortConf, RxConf, RxqInfo, TxConf, TxqInfo};
use crate::abi::mbuf::{self, Cache, Lengths, Mbuf, Mempool, Ops, OpsTable};
use crate::abi::processes::{Message, Replies};
use crate::abi::release::{Release, RELEASES};
use crate::abi::vdev::Devargs;
use crate::{interrupts, kinds, spread};

/// What a C program of these lines says, compiled with the headers of a release.
pub fn program(release: &Release, lines: &str) -> String {
    let (root, get) = match release.abi {
        23 => ("/", "tests/setup"),
        _ => (
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/releases/dpdk"),
            "tests/releases/fetch --dpdk",
        ),
    };
    let headers = Path::new(root).join("usr/include");
    let there = headers.join("dpdk/rte_flow.h").is_file();
    assert!(there, "no headers of {}x in {}: get them with {get}", release.version, headers.display());
    let directory = tempfile::tempdir().expect("a directory");
    let (source, program) = (directory.path().join("layout.c"), directory.path().join("layout"));
    let start = include_str!("layout_tests.h");
    fs::write(&source, format!("{start}int main(void) {{\n{lines}return 0;\n}}\n")).expect("a file");
    // The header for drivers of flow rules asks for one that is not shipped, and needs only a name of it.
    fs::write(directory.path().join("ethdev_driver.h"), "struct rte_eth_dev;\n").expect("a file");
    let mut cc = Command::new("cc");
    cc.args([
        "-O1",
        "-march=corei7",
        "-include",
        "rte_config.h",
        "-Wl,--unresolved-symbols=ignore-all",
        "-I",
    ]);
    cc.arg(directory.path()).arg("-I").arg(headers.join("dpdk"));
    cc.arg("-I").arg(headers.join("x86_64-linux-gnu/dpdk")).arg("-o").arg(&program).arg(&source);
    let compiled = cc.output().expect("a C compiler");
    assert!(compiled.status.success(), "{}x: {}", release.version, String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).expect("text")
}

/// The bytes that each line of a program's words is, by C's initializers of a structure.
pub fn bytes<const N: usize>(release: &Release, of: &str, initializers: &[&str]) -> Vec<[u8; N]> {
    let mut lines = format!("IS(sizeof({of}), {N});\n");
    for initializer in initializers {
        let _ = writeln!(
            lines,
            "{{ {of} it; memset(&it, 0, sizeof it); {initializer}; print(&it, sizeof it); }}"
        );
    }
    let byte = |line: &str, n: usize| u8::from_str_radix(&line[2 * n..][..2], 16).expect("two digits");
    let said = program(release, &lines);
    let all: Vec<_> = said.lines().map(|line| std::array::from_fn(|n| byte(line, n))).collect();
    assert_eq!(all.len(), initializers.len());
    all
}

/// Assertions of C that members are where ours are; a whole structure also has the size of ours.
macro_rules! same {
    ($lines:ident; $($whole:ident $ours:ty = $theirs:literal { $($field:ident $(= $member:literal)?),* $(,)? })*) => { $(
        $(
            let member = [stringify!($field), $($member)?];
            let (member, offset) = (member[member.len() - 1], offset_of!($ours, $field));
            let _ = writeln!($lines, "IS(offsetof({}, {member}), {offset});", $theirs);
        )*
        if stringify!($whole) == "whole" {
            let _ = writeln!($lines, "IS(sizeof({}), {});", $theirs, size_of::<$ours>());
        }
    )* };
}

#[test]
fn structures_are_those_of_each_release() {
    let mut lines = String::new();
    same! { lines;
        whole Mbuf = "struct rte_mbuf" {
            buf_addr, data_off, nb_segs, port, ol_flags, packet_type, pkt_len, data_len, vlan_tci, rss_hash = "hash.rss",
            mark = "hash.fdir.hi", buf_len, pool, next, tx_offload,
        }
        part Mempool = "struct rte_mempool" { cache_size, ops_index, local_cache }
        whole Cache = "struct rte_mempool_cache" { size, len, objects = "objs" }
        whole Ops = "struct rte_mempool_ops" { dequeue }
        whole OpsTable = "struct rte_mempool_ops_table" { ops }
        whole Stats = "struct rte_eth_stats" {
            ipackets, opackets, ibytes, obytes, imissed, ierrors, oerrors, rx_nombuf, q_ipackets, q_opackets, q_ibytes,
            q_obytes, q_errors,
        }
        part RssConf = "struct rte_eth_rss_conf" { key = "rss_key", key_len = "rss_key_len", kinds = "rss_hf" }
        whole RetaEntries = "struct rte_eth_rss_reta_entry64" { mask, queues = "reta" }
        whole Xstat = "struct rte_eth_xstat" { id, value }
        whole XstatName = "struct rte_eth_xstat_name" { }
        whole FlowControl = "struct rte_eth_fc_conf" { mode, forwards = "mac_ctrl_frame_fwd", negotiates = "autoneg" }
        whole DevInfo = "struct rte_eth_dev_info" {
            min_mtu, max_mtu, min_rx_bufsize, rx_offload_capa, tx_offload_capa, rx_queue_offload_capa,
            tx_queue_offload_capa, reta_size, hash_key_size, flow_type_rss_offloads, rx_desc_lim, tx_desc_lim,
            speed_capa, default_rxportconf, default_txportconf, capabilities = "dev_capa",
        }
        whole DescLim = "struct rte_eth_desc_lim" {
            max = "nb_max", min = "nb_min", align = "nb_align", segments = "nb_seg_max", mtu_segments = "nb_mtu_seg_max",
        }
        whole PortConf = "struct rte_eth_dev_portconf" { burst = "burst_size", ring = "ring_size", queues = "nb_queues" }
        whole RxConf = "struct rte_eth_rxconf" { deferred_start = "rx_deferred_start", offloads }
        whole TxConf = "struct rte_eth_txconf" { deferred_start = "tx_deferred_start", offloads }
        whole RxqInfo = "struct rte_eth_rxq_info" {
            pool = "mp", conf, scattered = "scattered_rx", descriptors = "nb_desc", buffer = "rx_buf_size",
        }
        whole TxqInfo = "struct rte_eth_txq_info" { conf, descriptors = "nb_desc" }
        part Message = "struct rte_mp_msg" { name, length = "len_param", fd_count = "num_fds", content = "param", fds }
        whole Replies = "struct rte_mp_reply" { answered = "nb_received", messages = "msgs" }
        part Devargs = "struct rte_devargs" { name, args }
        whole Attr = "struct rte_flow_attr" { group, priority }
        whole Item = "struct rte_flow_item" { kind = "type", spec, last, mask }
        whole Action = "struct rte_flow_action" { kind = "type", conf }
        whole ActionRss = "struct rte_flow_action_rss" {
            function = "func", level, kinds = "types", key_len, queue_num, key, queues = "queue",
        }
        whole FlowError = "struct rte_flow_error" { kind = "type", cause, message }
        whole QueryCount = "struct rte_flow_query_count" { hits, bytes }
        part FlowOps = "struct rte_flow_ops" { validate, create, destroy, flush, query, isolate }
    }
    let _ = writeln!(lines, "IS(sizeof(struct rte_mempool), {});", mbuf::POOL);
    let _ = writeln!(lines, "IS(sizeof(struct rte_mp_msg) <= {}, 1);", size_of::<Message>());
    let _ = writeln!(lines, "IS(sizeof(struct rte_flow_ops) <= {}, 1);", size_of::<FlowOps>());
    for release in &RELEASES {
        let mut lines = lines.clone();
        let limits = [
            ("max_rx_pktlen", offset_of!(Limits, max_rx_pktlen)),
            ("max_rx_queues", offset_of!(Limits, max_rx_queues)),
            ("max_tx_queues", offset_of!(Limits, max_tx_queues)),
            ("max_mac_addrs", offset_of!(Limits, max_mac_addrs)),
        ];
        for (member, offset) in limits {
            let at = release.layout.info_limits + offset;
            let _ = writeln!(lines, "IS(offsetof(struct rte_eth_dev_info, {member}), {at});");
        }
        program(release, &lines);
    }
}

#[test]
fn numbers_are_those_of_each_release() {
    let mut lines = String::new();
    let numbers: &[(&str, u64)] = &[
        ("RTE_PKTMBUF_HEADROOM", mbuf::HEADROOM.into()),
        ("RTE_MAX_LCORE", mbuf::MAX_LCORE.into()),
        ("RTE_MEMPOOL_CACHE_MAX_SIZE", mbuf::CACHE_MAX as u64),
        ("RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED", mbuf::RX_VLAN_STRIPPED),
        ("RTE_MBUF_F_RX_RSS_HASH", mbuf::RX_RSS_HASH),
        ("RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID", mbuf::RX_MARKED),
        ("RTE_MBUF_F_RX_IP_CKSUM_GOOD", mbuf::RX_IP_CKSUM_GOOD),
        ("RTE_MBUF_F_RX_L4_CKSUM_GOOD", mbuf::RX_L4_CKSUM_GOOD),
        ("RTE_MBUF_F_TX_TCP_SEG", mbuf::TX_TCP_SEG),
        ("RTE_MBUF_F_TX_L4_MASK", mbuf::TX_L4_MASK),
        ("RTE_MBUF_F_TX_TCP_CKSUM", mbuf::TX_TCP_CKSUM),
        ("RTE_MBUF_F_TX_UDP_CKSUM", mbuf::TX_UDP_CKSUM),
        ("RTE_MBUF_F_TX_IP_CKSUM", mbuf::TX_IP_CKSUM),
        ("RTE_MBUF_F_TX_VLAN", mbuf::TX_VLAN),
        ("RTE_MBUF_F_EXTERNAL", mbuf::EXTERNAL),
        ("RTE_ETH_RX_OFFLOAD_VLAN_STRIP", info::RX_VLAN_STRIP),
        ("RTE_ETH_RX_OFFLOAD_VLAN_FILTER", info::RX_VLAN_FILTER),
        ("RTE_ETH_TX_OFFLOAD_VLAN_INSERT", info::TX_VLAN_INSERT),
        ("RTE_ETH_RX_OFFLOAD_CHECKSUM", info::RX_CHECKSUMS),
        ("RTE_ETH_RX_OFFLOAD_RSS_HASH", info::RX_HASH),
        (
            "RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM",
            info::TX_CHECKSUMS,
        ),
        ("RTE_ETH_TX_OFFLOAD_TCP_TSO", info::TX_TCP_TSO),
        ("RTE_ETH_RX_OFFLOAD_KEEP_CRC", info::RX_KEEP_CRC),
        ("RTE_ETH_RX_OFFLOAD_SCATTER", info::RX_SCATTER),
        ("RTE_ETH_TX_OFFLOAD_MULTI_SEGS", info::TX_MULTI_SEGS),
        ("RTE_ETH_LINK_SPEED_10G", info::SPEED_10G.into()),
        ("RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP", info::KEEPS_RULES),
        (
            "RTE_ETH_DEV_CAPA_RUNTIME_RX_QUEUE_SETUP | RTE_ETH_DEV_CAPA_RUNTIME_TX_QUEUE_SETUP",
            info::MAKES_QUEUES,
        ),
        ("RTE_INTR_HANDLE_VDEV", interrupts::KIND as u64),
        ("RTE_INTR_VEC_RXTX_OFFSET", interrupts::FIRST as u64),
        ("RTE_INTR_INSTANCE_F_PRIVATE", interrupts::OF_THIS_PROCESS.into()),
        ("RTE_ETH_EVENT_INTR_LSC", ethdev::LINK_CHANGED as u64),
        ("RTE_ETH_QUEUE_STATE_STARTED", true.into()),
        ("RTE_ETH_QUEUE_STATE_STOPPED", false.into()),
        ("RTE_ETHDEV_QUEUE_STAT_CNTRS", ethdev::QUEUE_COUNTERS as u64),
        ("RTE_PTYPE_L2_ETHER", kinds::ETHER.into()),
        ("RTE_PTYPE_L3_IPV4_EXT_UNKNOWN", kinds::IPV4.into()),
        ("RTE_PTYPE_L3_IPV6_EXT_UNKNOWN", kinds::IPV6.into()),
        ("RTE_PTYPE_L4_TCP", kinds::TCP.into()),
        ("RTE_PTYPE_L4_UDP", kinds::UDP.into()),
        ("RTE_PTYPE_L4_FRAG", kinds::FRAGMENT.into()),
        ("RTE_PTYPE_L4_NONFRAG", kinds::WHOLE.into()),
        ("RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP", spread::KINDS),
        ("RTE_FLOW_ITEM_TYPE_END", item::END as u64),
        ("RTE_FLOW_ITEM_TYPE_VOID", item::VOID as u64),
        ("RTE_FLOW_ITEM_TYPE_ETH", item::ETH as u64),
        ("RTE_FLOW_ITEM_TYPE_VLAN", item::VLAN as u64),
        ("RTE_FLOW_ITEM_TYPE_IPV4", item::IPV4 as u64),
        ("RTE_FLOW_ITEM_TYPE_IPV6", item::IPV6 as u64),
        ("RTE_FLOW_ITEM_TYPE_UDP", item::UDP as u64),
        ("RTE_FLOW_ITEM_TYPE_TCP", item::TCP as u64),
        ("RTE_FLOW_ACTION_TYPE_END", action::END as u64),
        ("RTE_FLOW_ACTION_TYPE_VOID", action::VOID as u64),
        ("RTE_FLOW_ACTION_TYPE_MARK", action::MARK as u64),
        ("RTE_FLOW_ACTION_TYPE_QUEUE", action::QUEUE as u64),
        ("RTE_FLOW_ACTION_TYPE_DROP", action::DROP as u64),
        ("RTE_FLOW_ACTION_TYPE_COUNT", action::COUNT as u64),
        ("RTE_FLOW_ACTION_TYPE_RSS", action::RSS as u64),
        ("RTE_FLOW_ERROR_TYPE_UNSPECIFIED", Cause::Unspecified as u64),
        ("RTE_FLOW_ERROR_TYPE_HANDLE", Cause::Handle as u64),
        ("RTE_FLOW_ERROR_TYPE_ATTR_GROUP", Cause::Group as u64),
        ("RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY", Cause::Priority as u64),
        ("RTE_FLOW_ERROR_TYPE_ATTR_INGRESS", Cause::Ingress as u64),
        ("RTE_FLOW_ERROR_TYPE_ATTR_EGRESS", Cause::Egress as u64),
        ("RTE_FLOW_ERROR_TYPE_ATTR_TRANSFER", Cause::Transfer as u64),
        ("RTE_FLOW_ERROR_TYPE_ATTR", Cause::Attr as u64),
        ("RTE_FLOW_ERROR_TYPE_ITEM_SPEC", Cause::ItemSpec as u64),
        ("RTE_FLOW_ERROR_TYPE_ITEM_LAST", Cause::ItemLast as u64),
        ("RTE_FLOW_ERROR_TYPE_ITEM_MASK", Cause::ItemMask as u64),
        ("RTE_FLOW_ERROR_TYPE_ITEM", Cause::Item as u64),
        ("RTE_FLOW_ERROR_TYPE_ACTION_NUM", Cause::ActionNum as u64),
        ("RTE_FLOW_ERROR_TYPE_ACTION_CONF", Cause::ActionConf as u64),
        ("RTE_FLOW_ERROR_TYPE_ACTION", Cause::Action as u64),
    ];
    for (name, number) in numbers {
        let _ = writeln!(lines, "IS({name}, {number}u);");
    }
    RELEASES.iter().for_each(|release| drop(program(release, &lines)));
}

/// What has bits that share a word, by what a program's compiler makes of them.
#[test]
fn bits_are_those_of_each_release() {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
    for release in &RELEASES {
        let attr = ["it.ingress = 1", "it.egress = 1", "it.transfer = 1"];
        let attr = bytes::<{ size_of::<Attr>() }>(release, "struct rte_flow_attr", &attr);
        let attr: Vec<u32> = attr.iter().map(|attr| word(attr, offset_of!(Attr, directions))).collect();
        assert_eq!(attr, [Attr::INGRESS, Attr::EGRESS, Attr::TRANSFER]);

        let query = ["it.reset = 1", "it.hits_set = 1; it.bytes_set = 1"];
        let query = bytes::<{ size_of::<QueryCount>() }>(release, "struct rte_flow_query_count", &query);
        let query: Vec<u32> = query.iter().map(|query| word(query, offset_of!(QueryCount, bits))).collect();
        assert_eq!(query, [QueryCount::RESET, QueryCount::KNOWN]);

        let link = "it.link_speed = 10000; it.link_duplex = 1; it.link_autoneg = 1; it.link_status";
        let link = [format!("{link} = 1"), format!("{link} = 0; it.link_speed = 0")];
        let link = bytes::<8>(release, "struct rte_eth_link", &[&link[0], &link[1]]);
        let ours = [true, false].map(|up| ethdev::link(10_000, up).to_le_bytes());
        assert_eq!(link, ours);

        let asked = bytes::<4>(release, "struct rte_eth_intr_conf", &["it.lsc = 1", "it.rxq = 1"]);
        let ours = [ethdev::INTERRUPT_LINK, ethdev::INTERRUPT_RX].map(u32::to_le_bytes);
        assert_eq!(asked, ours);

        let lengths = ["it.l2_len = 18; it.l3_len = 511; it.l4_len = 32; it.tso_segsz = 65535"];
        let mbuf = bytes::<{ size_of::<Mbuf>() }>(release, "struct rte_mbuf", &lengths);
        let at = offset_of!(Mbuf, tx_offload);
        let offload = u64::from(word(&mbuf[0], at)) | u64::from(word(&mbuf[0], at + 4)) << 32;
        let ours = Lengths { l2: 18, l3: 511, l4: 32, mss: 65535 };
        assert_eq!(Lengths::of(offload), ours);
    }
}
