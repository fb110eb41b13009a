//! The fixed point of DCQCN's fluid model: Zhu et al., SIGCOMM 2015, equations 5 to 9.

use model::congestion::dcqcn::Parameters;
use model::congestion::SwitchOptions;

/// Where nothing changes any more.
#[derive(Debug)]
pub struct FixedPoint {
    /// Probability of a mark.
    pub p: f64,
    /// Bytes.
    pub queue: f64,
}

/// Of `flows` flows with packets of `packet` bytes into a port of `line` bit/s, all in the model's units: packets and seconds.
///
/// With R_C = C/N, the model's equations for alpha, the target rate and the rate are
/// `alpha = 1 - (1-p)^(tau' R_C)`, `(R_T - R_C) a / tau = R_AI R_C (c + e)` and
/// `alpha a / tau = (R_T - R_C) (b + d)`, where `a` is the probability of a CNP, `b` and `d` the rates of increases by the
/// byte counter and by the timer a packet, and `c` and `e` the parts of them that are beyond fast recovery. So
/// `alpha a^2 = tau^2 R_AI R_C (b + d) (c + e)`, which rises with `p` on the left and falls on the right.
pub fn fixed_point(
    cc: &Parameters,
    switch: &SwitchOptions,
    line: f64,
    packet: f64,
    flows: u32,
) -> FixedPoint {
    const ONE: f64 = 4_294_967_296.0;
    let packets = |bits: f64| bits / 8.0 / packet;
    let seconds = |ps: u64| ps as f64 * 1e-12;
    let (ai, rate) = (packets(cc.ai as f64), packets(line) / f64::from(flows));
    let (tau, tau_alpha, timer) = (seconds(cc.cnp_ps), seconds(cc.alpha_ps), seconds(cc.timer_ps));
    let (bytes, recovery) = (cc.bytes as f64 / packet, f64::from(cc.recovery));
    let excess = |p: f64| {
        let none = |n: f64| (1.0 - p).powf(n);
        let a = 1.0 - none(tau * rate);
        let alpha = 1.0 - none(tau_alpha * rate);
        let b = p / (none(-bytes) - 1.0);
        let c = none(recovery * bytes) * b;
        let d = p / (none(-timer * rate) - 1.0);
        let e = none(recovery * timer * rate) * d;
        alpha * a * a - tau * tau * ai * rate * (b + d) * (c + e)
    };
    let (mut low, mut high) = (1e-9, 0.5);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        *(if excess(middle) < 0.0 { &mut low } else { &mut high }) = middle;
    }
    let p = (low + high) / 2.0;
    let pmax = switch.pmax as f64 / ONE;
    assert!(p <= pmax, "the fixed point is beyond the marks' range: {p}");
    FixedPoint { p, queue: switch.kmin as f64 + p / pmax * (switch.kmax - switch.kmin) as f64 }
}

/// The approximation that the authors give ("ECN or Delay", CoNEXT 2016, equation 14) is near.
#[test]
fn the_approximation_is_near() {
    let cc = "dcqcn".parse::<model::congestion::CcOptions>().unwrap().0;
    let switch = SwitchOptions::default();
    for flows in [2, 4, 8] {
        let exact = fixed_point(&cc, &switch, 40e9, 1000.0, flows).p;
        let (ai, all, n) = (cc.ai as f64 / 8000.0, 40e9 / 8000.0, f64::from(flows));
        let (tau, timer, bytes) = (55e-6, 55e-6, 1e4);
        let near = (ai * n * n / (tau * all * all) * (1.0 / bytes + n / (timer * all)).powi(2)).cbrt();
        assert!((near / exact - 1.0).abs() < 0.3, "{flows} flows: {near} and {exact}");
    }
}
