//! What a perftest run measured, as data: read from its text, from its JSON, or got by running it.

pub mod json;
pub mod run;
pub mod text;

use std::collections::BTreeMap;
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

impl Figure {
    /// All of them, in the order of the CSV file's columns.
    pub const ALL: [Figure; 11] = [
        Figure::Iterations,
        Figure::BwPeak,
        Figure::BwAverage,
        Figure::MsgRate,
        Figure::LatMin,
        Figure::LatMax,
        Figure::LatTypical,
        Figure::LatAverage,
        Figure::LatStdev,
        Figure::Lat99,
        Figure::Lat999,
    ];

    /// Name with unit, for tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Iterations => "iterations",
            Figure::BwPeak => "bw_peak_mib_s",
            Figure::BwAverage => "bw_avg_mib_s",
            Figure::MsgRate => "msg_rate_mpps",
            Figure::LatMin => "t_min_us",
            Figure::LatMax => "t_max_us",
            Figure::LatTypical => "t_typical_us",
            Figure::LatAverage => "t_avg_us",
            Figure::LatStdev => "t_stdev_us",
            Figure::Lat99 => "t_99_us",
            Figure::Lat999 => "t_999_us",
        }
    }
}

impl Figure {
    /// perftest's own word for it, in the titles of its table (`BW average`, without the unit) or in its JSON.
    pub fn from_perftest(name: &str) -> Option<Figure> {
        Some(match name.trim() {
            "#iterations" | "n_iterations" => Figure::Iterations,
            "BW peak" | "BW_peak" => Figure::BwPeak,
            "BW average" | "BW_average" => Figure::BwAverage,
            "MsgRate" => Figure::MsgRate,
            "t_min" => Figure::LatMin,
            "t_max" => Figure::LatMax,
            "t_typical" => Figure::LatTypical,
            "t_avg" => Figure::LatAverage,
            "t_stdev" => Figure::LatStdev,
            "99% percentile" | "percentile_99" => Figure::Lat99,
            "99.9% percentile" | "percentile_99.9" => Figure::Lat999,
            _ => return None,
        })
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

impl Setting {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Setting::Connection => "connection",
            Setting::Qps => "QPs",
            Setting::Mtu => "MTU",
            Setting::Inline => "inline",
            Setting::TxDepth => "TX depth",
            Setting::RxDepth => "RX depth",
            Setting::CqModeration => "CQ moderation",
            Setting::OutstandingReads => "outstanding reads",
            Setting::WrApi => "ibv_wr API",
            Setting::PostList => "post list",
            Setting::Srq => "SRQ",
            Setting::Bidirectional => "bidirectional",
            Setting::Link => "link",
            Setting::Iterations => "iterations",
            Setting::Device => "device",
        }
    }

    /// perftest's own word for it, in its text (`TX depth`) or its JSON (`TX_depth`), any of its versions.
    pub fn from_perftest(name: &str) -> Option<Setting> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        Some(match plain.to_ascii_lowercase().as_str() {
            "connectiontype" => Setting::Connection,
            "numberofqps" => Setting::Qps,
            "mtu" => Setting::Mtu,
            "maxinlinedata" => Setting::Inline,
            "txdepth" => Setting::TxDepth,
            "rxdepth" => Setting::RxDepth,
            "cqmoderation" => Setting::CqModeration,
            "outstandreads" => Setting::OutstandingReads,
            "ibvwrapi" => Setting::WrApi,
            "postlist" => Setting::PostList,
            "usingsrq" => Setting::Srq,
            "linktype" => Setting::Link,
            "device" => Setting::Device,
            _ => return None,
        })
    }

    /// True where a difference changes what is measured.
    pub fn matters(self) -> bool {
        !matches!(self, Setting::Iterations | Setting::Device)
    }
}

/// One line of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Message size.
    pub bytes: u64,
    /// What was measured.
    pub figures: BTreeMap<Figure, f64>,
}

/// One run of one perftest program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// The program, such as `ib_write_bw`.
    pub test: String,
    /// How it was set.
    pub settings: BTreeMap<Setting, String>,
    /// By message size, ascending as printed.
    pub rows: Vec<Row>,
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
