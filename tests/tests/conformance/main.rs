//! What every shell must do, on real sockets: one list of scenarios, run once for each shell.
//!
//! A scenario is a function over a [`Shell`](appproxy_tests::shell::Shell). It stands in the list below, and so runs on
//! every shell: none can leave one out. A function that is not in the list is dead code, which clippy refuses. Beside it
//! stands a defect that it must notice (`appproxy_core::defects`, `appproxy_core::worker::defects`): [`proof`] shows that
//! it does.

#![allow(clippy::unwrap_used, reason = "a scenario is the body of a test")]

mod access_tokens;
mod admin;
mod bounds;
mod commands;
mod edges;
mod gate;
mod health;
mod ingress;
mod law;
mod leaving;
mod odd_input;
mod outages;
mod passing_on;
mod proof;
mod publishing;
mod reloading;
mod retry;
mod revocation;
mod secrets;
mod streaming;
mod through;
mod wire;

/// The list. `$then` gets `(its arguments)` and all of it.
macro_rules! every_scenario {
    ($then:ident, $($arguments:tt)*) => {
        $then! {
            ($($arguments)*)
            access_tokens {
                i4_refused_tokens_reach_no_replica_and_learn_no_more_than_their_code = "token-of-any-circuit",
                one_circuits_token_opens_no_other = "token-of-any-circuit",
            }
            admin {
                a_drained_backend_gets_no_request_until_it_is_undrained = "drain-unheard",
                a_key_is_shown_with_when_it_was_last_seen = "keys-unseen",
                a_variable_takes_the_place_of_a_key_of_the_file = "overrides-unread",
                check_prints_the_schema_and_the_reference_of_every_key = "section-untold",
                explain_says_beforehand_what_a_request_meets = "explain-forgets-key",
                the_admin_listener_asks_for_its_token_and_without_one_changes_nothing = "admin-open",
                the_state_shows_everything_but_secrets = "state-tells-hashes",
            }
            bounds {
                a_client_that_does_not_read_slows_the_replica_down = "no-back-pressure",
                a_client_that_sends_all_of_a_body_far_too_large_gets_its_413 = "body-size-ignored",
                a_hangup_is_no_end_and_pages_answer_browsers = "origins-ignored",
                a_key_ends_to_the_second = "expiry-ignored",
                bodies_in_memory_are_bounded_over_all_requests = "buffered-ignored",
                connections_beyond_the_bound_wait_for_a_place_and_then_are_told = "connections-ignored",
                heads_beyond_the_bound_are_refused_and_large_bodies_are_asked_for = "header-size-ignored",
                k1_trust_in_old_state_can_be_bounded = "staleness-ignored",
                r5_one_stuck_replica_harms_only_itself = "few-connections",
            }
            commands {
                a_plain_router_serves_its_backends_to_its_own_keys = "credential-forwarded",
                a_plain_router_without_keys_needs_none = "key-always-asked",
                an_address_that_is_taken_is_named_and_ends_it_with_1 = "any-port",
                check_accepts_the_examples_and_shows_them_without_their_secrets = "variables-unread",
                check_names_every_mistake_with_key_line_and_what_would_be_right = "first-mistake-only",
                every_line_of_the_legacy_demo_works_as_pasted = "token-of-any-circuit",
                every_line_that_the_demo_prints_works_as_pasted = "no-retries",
                the_released_program_cannot_be_made_wrong = "no-retries",
            }
            edges {
                a_bad_head_behind_a_good_request_does_not_cost_its_answer = "heads-unjudged",
                a_body_that_stands_still_is_408_and_a_client_that_leaves_in_it_is_no_ones_mistake = "slow-peers-stay",
                a_client_that_closes_its_side_gets_its_answer = "leaving-unnoticed",
                a_replicas_errors_are_said_in_the_callers_shape_and_its_address_stays_here = "verdicts-replaced",
                a_tls_listener_serves_cuts_the_slow_and_takes_a_new_certificate = "slow-peers-stay",
                heads_that_two_readers_may_read_differently_are_refused = "heads-unjudged",
                times_are_fine_and_paths_are_cut_in_the_access_line = "path-uncut",
            }
            gate {
                k2_a_key_lists_fetches_and_calls_the_same_set = "everything-listed",
                k3_ten_at_the_same_instant_and_exactly_three_pass = "limit-off-by-one",
                k3_three_a_minute_are_three_and_the_headers_count_down = "limit-off-by-one",
                k4_every_row_refuses_in_the_shape_of_its_surface_and_says_no_more = "one-shape-for-all",
                operator_keys_of_the_file_work_beside_the_coordinators = "addresses-ignored",
            }
            health {
                a_dead_replica_that_one_model_needs_is_passed_over_by_the_others = "every-model-must-spare",
                a_replica_that_fails_live_traffic_is_put_into_quarantine = "traffic-unheard",
                a_replica_that_loads_its_model_is_left_alone_until_it_has = "down-for-ever",
                h1_health_changes_only_after_several_results_agree = "one-probe-decides",
                h2_a_replica_that_recovers_is_used_again_without_outside_help = "down-for-ever",
            }
            law {
                bytes_arrive_as_they_were_sent_both_ways = "pieces-made-text",
            }
            ingress {
                a_browsers_question_needs_no_token_and_any_other_options_does = "options-need-nothing",
                a_circuit_answers_to_its_own_model_whatever_is_asked = "model-not-pinned",
                an_unknown_label_has_no_fallback = "any-label",
                fallback_comes_after_authentication = "chain-before-token",
                i1_every_spelling_of_a_host_reaches_its_circuit_and_nothing_else_does = "any-label",
                i2_ipv4_and_ipv4_in_ipv6_are_the_same_address_to_a_circuit = "addresses-not-asked",
                i3_a_broken_address_list_of_a_circuit_closes_its_door = "addresses-not-asked",
                pages_answer_at_the_nodes_own_names_and_belong_to_the_replica_elsewhere = "pages-everywhere",
                the_apex_judges_circuit_by_circuit = "apex-opens-all",
                two_circuits_of_one_label_and_a_removal = "any-label",
            }
            leaving {
                a_busy_connection_is_told_of_the_end_before_it_comes = "leaving-untold",
                a_coordinator_that_is_gone_does_not_hold_a_worker_up = "notice-too-long",
                a_second_signal_ends_it_at_once_with_1 = "cut-at-once",
                h4_a_stream_ends_well_after_sigterm_and_the_coordinator_is_told_last = "cut-at-once",
                h4_a_stream_ends_well_though_its_replica_was_taken_away = "route-update-unheard",
                h4_past_the_shutdown_timeout_streams_are_cut_and_say_so = "never-cut",
                one_node_leaves_and_the_other_serves_on = "acks-withheld",
            }
            odd_input {
                every_odd_sample_leaves_the_subscription_standing = "acks-withheld",
                malformed_elements_of_a_pull_cost_only_themselves = "malformed-uncounted",
                malformed_messages_are_counted_by_kind_and_change_nothing = "malformed-uncounted",
                the_good_elements_of_a_broken_batch_are_applied_and_acked = "acks-withheld",
            }
            outages {
                a_forgotten_worker_registers_again_and_an_empty_answer_is_applied_like_any_other = "not-found-ignored",
                a_frozen_redis_is_noticed_by_an_unanswered_ping = "bus-not-pinged",
                a_worker_started_without_redis_or_coordinator_gets_there_in_the_end = "register-gives-up",
                a_wrong_secret_and_an_old_coordinator_are_said_in_those_words = "secret-rejected-unsaid",
                redis_is_killed_and_comes_back = "no-pull-after-subscription",
                the_coordinator_is_gone_for_a_while = "health-always-good",
            }
            passing_on {
                a_replica_that_refuses_the_connection_is_passed_over = "no-retries",
                r6_a_replicas_own_answers_keep_their_meaning = "error-pages-passed",
                s7_headers_that_mean_one_connection_stop_here_and_no_credential_goes_further = "hop-headers-kept",
                several_listeners_and_a_unix_socket_are_one_worker = "socket-mode-ignored",
                slow_heads_and_bodies_left_half_are_cut = "slow-peers-stay",
                the_model_of_a_multipart_body_is_its_model_part_and_files_are_not_here_yet = "second-model-part-ignored",
                w3_odd_heads_and_bodies_are_refused_before_any_replica_sees_them = "duplicates-taken",
                w4_bytes_beyond_ascii_in_headers_hurt_nobody = "odd-headers-dropped",
            }
            publishing {
                a_model_is_published_served_listed_and_unpublished = "route-update-unheard",
                creating_a_circuit_is_acked_within_a_second_in_both_dialects = "acks-withheld",
                h3_seven_to_three_is_seven_to_three_over_one_and_four_replicas = "weights-literal",
                publishing_to_serving_takes_milliseconds = "acks-withheld",
            }
            reloading {
                a_backend_has_retries_of_its_own = "retry-override-ignored",
                c1_a_bad_file_changes_nothing_and_is_forgotten_once_it_is_mended = "reload-unheard",
                c1_a_refused_file_is_told_everywhere_and_its_mistakes_to_operators_alone = "refusal-untold",
                c2_a_reload_counts_at_once_and_names_what_needs_a_restart = "reload-unheard",
                static_backends_come_and_go_and_what_goes_drains = "reload-unheard",
            }
            retry {
                a_body_too_large_to_be_kept_is_sent_once = "retry-buffer-ignored",
                after_the_first_byte_nothing_is_asked_again = "finished-all-the-same",
                r1_a_stale_pooled_connection_is_invisible_to_the_caller = "stale-counts",
                r2_a_callers_mistakes_never_count_against_a_replica = "verdicts-count",
                r2_a_refusal_of_our_own_credential_is_502_and_an_alarm = "verdicts-replaced",
                r3_a_stand_in_is_treated_like_a_direct_call_and_named = "fallback-ignored",
                r4_when_every_target_fails_the_client_gets_a_real_status = "no-retries",
                s7_an_answer_that_may_end_at_two_places_is_none = "two-ends-taken",
            }
            revocation {
                a_removed_circuit_stays_removed_although_the_coordinator_commits_later = "no-guard",
                k1_a_strict_revocation_is_confirmed_by_the_node_and_bites_at_once = "revocation-unheard",
                k1_without_the_event_a_revoked_key_is_refused_within_one_pull = "pulls-rare",
                until_the_first_pull_nobody_is_let_in_and_the_answer_says_which_way = "ready-at-once",
                without_a_bus_changes_come_by_pull_alone = "pulls-rare",
            }
            secrets {
                no_secret_shows_in_logs_metrics_pages_or_answers = "query-logged",
            }
            streaming {
                a_silent_replica_meets_its_time_limits = "silence-ignored",
                s1_characters_split_across_reads_survive = "pieces-made-text",
                s2_every_event_is_passed_on_at_once = "pieces-held-back",
                s3_a_replica_that_dies_in_a_stream_ends_it_visibly = "finished-all-the-same",
                s3_half_a_body_is_never_a_whole_one = "clean-end",
                s4_when_the_caller_leaves_the_work_stops = "leaving-unnoticed",
                s5_comments_pass_as_comments_without_waiting_for_content = "pieces-held-back",
                s6_usage_comes_as_the_replica_sends_it_and_is_asked_for_by_the_client_alone = "body-written-anew",
                tokens_are_counted_as_answers_state_them = "usage-unread",
                s8_chunked_answers_arrive_whole_and_the_connection_is_used_again = "pieces-made-text",
            }
            wire {
                w1_packed_bodies_are_understood_before_the_model_is_read = "coding-forgotten",
                w2_the_gemini_path_has_the_same_limit = "body-size-off-by-one",
                w2_one_configured_body_limit_to_the_byte_on_every_route = "body-size-off-by-one",
            }
            through {
                a_websocket_goes_through_and_no_other_upgrade_does = "upgrades-refused",
                a_wildcard_worker_registers_is_acked_and_leaves = "acks-withheld",
                an_upload_goes_on_piece_by_piece = "uploads-held",
                an_upload_that_breaks_off_leaves_nothing_and_harms_nobody = "half-body-answered",
                every_path_and_method_goes_through_untouched = "credential-forwarded",
                idle_connections_to_a_replica_go_with_it = "idle-kept",
                s3_a_cut_answer_of_an_application_never_looks_finished = "clean-end",
                until_the_first_pull_no_host_is_known_to_be_wrong = "ready-at-once",
                until_the_model_is_known_other_paths_pass = "held-serves",
                what_lists_no_models_is_opaque = "opaque-held",
            }
        }
    };
}

/// One test for each scenario, named `shell::group::scenario`.
macro_rules! tests_of {
    (($shell:ident, $value:expr) $($group:ident { $($scenario:ident = $defect:literal,)* })*) => {
        mod $shell {
            $(mod $group {
                $(
                    #[test]
                    fn $scenario() {
                        crate::$group::$scenario($value);
                    }
                )*
            })*
        }
    };
}

/// Each scenario as `group::scenario` with its defect.
macro_rules! pairs_of {
    (($name:ident) $($group:ident { $($scenario:ident = $defect:literal,)* })*) => {
        const $name: &[(&str, &str)] =
            &[$($((concat!(stringify!($group), "::", stringify!($scenario)), $defect),)*)*];
    };
}

/// The shells: the tests of each, and what the proof goes through.
macro_rules! on_every_shell {
    ($($name:ident = $shell:ident,)*) => {
        $(every_scenario!(tests_of, $name, appproxy_tests::shell::Shell::$shell);)*
        const SHELLS: &[appproxy_tests::shell::Shell] = &[$(appproxy_tests::shell::Shell::$shell,)*];
    };
}

on_every_shell! {
    tokio = TOKIO,
    smol = SMOL,
}

every_scenario!(pairs_of, PAIRS);
