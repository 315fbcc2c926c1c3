use super::{env, problems};
use crate::config::load;
use crate::limits;

#[test]
fn three_different_mistakes_are_all_named() {
    let text = "server:\n  bind_adress: 0.0.0.0:80\nrequest:\n  connect_timeout: 10 seconds\nbackends:\n  - name: a\n    url: http://h\n    \
                models: [m]\n    api_key: ${MISSING}\n";
    assert_eq!(
        problems(text),
        "line 2, column 3: server.bind_adress: unknown key; did you mean `bind_address`?\n\
         line 4, column 20: request.connect_timeout: \"10 seconds\" is not a duration; write a number with its unit, such as \
         \"10s\", \"500ms\" or \"1m\"\n\
         line 9, column 14: backends[0].api_key: the environment variable MISSING is not set; set MISSING in the environment of \
         the worker, or write the value here"
    );
}

/// Each file with what its only problem says.
const REFUSED: &[(&str, &str)] = &[
    ("- a\n", "line 1, column 1: not a configuration; write sections"),
    ("server: 5", "line 1, column 9: server: not a section; write its keys"),
    ("{sk-1234: }", "line 1, column 2: a word without a value (not shown"),
    ("\"a\\nb\": 1", "line 1, column 1: a\\nb: unknown key; known here"),
    ("{hostname: }", "hostname: unknown key; known here"),
    ("x: 1", "line 1, column 1: x: unknown key; known here: admin, api_keys, appproxy, appproxy_router, backends,"),
    (
        "logging:\n  level: info\n  level: warn",
        "line 3, column 3: logging.level: given twice, first on line 2; keep one",
    ),
    ("logging: {level: inf}", "line 1, column 18: logging.level: \"inf\" is not known here; did you mean `info`?"),
    ("logging: {level: [info]}", "logging.level: a list or section where one value belongs; write `key: value`"),
    ("server: {bind_address: []}", "server.bind_address: an empty list; give at least one address"),
    (
        "server: {bind_address: 8080}",
        "server.bind_address: \"8080\" is not an address to listen at; write \"host:port\"",
    ),
    ("server: {bind_address: 'h:99999'}", "\"h:99999\" is not an address"),
    ("server: {bind_address: '::1:80'}", "\"::1:80\" is not an address"),
    ("server: {bind_address: 'unix:rel'}", "\"unix:rel\" is not an address"),
    (
        "server:\n  bind_address:\n  - h:1\n  - h:1",
        "line 4, column 5: server.bind_address[1]: \"h:1\" is listened at twice",
    ),
    (
        "admin: {bind_address: '0.0.0.0:8080', token: t}",
        "admin.bind_address: \"0.0.0.0:8080\" is listened at by the data plane",
    ),
    (
        "admin: {bind_address: '0.0.0.0:1'}",
        "admin.token: missing although \"0.0.0.0:1\" is not on loopback; give admin.token",
    ),
    (
        "server: {tls: {cert_file: a}}",
        "server.tls.key_file: missing beside cert_file; give both, or leave cert_file out",
    ),
    ("server: {tls: {key_file: a}}", "server.tls.cert_file: missing beside key_file"),
    ("server: {socket_mode: '888'}", "\"888\" is not a set of permission bits; write them in octal"),
    ("server: {max_body_size: 0}", "\"0\" is not a size above 0"),
    ("server: {max_body_size: 10 lots}", "\"10 lots\" is not a size above 0"),
    ("server: {max_buffered: 1MiB}", "server.max_buffered: smaller than max_body_size"),
    ("server: {max_connections: 0}", "\"0\" is not a whole number above 0"),
    ("server: {trusted_proxies: [10.0.0.0/33]}", "server.trusted_proxies[0]: \"10.0.0.0/33\" is neither an IP address"),
    (
        "server: {cors: {allowed_origins: [example.com]}}",
        "\"example.com\" is not an origin; write \"https://host[:port]\"",
    ),
    ("request: {idle_timeout: 0s}", "\"0s\" is no time at all"),
    ("request: {idle_timeout: 10}", "\"10\" is not a duration"),
    ("request: {idle_timeout: ''}", "\"\" is not a duration"),
    ("request: {idle_timeout: 99999999999999999999s}", "is not a duration"),
    ("request: {max_retries: -1}", "\"-1\" is not a whole number"),
    ("passive: {ejection: 301s}", "passive.ejection: longer than 300s; write at most \"300s\""),
    ("health_checks: {enabled: yes}", "\"yes\" is neither true nor false; write true or false"),
    ("health_checks: {endpoint: v1}", "\"v1\" is not a path; begin it with a slash"),
    ("routing: {affinity_header: 'a b'}", "\"a b\" is not a header name"),
    (
        "selection_strategy: random\nrouting: {selection_strategy: random}",
        "line 2, column 11: routing.selection_strategy: given twice",
    ),
    (
        "fallback: {fallback_chains: {a: [a]}}",
        "fallback.fallback_chains.a: the chains lead in a circle (a -> a); take one",
    ),
    ("fallback: {fallback_chains: {b: [c], a: [x, b], c: [y, a]}}", "the chains lead in a circle (a -> b -> c -> a)"),
    ("fallback: {fallback_chains: {a: [b, b]}}", "fallback.fallback_chains.a[1]: \"b\" is in this chain already"),
    ("fallback: {fallback_chains: [a]}", "fallback.fallback_chains: not a section"),
    ("backends: {name: a}", "backends: not a list; begin each entry with `- `"),
    ("backends: [a]", "backends[0]: not a section"),
    ("backends: [{url: 'http://h', models: [m]}]", "backends[0].name: missing; give each backend a name"),
    ("backends: [{name: a, models: [m]}]", "backends[0].url: missing; give its address"),
    ("backends: [{name: appproxy-x, url: 'http://h'}]", "backends[0].name: begins with `appproxy-`; choose another"),
    (
        "backends: [{name: a, url: 'http://h'}, {name: a, url: 'http://h'}]",
        "backends[1].name: another backend has this name",
    ),
    ("backends: [{name: a, url: 'http://u:p@h'}]", "backends[0].url: the value has a user or password in it"),
    ("backends: [{name: a, url: 'http://h/?key=x'}]", "backends[0].url: the value has a query or fragment"),
    ("backends: [{name: a, url: 'http://h', weight: 1001}]", "\"1001\" is not a weight"),
    ("backends: [{name: a, url: 'http://h', type: azure}]", "\"azure\" is not known here; write one of generic, vllm"),
    ("backends: [{name: a, url: 'http://h', modles: [m]}]", "backends[0].modles: unknown key; did you mean `models`?"),
    (
        "backends: [{name: a, url: 'http://h', model_configs: [{id: m, aliases: x}, {id: n, aliases: x}]}]",
        "\"x\" already stands for",
    ),
    (
        "backends: [{name: a, url: 'http://h', model_configs: [{id: m, aliases: m}]}]",
        "backends[0].model_configs[0].aliases: \"m\" already stands for a model of this backend; let each name",
    ),
    ("api_keys: {keys: [{key: k}]}", "api_keys.keys[0].id: missing; give each key an id"),
    ("api_keys: {keys: [{id: a}]}", "api_keys.keys[0].key: missing; give `key`, or `key_hash`"),
    ("api_keys: {keys: [{id: a, key: k, key_hash: h}]}", "api_keys.keys[0].key_hash: given beside key; keep one"),
    ("api_keys: {keys: [{id: a, key_hash: h}]}", "api_keys.keys[0].key_hash: not a hash; write the SHA-256"),
    ("api_keys: {keys: [{id: a, key: '${EMPTY}'}]}", "api_keys.keys[0].key: empty; give the secret"),
    ("api_keys: {keys: [{id: a, key: k}, {id: a, key: l}]}", "api_keys.keys[1].id: another key has this id"),
    ("api_keys: {keys: [{id: a, key: k, expires_at: 2027-01-01}]}", "\"2027-01-01\" is not a point in time"),
    ("api_keys: {keys: [{id: a, key: k, allowed_client_ips: [x]}]}", "\"x\" is neither an IP address nor a network"),
    (
        "api_keys: {keys: [{id: a, key: k, rate_limt: 5}]}",
        "api_keys.keys[0].rate_limt: unknown key; did you mean `rate_limit`?",
    ),
    ("logging: {format: 'a${b'}", "logging.format: `${` begins no variable here; write ${NAME}"),
    (
        "logging: {format: '${SECRET}'}",
        "logging.format: the value of the variable is not known here; write one of text, json",
    ),
];

#[test]
fn each_mistake_is_said_with_its_place_and_the_right_form() {
    for (text, said) in REFUSED {
        let problems = load(text, &env).expect_err(text);
        let lines: Vec<_> = problems.0.iter().map(ToString::to_string).collect();
        assert!(
            matches!(lines.as_slice(), [line] if line.contains(said)),
            "{text}\nexpected: {said}\nfound: {lines:#?}"
        );
        assert!(problems.0.iter().all(|problem| problem.at.line > 0 && problem.at.column > 0), "{text}: {lines:?}");
    }
}

#[test]
fn what_is_no_yaml_is_one_problem_with_its_line() {
    let cases = [
        ("server:\n  bind_address: \"0.0.0.0:80\n", "line 2, column 17: ", "not valid YAML (unclosed quote); check"),
        ("server:\n bind_address: a\n  x: b\n", "line 3, column ", "not valid YAML"),
        ("a: 1\n---\nb: 2\n", "line 3, column 1: ", "second document"),
        ("a: *b\n", "line 1, column 4: ", "an alias (`*name`) to nothing"),
        ("a: [1, 2\nb: 3\n", "line 2, column ", "not valid YAML"),
        ("? : x\n", "line 1, column ", "a key that is empty"),
        (": x\n", "line 1, column ", "a key that is empty"),
        ("? [a]\n: x\n", "line 1, column ", "no plain text"),
        ("a: \t\u{0}\n", "line 1, column ", "not valid YAML"),
    ];
    for (text, place, said) in cases {
        let problems = problems(text);
        assert!(problems.starts_with(place) && problems.contains(said), "{text:?}: {problems}");
        assert!(!problems.contains('\n'), "{problems}");
    }
}

#[test]
fn bombs_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let alias = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 10].join(", "));
    }
    assert!(problems(&text).contains("too large, too deep or too many aliases"), "{}", problems(&text));
    let deep = format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(!problems(&deep).is_empty());
    let large = format!("# {}", "x".repeat(1024 * 1024));
    assert!(problems(&large).contains("larger than 1048576 bytes"));
}

#[test]
fn what_is_shown_and_what_is_read_has_its_bounds() {
    let value = |chars: usize| problems(&format!("logging: {{level: {}}}", "x".repeat(chars)));
    let shown = "x".repeat(limits::QUOTED_VALUE_CHARS);
    assert!(value(limits::QUOTED_VALUE_CHARS).contains(&shown), "at the bound");
    assert!(!value(limits::QUOTED_VALUE_CHARS + 1).contains("xx"), "one past it nothing of the value is shown");

    let key = |chars: usize| problems(&format!("{}: 1", "k".repeat(chars)));
    let shown = "k".repeat(limits::SHOWN_KEY_CHARS);
    assert!(key(limits::SHOWN_KEY_CHARS).contains(&format!("{shown}: unknown key")), "at the bound");
    assert!(key(limits::SHOWN_KEY_CHARS + 1).contains(&format!("{shown}..: unknown key")), "one past it");

    let file = |bytes: usize| load(&format!("#{}", "c".repeat(bytes - 1)), &env);
    assert!(file(limits::CONFIG_BYTES).is_ok(), "at the bound");
    let refused = file(limits::CONFIG_BYTES + 1).err().map(|problems| problems.to_string());
    assert!(refused.is_some_and(|problems| problems.contains("larger than")), "one past it");
}
