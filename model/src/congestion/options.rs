//! What can be asked of a net's switch, and of its cards' congestion control.

use std::fmt;
use std::str::FromStr;

use super::dcqcn::{Parameters, Variant};
use super::units::{fraction, quantity, show, show_fraction, Units, BYTES, ONE, RATE, TIME};
use crate::plain::Flag;

/// The switch that connects all ports of a net.
///
/// As text: `kmin=5KB,kmax=200KB,pmax=0.01,pfc,xoff=200KiB,xon=192KiB,headroom=16KiB,seed=1`, or `buffer=2MiB` instead of `pfc`
/// and what belongs to it; each part is optional, and `default` has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchOptions {
    /// Bytes that each output queue holds, unless there is flow control.
    pub buffer: u64,
    /// Queue from which on packets are marked, bytes.
    pub kmin: u64,
    /// Queue beyond which all packets are marked, bytes.
    pub kmax: u64,
    /// Probability of a mark at `kmax`, in 2^-32.
    pub pmax: u64,
    /// Flow control.
    pub pfc: Option<Pfc>,
    /// Seed of the marks, if one was given.
    pub seed: Option<u64>,
}

/// Priority flow control: a port is paused while the switch holds too much of what came in by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// Bytes held from which on the port is paused.
    pub xoff: u64,
    /// Bytes held from which on it may send again.
    pub xon: u64,
    /// Room for what is under way when it is paused, bytes; `None`: as much as can be under way.
    pub headroom: Option<u64>,
}

impl Default for SwitchOptions {
    /// The marks of Zhu et al., SIGCOMM 2015, without flow control.
    fn default() -> Self {
        SwitchOptions {
            buffer: 2 << 20,
            kmin: 5_000,
            kmax: 200_000,
            pmax: (ONE + 50) / 100,
            pfc: None,
            seed: None,
        }
    }
}

impl SwitchOptions {
    /// Seed of the marks: 1 unless another was given.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}

impl Default for Pfc {
    /// The static threshold that a switch of the paper's leaves to a port of an idle buffer, roughly.
    fn default() -> Self {
        let xoff = 200 << 10;
        Pfc { xoff, xon: xoff - PAUSE_GAP, headroom: None }
    }
}

/// Two packets: what lies between pause and resume if nothing is said (Zhu et al., section 4).
const PAUSE_GAP: u64 = 2 * 4096;

/// The congestion control of a net's cards.
///
/// As text: `dcqcn` or `dcqcn-mlx`, then parameters that differ: `dcqcn,g=1/256,alpha=55us,timer=55us,bytes=10MB,
/// recovery=5,ai=40Mb/s,hai=50Mb/s,min=10Mb/s,cnp=50us,clamp=on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CcOptions(pub Parameters);

/// Why a text is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

fn wrong<T>(text: impl Into<String>) -> Result<T, SpecError> {
    Err(SpecError(text.into()))
}

/// The parts of a text: names, each with its value or none.
fn parts(text: &str) -> Result<Vec<(&str, Option<&str>)>, SpecError> {
    let mut found: Vec<(&str, Option<&str>)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
        if found.iter().any(|(known, _)| *known == name) {
            return wrong(format!("`{name}` is given twice"));
        }
        found.push((name, value));
    }
    Ok(found)
}

fn measured(name: &str, value: Option<&str>, units: Units, example: &str) -> Result<u64, SpecError> {
    let value = value.unwrap_or_default();
    quantity(value, units)
        .map_or_else(|| wrong(format!("{name}=`{value}`: a number with its unit, as {example}")), Ok)
}

fn probability(name: &str, value: Option<&str>) -> Result<u64, SpecError> {
    let value = value.unwrap_or_default();
    fraction(value)
        .map_or_else(|| wrong(format!("{name}=`{value}`: a number from 0 to 1, as 0.01 or 1/256")), Ok)
}

fn whole<T: FromStr>(name: &str, value: Option<&str>) -> Result<T, SpecError> {
    let value = value.unwrap_or_default();
    value.parse().or_else(|_| wrong(format!("{name}=`{value}`: a whole number")))
}

impl FromStr for SwitchOptions {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<SwitchOptions, SpecError> {
        let mut options = SwitchOptions::default();
        let (mut buffer, mut xoff, mut xon, mut headroom, mut pfc) = (None, None, None, None, false);
        for (name, value) in parts(text)? {
            let bytes = || measured(name, value, BYTES, "200KB or 2MiB");
            match name {
                "default" if value.is_none() => {}
                "pfc" if value.is_none() => pfc = true,
                "buffer" => buffer = Some(bytes()?),
                "kmin" => options.kmin = bytes()?,
                "kmax" => options.kmax = bytes()?,
                "pmax" => options.pmax = probability(name, value)?,
                "xoff" => xoff = Some(bytes()?),
                "xon" => xon = Some(bytes()?),
                "headroom" => headroom = Some(bytes()?),
                "seed" => options.seed = Some(whole(name, value)?),
                _ => {
                    return wrong(format!(
                    "`{name}`: a switch has buffer=, kmin=, kmax=, pmax=, pfc, xoff=, xon=, headroom=, seed="
                ))
                }
            }
        }
        if !pfc && (xoff.or(xon).or(headroom)).is_some() {
            return wrong("xoff, xon and headroom are those of flow control: add pfc");
        }
        if pfc {
            let xoff = xoff.unwrap_or(Pfc::default().xoff);
            options.pfc = Some(Pfc { xoff, xon: xon.unwrap_or(xoff.saturating_sub(PAUSE_GAP)), headroom });
        }
        if options.kmin > options.kmax {
            return wrong("kmin is more than kmax");
        }
        options.buffer = buffer.unwrap_or(options.buffer);
        let too_little = |room: u64| room < 2 * 4096;
        match options.pfc {
            Some(_) if buffer.is_some() => {
                wrong("buffer is that of a switch without pfc, which bounds its queues by xoff and headroom")
            }
            Some(pfc) if pfc.xon > pfc.xoff => wrong("xon is more than xoff"),
            Some(pfc) if pfc.headroom.is_some_and(|more| too_little(pfc.xoff.saturating_add(more))) => {
                wrong("xoff and headroom: together at least 8KiB, or no packet of the largest path MTU fits")
            }
            None if too_little(options.buffer) => {
                wrong("buffer: a queue holds at least 8KiB, or no packet of the largest path MTU fits")
            }
            _ => Ok(options),
        }
    }
}

impl fmt::Display for SwitchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |value| show(value, BYTES);
        if self.pfc.is_none() {
            write!(f, "buffer={},", bytes(self.buffer))?;
        }
        write!(f, "kmin={},kmax={}", bytes(self.kmin), bytes(self.kmax))?;
        write!(f, ",pmax={}", show_fraction(self.pmax))?;
        if let Some(pfc) = self.pfc {
            write!(f, ",pfc,xoff={},xon={}", bytes(pfc.xoff), bytes(pfc.xon))?;
            if let Some(headroom) = pfc.headroom {
                write!(f, ",headroom={}", bytes(headroom))?;
            }
        }
        write!(f, ",seed={}", self.seed())
    }
}

/// The published values: `dcqcn` and `dcqcn-mlx`.
const PUBLISHED: [(&str, Parameters); 2] = {
    const US: u64 = 1_000_000;
    const MBPS: u64 = 1_000_000;
    // Zhu et al., section 5.2 and figure 14; hai and min: rpgHaiRate and rpgMinRate of IEEE 802.1Qau.
    let paper = Parameters {
        variant: Variant::Paper as u8,
        clamp: Flag::YES,
        recovery: 5,
        g: ONE / 256,
        alpha_ps: 55 * US,
        timer_ps: 55 * US,
        bytes: 10_000_000,
        check_ps: 0,
        first: ONE,
        ai: 40 * MBPS,
        hai: 50 * MBPS,
        min: 10 * MBPS,
        cnp_ps: 50 * US,
    };
    // The defaults of RdmaHw's attributes.
    let mlx = Parameters {
        variant: Variant::Mlx as u8,
        clamp: Flag::NO,
        recovery: 5,
        g: ONE / 16,
        alpha_ps: 55 * US,
        timer_ps: 1500 * US,
        bytes: 0,
        check_ps: 4 * US,
        first: ONE,
        ai: 5 * MBPS,
        hai: 50 * MBPS,
        min: 100 * MBPS,
        cnp_ps: 50 * US,
    };
    [("dcqcn", paper), ("dcqcn-mlx", mlx)]
};

impl FromStr for CcOptions {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<CcOptions, SpecError> {
        let parts = parts(text)?;
        let known = parts
            .first()
            .and_then(|(name, value)| PUBLISHED.iter().find(|(known, _)| known == name && value.is_none()));
        let Some((_, mut p)) = known else {
            return wrong(format!("`{text}`: begins with dcqcn or dcqcn-mlx"));
        };
        let mlx = p.variant == Variant::Mlx as u8;
        for &(name, value) in &parts[1..] {
            let time = || measured(name, value, TIME, "55us or 1.5ms");
            let rate = || measured(name, value, RATE, "40Mb/s");
            match name {
                "g" => p.g = probability(name, value)?,
                "alpha" => p.alpha_ps = time()?,
                "timer" => p.timer_ps = time()?,
                "cnp" => p.cnp_ps = time()?,
                "ai" => p.ai = rate()?,
                "hai" => p.hai = rate()?,
                "min" => p.min = rate()?,
                "recovery" => p.recovery = whole(name, value)?,
                "clamp" => {
                    p.clamp = match value {
                        Some("on") => true.into(),
                        Some("off") => false.into(),
                        _ => return wrong("clamp is `on` or `off`"),
                    }
                }
                "bytes" if !mlx => p.bytes = measured(name, value, BYTES, "10MB")?,
                "check" if mlx => p.check_ps = time()?,
                "first" if mlx => p.first = probability(name, value)?,
                _ => {
                    let own = if mlx { "check=, first=" } else { "bytes=" };
                    return wrong(format!(
                        "`{name}`: {} has g=, alpha=, timer=, cnp=, ai=, hai=, min=, recovery=, clamp=, {own}",
                        parts[0].0
                    ));
                }
            }
        }
        let times = [p.alpha_ps, p.timer_ps, if mlx { p.check_ps } else { 1_000_000 }];
        if times.iter().any(|&time| time < 1_000_000) {
            return wrong("the shortest period of a timer is 1us");
        }
        if p.min < 1_000_000 {
            return wrong("min: the least rate is 1Mb/s");
        }
        Ok(CcOptions(p))
    }
}

impl CcOptions {
    /// Whether ports of this rate, bits a second, can have it.
    ///
    /// # Errors
    /// The least rate is above theirs.
    pub fn check_rate(&self, rate: u64) -> Result<(), SpecError> {
        match self.0.min > rate {
            true => wrong(format!("min={}: the ports have {}", show(self.0.min, RATE), show(rate, RATE))),
            false => Ok(()),
        }
    }
}

impl fmt::Display for CcOptions {
    /// The name, and what is not as published.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = &self.0;
        let (name, usual) =
            PUBLISHED.iter().find(|(_, known)| known.variant == p.variant).unwrap_or(&PUBLISHED[0]);
        f.write_str(name)?;
        let clamp = |p: &Parameters| (if p.clamp.get() { "on" } else { "off" }).to_owned();
        type Shown = fn(&Parameters) -> String;
        let all: [(&str, Shown); 11] = [
            ("g", |p| show_fraction(p.g)),
            ("alpha", |p| show(p.alpha_ps, TIME)),
            ("timer", |p| show(p.timer_ps, TIME)),
            ("cnp", |p| show(p.cnp_ps, TIME)),
            ("ai", |p| show(p.ai, RATE)),
            ("hai", |p| show(p.hai, RATE)),
            ("min", |p| show(p.min, RATE)),
            ("recovery", |p| p.recovery.to_string()),
            ("bytes", |p| show(p.bytes, BYTES)),
            ("check", |p| show(p.check_ps, TIME)),
            ("first", |p| show_fraction(p.first)),
        ];
        for (key, value) in all {
            if value(p) != value(usual) {
                write!(f, ",{key}={}", value(p))?;
            }
        }
        if clamp(p) != clamp(usual) {
            write!(f, ",clamp={}", clamp(p))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_as_text() {
        let paper: SwitchOptions = "default".parse().unwrap();
        assert_eq!(paper, SwitchOptions::default());
        assert_eq!(paper.to_string(), "buffer=2MiB,kmin=5KB,kmax=200KB,pmax=0.01,seed=1");
        let all: SwitchOptions =
            "kmin=0, kmax=1MB,pmax=1,pfc,xoff=30KB,xon=20KB,headroom=9KB,seed=7".parse().unwrap();
        assert_eq!((all.kmin, all.kmax, all.pmax, all.seed), (0, 1_000_000, ONE, Some(7)));
        assert_eq!(all.pfc, Some(Pfc { xoff: 30_000, xon: 20_000, headroom: Some(9_000) }));
        let pfc: SwitchOptions = "pfc".parse().unwrap();
        assert_eq!(pfc.pfc, Some(Pfc::default()));
        let drops: SwitchOptions = "buffer=1MB".parse().unwrap();
        assert_eq!(drops, SwitchOptions { buffer: 1_000_000, ..paper });
        for options in [paper, all, pfc, drops] {
            let given = SwitchOptions { seed: Some(options.seed()), ..options };
            assert_eq!(options.to_string().parse(), Ok(given));
        }
    }

    #[test]
    fn congestion_control_as_text() {
        for name in ["dcqcn", "dcqcn-mlx"] {
            let usual: CcOptions = name.parse().unwrap();
            assert_eq!(usual.to_string(), name);
            let mut text =
                format!("{name},g=1/8,alpha=1us,timer=300us,cnp=4us,ai=1Gb/s,hai=2Gb/s,min=5Mb/s,recovery=1");
            text += if name == "dcqcn" { ",bytes=150KB,clamp=off" } else { ",check=8us,first=1/2,clamp=on" };
            let other: CcOptions = text.parse().unwrap();
            assert_eq!(other.to_string(), text);
            assert_eq!(other.to_string().parse(), Ok(other));
        }
    }

    #[test]
    fn what_is_neither() {
        let switch = |text: &str| text.parse::<SwitchOptions>().unwrap_err().to_string();
        assert!(switch("kmni=5KB").starts_with("`kmni`: a switch has buffer="));
        assert_eq!(switch("kmin=5"), "kmin=`5`: a number with its unit, as 200KB or 2MiB");
        assert_eq!(switch("pmax=2"), "pmax=`2`: a number from 0 to 1, as 0.01 or 1/256");
        assert_eq!(switch("pfc,pfc"), "`pfc` is given twice");
        assert_eq!(switch("xoff=9KB"), "xoff, xon and headroom are those of flow control: add pfc");
        assert_eq!(switch("kmin=6KB,kmax=5KB"), "kmin is more than kmax");
        assert_eq!(switch("pfc,xoff=6KB,xon=7KB"), "xon is more than xoff");
        assert!(switch("buffer=1KB").contains("at least 8KiB"));
        for text in ["buffer=1KB,pfc", "pfc,buffer=2MiB"] {
            assert!(switch(text).starts_with("buffer is that of a switch without pfc"));
        }
        for text in ["pfc,xoff=1KB,headroom=0", "pfc,xoff=4KiB,headroom=4095B", "pfc,xoff=0,headroom=8191B"] {
            assert!(switch(text).contains("together at least 8KiB"), "{text}");
        }
        for text in ["pfc,xoff=1KiB,headroom=7KiB", "pfc,xoff=8KiB,headroom=0", "pfc,xoff=1KB"] {
            assert!(text.parse::<SwitchOptions>().is_ok(), "{text}");
        }
        let cc = |text: &str| text.parse::<CcOptions>().unwrap_err().to_string();
        assert_eq!(cc("timely"), "`timely`: begins with dcqcn or dcqcn-mlx");
        assert_eq!(cc(""), "``: begins with dcqcn or dcqcn-mlx");
        assert!(cc("dcqcn,check=4us").starts_with("`check`: dcqcn has g="));
        assert!(cc("dcqcn-mlx,bytes=1MB").ends_with("check=, first="));
        assert_eq!(cc("dcqcn,timer=0"), "the shortest period of a timer is 1us");
        assert_eq!(cc("dcqcn,min=0"), "min: the least rate is 1Mb/s");
        assert_eq!(cc("dcqcn,clamp"), "clamp is `on` or `off`");
        let fast: CcOptions = "dcqcn,min=20Gb/s".parse().unwrap();
        assert_eq!(fast.check_rate(20_000_000_000), Ok(()));
        assert_eq!(fast.check_rate(10_000_000_000), wrong("min=20Gb/s: the ports have 10Gb/s"));
    }
}
