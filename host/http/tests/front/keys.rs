//! Keys of a file: what each opens, how much it may ask for, and what happens when the file changes.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onebit_engine::GenerateRequest;
use onebit_engine::Priority;
use onebit_http::{HttpConfig, ServeError, Server, keys};
use serde_json::json;

use super::client::{Answer, raw, request};
use super::script::{Script, ServerHandle, Step, config, greeting, serve_with};

/// A file of keys. The secret of a key is its name.
pub struct KeyFile {
    _dir: tempfile::TempDir,
    pub path: PathBuf,
}

impl KeyFile {
    pub fn new(entries: &[(&str, &str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = Self { path: dir.path().join("keys.toml"), _dir: dir };
        file.write(entries);
        file
    }

    /// As `onebit-host key` does it.
    pub fn write(&self, entries: &[(&str, &str, &str)]) {
        let entry = |(name, scope, limits): &(&str, &str, &str)| {
            let sha256 = keys::hex(&keys::hash(name.as_bytes()));
            format!("[[key]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\nscope = \"{scope}\"\n{limits}\n")
        };
        self.put(&entries.iter().map(entry).collect::<String>());
    }

    pub fn put(&self, text: &str) {
        let new = self.path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&new, &self.path).unwrap();
    }

    pub fn config(&self) -> HttpConfig {
        HttpConfig { api_keys_file: Some(self.path.clone()), ..config() }
    }
}

pub async fn as_key(server: &ServerHandle, key: &str, method: &str, path: &str, body: &[u8]) -> Answer {
    raw(server.port(), &request(method, path, &[("Authorization", &format!("Bearer {key}"))], body)).await
}

async fn ask(server: &ServerHandle, key: &str) -> Answer {
    let body = json!({"model": "demo", "prompt": "Hi", "max_tokens": 4}).to_string();
    as_key(server, key, "POST", "/v1/completions", body.as_bytes()).await
}

#[tokio::test]
async fn a_key_opens_what_its_scope_says() {
    let file = KeyFile::new(&[("boss", "admin", ""), ("user", "inference", "")]);
    let server = serve_with(&Script::new(greeting), HttpConfig { api_key: Some("mine".into()), ..file.config() }).await;
    for (key, metrics) in [("boss", 200), ("mine", 200), ("user", 403)] {
        assert_eq!(ask(&server, key).await.status, 200, "{key}");
        assert_eq!(as_key(&server, key, "GET", "/readyz", b"").await.status, 200, "{key}");
        assert_eq!(as_key(&server, key, "GET", "/metrics", b"").await.status, metrics, "{key}");
    }
    let refused = as_key(&server, "user", "GET", "/metrics", b"").await;
    assert_eq!(refused.code(), "insufficient_scope");
    assert!(refused.text().contains("admin") && refused.text().contains("user"), "{}", refused.text());
    assert_eq!(ask(&server, "nobody").await.status, 401);
    let by_header = raw(server.port(), &request("GET", "/v1/models", &[("x-api-key", "user")], b"")).await;
    assert_eq!(by_header.status, 200);
}

#[tokio::test]
async fn requests_wait_with_the_priority_of_their_key() {
    let file = KeyFile::new(&[
        ("batch", "inference", "priority = \"low\""),
        ("desk", "inference", "priority = \"high\""),
        ("any", "inference", ""),
    ]);
    let script = Script::new(greeting);
    let server = serve_with(&script, file.config()).await;
    for key in ["batch", "desk", "any"] {
        assert_eq!(ask(&server, key).await.status, 200, "{key}");
    }
    let asked: Vec<_> = script.asked().iter().map(|request| request.priority).collect();
    assert_eq!(asked, [Priority::Low, Priority::High, Priority::Normal]);
}

#[tokio::test]
async fn requests_beyond_a_keys_rate_are_429_and_say_when_to_come_back() {
    let file = KeyFile::new(&[("slow", "inference", "requests_per_minute = 2"), ("free", "inference", "")]);
    let server = serve_with(&Script::new(greeting), file.config()).await;
    let first = ask(&server, "slow").await;
    assert_eq!((first.status, first.header("x-ratelimit-limit-requests")), (200, Some("2")));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("1"));
    assert!(first.header("x-ratelimit-reset-requests").unwrap().ends_with('s'));
    assert_eq!(first.header("x-ratelimit-limit-tokens"), None, "no such limit");
    assert_eq!(ask(&server, "slow").await.status, 200);
    let refused = ask(&server, "slow").await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limit_exceeded"));
    assert_eq!(refused.json()["error"]["type"], "rate_limit_error");
    assert!((28..=30).contains(&refused.header("retry-after").unwrap().parse::<u64>().unwrap()), "{}", refused.head);
    assert_eq!(refused.header("x-ratelimit-remaining-requests"), Some("0"));
    // Only asking models is limited, and only with this key. What is no request costs nothing.
    assert_eq!(as_key(&server, "slow", "GET", "/v1/completions", b"").await.status, 405);
    assert_eq!(as_key(&server, "slow", "GET", "/v1/models", b"").await.status, 200);
    let free = ask(&server, "free").await;
    assert_eq!((free.status, free.header("x-ratelimit-limit-requests")), (200, None));
}

#[tokio::test]
async fn tokens_are_charged_when_an_answer_ends_whole_or_streamed() {
    for stream in [false, true] {
        // Seven of the prompt and four of the answer make more than ten.
        let file = KeyFile::new(&[("thrifty", "inference", "tokens_per_minute = 10")]);
        let server = serve_with(&Script::new(greeting), file.config()).await;
        let body = json!({"model": "demo", "prompt": "Hi", "max_tokens": 4, "stream": stream}).to_string();
        let first = as_key(&server, "thrifty", "POST", "/v1/completions", body.as_bytes()).await;
        assert_eq!((first.status, first.header("x-ratelimit-limit-tokens")), (200, Some("10")));
        let refused = ask(&server, "thrifty").await;
        assert_eq!((refused.status, refused.header("x-ratelimit-remaining-tokens")), (429, Some("0")), "{stream}");
        assert!(refused.text().contains("10 tokens"), "{}", refused.text());
        assert!((6..=12).contains(&refused.header("retry-after").unwrap().parse::<u64>().unwrap()), "{}", refused.head);
    }
}

#[tokio::test]
async fn an_embedding_is_charged_too() {
    let file = KeyFile::new(&[("thrifty", "inference", "tokens_per_minute = 5")]);
    let server = serve_with(&Script::new(greeting), file.config()).await;
    let body = json!({"model": "demo", "input": "x"}).to_string();
    assert_eq!(as_key(&server, "thrifty", "POST", "/v1/embeddings", body.as_bytes()).await.status, 200);
    assert_eq!(as_key(&server, "thrifty", "POST", "/v1/embeddings", body.as_bytes()).await.status, 429);
}

fn slow(_: &GenerateRequest) -> Vec<Step> {
    let mut steps =
        vec![Step::Event(onebit_engine::Event::Started { prompt_tokens: 1, cached_tokens: 0 }), Step::Wait(Duration::from_millis(400))];
    steps.push(super::script::finished(1, 1, onebit_engine::FinishReason::EndOfGeneration));
    steps
}

#[tokio::test]
async fn requests_at_one_time_are_counted_until_their_answer_ends_streams_included() {
    for stream in [false, true] {
        let file = KeyFile::new(&[("one", "inference", "concurrent = 1"), ("other", "inference", "concurrent = 1")]);
        let script = Script::new(slow);
        let server = serve_with(&script, file.config()).await;
        let port = server.port();
        let body = json!({"model": "demo", "prompt": "Hi", "stream": stream}).to_string();
        let bytes = request("POST", "/v1/completions", &[("Authorization", "Bearer one")], body.as_bytes());
        let first = tokio::spawn(async move { raw(port, &bytes).await });
        script.until_running(1).await;
        let second = ask(&server, "one").await;
        assert_eq!((second.status, second.header("retry-after")), (429, Some("1")), "{stream}");
        assert!(second.text().contains("1 requests running"), "{}", second.text());
        assert_eq!(ask(&server, "other").await.status, 200);
        assert_eq!(first.await.unwrap().status, 200);
        assert_eq!(ask(&server, "one").await.status, 200, "its place is free again");
    }
}

/// The file is looked at every second.
async fn soon(mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..100 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not within five seconds");
}

#[tokio::test]
async fn a_changed_file_is_taken_over_and_disturbs_nobody() {
    let file = KeyFile::new(&[("old", "inference", ""), ("stays", "inference", "requests_per_minute = 3")]);
    let script = Script::new(|_| {
        let mut steps =
            vec![Step::Event(onebit_engine::Event::Started { prompt_tokens: 1, cached_tokens: 0 }), Step::Wait(Duration::from_secs(3))];
        steps.push(super::script::finished(1, 1, onebit_engine::FinishReason::EndOfGeneration));
        steps
    });
    let server = serve_with(&script, file.config()).await;
    let port = server.port();
    let bytes = request("POST", "/v1/completions", &[("Authorization", "Bearer old")], br#"{"model":"demo","prompt":"x"}"#);
    let running = tokio::spawn(async move { raw(port, &bytes).await });
    script.until_running(1).await;
    assert_eq!(ask(&server, "stays").await.header("x-ratelimit-remaining-requests"), Some("2"));
    file.write(&[("new", "inference", ""), ("stays", "inference", "requests_per_minute = 3")]);
    soon(async || as_key(&server, "new", "GET", "/v1/models", b"").await.status == 200).await;
    assert_eq!(as_key(&server, "old", "GET", "/v1/models", b"").await.status, 401);
    assert_eq!(running.await.unwrap().status, 200, "what ran went on");
    assert_eq!(ask(&server, "stays").await.header("x-ratelimit-remaining-requests"), Some("1"), "its books were kept");
    // The last key is gone: nobody may call, and not everybody.
    file.write(&[]);
    soon(async || as_key(&server, "new", "GET", "/v1/models", b"").await.status == 401).await;
    assert_eq!(raw(port, &request("GET", "/v1/models", &[], b"")).await.status, 401);
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_is_shown() {
    let keys = [("boss", "admin", ""), ("user", "inference", "")];
    let file = KeyFile::new(&keys);
    let server = serve_with(&Script::new(greeting), file.config()).await;
    let readyz = async || as_key(&server, "boss", "GET", "/readyz", b"").await.json();
    assert!(readyz().await.get("not_reloaded").is_none());
    file.put("[[key]]\nname = \"boss\"\nsecret = \"hush-hush\"\n");
    soon(async || readyz().await.get("not_reloaded").is_some()).await;
    let ready = readyz().await;
    assert_eq!((&ready["status"], &ready["not_reloaded"][0]["setting"]), (&json!("ready"), &json!("api_keys_file")));
    let problem = ready["not_reloaded"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("line 3") && problem.contains("secret") && !problem.contains("hush"), "{problem}");
    let of_user = as_key(&server, "user", "GET", "/readyz", b"").await.json();
    assert_eq!(of_user["not_reloaded"], json!([{"setting": "api_keys_file"}]), "it may name other people's keys");
    let metrics = as_key(&server, "boss", "GET", "/metrics", b"").await.text();
    assert!(metrics.contains("onebit_http_files_current{setting=\"api_keys_file\"} 0\n"), "{metrics}");
    file.write(&keys);
    soon(async || readyz().await.get("not_reloaded").is_none()).await;
    let metrics = as_key(&server, "boss", "GET", "/metrics", b"").await.text();
    assert!(metrics.contains("onebit_http_files_current{setting=\"api_keys_file\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn a_server_does_not_start_with_a_file_it_cannot_trust() {
    let start = async |path: &Path| {
        let config = HttpConfig { api_keys_file: Some(path.to_owned()), ..config() };
        Server::bind(std::sync::Arc::new(Script::new(greeting)), &config).await.map(drop)
    };
    let file = KeyFile::new(&[("boss", "admin", "")]);
    start(&file.path).await.unwrap();
    std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = start(&file.path).await.unwrap_err();
    assert!(matches!(error, ServeError::Keys { .. }) && error.to_string().contains("chmod 600"), "{error}");
    file.write(&[]);
    assert!(start(&file.path).await.unwrap_err().to_string().contains("onebit-host key new"));
    file.put("just-a-key\n");
    assert!(start(&file.path).await.unwrap_err().to_string().contains("line 1"));
    assert!(matches!(start(Path::new("/no/such/file")).await, Err(ServeError::File { .. })));
}

#[tokio::test]
async fn only_admin_sends_a_model_away_in_whatever_dialect() {
    let file = KeyFile::new(&[("boss", "admin", ""), ("user", "inference", "")]);
    let script = Script::new(greeting);
    let server = serve_with(&script, file.config()).await;
    let body = json!({"model": "demo", "keep_alive": 0, "messages": []}).to_string();
    for path in ["/models/unload", "/api/chat", "/api/generate"] {
        assert_eq!(as_key(&server, "user", "POST", path, body.as_bytes()).await.status, 403, "{path}");
    }
    assert!(script.unloaded().is_empty());
    for path in ["/models/unload", "/api/chat", "/api/generate"] {
        assert_eq!(as_key(&server, "boss", "POST", path, body.as_bytes()).await.status, 200, "{path}");
    }
    assert_eq!(script.unloaded().len(), 3);
}
