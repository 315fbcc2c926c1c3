//! Who is asked no more: by probes, and by live traffic (data-plane 4).

use appproxy_fixtures::replica::Behaviour;

use super::stage::*;

const OFTEN: &str = "health_checks: {interval: 100ms, timeout: 1s, unhealthy_threshold: 2, healthy_threshold: 2, \
                     warmup_check_interval: 100ms}\n";

#[tokio::test]
async fn a_replica_that_goes_down_is_taken_out_by_probes_and_comes_back() {
    let (mut first, second) = two().await;
    let running = worker(&[(&first, "m"), (&second, "m")], &(OFTEN.to_owned() + NO_QUARANTINE)).await;
    until(&running, r#"appproxy_backends{health="ready"} 2"#).await;

    first.kill();
    until(&running, r#"appproxy_backends{health="down"} 1"#).await;
    for _ in 0..4 {
        let answer = ask(&running, CHAT).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from two"), "{answer}");
    }
    assert_eq!(metric(&running, "appproxy_retries_total").await, "appproxy_retries_total 0", "it was not even tried");
    assert!(!metric(&running, r#"appproxy_probes_total{outcome="refused"}"#).await.is_empty());

    first.revive().expect("the same port");
    until(&running, r#"appproxy_backends{health="ready"} 2"#).await;
    let answers = [ask(&running, CHAT).await, ask(&running, CHAT).await];
    assert!(answers.iter().any(|answer| answer.contains("from one")), "{answers:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_replica_that_loads_its_model_is_left_alone_until_it_has() {
    let (first, second) = two().await;
    let running = worker(&[(&first, "m"), (&second, "m")], OFTEN).await;
    first.behave(Behaviour { warming_up: true, ..Behaviour::default() });
    until(&running, r#"appproxy_backends{health="warming_up"} 1"#).await;
    for _ in 0..4 {
        let answer = ask(&running, CHAT).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from two"), "{answer}");
    }
    assert_eq!(first.requests(), 0);
    first.behave(Behaviour::default());
    until(&running, r#"appproxy_backends{health="ready"} 2"#).await;
}

#[tokio::test]
async fn a_replica_that_fails_live_traffic_is_put_into_quarantine() {
    let (first, second) = two().await;
    let more = NO_PROBES.to_owned() + "passive: {failures: 3, ejection: 300s}\n";
    let running = worker(&[(&first, "m"), (&second, "m")], &more).await;
    first.behave(Behaviour { half_body: true, ..Behaviour::default() });
    for _ in 0..6 {
        ask(&running, CHAT).await;
    }
    assert_eq!(first.requests(), 3, "an answer that breaks off is not asked for again");
    until(&running, "appproxy_ejections_total 1").await;
    until(&running, r#"appproxy_backends{health="quarantined"} 1"#).await;
    for _ in 0..4 {
        let answer = ask(&running, CHAT).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from two"), "{answer}");
    }
    assert_eq!(first.requests(), 3);
}

#[tokio::test]
async fn a_failure_that_a_retry_hides_counts_as_well() {
    let (mut first, second) = two().await;
    let more = NO_PROBES.to_owned() + "passive: {failures: 2, ejection: 300s}\n";
    let running = worker(&[(&first, "m"), (&second, "m")], &more).await;
    first.kill();
    for _ in 0..4 {
        let answer = ask(&running, CHAT).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from two"), "{answer}");
    }
    until(&running, "appproxy_ejections_total 1").await;
    assert_eq!(metric(&running, "appproxy_health_reports_lost").await, "appproxy_health_reports_lost_total 0");
}
