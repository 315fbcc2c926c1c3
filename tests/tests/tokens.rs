//! Our own check of access tokens against a library's (worker-protocol 4.4): generated tokens, good and bad, get the same
//! verdict from both.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use appproxy_core::access::token::{Claims, TokenRefusal, TokenVerifier};
use appproxy_core::secret::Secret;
use appproxy_core::time::UnixMillis;
use appproxy_fixtures::wire::token::{HEADER, mint, sign};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use proptest::prelude::*;
use serde_json::{Value, json};

const SECRET: &str = "dummy-jwt-secret-for-tests-0123456789abcdef";
const CIRCUIT: &str = "dc4110a9-d82a-4587-b96a-f7b58c5b02d1";
const LEEWAY: u64 = 60;

fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("before the end of time")
}

/// The library's verdict: `Err(true)` is expired, `Err(false)` anything else.
fn library(token: &str) -> Result<(), bool> {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.validate_nbf = true;
    validation.leeway = LEEWAY;
    match decode::<Value>(token, &DecodingKey::from_secret(SECRET.as_bytes()), &validation) {
        Ok(_) => Ok(()),
        Err(error) => Err(matches!(error.kind(), ErrorKind::ExpiredSignature)),
    }
}

/// Both verdicts of one token, at one second: the library reads the clock itself.
fn verdicts(token_at: impl Fn(i64) -> String) -> (Result<Claims, TokenRefusal>, Result<(), bool>, String) {
    let verifier = TokenVerifier::new(&Secret::new(SECRET), Duration::from_secs(LEEWAY));
    loop {
        let now = seconds();
        let token = token_at(now);
        let ours = verifier.read(token.as_bytes(), UnixMillis(now * 1000));
        let theirs = library(&token);
        if seconds() == now {
            return (ours, theirs, token);
        }
    }
}

fn agree(token_at: impl Fn(i64) -> String) -> Result<(), String> {
    let (ours, theirs, token) = verdicts(token_at);
    let same = match ours {
        Ok(_) => theirs == Ok(()),
        // We say `expired` only of a token that is good otherwise.
        Err(TokenRefusal::Expired) => theirs == Err(true),
        Err(_) => theirs.is_err(),
    };
    if same { Ok(()) } else { Err(format!("ours {ours:?}, the library's {theirs:?}: {token}")) }
}

/// A time claim: absent, or made from the second it is judged at.
#[derive(Debug, Clone)]
enum Time {
    Absent,
    Ahead(i64),
    Fraction(f64),
    Given(Value),
}

impl Time {
    fn put(&self, claims: &mut Value, name: &str, now: i64) {
        let value = match self {
            Self::Absent => return,
            Self::Ahead(by) => json!(now + by),
            Self::Fraction(by) => json!(now as f64 + by),
            Self::Given(value) => value.clone(),
        };
        claims[name] = value;
    }
}

fn time() -> impl Strategy<Value = Time> {
    let given = [
        json!(null),
        json!("1893456000"),
        json!(""),
        json!(-1),
        json!(-1.5),
        json!(0),
        json!(0.4),
        json!(1e300),
        json!(1e19),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(true),
        json!([1_893_456_000]),
        json!({}),
    ];
    prop_oneof![
        2 => Just(Time::Absent),
        6 => (-70..70_i64).prop_map(Time::Ahead),
        3 => prop_oneof![Just(-61), Just(-60), Just(-59), Just(59), Just(60), Just(61)].prop_map(Time::Ahead),
        2 => any::<i32>().prop_map(|by| Time::Ahead(by.into())),
        3 => (-70.0..70.0_f64).prop_map(Time::Fraction),
        3 => prop::sample::select(&given[..]).prop_map(Time::Given),
    ]
}

/// What is done to a token after it was signed.
#[derive(Debug, Clone)]
enum Harm {
    None,
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Append(String),
    Drop(usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        6 => Just(Harm::None),
        2 => (any::<prop::sample::Index>(), 1..128_u8).prop_map(|(at, with)| Harm::Flip(at, with)),
        1 => any::<prop::sample::Index>().prop_map(Harm::Cut),
        1 => "[A-Za-z0-9_.=-]{1,9}".prop_map(Harm::Append),
        1 => (0..3_usize).prop_map(Harm::Drop),
    ]
}

fn harmed(token: String, harm: &Harm) -> String {
    match harm {
        Harm::None => token,
        Harm::Flip(at, with) => {
            let mut bytes = token.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = (bytes[at] ^ with) & 0x7f;
            String::from_utf8(bytes).expect("ASCII stays ASCII")
        }
        Harm::Cut(at) => token[..at.index(token.len())].to_owned(),
        Harm::Append(more) => token + more,
        Harm::Drop(part) => {
            let parts: Vec<&str> =
                token.split('.').enumerate().filter(|(at, _)| at != part).map(|(_, it)| it).collect();
            parts.join(".")
        }
    }
}

fn header() -> impl Strategy<Value = String> {
    let given = [
        HEADER,
        r#"{"alg":"HS256"}"#,
        r#"{"typ":"JWT","alg":"HS256","kid":"k"}"#,
        r#"{"alg":"none"}"#,
        r#"{"alg":"HS384"}"#,
        r#"{"alg":"HS512","typ":"JWT"}"#,
        r#"{"alg":"RS256","typ":"JWT"}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":"HS256","crit":[]}"#,
        r#"{"alg":"HS256","crit":["exp"]}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"typ":"JWT"}"#,
        r#"{"alg":5}"#,
        "null",
        "{",
    ];
    prop_oneof![4 => Just(HEADER.to_owned()), 1 => prop::sample::select(&given[..]).prop_map(str::to_owned)]
}

fn audience() -> impl Strategy<Value = Option<Value>> {
    let given = [json!("x"), json!(null), json!([]), json!(["x"]), json!(5), json!("")];
    prop_oneof![5 => Just(None), 1 => prop::sample::select(&given[..]).prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_say_the_same(
        exp in time(), nbf in prop_oneof![2 => Just(Time::Absent), 1 => time()], aud in audience(), header in header(),
        wrong in prop::bool::weighted(0.05), harm in harm(),
    ) {
        let verdict = agree(|now| {
            let mut claims = json!({"id": CIRCUIT});
            exp.put(&mut claims, "exp", now);
            nbf.put(&mut claims, "nbf", now);
            if let Some(aud) = &aud {
                claims["aud"] = aud.clone();
            }
            let secret = if wrong { "another secret" } else { SECRET };
            harmed(sign(secret, &header, &claims.to_string()), &harm)
        });
        prop_assert_eq!(verdict, Ok(()));
    }

    #[test]
    fn both_take_the_librarys_tokens(ahead in -59..100_000_i64, filler in "\\PC{0,40}") {
        let (ours, theirs, token) = verdicts(|now| {
            let claims = json!({"id": CIRCUIT, "exp": now + ahead, "note": filler});
            encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET.as_bytes())).expect("a token")
        });
        prop_assert!(ours.is_ok_and(|claims| claims.opens(CIRCUIT.parse().expect("a UUID"))), "{}", token);
        prop_assert_eq!(theirs, Ok(()));
    }
}

#[test]
fn other_algorithms_with_the_right_secret_are_refused_by_both() {
    for algorithm in [Algorithm::HS384, Algorithm::HS512] {
        let (ours, theirs, _) = verdicts(|now| {
            let claims = json!({"id": CIRCUIT, "exp": now + 600});
            encode(&Header::new(algorithm), &claims, &EncodingKey::from_secret(SECRET.as_bytes())).expect("a token")
        });
        assert_eq!((ours, theirs), (Err(TokenRefusal::Invalid), Err(false)), "{algorithm:?}");
    }
}

#[test]
fn a_disagreement_would_be_noticed() {
    // The library knows nothing of our bound on the size: that one difference shows.
    let huge = |now: i64| mint(SECRET, &json!({"id": CIRCUIT, "exp": now + 600, "note": "x".repeat(20_000)}));
    assert!(agree(huge).is_err_and(|said| said.starts_with("ours Err(Invalid), the library's Ok")));
}
