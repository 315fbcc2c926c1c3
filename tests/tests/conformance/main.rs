//! What every shell must do, on real sockets: one list of scenarios, run once for each shell.
//!
//! A scenario is a function over a [`Shell`](appproxy_tests::shell::Shell). It stands in the list below, and so runs on
//! every shell: none can leave one out. A function that is not in the list is dead code, which clippy refuses.

mod access_tokens;
mod bounds;
mod commands;
mod edges;
mod gate;
mod ingress;
mod leaving;
mod odd_input;
mod outages;
mod passing_on;
mod publishing;
mod reloading;
mod revocation;
mod secrets;
mod streaming;
mod through;

/// The list. `$then` gets `(its arguments)` and all of it.
macro_rules! every_scenario {
    ($then:ident, $($arguments:tt)*) => {
        $then! {
            ($($arguments)*)
            access_tokens {
                i4_refused_tokens_reach_no_replica_and_learn_no_more_than_their_code,
                one_circuits_token_opens_no_other,
            }
            bounds {
                a_client_that_does_not_read_slows_the_replica_down,
                a_client_that_sends_all_of_a_body_far_too_large_gets_its_413,
                a_connection_that_the_replica_closed_meanwhile_is_nobodys_trouble,
                a_hangup_is_no_end_and_pages_answer_browsers,
                a_key_ends_to_the_second,
                bodies_in_memory_are_bounded_over_all_requests,
                connections_beyond_the_bound_wait_for_a_place_and_then_are_told,
                heads_beyond_the_bound_are_refused_and_large_bodies_are_asked_for,
                one_stuck_replica_harms_only_itself,
                trust_in_old_state_can_be_bounded,
            }
            commands {
                a_demo_that_is_killed_leaves_no_redis_behind,
                a_plain_router_serves_its_backends_to_its_own_keys,
                a_plain_router_without_keys_needs_none,
                an_address_that_is_taken_is_named_and_ends_it_with_1,
                check_accepts_the_examples_and_shows_them_without_their_secrets,
                check_names_every_mistake_with_key_line_and_what_would_be_right,
                every_line_of_the_legacy_demo_works_as_pasted,
                every_line_that_the_demo_prints_works_as_pasted,
            }
            edges {
                a_bad_head_behind_a_good_request_does_not_cost_its_answer,
                a_body_that_stands_still_is_408_and_a_client_that_leaves_in_it_is_no_ones_mistake,
                a_client_that_closes_its_side_gets_its_answer,
                a_replicas_errors_are_said_in_the_callers_shape_and_its_address_stays_here,
                a_tls_listener_serves_cuts_the_slow_and_takes_a_new_certificate,
                heads_that_two_readers_may_read_differently_are_refused,
                times_are_fine_and_paths_are_cut_in_the_access_line,
            }
            gate {
                a_key_lists_fetches_and_calls_the_same_set_and_hidden_models_look_unpublished,
                every_row_refuses_in_the_shape_of_its_surface,
                operator_keys_of_the_file_work_beside_the_coordinators,
                ten_at_the_same_instant_and_exactly_three_pass,
                three_a_minute_are_three_and_the_headers_count_down,
            }
            ingress {
                a_browsers_question_needs_no_token_and_any_other_options_does,
                a_circuit_answers_to_its_own_model_whatever_is_asked,
                an_unknown_label_has_no_fallback,
                fallback_comes_after_authentication,
                i1_every_spelling_of_a_host_reaches_its_circuit_and_nothing_else_does,
                i2_ipv4_and_ipv4_in_ipv6_are_the_same_address_to_a_circuit,
                i3_a_broken_address_list_of_a_circuit_closes_its_door,
                pages_answer_at_the_nodes_own_names_and_belong_to_the_replica_elsewhere,
                the_apex_judges_circuit_by_circuit,
                two_circuits_of_one_label_and_a_removal,
            }
            leaving {
                a_coordinator_that_is_gone_does_not_hold_a_worker_up,
                a_second_signal_ends_it_at_once_with_1,
                a_stream_ends_well_after_sigterm_and_the_coordinator_is_told_last,
                one_node_leaves_and_the_other_serves_on,
                past_the_shutdown_timeout_streams_are_cut_and_say_so,
            }
            odd_input {
                every_odd_sample_leaves_the_subscription_standing,
                malformed_elements_of_a_pull_cost_only_themselves,
                malformed_messages_are_counted_by_kind_and_change_nothing,
                the_good_elements_of_a_broken_batch_are_applied_and_acked,
            }
            outages {
                a_forgotten_worker_registers_again_and_an_empty_answer_is_applied_like_any_other,
                a_frozen_redis_is_noticed_by_an_unanswered_ping,
                a_worker_started_without_redis_or_coordinator_gets_there_in_the_end,
                a_wrong_secret_and_an_old_coordinator_are_said_in_those_words,
                redis_is_killed_and_comes_back,
                the_coordinator_is_gone_for_a_while,
            }
            passing_on {
                a_replica_that_refuses_the_connection_is_passed_over,
                a_replicas_own_answers_keep_their_meaning,
                bytes_beyond_ascii_in_headers_hurt_nobody,
                headers_that_mean_one_connection_stop_here_and_no_credential_goes_further,
                odd_heads_and_bodies_are_refused_before_any_replica_sees_them,
                several_listeners_and_a_unix_socket_are_one_worker,
                slow_heads_and_bodies_left_half_are_cut,
                the_model_of_a_multipart_body_is_its_model_part_and_files_are_not_here_yet,
            }
            publishing {
                a_model_is_published_served_listed_and_unpublished,
                creating_a_circuit_is_acked_within_a_second_in_both_dialects,
                publishing_to_serving_takes_milliseconds,
                seven_to_three_is_seven_to_three_over_one_and_four_replicas,
            }
            reloading {
                a_backend_has_retries_of_its_own,
                a_bad_file_changes_nothing_and_is_forgotten_once_it_is_mended,
                a_reload_counts_at_once_and_names_what_needs_a_restart,
                static_backends_come_and_go_and_what_goes_drains,
            }
            revocation {
                a_removed_circuit_stays_removed_although_the_coordinator_commits_later,
                a_strict_revocation_is_confirmed_by_the_node_and_bites_at_once,
                until_the_first_pull_nobody_is_let_in_and_the_answer_says_which_way,
                without_a_bus_changes_come_by_pull_alone,
                without_the_event_a_revoked_key_is_refused_within_one_pull,
            }
            secrets {
                no_secret_shows_in_logs_metrics_pages_or_answers,
            }
            streaming {
                a_client_that_leaves_takes_its_request_with_it,
                a_replica_that_dies_in_a_stream_ends_it_visibly,
                a_silent_replica_meets_its_time_limits,
                each_piece_arrives_before_the_next_is_sent_and_no_byte_is_changed,
                half_a_body_is_never_a_whole_one,
            }
            through {
                a_websocket_goes_through_and_no_other_upgrade_does,
                a_wildcard_worker_registers_is_acked_and_leaves,
                every_path_and_method_goes_through_untouched,
                until_the_first_pull_no_host_is_known_to_be_wrong,
                until_the_model_is_known_other_paths_pass,
                what_lists_no_models_is_opaque,
            }
        }
    };
}

/// One test for each scenario, named `shell::group::scenario`.
macro_rules! tests_of {
    (($shell:ident, $value:expr) $($group:ident { $($scenario:ident,)* })*) => {
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

// The shells.
every_scenario!(tests_of, tokio, appproxy_tests::shell::Shell::TOKIO);
every_scenario!(tests_of, smol, appproxy_tests::shell::Shell::SMOL);
