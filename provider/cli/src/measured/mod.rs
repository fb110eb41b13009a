//! What a perftest run measured, as data: read from its text, from its JSON, or got by running it.

pub mod json;
pub mod run;
pub mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// A column of perftest's table, in one unit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Number of iterations.
    Iterations,
    /// Peak bandwidth, MiB/s (2^20 bytes, as perftest's `MB/sec`).
    BwPeak,
    /// Average bandwidth, MiB/s.
    BwAverage,
    /// Millions of messages in a second.
    MsgRate,
    /// Least latency, microseconds.
    LatMin,
    /// Greatest latency, microseconds.
    LatMax,
    /// Median latency, microseconds.
    LatTypical,
    /// Mean latency, microseconds.
    LatAverage,
    /// Standard deviation, microseconds.
    LatStdev,
    /// 99 % percentile, microseconds.
    Lat99,
    /// 99.9 % percentile, microseconds.
    Lat999,
}

/// Its name with unit, for tables and messages; and perftest's own words, in the titles of its table (without the unit)
/// and in its JSON. In the order of the CSV file's columns.
const FIGURES: [(Figure, &str, &str, &str); 11] = [
    (Figure::Iterations, "iterations", "#iterations", "n_iterations"),
    (Figure::BwPeak, "bw_peak_mib_s", "BW peak", "BW_peak"),
    (Figure::BwAverage, "bw_avg_mib_s", "BW average", "BW_average"),
    (Figure::MsgRate, "msg_rate_mpps", "MsgRate", "MsgRate"),
    (Figure::LatMin, "t_min_us", "t_min", "t_min"),
    (Figure::LatMax, "t_max_us", "t_max", "t_max"),
    (Figure::LatTypical, "t_typical_us", "t_typical", "t_typical"),
    (Figure::LatAverage, "t_avg_us", "t_avg", "t_avg"),
    (Figure::LatStdev, "t_stdev_us", "t_stdev", "t_stdev"),
    (Figure::Lat99, "t_99_us", "99% percentile", "percentile_99"),
    (Figure::Lat999, "t_999_us", "99.9% percentile", "percentile_99.9"),
];

impl Figure {
    /// All of them, in the order of the CSV file's columns.
    pub fn all() -> impl Iterator<Item = Figure> {
        FIGURES.iter().map(|row| row.0)
    }

    /// Name with unit, for tables and messages.
    pub fn name(self) -> &'static str {
        FIGURES.iter().find(|row| row.0 == self).expect("each has its row").1
    }

    /// The one that perftest calls so, in its table or in its JSON.
    pub fn from_perftest(name: &str) -> Option<Figure> {
        let name = name.trim();
        FIGURES.iter().find(|row| row.2 == name || row.3 == name).map(|row| row.0)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What perftest says of its settings, as far as a comparison depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// RC, UC or UD.
    Connection,
    /// Number of QPs.
    Qps,
    /// Path MTU in bytes.
    Mtu,
    /// Bytes that travel inside the WQE.
    Inline,
    /// Outstanding WQEs.
    TxDepth,
    /// Receive WQEs posted ahead.
    RxDepth,
    /// Messages for each completion.
    CqModeration,
    /// Outstanding READs.
    OutstandingReads,
    /// Posts by the newer calls (`ibv_wr_*`).
    WrApi,
    /// WQEs for each doorbell.
    PostList,
    /// A shared receive queue.
    Srq,
    /// Both directions at once.
    Bidirectional,
    /// Ethernet or IB.
    Link,
    /// The number of iterations of each size.
    Iterations,
    /// The device's name.
    Device,
}

/// Its title for people; and perftest's word, letters and digits only, which its text (`TX depth`) and its JSON
/// (`TX_depth`) share in all its versions. Empty where perftest does not say it as a setting.
const SETTINGS: [(Setting, &str, &str); 15] = [
    (Setting::Connection, "connection", "connectiontype"),
    (Setting::Qps, "QPs", "numberofqps"),
    (Setting::Mtu, "MTU", "mtu"),
    (Setting::Inline, "inline", "maxinlinedata"),
    (Setting::TxDepth, "TX depth", "txdepth"),
    (Setting::RxDepth, "RX depth", "rxdepth"),
    (Setting::CqModeration, "CQ moderation", "cqmoderation"),
    (Setting::OutstandingReads, "outstanding reads", "outstandreads"),
    (Setting::WrApi, "ibv_wr API", "ibvwrapi"),
    (Setting::PostList, "post list", "postlist"),
    (Setting::Srq, "SRQ", "usingsrq"),
    (Setting::Bidirectional, "bidirectional", ""),
    (Setting::Link, "link", "linktype"),
    (Setting::Iterations, "iterations", ""),
    (Setting::Device, "device", "device"),
];

impl Setting {
    /// For people.
    pub fn title(self) -> &'static str {
        SETTINGS.iter().find(|row| row.0 == self).expect("each has its row").1
    }

    /// The one that perftest calls so.
    pub fn from_perftest(name: &str) -> Option<Setting> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let plain = plain.to_ascii_lowercase();
        SETTINGS.iter().find(|row| !plain.is_empty() && row.2 == plain).map(|row| row.0)
    }

    /// True where a difference changes what is measured.
    pub fn matters(self) -> bool {
        !matches!(self, Setting::Iterations | Setting::Device)
    }
}

/// One line of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub bytes: u64,
    pub figures: BTreeMap<Figure, f64>,
}

/// One run of one perftest program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// The program, such as `ib_write_bw`.
    pub test: String,
    pub settings: BTreeMap<Setting, String>,
    /// By message size, ascending as printed.
    pub rows: Vec<Row>,
    /// Numbers of the queue pairs that it measured, of both sides, as far as it says them.
    pub qpns: BTreeSet<u32>,
    /// Its own output, where there is one.
    pub raw: String,
}

impl Measurement {
    /// The points (message size, value) of a figure, those above zero: perftest prints 0 for what it
    /// did not take.
    pub fn points(&self, figure: Figure) -> Vec<(f64, f64)> {
        let value = |row: &Row| Some((row.bytes as f64, *row.figures.get(&figure)?));
        self.rows.iter().filter_map(value).filter(|point| point.1 > 0.0).collect()
    }

    /// Notes the number of iterations as a setting when all rows have the same.
    fn note_iterations(&mut self) {
        let mut counts: Vec<f64> =
            self.rows.iter().filter_map(|row| row.figures.get(&Figure::Iterations).copied()).collect();
        counts.dedup();
        if let [one] = counts[..] {
            self.settings.insert(Setting::Iterations, one.to_string());
        }
    }
}

/// The program of a title such as `RDMA_Write Bidirectional BW Test` (text) or
/// `RDMA_Write_Bidirectional_BW_Test` (JSON), and whether it went both ways.
fn program_of(title: &str) -> Option<(String, bool)> {
    let words: Vec<&str> = title.split(['_', ' ']).filter(|word| !word.is_empty()).collect();
    if words.last() != Some(&"Test") {
        return None;
    }
    let has = |word: &str| words.contains(&word);
    let verb = match () {
        () if has("Atomic") => "atomic",
        // Newer programs name `Write_imm` and `Send_imm` likewise.
        () if has("Write") && has("imm") => "write_imm",
        () if has("Write") => "write",
        () if has("Read") => "read",
        () if has("Send") => "send",
        () => return None,
    };
    let kind = match () {
        () if has("BW") => "bw",
        () if has("Latency") => "lat",
        () => return None,
    };
    Some((format!("ib_{verb}_{kind}"), has("Bidirectional")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_name_programs() {
        let program = |title| program_of(title).map(|(name, _)| name);
        assert_eq!(program("RDMA_Write BW Test").as_deref(), Some("ib_write_bw"));
        assert_eq!(program("RDMA_Read_Latency_Test").as_deref(), Some("ib_read_lat"));
        assert_eq!(program("Atomic_FETCH_AND_ADD_BW_Test").as_deref(), Some("ib_atomic_bw"));
        assert_eq!(program("Send BW Test"), Some("ib_send_bw".to_owned()));
        assert_eq!(program_of("RDMA_Write Bidirectional Post List BW Test").map(|p| p.1), Some(true));
        assert_eq!(program("Mtu             : 4096[B]"), None);
    }
}
