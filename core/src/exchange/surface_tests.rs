use super::*;

fn post(path: &str) -> Result<Destination, Nowhere> {
    destination(&Method::POST, path)
}

fn get(path: &str) -> Result<Destination, Nowhere> {
    destination(&Method::GET, path)
}

#[test]
fn every_path_of_the_table_names_its_model_in_its_body() {
    let table = [
        (Surface::OpenAi, "/v1/chat/completions /v1/completions /v1/responses /v1/embeddings /v1/moderations"),
        (Surface::OpenAi, "/v1/images/generations /v1/images/edits /v1/audio/speech /v1/audio/transcriptions"),
        (Surface::Rerank, "/v1/rerank /v2/rerank /rerank /score /v1/score /pooling /classify"),
        (Surface::Rerank, "/tokenize /detokenize /embed_sparse"),
        (Surface::Anthropic, "/v1/messages /v1/messages/count_tokens"),
    ];
    for (surface, paths) in table {
        for path in paths.split(' ') {
            assert_eq!(post(path), Ok(Destination::BodyModel), "{path}");
            assert_eq!(Surface::of_path(path), surface, "{path}");
            assert_eq!(get(path), Err(Nowhere::MethodNotAllowed("POST")), "{path}");
            assert_eq!(post(&format!("{path}/x/../y")), Err(Nowhere::UnknownPath), "{path}");
        }
    }
}

#[test]
fn gemini_models_stand_in_the_path() {
    for verb in GEMINI_VERBS {
        for (written, model) in [("m", "m"), ("org/m", "org/m"), ("org%2Fm", "org/m"), ("m:8b", "m:8b"), ("", "")] {
            let found = post(&format!("/v1beta/models/{written}{verb}"));
            assert_eq!(found, Ok(Destination::PathModel { model: model.to_owned(), verb }), "{written}{verb}");
        }
    }
    assert_eq!(get("/v1beta/models/m:generateContent"), Err(Nowhere::MethodNotAllowed("POST")));
    for path in ["/v1beta/models/m", "/v1beta/models/m:deleteAll", "/v1beta/models", "/v1beta/"] {
        assert_eq!(post(path), Err(Nowhere::UnknownPath), "{path}");
        assert_eq!(Surface::of_path(path), Surface::Gemini, "{path}");
    }
    assert_eq!(post("/v1beta/models/%ff:countTokens"), Err(Nowhere::BadPath));
    assert_eq!(Surface::of_path("/v1betamax"), Surface::OpenAi);
    assert_eq!(Surface::of_path("/v1/messages/batches"), Surface::Anthropic);
    assert_eq!(Surface::of_path("/v1/messagesx"), Surface::OpenAi);
}

#[test]
fn models_are_listed_and_got_with_slashes_of_both_kinds() {
    assert_eq!(get("/v1/models"), Ok(Destination::ListModels));
    for path in ["/v1/models/org/c", "/v1/models/org%2Fc", "/v1/models/org%2fc"] {
        assert_eq!(get(path), Ok(Destination::GetModel("org/c".to_owned())), "{path}");
    }
    assert_eq!(get("/v1/models/%E4%BD%A0"), Ok(Destination::GetModel("你".to_owned())));
    assert_eq!(destination(&Method::HEAD, "/v1/models"), Ok(Destination::ListModels));
    assert_eq!(post("/v1/models"), Err(Nowhere::MethodNotAllowed("GET, HEAD")));
    assert_eq!(destination(&Method::DELETE, "/v1/models/m"), Err(Nowhere::MethodNotAllowed("GET, HEAD")));
    for path in ["/v1/models/%", "/v1/models/%2", "/v1/models/%zz", "/v1/models/%ff"] {
        assert_eq!(get(path), Err(Nowhere::BadPath), "{path}");
    }
}

#[test]
fn pages_files_and_nothing() {
    for (path, page) in
        [("/health", Page::Health), ("/livez", Page::Livez), ("/readyz", Page::Readyz), ("/status", Page::Status)]
    {
        assert_eq!(get(path), Ok(Destination::Page(page)));
        assert_eq!(post(path), Err(Nowhere::MethodNotAllowed("GET, HEAD")));
    }
    for path in ["/v1/files", "/v1/files/f1", "/v1/files/f1/content"] {
        assert_eq!(get(path), Ok(Destination::Unsupported));
        assert_eq!(destination(&Method::DELETE, path), Ok(Destination::Unsupported));
    }
    let nowhere = [
        "",
        "/",
        "*",
        "/v1",
        "/v1/",
        "/metrics",
        "/admin/",
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/V1/chat/completions",
        "/v1/images/",
        "/v1/audio/..",
        "/v1/audio/../chat",
        "/v1/audio/%2e%2e/models",
    ];
    for path in nowhere {
        assert_eq!(post(path), Err(Nowhere::UnknownPath), "{path}");
        assert_eq!(get(path), Err(Nowhere::UnknownPath), "{path}");
    }
}

#[test]
fn a_segment_that_was_encoded_decodes_to_itself() {
    for text in ["m", "org/m", "a b", "100%", "你好", "q?x#y", "", "m:8b"] {
        assert_eq!(decode(&encode_segment(text)).as_deref(), Some(text));
        assert!(!encode_segment(text).contains(['/', '?', '#', ' ']));
    }
}
