//! Results side by side: which curves share a panel, where their settings differ, and their ratio.

use crate::measured::{Figure, Measurement, Setting};

use super::matrix::{Axis, Group};

/// Where a curve comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A modelled card, run just now.
    Model,
    /// A published measurement.
    Published,
    /// A user's own measurement.
    Added,
}

impl Kind {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Model => "model",
            Kind::Published => "published",
            Kind::Added => "added",
        }
    }
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// As in the legend.
    pub label: String,
    pub kind: Kind,
    /// Profile of the card, where there is one.
    pub card: Option<String>,
    /// One run, or one for each point of the axis.
    pub runs: Vec<Measurement>,
    pub commands: Vec<String>,
}

impl Curve {
    /// The points along an axis.
    pub fn points(&self, axis: Axis, figure: Figure) -> Vec<(f64, f64)> {
        let setting = match axis {
            Axis::Size => return self.runs.iter().flat_map(|run| run.points(figure)).collect(),
            Axis::Mtu => Setting::Mtu,
            Axis::Qps => Setting::Qps,
        };
        let point = |run: &Measurement| {
            let x = run.settings.get(&setting)?.parse().ok()?;
            Some((x, run.points(figure).first()?.1))
        };
        self.runs.iter().filter_map(point).collect()
    }

    /// What it says of a setting (of its first run).
    pub fn setting(&self, setting: Setting) -> Option<&str> {
        self.runs.first()?.settings.get(&setting).map(String::as_str)
    }

    /// Settings that both name, and name differently, and that change what is measured.
    pub fn differences(&self, other: &Curve) -> Vec<Difference> {
        let Some(run) = self.runs.first() else {
            return Vec::new();
        };
        let differs = |(setting, value): (&Setting, &String)| {
            let theirs = other.setting(*setting)?;
            let found = setting.matters() && theirs != value;
            found.then(|| Difference { setting: *setting, ours: value.clone(), theirs: theirs.to_owned() })
        };
        run.settings.iter().filter_map(differs).collect()
    }
}

/// A setting of two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub setting: Setting,
    /// Of the model.
    pub ours: String,
    /// Of the other.
    pub theirs: String,
}

/// Curves on one axis.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it shows.
    pub group: Group,
    /// The models first.
    pub curves: Vec<Curve>,
}

/// A model's value beside another's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub bytes: f64,
    /// The model's value.
    pub model: f64,
    /// The other's.
    pub base: f64,
}

impl Ratio {
    /// Model over other.
    pub fn value(&self) -> f64 {
        self.model / self.base
    }
}

impl Panel {
    /// The figure that the panel is about.
    pub fn figure(&self) -> Figure {
        match () {
            () if self.group.is_latency() => Figure::LatTypical,
            () if self.group.axis == Axis::Qps => Figure::MsgRate,
            () => Figure::BwAverage,
        }
    }

    /// The curve's points of the panel's figure; the mean where a run by duration has no median.
    pub fn points(&self, curve: &Curve) -> Vec<(f64, f64)> {
        let points = curve.points(self.group.axis, self.figure());
        if points.is_empty() && self.group.is_latency() {
            return curve.points(self.group.axis, Figure::LatAverage);
        }
        points
    }

    pub fn models(&self) -> impl Iterator<Item = &Curve> {
        self.curves.iter().filter(|curve| curve.kind == Kind::Model)
    }

    /// What they are compared with.
    pub fn bases(&self) -> impl Iterator<Item = &Curve> {
        self.curves.iter().filter(|curve| curve.kind != Kind::Model)
    }

    /// Each model with each base.
    pub fn pairs(&self) -> Vec<(&Curve, &Curve)> {
        self.models().flat_map(|model| self.bases().map(move |base| (model, base))).collect()
    }

    /// At the sizes that both have.
    pub fn ratios(&self, model: &Curve, base: &Curve) -> Vec<Ratio> {
        let ours = self.points(model);
        let same = |(bytes, base): (f64, f64)| {
            let (_, model) = ours.iter().find(|point| point.0 == bytes)?;
            Some(Ratio { bytes, model: *model, base })
        };
        self.points(base).into_iter().filter_map(same).collect()
    }
}

/// A model beside a base, over all sizes that both have.
pub struct Summary<'a> {
    pub panel: &'a Panel,
    pub model: &'a Curve,
    /// What it is compared with.
    pub base: &'a Curve,
    pub count: usize,
    /// Geometric mean of the ratios, model over base.
    pub mean: f64,
    /// The ratio that is furthest from 1, the same for half and for twice.
    pub worst: Ratio,
}

/// All pairs that have sizes in common.
pub fn summaries(panels: &[Panel]) -> Vec<Summary<'_>> {
    let off = |ratio: &Ratio| ratio.value().ln().abs();
    let pairs = panels.iter().flat_map(|panel| panel.pairs().into_iter().map(move |pair| (panel, pair)));
    pairs
        .filter_map(|(panel, (model, base))| {
            let ratios = panel.ratios(model, base);
            let worst = *ratios.iter().max_by(|a, b| off(a).total_cmp(&off(b)))?;
            let mean = ratios.iter().map(|ratio| ratio.value().ln()).sum::<f64>() / ratios.len() as f64;
            Some(Summary { panel, model, base, count: ratios.len(), mean: mean.exp(), worst })
        })
        .collect()
}

/// Puts a base into the panel whose settings are nearest to its own; says when there is none.
pub fn place(panels: &mut [Panel], base: Curve) -> Result<(), Curve> {
    let Some(test) = base.runs.first().map(|run| run.test.clone()) else {
        return Err(base);
    };
    let distance = |panel: &Panel| {
        let apart =
            |model: &Curve| (model.differences(&base).len(), base.card.is_none() || model.card != base.card);
        panel.models().map(apart).min()
    };
    let fitting =
        panels.iter_mut().filter(|panel| panel.group.axis == Axis::Size && panel.group.test == test);
    match fitting.filter_map(|panel| Some((distance(panel)?, panel))).min_by_key(|(distance, _)| *distance) {
        Some((_, panel)) => {
            panel.curves.push(base);
            Ok(())
        }
        None => Err(base),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::matrix::groups;
    use crate::measured::Row;

    fn curve(kind: Kind, inline: &str, points: &[(u64, f64)]) -> Curve {
        let mut run = Measurement { test: "ib_write_lat".to_owned(), ..Measurement::default() };
        run.settings.insert(Setting::Inline, inline.to_owned());
        run.settings.insert(Setting::Device, format!("{kind:?}"));
        for (bytes, value) in points {
            run.rows.push(Row { bytes: *bytes, figures: [(Figure::LatTypical, *value)].into() });
        }
        Curve { label: inline.to_owned(), kind, card: None, runs: vec![run], commands: Vec::new() }
    }

    fn panels() -> Vec<Panel> {
        let names = ["write_lat".to_owned(), "inline".to_owned()];
        let panel = |(group, inline)| Panel {
            group,
            curves: vec![curve(Kind::Model, inline, &[(2, 2.0), (64, 3.0)])],
        };
        groups(&names).unwrap().into_iter().zip(["0", "220"]).map(panel).collect()
    }

    #[test]
    fn a_base_is_shown_beside_the_nearest_settings() {
        let mut panels = panels();
        place(&mut panels, curve(Kind::Published, "220", &[(2, 1.0), (128, 1.0)])).unwrap();
        assert_eq!((panels[0].curves.len(), panels[1].curves.len()), (1, 2));
        let (model, base) = panels[1].pairs()[0];
        let ratios = panels[1].ratios(model, base);
        assert_eq!(ratios, [Ratio { bytes: 2.0, model: 2.0, base: 1.0 }]);
        assert!(model.differences(base).is_empty());
        let differences = panels[0].curves[0].differences(base);
        assert_eq!(differences[0].setting, Setting::Inline);
        assert_eq!(differences.len(), 1, "devices always differ: {differences:?}");
    }

    #[test]
    fn other_tests_have_no_panel() {
        let mut other = curve(Kind::Added, "0", &[(2, 1.0)]);
        other.runs[0].test = "ib_atomic_lat".to_owned();
        assert!(place(&mut panels(), other).is_err());
    }
}
