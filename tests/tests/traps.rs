//! Each known trap of the data plane has its test: a table that breaks when a test goes away, or comes without its row.

use std::collections::{BTreeMap, BTreeSet};

use appproxy_tests::repository;

/// A trap's number, what it says, and the tests that hold it. A test's name begins with the number.
const TRAPS: &[(&str, &str, &[&str])] = &[
    // Wire parsing
    (
        "W1",
        "Compressed request bodies are understood before the model name is read",
        &[
            "w1_packed_bodies_are_understood_before_the_model_is_read",
            "w1_a_packed_body_reaches_the_replica_plain",
            "w1_known_codings_unpack_and_others_are_named",
            "w1_deflate_comes_with_and_without_its_wrapping",
            "w1_a_bomb_costs_no_more_than_the_bound",
            "w1_members_and_frames_follow_one_another",
            "w1_any_body_comes_back_and_a_cut_one_does_not",
            "w1_anything_is_unpacked_or_refused",
        ],
    ),
    (
        "W2",
        "One configured body limit, and no hidden smaller one",
        &["w2_one_configured_body_limit_to_the_byte_on_every_route", "w2_the_gemini_path_has_the_same_limit"],
    ),
    (
        "W3",
        "Bad or missing model names and broken JSON get a precise 4xx",
        &[
            "w3_odd_heads_and_bodies_are_refused_before_any_replica_sees_them",
            "w3_bad_bodies_are_refused_after_the_key_and_reach_nobody",
            "w3_missing_empty_and_odd_models",
            "w3_every_bad_body_gets_its_code",
        ],
    ),
    (
        "W4",
        "Non-ASCII header bytes never panic anything",
        &[
            "w4_bytes_beyond_ascii_in_headers_hurt_nobody",
            "w4_bytes_beyond_ascii_in_a_head_do_no_harm",
            "w4_bytes_beyond_ascii_pass_as_they_are",
        ],
    ),
    // Ingress
    (
        "I1",
        "Every legal spelling of a host name reaches the same circuit, and nothing else does",
        &[
            "i1_every_spelling_of_a_host_reaches_its_circuit_and_nothing_else_does",
            "i1_every_legal_spelling_of_a_name_is_one_name",
            "i1_nothing_else_reaches_a_circuit",
        ],
    ),
    (
        "I2",
        "IPv4 and IPv4-in-IPv6 are the same address",
        &[
            "i2_ipv4_and_ipv4_in_ipv6_are_the_same_address_to_a_circuit",
            "i2_ipv4_in_ipv6_is_ipv4_everywhere",
            "i2_addresses_are_compared_in_their_plain_form",
        ],
    ),
    (
        "I3",
        "A broken allow-list closes the door instead of opening it",
        &["i3_a_broken_address_list_of_a_circuit_closes_its_door"],
    ),
    (
        "I4",
        "Token time checks tolerate small clock drift, and nothing else about a token is lax",
        &[
            "i4_refused_tokens_reach_no_replica_and_learn_no_more_than_their_code",
            "i4_times_have_their_leeway_and_no_more",
            "i4_only_hs256_without_extensions",
        ],
    ),
    // Key gate
    (
        "K1",
        "Revocation bites at once where it is heard and within one pull interval everywhere else",
        &[
            "k1_a_strict_revocation_is_confirmed_by_the_node_and_bites_at_once",
            "k1_without_the_event_a_revoked_key_is_refused_within_one_pull",
            "k1_trust_in_old_state_can_be_bounded",
            "k1_without_a_key_set_or_with_one_too_old_only_operators_get_in",
        ],
    ),
    (
        "K2",
        "What a key may list, fetch and call is the same set on every route",
        &[
            "k2_a_key_lists_fetches_and_calls_the_same_set",
            "k2_one_decision_for_every_way_to_ask",
            "k2_what_is_listed_is_what_can_be_got_and_called",
        ],
    ),
    (
        "K3",
        "The per-minute limit is exact, recovers on time and survives bursts and clock jumps",
        &[
            "k3_three_a_minute_are_three_and_the_headers_count_down",
            "k3_ten_at_the_same_instant_and_exactly_three_pass",
            "k3_a_the_fourth_waits_and_passes_after_a_minute",
            "k3_b_exactly_the_limit_passes_at_one_instant",
            "k3_c_refusals_do_not_count",
            "k3_d_a_clock_that_steps_back_locks_nobody_out",
            "k3_e_a_changed_limit_takes_effect_at_once",
            "k3_f_one_count_for_a_key_whatever_the_model_and_one_for_each_key",
            "k3_a_used_up_limit_says_when_to_come_back",
        ],
    ),
    (
        "K4",
        "Refusals say nothing beyond the refusal",
        &[
            "k4_every_row_refuses_in_the_shape_of_its_surface_and_says_no_more",
            "k4_refusals_hold_no_key_no_hash_and_no_other_model",
            "k4_messages_hold_nothing_of_the_body",
            "k4_no_state_shows_a_key_or_a_body",
        ],
    ),
    // Streaming and proxying
    ("S1", "Characters split across network reads survive", &["s1_characters_split_across_reads_survive"]),
    ("S2", "Every event is passed on at once", &["s2_every_event_is_passed_on_at_once"]),
    (
        "S3",
        "A cut-off answer never looks finished",
        &[
            "s3_a_replica_that_dies_in_a_stream_ends_it_visibly",
            "s3_a_cut_answer_of_an_application_never_looks_finished",
            "s3_half_a_body_is_never_a_whole_one",
            "s3_a_length_beside_chunks_goes_no_further",
        ],
    ),
    (
        "S4",
        "When the caller leaves, the work stops",
        &["s4_when_the_caller_leaves_the_work_stops", "s4_a_client_that_goes_while_a_retry_waits_ends_it"],
    ),
    (
        "S5",
        "Comment lines keep streams alive and are never mistaken for data",
        &["s5_comments_pass_as_comments_without_waiting_for_content"],
    ),
    (
        "S6",
        "Usage is reported when asked for, and only then",
        &["s6_usage_comes_as_the_replica_sends_it_and_is_asked_for_by_the_client_alone"],
    ),
    (
        "S7",
        "Per-connection headers stop at the gateway; repeated headers all get through",
        &[
            "s7_headers_that_mean_one_connection_stop_here_and_no_credential_goes_further",
            "s7_heads_that_two_readers_could_take_differently_are_refused",
            "s7_what_two_readers_could_end_at_different_places_is_refused",
            "s7_an_answer_that_may_end_at_two_places_is_none",
            "s7_what_belongs_to_the_connection_stays_behind",
            "s7_repeated_answer_headers_arrive_in_order",
        ],
    ),
    (
        "S8",
        "Chunked answers arrive whole at every chunk size on both runtimes",
        &["s8_chunked_answers_arrive_whole_and_the_connection_is_used_again"],
    ),
    // Retry and fallback
    (
        "R1",
        "A stale pooled connection is invisible to the caller",
        &[
            "r1_a_stale_pooled_connection_is_invisible_to_the_caller",
            "r1_a_stale_connection_is_followed_by_a_fresh_one_and_counts_for_nothing",
            "r1_a_large_body_is_sent_once_and_meets_no_stale_connection",
        ],
    ),
    (
        "R2",
        "A caller's mistakes never count against a replica",
        &[
            "r2_a_callers_mistakes_never_count_against_a_replica",
            "r2_a_refusal_of_our_own_credential_is_502_and_an_alarm",
            "r2_a_replicas_own_verdict_on_the_request_passes_unchanged",
            "r2_a_refusal_of_our_own_credential_is_not_the_clients_affair",
            "r2_a_callers_mistake_is_passed_on_and_says_nothing_of_the_replica",
            "r2_a_4xx_on_an_openai_path_is_not_even_read",
        ],
    ),
    (
        "R3",
        "A fallback target gets exactly the treatment of a direct call",
        &[
            "r3_a_stand_in_is_treated_like_a_direct_call_and_named",
            "r3_a_stand_ins_own_chain_comes_right_after_it",
            "r3_circles_end",
            "r3_a_stand_in_is_resolved_rewritten_and_named",
            "r3_an_alias_has_the_chain_of_its_model_and_a_model_without_replicas_begins_with_it",
            "r3_nothing_is_tried_twice_and_nothing_left_is_the_last_answer",
            "r3_a_stand_in_that_does_not_speak_the_surface_is_passed_over",
            "r3_another_name_of_the_same_model_is_no_stand_in",
            "r3_never_twice",
        ],
    ),
    (
        "R4",
        "If every target fails before producing content, the caller gets a real error status",
        &[
            "r4_when_every_target_fails_the_client_gets_a_real_status",
            "r4_the_budget_agrees_with_an_exact_log",
            "r4_a_failing_replica_is_followed_by_another_and_the_last_answer_passes",
            "r4_every_target_fails_and_the_client_gets_a_real_status",
            "r4_retries_end_with_their_budget",
        ],
    ),
    (
        "R5",
        "One stuck replica harms only itself",
        &[
            "r5_one_stuck_replica_harms_only_itself",
            "r5_who_finds_the_replica_full_waits_for_it",
            "r5_one_full_replica_takes_no_more_and_all_full_is_full",
        ],
    ),
    (
        "R6",
        "Upstream errors keep their meaning and lose their secrets",
        &[
            "r6_a_replicas_own_answers_keep_their_meaning",
            "r6_errors_keep_their_class_and_time_to_wait",
            "r6_no_address_reaches_the_client",
            "r6_addresses_behind_us_stay_there",
        ],
    ),
    // Health, weights and draining
    ("H1", "Health changes only after several results agree", &["h1_health_changes_only_after_several_results_agree"]),
    (
        "H2",
        "A replica that recovers is used again without outside help",
        &["h2_a_replica_that_recovers_is_used_again_without_outside_help"],
    ),
    (
        "H3",
        "Weights are obeyed exactly, zero means none, and odd numbers never panic",
        &[
            "h3_seven_to_three_is_seven_to_three_over_one_and_four_replicas",
            "h3_every_strategy_keeps_the_shares",
            "h3_tickets_come_back_by_every_way_out",
            "h3_round_robin_goes_round",
        ],
    ),
    (
        "H4",
        "Draining waits for the end of bodies, not of headers",
        &[
            "h4_a_stream_ends_well_after_sigterm_and_the_coordinator_is_told_last",
            "h4_a_stream_ends_well_though_its_replica_was_taken_away",
            "h4_past_the_shutdown_timeout_streams_are_cut_and_say_so",
        ],
    ),
    // Configuration and reload
    (
        "C1",
        "A bad save is reported and forgotten once it is fixed",
        &[
            "c1_a_bad_file_changes_nothing_and_is_forgotten_once_it_is_mended",
            "c1_a_refused_file_is_told_everywhere_and_its_mistakes_to_operators_alone",
            "c1_every_content_is_judged_once_when_it_stands_still",
        ],
    ),
    (
        "C2",
        "A reload is applied whole or not at all",
        &[
            "c2_a_reload_counts_at_once_and_names_what_needs_a_restart",
            "c2_what_was_pulled_stays_and_shares_are_weighed_anew",
        ],
    ),
];

/// The names of all tests and scenarios: functions in test files and test modules.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (file, text) in repository::rust().expect("the repository is read") {
        let (product, tests) = repository::split_tests(&text);
        let lines = if repository::is_test_file(&file) { [product, tests].concat() } else { tests };
        for (_, line) in lines {
            let after = line.trim_start().split_once("fn ").filter(|(before, _)| before.len() < 20);
            if let Some((name, _)) = after.and_then(|(_, rest)| rest.split_once('(')) {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

/// The trap that a test's name begins with.
fn trap_of(name: &str) -> Option<String> {
    let mut letters = name.chars();
    let (group, number, bar) = (letters.next()?, letters.next()?, letters.next()?);
    let is = "wiksrhc".contains(group) && number.is_ascii_digit() && bar == '_';
    is.then(|| format!("{}{number}", group.to_ascii_uppercase()))
}

#[test]
fn every_trap_has_its_test() {
    let tests = tests();
    let mut wrong = Vec::new();
    for (trap, what, held_by) in TRAPS {
        if held_by.is_empty() {
            wrong.push(format!("{trap} ({what}) has no test"));
        }
        for name in *held_by {
            if !tests.contains(*name) {
                wrong.push(format!("{trap}: there is no test {name}"));
            }
            if trap_of(name).as_deref() != Some(trap) {
                wrong.push(format!("{trap}: the name of {name} does not begin with the trap's number"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_test_named_after_a_trap_has_its_row() {
    let rows: BTreeMap<&str, &[&str]> = TRAPS.iter().map(|(trap, _, tests)| (*trap, *tests)).collect();
    let without: Vec<String> = tests()
        .into_iter()
        .filter(|name| {
            trap_of(name).is_some_and(|trap| !rows.get(trap.as_str()).is_some_and(|row| row.contains(&name.as_str())))
        })
        .collect();
    assert!(without.is_empty(), "add to the table: {without:?}");
}

#[test]
fn a_missing_test_would_be_told() {
    let tests = tests();
    assert!(tests.contains("a_missing_test_would_be_told") && !tests.contains("s9_nobody_wrote_this"));
    assert_eq!(trap_of("s4_when"), Some("S4".to_owned()));
    assert_eq!(trap_of("h2o_is_water"), None);
}
