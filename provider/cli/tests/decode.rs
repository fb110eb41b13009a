//! `verbena decode` as a person uses it.

use std::process::{Command, Output};

fn decode(kind: &str, hex: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_verbena")).args(["decode", kind, hex]).output().unwrap()
}

/// What is there is printed, and the exit status says that it is not a whole entry.
#[test]
fn the_length_must_be_right() {
    let kinds = ["recv", "cqe", "eqe", "cmd", "reply", "qp", "cq", "srq", "eq", "mr", "mw", "port"];
    let more = ["wqe", "flow", "table", "lag", "ethernet", "limits"];
    for kind in kinds.into_iter().chain(more) {
        let output = decode(kind, "00");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("only 1 are there"), "{kind}: {text}");
        assert_eq!(output.status.code(), Some(1), "{kind}: {text}");
        let bytes = text.split(" has ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let whole = "00".repeat(bytes.parse().unwrap());
        assert_eq!(decode(kind, &whole).status.code(), Some(0), "{kind}");
    }
    for (kind, bytes) in [("qp", 257), ("cqe", 65), ("cqe", 127), ("cmd", 65)] {
        let output = decode(kind, &"01".repeat(bytes));
        assert!(!output.stdout.is_empty());
        assert_eq!(output.status.code(), Some(1), "{bytes} bytes of {kind}");
    }
    // Several, one after the other.
    assert_eq!(decode("cqe", &"00".repeat(128)).status.code(), Some(0));
}
