//! Other releases of DPDK than the one that is installed: 24.11 with the same tests, and one that is not known.

use tests::place_for;
use tests::stock::{compile, repository, Dpdk};

use super::{self as dpdk, *};

/// The tests of these names again, with the DPDK of Debian 13.
macro_rules! with_debian_13 {
    (#[$when:meta] $($module:ident: $($test:ident),*;)*) => { $($(
        #[test]
        #[$when]
        fn $test() {
            Dpdk::of_debian_13($module::$test);
        }
    )*)* };
}

// What reads or writes a layout that differs between releases.
with_debian_13! {
    /// Every day.
    dpdk: ports_appear_without_an_argument, frames_arrive_as_they_were_sent,
        hash_and_redirection_table_are_what_was_set;
    flow: rules_choose_the_queue_of_a_frame, rules_know_frames_by_their_tags, rules_mark_and_count_frames;
    interrupts: programs_sleep_until_frames_come;
    offloads: kinds_of_packets_are_those_that_dpdk_finds,
        packets_have_their_hash_and_say_which_checksums_are_right, tags_are_inserted_and_stripped;
    queues: queues_are_as_they_were_made, descriptors_of_a_receive_queue_say_what_waits,
        descriptors_of_a_transmit_queue_say_what_is_sent, receive_queues_start_and_stop_apart;
}

with_debian_13! {
    #[ignore = "the long form of the checks"]
    dpdk: programs_without_ports_start, names_that_are_none_are_refused, what_is_lost_is_counted,
        flows_are_spread_over_receive_queues;
    addresses: frames_come_to_the_addresses_of_a_port, a_port_is_what_seastar_asks_for;
    flow: isolated_ports_get_what_rules_name, rules_that_the_card_cannot_keep_are_refused,
        ten_thousand_rules_are_made_and_ended;
    offloads: checksums_are_those_that_testpmd_computes;
    queues: queues_with_a_deferred_start_wait_for_it, transmit_queues_start_and_stop_apart,
        queues_are_made_anew_while_their_port_goes_on, ports_are_reset;
    secondary: another_process_shows_the_counters_of_a_port, other_processes_capture_the_frames_of_a_port,
        other_processes_do_not_receive, other_processes_tell_ports_apart,
        a_late_answer_is_not_that_of_the_next_question;
    symmetric: both_directions_of_a_flow_come_to_one_queue;
    vlan: frames_of_other_vlans_are_filtered, stripping_is_switched_while_frames_come;
}

#[test]
fn an_unknown_release_is_refused_by_name() {
    let (_directory, program) = place_for("unknown_dpdk");
    let source = repository().join("tests/c/unknown_dpdk.c");
    compile("cc", &["-rdynamic", "-Wl,--as-needed"], &source, &program);
    let mut command = Command::new(program);
    command.arg(built("librte_net_verbena.so"));
    let said = Program::start(command).wait(LIMIT).expect_good();
    let why = "this driver is for DPDK 22.11.x or DPDK 24.11.x and not for DPDK 31.11.0: it stays out";
    assert_eq!(said, format!("level 4 of type 0: verbena: {why}\n"));
}
