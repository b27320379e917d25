use super::*;

fn config(text: &str) -> Result<ModelConfig, String> {
    toml::from_str(&format!("name = \"m\"\n{text}")).map_err(|e| e.to_string())
}

fn remote(text: &str) -> Result<RemoteModel, String> {
    config(text)?
        .remote()
        .map(|r| r.expect("it is one over HTTP"))
}

#[test]
fn three_lines_and_a_name_are_enough() {
    let model = remote("provider = \"openai\"\nid = \"gpt-4.1-mini\"").unwrap();
    assert_eq!(model.base_url, "https://api.openai.com/v1");
    assert_eq!(model.key, KeySource::Env("OPENAI_API_KEY".into()));
    assert_eq!(model.identity(None), "openai/gpt-4.1-mini");
    assert_eq!(
        model.identity(Some("2025-04-14")),
        "openai/gpt-4.1-mini@2025-04-14"
    );
    assert_eq!(model.sampling, Sampling::default());
    let local = remote(
        "provider = \"vllm\"\nid = \"Qwen/Q\"\nbase-url = \"http://10.0.0.2:8000/v1/\"\nrevision = \"abc\"",
    )
    .unwrap();
    assert_eq!(local.base_url, "http://10.0.0.2:8000/v1");
    assert_eq!(local.key, KeySource::None);
    assert_eq!(local.identity(Some("other")), "vllm/Qwen/Q@abc");
}

#[test]
fn another_server_does_not_get_the_key_of_the_preset() {
    let model = remote("provider = \"openai\"\nid = \"x\"\nbase-url = \"https://example.org/v1\"");
    assert_eq!(model.unwrap().key, KeySource::None);
}

#[test]
fn every_setting_gets_where_it_belongs() {
    let model = remote(
        r#"
        provider = "openrouter"
        id = "maker/model"
        key-file = "key"
        temperature = 1
        seed = 7
        top-p = 0.95
        max-tokens = 9000
        thinking-budget = 8000
        system = "Answer in English."
        route = "maker"
        max-in-flight = 8
        stream = true
        timeout = 30
        price = "maker/model"
        [extra]
        top_k = 20
        min_p = 0.5
        [headers]
        X-Title = "bench"
        X-Secret = { env = "S" }
        "#,
    )
    .unwrap();
    let s = &model.sampling;
    assert_eq!(
        (s.temperature_milli, s.seed, s.top_p_milli),
        (1000, 7, Some(950))
    );
    assert_eq!((s.max_tokens, &s.thinking), (9000, &Thinking::Budget(8000)));
    assert_eq!(s.extra, r#"{"min_p":0.5,"top_k":20}"#);
    assert_eq!(
        s.headers,
        BTreeMap::from([("x-title".into(), "bench".into())])
    );
    assert_eq!(s.route.as_deref(), Some("maker"));
    assert_eq!(
        model.secret_headers,
        [("x-secret".to_string(), "S".to_string())]
    );
    assert_eq!(model.key, KeySource::File("key".into()));
    assert!(model.shape.stream && !model.batch);
    assert_eq!(model.timeout, Duration::from_secs(30));
}

#[test]
fn mistakes_say_what_to_do() {
    let openai = "provider = \"openai\"\nid = \"gpt-4.1\"\n";
    let mut said = String::new();
    for text in [
        "temperature = 0.5".to_string(),
        "provider = \"opnai\"\nid = \"x\"".into(),
        "provider = \"openai\"".into(),
        "id = \"x\"".into(),
        "api = \"openai-chat\"\nid = \"x\"".into(),
        "provider = \"anthropic\"\nid = \"claude-haiku-4-5\"\nseed = 1".into(),
        "provider = \"anthropic\"\nid = \"claude-opus-5\"\ntemperature = 0.0".into(),
        "provider = \"anthropic\"\nid = \"claude-haiku-4-5\"\nthinking-budget = 5000".into(),
        "provider = \"groq\"\nid = \"x\"\nbatch = true".into(),
        format!("{openai}route = \"x\""),
        format!("{openai}temperature = 3"),
        format!("{openai}top-p = 0.12345"),
        format!("{openai}extra = {{ temperature = 1 }}"),
        format!("{openai}extra = 3"),
        format!("{openai}key-env = \"sk-abc\""),
        format!("{openai}key-env = \"A\"\nkey-file = \"b\""),
        format!("{openai}base-url = \"https://me:pw@example.org\""),
        format!("{openai}base-url = \"example.org\""),
        format!("{openai}headers = {{ Authorization = \"Bearer x\" }}"),
        format!("{openai}headers = {{ a = 3 }}"),
        format!("{openai}timeout = 0"),
    ] {
        said.push_str(&format!("{}\n\n", remote(&text).unwrap_err()));
    }
    insta::assert_snapshot!(said);
}
