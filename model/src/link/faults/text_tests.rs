//! The grammar: what is written is read again, and mistakes are told.

use proptest::prelude::*;

use super::super::grammar::grammar;
use super::super::rule::WORDS;
use super::*;
use crate::packet::{MAX_CARDS, PORTS};

fn parse(text: &str) -> Faults {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn faults_as_text() {
    let all = parse("loss=0.01, dup=0.001,reorder=0.25,corrupt=1,seed=7");
    let expected = Faults { loss: 0.01, dup: 0.001, reorder: 0.25, corrupt: 1.0, seed: 7, rules: Vec::new() };
    assert_eq!(all, expected);
    assert_eq!(all.to_string(), "loss=0.01,dup=0.001,reorder=0.25,corrupt=1,seed=7");
    assert_eq!(parse(""), Faults::default());
    assert!(!Faults::default().any() && all.any() && parse("drop nth=1").any());
}

#[test]
fn rules_as_text() {
    for (text, canonical) in [
        ("drop data qp=17 nth=3", "drop data qp=0x11 nth=3"),
        ("drop every=5 ack", "drop ack every=5"),
        ("down=2ms..5ms", "drop at=2ms..5ms"),
        ("down=2ms..", "drop at=2ms.."),
        ("drop  write   first p=0.5", "drop first write p=0.5"),
        ("drop psn=0xfffff0..5 from=verbena1", "drop psn=16777200..5 from=verbena1"),
        ("reorder to=verbena0:2", "reorder by=1 to=verbena0/2"),
        ("reorder by=3 nth=2..", "reorder by=3 nth=2.."),
        ("delay by=20us p=1", "delay by=20us"),
        ("delay by=0.0205us", "delay by=20500ps"),
        ("mark at=0ns..1s", "mark at=0s..1s"),
        (
            "dup atomic-response; corrupt read-response middle",
            "dup atomic-response,corrupt middle read-response",
        ),
        ("# a script\ndrop rnr # the first\n\n  mark mad\nseed=3", "drop rnr,mark mad,seed=3"),
    ] {
        assert_eq!(parse(text).to_string(), canonical, "{text}");
        assert_eq!(parse(canonical), parse(text), "{text}");
    }
}

#[test]
fn what_is_not_a_fault() {
    let parse = |text: &str| text.parse::<Faults>().unwrap_err();
    assert_eq!(parse("los=0.1"), FaultsError::Unknown("los=0.1".into()));
    assert_eq!(parse("loss"), FaultsError::Unknown("loss".into()));
    for bad in ["1.5", "-0.1", "NaN", "x", ""] {
        assert_eq!(parse(&format!("loss={bad}")), FaultsError::Probability(bad.into()));
        assert_eq!(parse(&format!("drop p={bad}")), FaultsError::Probability(bad.into()));
    }
    assert_eq!(parse("seed=-1"), FaultsError::Seed("-1".into()));
    assert_eq!(parse("dup=0,dup=1"), FaultsError::Twice("dup".into()));
    assert_eq!(parse(&["drop"; MOST_RULES + 1].join(",")), FaultsError::TooMany);
}

/// Each message names the word, the rule, and what to write.
#[test]
fn mistakes_in_rules_say_what_to_do() {
    for (text, words) in [
        ("drop dta", "unknown word `dta` in `drop dta`; did you mean `data`? Words: nth=N"),
        ("drop raed-response", "did you mean `read-response`?"),
        ("drop nht=3", "did you mean `nth=`?"),
        ("drop nth", "did you mean `nth=`?"),
        ("drop data=3", "did you mean `data`?"),
        ("drop x", "unknown word `x` in `drop x`; Words: "),
        ("drop dta", "read-response, atomic, atomic-response, ack, nak"),
        ("drop nth=0", "from 1"),
        ("drop nth=5..3", "N..N"),
        ("drop every=0", "each fifth"),
        ("drop qp=16777216", "below 2^24"),
        ("drop psn=-1", "a PSN below 2^24"),
        ("drop from=mlx5_1", "verbena1/2"),
        ("drop from=verbena16", "verbena1/2"),
        ("drop to=verbena1:3", "verbena1/2"),
        ("drop at=5ms", "2ms..5ms"),
        ("drop at=5ms..2ms", "2ms..5ms"),
        ("drop at=2..5", "2ms..5ms"),
        ("down=x", "2ms..5ms"),
        ("drop by=3", "no other rule has it"),
        ("delay by=3", "delay takes a time"),
        ("delay ack", "delay needs by=TIME"),
        ("reorder by=0", "the number of frames"),
        ("drop nth=1 nth=2", "`nth` in `drop nth=1 nth=2` is given twice"),
        ("drop ack ack", "given twice"),
        ("drop read send", "packets of all of its classes"),
        ("drop colour=red", "unknown word `colour=red` in `drop colour=red`; Words: "),
        ("frop ack", "a rule that begins with drop"),
    ] {
        let error = text.parse::<Faults>().unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

/// What the help names is read: each class, each action, and each word that has a value.
#[test]
fn the_help_names_what_is_read() {
    let help = grammar();
    for (name, _) in ACTIONS {
        assert!(help.contains(name), "{name}");
    }
    for (_, class, _) in Classes::ALL {
        assert!(help.contains(&format!(" {class}")), "{class}");
        parse(&format!("drop {class}"));
    }
    for word in VALUED {
        assert!(help.contains(word), "{word}");
        let (name, _) = word.split_once('=').unwrap();
        let error = format!("drop {name}=?").parse::<Faults>().unwrap_err();
        assert!(!matches!(error, FaultsError::Word { .. }), "{error}");
    }
}

#[test]
fn rules_are_for_cards_of_the_net() {
    let faults = parse("drop from=verbena1,delay by=1us to=verbena2:1 ack");
    assert_eq!(faults.check_cards(3), Ok(()));
    let error = faults.check_cards(2).unwrap_err().to_string();
    assert_eq!(error, "`delay by=1us ack to=verbena2/1`: the net has the cards verbena0 to verbena1");
}

fn any_place() -> impl Strategy<Value = Option<Place>> {
    let place = (0..MAX_CARDS as u8, proptest::option::of(0..PORTS as u8));
    proptest::option::of(place.prop_map(|(card, port)| Place { card, port }))
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let action = prop_oneof![
        Just(Action::Drop),
        Just(Action::Dup),
        (1..u32::MAX).prop_map(Action::Reorder),
        Just(Action::Corrupt),
        (1..u64::MAX).prop_map(|time| Action::Delay(Time(time))),
        Just(Action::Mark),
    ];
    let window = (any::<u64>(), any::<u64>()).prop_filter("a time", |(a, b)| a != b);
    let window = window.prop_map(|(a, b)| (Time(a.min(b)), Time(a.max(b))));
    let nth = (1..u64::MAX, 1..u64::MAX).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let psn = (0..=BITS_24, 0..=BITS_24);
    let filters = (
        0..1u32 << Classes::ALL.len(),
        proptest::option::of(0..=BITS_24),
        proptest::option::of(psn),
        prop_oneof![Just((Time(0), Time::NEVER)), window],
        prop_oneof![Just((1, u64::MAX)), nth],
    );
    (action, filters, any_place(), any_place(), 1..u64::MAX, 0.0..=1.0).prop_map(
        |(action, (classes, qp, psn, at, nth), from, to, every, probability)| {
            let chosen = Classes::ALL.iter().enumerate().filter(|(bit, _)| classes >> bit & 1 == 1);
            let more = |all: Classes, class: Classes| Some(all.and(class)).filter(|all| all.has_packets());
            let classes = chosen.fold(Classes::NONE, |all, (_, class)| more(all, class.0).unwrap_or(all));
            Rule { action, classes, qp, psn, from, to, at, nth, every, probability }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        rules in prop::collection::vec(any_rule(), 0..6),
        rates in any::<[bool; 4]>(),
        rate in 0.0..=1.0,
        seed in any::<u64>(),
    ) {
        let [loss, dup, reorder, corrupt] = rates.map(|on| if on { rate } else { 0.0 });
        let faults = Faults { loss, dup, reorder, corrupt, rules, seed };
        prop_assert_eq!(faults.to_string().parse::<Faults>().map_err(|e| e.to_string()), Ok(faults));
    }

    #[test]
    fn a_rule_is_in_the_segment_what_it_is(rule in any_rule()) {
        prop_assert_eq!(Rule::from_words(rule.to_words()), rule);
    }

    /// Whatever is in the segment, a frame has a fate.
    #[test]
    fn any_words_are_a_rule(words in any::<[u64; WORDS]>(), number in any::<u64>(), frame in any::<Vec<u8>>()) {
        let rule = Rule::from_words(words);
        let port = crate::packet::PortId { card: 0, port: 0 };
        let look = super::super::rule::Look { from: port, to: port, at: Time(number), frame: &frame };
        rule.counts(&look);
        rule.selects(number);
        let _ = rule.to_string();
    }

    /// Any bytes are faults, or a mistake that is told in one line of bounded length.
    #[test]
    fn any_text_is_read_or_told(bytes in any::<Vec<u8>>()) {
        told(&String::from_utf8_lossy(&bytes))?;
    }

    /// The same of texts that are nearly right.
    #[test]
    fn any_words_are_read_or_told(words in prop::collection::vec(words_of_faults(), 0..12)) {
        told(&words.join(" "))?;
        told(&words.concat())?;
    }
}

/// What faults are written with, and some that is nothing.
fn words_of_faults() -> impl Strategy<Value = &'static str> {
    let all =
        "drop dup reorder corrupt delay mark down loss seed = =1 =0 0x .. by nth every qp psn at from to p \
    data ack verbena : 1 99999999999999999999 ms s . , ; # \n é 1.5 - inf NaN 1e309";
    prop::sample::select(all.split(' ').collect::<Vec<_>>())
}

fn told(text: &str) -> Result<(), TestCaseError> {
    match text.parse::<Faults>() {
        Ok(faults) => prop_assert_eq!(faults.to_string().parse(), Ok(faults)),
        Err(error) => prop_assert!(error.to_string().len() < 1000 + 3 * text.len()),
    }
    Ok(())
}
