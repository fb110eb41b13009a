//! Buffers of programs on stock verbs: when they may be used again, and what is seen when they go.

use tests::stock::{alone, compile_c, Program, StockNet, LIMIT};

/// Another thread refills a buffer the moment that it sees the completion.
#[test]
fn a_buffer_belongs_to_the_program_once_its_message_is_complete() {
    let _alone = alone();
    let reuse = compile_c("reuse");
    for wire in ["--wire=fast", "--wire=exact"] {
        for transport in ["ud", "uc"] {
            let net = StockNet::new();
            let command = net.command(&[wire], &reuse, &[transport, "verbena1", "300"]);
            Program::start(command).wait(LIMIT).expect_good_saying("OK");
        }
    }
}

/// A file that is cut behind a registered buffer is a fault of its owner, and not of who reads it; a process that is
/// killed does not answer.
#[test]
fn the_side_whose_memory_goes_is_the_one_that_failed() {
    let _alone = alone();
    let gone = compile_c("gone");
    for how in ["cut", "killed"] {
        for what in ["read", "write"] {
            let net = StockNet::new();
            net.start(&gone, &[how, what]).wait(LIMIT).expect_good_saying("OK");
        }
    }
}

/// A sender whose own memory cannot be read fails locally, however its packets travel.
#[test]
fn what_cannot_be_read_is_a_local_error_of_its_sender() {
    let _alone = alone();
    let unread = compile_c("unread");
    let mut wrong = String::new();
    for options in
        [&[][..], &["--wire", "exact"], &["--clock", "virtual"], &["--clock", "virtual", "--wire", "exact"]]
    {
        let net = StockNet::new();
        for transport in ["rc", "uc", "ud", "unready"] {
            let ended = Program::start(net.command(options, &unread, &[transport])).wait(LIMIT);
            if !ended.good() || !ended.said.contains("OK") {
                wrong += &format!("{ended}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_is_gathered_does_not_pile_up() {
    let net = StockNet::alone();
    let gather = compile_c("gather");
    net.start(&gather, &[]).wait(LIMIT).expect_good_saying("OK");
}
