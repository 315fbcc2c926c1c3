use super::*;
use http::HeaderValue;
use serde_json::{Value, json};

const SECRET: &str = "dummy-jwt-secret-for-tests";
const CIRCUIT: &str = "c1c1c1c1-0000-4000-8000-000000000001";
const NOW: i64 = 1_800_000_000;

fn verifier() -> TokenVerifier {
    TokenVerifier::new(&Secret::new(SECRET), Duration::from_secs(60))
}

fn encoded(part: &str) -> String {
    URL_SAFE_NO_PAD.encode(part)
}

fn signed(secret: &str, header: &str, claims: &str) -> String {
    let text = format!("{}.{}", encoded(header), encoded(claims));
    let mut keyed = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    keyed.update(text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(keyed.finalize().into_bytes()))
}

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

fn minted(claims: &Value) -> String {
    signed(SECRET, HEADER, &claims.to_string())
}

fn judge(token: &str) -> Result<(), TokenRefusal> {
    verifier().judge(Some(token.as_bytes()), CIRCUIT.parse().unwrap(), UnixMillis(NOW * 1000 + 999))
}

fn with(more: Value) -> Result<(), TokenRefusal> {
    let mut claims = json!({"id": CIRCUIT, "exp": NOW + 600});
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    judge(&minted(&claims))
}

#[test]
fn a_token_of_this_circuit_opens_it() {
    assert_eq!(with(json!({})), Ok(()));
    assert_eq!(with(json!({"id": CIRCUIT.replace('-', "").to_uppercase()})), Ok(()));
    assert_eq!(with(json!({"iat": NOW + 4000, "iss": 5, "sub": [], "open_to_public": true})), Ok(()));
}

#[test]
fn ids_are_compared_as_uuids() {
    for id in [json!("c1c1c1c1-0000-4000-8000-000000000002"), json!("c1"), json!(""), json!(null), json!(1), json!([])]
    {
        assert_eq!(with(json!({"id": id})), Err(TokenRefusal::Mismatch), "{id}");
    }
    assert_eq!(judge(&minted(&json!({"exp": NOW}))), Err(TokenRefusal::Mismatch));
}

#[test]
fn i4_times_have_their_leeway_and_no_more() {
    for exp in [NOW, NOW - 3, NOW - 60] {
        assert_eq!(with(json!({"exp": exp})), Ok(()), "{exp}");
    }
    assert_eq!(with(json!({"exp": NOW as f64 - 60.4})), Ok(()));
    assert_eq!(with(json!({"exp": NOW as f64 - 60.6})), Err(TokenRefusal::Expired));
    for exp in [NOW - 61, NOW - 600, 0] {
        assert_eq!(with(json!({"exp": exp})), Err(TokenRefusal::Expired), "{exp}");
    }
    assert_eq!(with(json!({"exp": u64::MAX})), Ok(()));
    for exp in
        [json!(null), json!("1900000000"), json!(-1), json!(2_f64.powi(64)), json!(1e300), json!([NOW]), json!(true)]
    {
        assert_eq!(with(json!({"exp": exp})), Err(TokenRefusal::Invalid), "{exp}");
    }
    assert_eq!(judge(&minted(&json!({"id": CIRCUIT}))), Err(TokenRefusal::Invalid));
    for nbf in [NOW - 9999, NOW, NOW + 60] {
        assert_eq!(with(json!({"nbf": nbf})), Ok(()), "{nbf}");
    }
    for nbf in [json!(null), json!(NOW + 61), json!("1"), json!(-1), json!(u64::MAX)] {
        assert_eq!(with(json!({"nbf": nbf})), Err(TokenRefusal::Invalid), "{nbf}");
    }
    assert_eq!(with(json!({"aud": null})), Ok(()));
}

#[test]
fn expired_is_said_of_what_is_good_otherwise() {
    assert_eq!(with(json!({"exp": 1, "aud": "x"})), Err(TokenRefusal::Invalid));
    assert_eq!(with(json!({"exp": 1, "nbf": NOW + 600})), Err(TokenRefusal::Invalid));
    let other = signed("another secret", HEADER, &json!({"id": CIRCUIT, "exp": 1}).to_string());
    assert_eq!(judge(&other), Err(TokenRefusal::Invalid));
}

#[test]
fn a_far_off_clock_does_not_overflow() {
    let token = minted(&json!({"id": CIRCUIT, "exp": NOW, "nbf": NOW}));
    let verifier = TokenVerifier::new(&Secret::new(SECRET), Duration::MAX);
    for wall in [i64::MIN, -1, 0, i64::MAX] {
        assert_eq!(verifier.judge(Some(token.as_bytes()), CIRCUIT.parse().unwrap(), UnixMillis(wall)), Ok(()));
    }
}

#[test]
fn i4_only_hs256_without_extensions() {
    let claims = json!({"id": CIRCUIT, "exp": NOW + 600}).to_string();
    let header = |header: &str| judge(&signed(SECRET, header, &claims));
    assert_eq!(header(r#"{"alg":"HS256"}"#), Ok(()));
    assert_eq!(header(r#"{"typ":"at+jwt","alg":"HS\u003256","kid":"k"}"#), Ok(()));
    for alg in ["none", "None", "NONE", "hs256", "HS256 ", "HS384", "HS512", "RS256", "ES256", ""] {
        assert_eq!(header(&json!({"alg": alg, "typ": "JWT"}).to_string()), Err(TokenRefusal::Invalid), "{alg}");
    }
    for bad in [
        r#"{"typ":"JWT"}"#,
        r#"{"alg":null}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","crit":[]}"#,
        r#"{"alg":"HS256","crit":["exp"],"exp":1}"#,
        r#"{"alg":"HS256","crit":"x"}"#,
        r#"{"alg":"HS256"} "x""#,
        r#"["HS256"]"#,
        r#"["HS256",null]"#,
        "HS256",
        "",
    ] {
        assert_eq!(header(bad), Err(TokenRefusal::Invalid), "{bad}");
    }
}

#[test]
fn tampered_and_broken_tokens_are_invalid() {
    let good = minted(&json!({"id": CIRCUIT, "exp": NOW + 600}));
    let (head, signature) = good.rsplit_once('.').unwrap();
    let (header, claims) = head.split_once('.').unwrap();
    let other = minted(&json!({"id": CIRCUIT, "exp": NOW + 601}));
    let (other_head, other_signature) = other.rsplit_once('.').unwrap();
    let none = encoded(r#"{"alg":"none"}"#);
    for bad in [
        String::new(),
        ".".into(),
        "..".into(),
        "a.b.c".into(),
        "a.b.c.d".into(),
        "not a token".into(),
        head.into(),
        format!("{head}."),
        format!("{none}.{claims}."),
        format!("{none}.{claims}.{signature}"),
        format!("{other_head}.{signature}"),
        format!("{head}.{other_signature}"),
        format!("{head}.{signature}."),
        format!("{head}.{signature}=="),
        format!("{head}.{}", &signature[..signature.len() - 1]),
        format!("{header}..{signature}"),
        format!(".{claims}.{signature}"),
        format!("{good}.{signature}"),
        format!(" {good}"),
        signed(&format!("{SECRET} "), HEADER, &json!({"id": CIRCUIT, "exp": NOW + 600}).to_string()),
        signed("", HEADER, &json!({"id": CIRCUIT, "exp": NOW + 600}).to_string()),
    ] {
        assert_eq!(judge(&bad), Err(TokenRefusal::Invalid), "{bad}");
    }
    let array = format!(r#"[{},null,null,"{CIRCUIT}"]"#, NOW + 600);
    for bad in ["", "null", "[]", &array, "5", "{", r#"{"exp":1,"exp":1}"#, r#"{"id":"a","id":"b","exp":1900000000}"#] {
        assert_eq!(judge(&signed(SECRET, HEADER, bad)), Err(TokenRefusal::Invalid), "{bad}");
    }
}

#[test]
fn a_token_has_a_size() {
    let sized = |filler: usize| minted(&json!({"id": CIRCUIT, "exp": NOW + 600, "x": "x".repeat(filler)}));
    let empty = sized(0).len();
    // Four characters hold three bytes: find the filler that fits exactly.
    let exact = (0..limits::TOKEN_BYTES).find(|more| sized(*more).len() == limits::TOKEN_BYTES).unwrap_or(0);
    assert!(exact > 0 && empty < limits::TOKEN_BYTES);
    assert_eq!(judge(&sized(exact)), Ok(()));
    assert_eq!(judge(&sized(exact + 1)), Err(TokenRefusal::Invalid));
}

#[test]
fn a_token_is_shown_as_bearer_or_backendai() {
    let headers = |lines: &[&str]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(AUTHORIZATION, HeaderValue::from_str(line).unwrap());
        }
        headers
    };
    for good in ["Bearer abc", "bearer abc", "BEARER\tabc", "BackendAI  abc ", "backendai abc"] {
        assert_eq!(shown(&headers(&[good])), Some(&b"abc"[..]), "{good}");
    }
    assert_eq!(shown(&headers(&["Basic x", "Bearer abc", "Bearer def"])), Some(&b"abc"[..]));
    for none in ["", "abc", "Bearer", "Bearer ", "Bearerabc", "Basic abc", "Backend.AI abc", "Bearer-x abc"] {
        assert_eq!(shown(&headers(&[none])), None, "{none}");
    }
    assert_eq!(verifier().judge(None, CIRCUIT.parse().unwrap(), UnixMillis(0)), Err(TokenRefusal::Missing));
}

#[test]
fn without_a_secret_nothing_is_good() {
    let token = signed("", HEADER, &json!({"id": CIRCUIT, "exp": NOW + 600}).to_string());
    let verifier = TokenVerifier::new(&Secret::default(), Duration::ZERO);
    assert_eq!(verifier.read(token.as_bytes(), UnixMillis(NOW * 1000)), Err(TokenRefusal::Invalid));
}

#[test]
fn nothing_of_the_secret_is_printed() {
    assert_eq!(format!("{:?}", verifier()), "TokenVerifier { leeway_seconds: 60, .. }");
}
