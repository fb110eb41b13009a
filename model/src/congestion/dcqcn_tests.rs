use super::super::options::CcOptions;
use super::*;

const US: u64 = 1_000_000;
/// The port's rate, bit/s.
const LINE: u64 = 40_000_000_000;

fn published(name: &str) -> Parameters {
    name.parse::<CcOptions>().unwrap().0
}

/// What happens at a time (us, in the middle of which it happens).
enum What {
    Cnp,
    /// This many times the byte counter's bytes.
    Sends(u64),
    Looks,
}
use What::*;

/// Rate and target rate in Mb/s after each step.
fn run(p: &Parameters, script: &[(f64, What, f64, f64)]) {
    let mut control = RateControl::default();
    for (at, what, rate, target) in script {
        let now = (at * US as f64).round() as u64;
        let before = control.rate(p, LINE, now);
        match what {
            Cnp => control.notified(p, LINE, now),
            Sends(times) => control.sent(p, LINE, times * p.bytes),
            Looks => {}
        }
        let is = control.rate(p, LINE, now).unwrap_or(LINE) as f64 / 1e6;
        let aims = control.target().0 as f64 / 1e6;
        // Alpha is kept in 2^-32, which is 10 bit/s of these rates at each step.
        assert!((is - rate).abs() < 1e-4, "at {at} us: {is} Mb/s, not {rate}; before {before:?}");
        assert!((aims - target).abs() < 1e-4, "at {at} us: target {aims} Mb/s, not {target}");
    }
}

/// R_T = R_C, R_C = R_C (1 - alpha/2), alpha = (1 - g) alpha + g, from alpha = 1, at each CNP (equation 1 of the paper), and
/// alpha = (1 - g) alpha every 55 us without one (equation 2). Raised every 55 us: five times, less the last, to the
/// middle of rate and target (equation 3), then with 40 Mb/s more for the target (equation 4).
#[test]
fn the_papers_rates_by_the_timer() {
    // After six periods without a CNP, alpha is (255/256)^6.
    let alpha = (255f64 / 256.0).powi(6);
    let (rate, target) = (19_893.75, 20_080.0);
    run(
        &published("dcqcn"),
        &[
            (0.0, Cnp, 20_000.0, 40_000.0),
            (50.0, Cnp, 10_000.0, 20_000.0),
            (104.9, Looks, 10_000.0, 20_000.0),
            (105.0, Looks, 15_000.0, 20_000.0),
            (160.0, Looks, 17_500.0, 20_000.0),
            (215.0, Looks, 18_750.0, 20_000.0),
            (270.0, Looks, 19_375.0, 20_000.0),
            // The fifth: max(T, BC) is F.
            (325.0, Looks, (19_375.0 + 20_040.0) / 2.0, 20_040.0),
            (380.0, Looks, rate, target),
            (400.0, Cnp, rate * (1.0 - alpha / 2.0), rate),
            // The timer began anew.
            (454.9, Looks, rate * (1.0 - alpha / 2.0), rate),
            (455.0, Looks, rate * (1.0 - alpha / 4.0), rate),
        ],
    );
}

/// Every 10 MB count as every 55 us. When timer and byte counter both are beyond five, the target grows by 50 Mb/s
/// times the number of steps beyond.
#[test]
fn the_papers_rates_by_the_byte_counter() {
    run(
        &published("dcqcn"),
        &[
            (0.0, Cnp, 20_000.0, 40_000.0),
            (50.0, Cnp, 10_000.0, 20_000.0),
            (51.0, Sends(1), 15_000.0, 20_000.0),
            (52.0, Sends(3), 19_375.0, 20_000.0),
            (53.0, Sends(1), 19_707.5, 20_040.0),
            (54.0, Sends(1), 19_893.75, 20_080.0),
            (105.0, Looks, 20_006.875, 20_120.0),
            (160.0, Looks, 20_083.437_5, 20_160.0),
            (215.0, Looks, 20_141.718_75, 20_200.0),
            (270.0, Looks, 20_190.859_375, 20_240.0),
            (325.0, Looks, 20_235.429_687_5, 20_280.0),
            // T = 6, BC = 6.
            (380.0, Looks, 20_282.714_843_75, 20_330.0),
            // T = 6, BC = 7.
            (381.0, Sends(1), 20_331.357_421_875, 20_380.0),
            // T = 7, BC = 7.
            (435.0, Looks, 20_405.678_710_937_5, 20_480.0),
        ],
    );
}

/// A CNP is seen at the next of the checks, which are 4 us apart from 1 ns after the first CNP on. The target is what
/// it was unless the rate has been raised since. Alpha: every 55 us from the first CNP on, from 1. The timer counts
/// from the reduction; its sixth increase adds 5 Mb/s, later ones 50 Mb/s, here to a target that is the port's rate.
#[test]
fn the_rates_of_mellanoxs_model() {
    let p = published("dcqcn-mlx");
    // From 120 us on, when an update sees no CNP for the first time, to the one at 10,515 us.
    let alpha = (15f64 / 16.0).powi(190);
    let reduced = 39_765.625 * (1.0 - alpha / 2.0);
    let next = alpha * 15.0 / 16.0 + 1.0 / 16.0;
    run(
        &p,
        &[
            (10.0, Cnp, 40_000.0, 40_000.0),
            (14.0, Looks, 40_000.0, 40_000.0),
            (14.001, Looks, 20_000.0, 40_000.0),
            (30.0, Cnp, 20_000.0, 40_000.0),
            (30.001, Looks, 10_000.0, 40_000.0),
            (1530.0, Looks, 10_000.0, 40_000.0),
            (1530.001, Looks, 25_000.0, 40_000.0),
            (3030.001, Looks, 32_500.0, 40_000.0),
            (4530.001, Looks, 36_250.0, 40_000.0),
            (6030.001, Looks, 38_125.0, 40_000.0),
            (7530.001, Looks, 39_062.5, 40_000.0),
            (9030.001, Looks, 39_531.25, 40_000.0),
            (10_530.001, Looks, 39_765.625, 40_000.0),
            (10_531.0, Cnp, 39_765.625, 40_000.0),
            (10_534.001, Looks, reduced, 39_765.625),
            (10_571.0, Cnp, reduced, 39_765.625),
            (10_574.001, Looks, reduced * (1.0 - next / 2.0), 39_765.625),
        ],
    );
}

/// The increases of Mellanox's model, to a target below the port's rate: 5 Mb/s once, then 50 Mb/s.
#[test]
fn mellanoxs_model_increases() {
    let p = "dcqcn-mlx,timer=100us,clamp=on".parse::<CcOptions>().unwrap().0;
    run(
        &p,
        &[
            (0.0, Cnp, 40_000.0, 40_000.0),
            (4.001, Looks, 20_000.0, 40_000.0),
            (5.0, Cnp, 20_000.0, 40_000.0),
            (8.001, Looks, 10_000.0, 20_000.0),
            (508.001, Looks, 20_000.0 - 10_000.0 / 32.0, 20_000.0),
            (608.001, Looks, (19_687.5 + 20_005.0) / 2.0, 20_005.0),
            (708.001, Looks, (19_846.25 + 20_055.0) / 2.0, 20_055.0),
            (808.001, Looks, (19_950.625 + 20_105.0) / 2.0, 20_105.0),
        ],
    );
}

/// Never below the least rate, and the whole way back to that of the port, however long that takes.
#[test]
fn from_the_least_rate_to_that_of_the_port() {
    for name in ["dcqcn", "dcqcn-mlx"] {
        let p = published(name);
        let mut control = RateControl::default();
        for n in 0..100 {
            control.notified(&p, LINE, n * 50 * US);
        }
        let mut now = 100 * 50 * US;
        assert_eq!(control.rate(&p, LINE, now), Some(p.min), "{name}");
        // A tenth of a second, a second, and a day.
        let mut last = p.min;
        for seconds in [0.1, 1.0, 86_400.0] {
            now += (seconds * 1e12) as u64;
            let rate = control.rate(&p, LINE, now).unwrap();
            assert!(rate >= last, "{name}: {rate} after {seconds} s");
            last = rate;
        }
        assert_eq!(last, LINE);
        assert_eq!(control.target(), (LINE, 0.0));
        // As if nothing had been.
        control.notified(&p, LINE, now + US);
        let checked = now + 10 * US;
        assert!(control.rate(&p, LINE, checked).unwrap() <= LINE);
    }
}

/// Looking often changes nothing.
#[test]
fn when_it_is_asked_makes_no_difference() {
    for name in ["dcqcn", "dcqcn-mlx,timer=55us"] {
        let p = name.parse::<CcOptions>().unwrap().0;
        let (mut often, mut seldom) = (RateControl::default(), RateControl::default());
        for us in 0..5000 {
            let now = us * US;
            if us % 487 == 3 {
                often.notified(&p, LINE, now);
                seldom.notified(&p, LINE, now);
            }
            often.rate(&p, LINE, now);
            if us % 701 == 700 {
                assert_eq!(often.rate(&p, LINE, now), seldom.rate(&p, LINE, now), "{name} at {us} us");
                assert_eq!(often, seldom);
            }
        }
    }
}
