//! What Ollama's routes change: pulls, uploads, models that are made, copied and removed.

use std::path::Path;
use std::time::Duration;

use onebit_http::HttpConfig;
use onebit_http::errors::{ApiError, Kind};
use onebit_http::keys::{hash, hex};
use onebit_worker::{Chat, Weights};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{Answer, post, raw, request};
use super::keys::KeyFile;
use super::script::{PULLED, Script, ServerHandle, arrivals, config, greeting, serve, serve_with};

const FILE: &[u8] = b"GGUF, more or less";

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&hash(bytes)))
}

fn lines(answer: &Answer) -> Vec<Value> {
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn into(models: &Path, script: &Script, pull: &str) -> ServerHandle {
    serve_with(script, HttpConfig { arrivals: arrivals(models, pull), ..config() }).await
}

async fn upload(server: &ServerHandle, digest: &str, bytes: &[u8]) -> Answer {
    raw(server.port(), &request("POST", &format!("/api/blobs/{digest}"), &[], bytes)).await
}

async fn head(server: &ServerHandle, digest: &str) -> u16 {
    raw(server.port(), &request("HEAD", &format!("/api/blobs/{digest}"), &[], b"")).await.status
}

async fn delete(server: &ServerHandle, body: &Value) -> Answer {
    raw(server.port(), &request("DELETE", "/api/delete", &[], body.to_string().as_bytes())).await
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != ".blobs").collect()
}

/// Waits for what happens in its own time.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within 10 s");
}

#[tokio::test]
async fn a_pull_is_told_in_ollamas_steps_and_the_models_are_looked_at_again() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let answer = post(server.port(), "/api/pull", &json!({"model": "demo"})).await;
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let digest = "sha256:abababababababab";
    assert_eq!(
        lines(&answer),
        [
            json!({"status": "pulling manifest"}),
            json!({"status": "pulling abababababab", "completed": 4, "digest": digest, "total": 10}),
            json!({"status": "pulling abababababab", "completed": 10, "digest": digest, "total": 10}),
            json!({"status": "verifying sha256 digest"}),
            json!({"status": "success"}),
        ]
    );
    assert_eq!(script.changed(), ["look again"]);
    let whole = post(server.port(), "/api/pull", &json!({"name": "demo", "stream": false})).await;
    assert_eq!((whole.status, whole.json()), (200, json!({"status": "success"})));
}

#[tokio::test]
async fn a_pull_that_fails_says_so_with_a_status_or_in_the_last_line() {
    let dir = tempfile::tempdir().unwrap();
    let late = "echo '{\"status\":\"found\"}'; echo '{\"status\":\"failed\",\"exit\":6,\"message\":\"the line broke\"}'; exit 6";
    for (pull, status, words) in [
        ("echo '{\"status\":\"failed\",\"exit\":3,\"message\":\"there is no such\"}'; exit 3", 404, "there is no such"),
        ("echo '{\"status\":\"failed\",\"exit\":2,\"message\":\"no name\"}'; exit 2", 400, "no name"),
        ("echo '{\"status\":\"failed\",\"exit\":9,\"message\":\"full\"}'; exit 9", 507, "full"),
        ("echo '{\"status\":\"failed\",\"exit\":7,\"message\":\"wrong file\"}'; exit 7", 502, "wrong file"),
        ("exit 5", 502, "ended early"),
        ("echo nonsense", 502, "nobody understands"),
        // Whoever pulls says that it is there, and the host does not know it.
        ("echo '{\"status\":\"done\",\"sha256\":null,\"bytes\":1}'", 502, "no model of that name"),
    ] {
        let server = into(dir.path(), &Script::new(greeting), pull).await;
        for stream in [true, false] {
            let answer = post(server.port(), "/api/pull", &json!({"model": "unheard", "stream": stream})).await;
            assert_eq!(answer.status, status, "{pull}: {}", answer.text());
            assert!(answer.json()["error"].as_str().unwrap().contains(words), "{}", answer.text());
        }
    }
    let server = into(dir.path(), &Script::new(greeting), late).await;
    let told = lines(&post(server.port(), "/api/pull", &json!({"model": "demo"})).await);
    assert_eq!(told, [json!({"status": "pulling manifest"}), json!({"error": "the line broke"})]);
    assert_eq!(post(server.port(), "/api/pull", &json!({"model": "demo", "stream": false})).await.status, 502);
}

/// Writes its number into `started` and goes on until `go` is there, like a long download; with a child of its own, like pip.
const LONG: &str = r#"
cd "$(dirname "$0")"; echo $$ >> started
echo '{"status":"found"}'
sleep 600 & echo $! > grandchild
while [ ! -e go ]; do sleep 0.02; done
kill $!
echo '{"status":"done","path":"/m","sha256":null,"bytes":1,"was_there":true}'
"#;

/// [`LONG`] in a folder.
async fn long(dir: &Path, script: &Script) -> ServerHandle {
    let mut how = arrivals(dir, LONG).unwrap();
    how.pull[3] = dir.join("pull").into();
    serve_with(script, HttpConfig { arrivals: Some(how), ..config() }).await
}

fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    // What is dead and not yet waited for is dead.
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_pull_and_whoever_waits_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = long(dir.path(), &Script::new(greeting)).await;
    let started = || std::fs::read_to_string(dir.path().join("started")).unwrap_or_default();
    let body = json!({"model": "demo"}).to_string();
    let mut leaving = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    leaving.write_all(&request("POST", "/api/pull", &[], body.as_bytes())).await.unwrap();
    let mut head = [0; 12];
    leaving.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    until("a grandchild", || {
        dir.path().join("grandchild").exists() && !std::fs::read_to_string(dir.path().join("grandchild")).unwrap().is_empty()
    })
    .await;
    let grandchild = std::fs::read_to_string(dir.path().join("grandchild")).unwrap();

    // The second of the same model waits, under whatever spelling, and another model does not.
    let port = server.port();
    let waiting = tokio::spawn(async move { post(port, "/api/pull", &json!({"model": "demo:latest"})).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(started().lines().count(), 1);
    let first = started();
    drop(leaving);
    until("the first is gone", || !alive(first.trim()) && !alive(&grandchild)).await;
    until("the second has begun", || started().lines().count() == 2).await;
    std::fs::write(dir.path().join("go"), "").unwrap();
    let told = lines(&waiting.await.unwrap());
    // The script knows the model without the tag only.
    assert_eq!(told[..2], [json!({"status": "waiting for another pull of demo:latest"}), json!({"status": "pulling manifest"})]);
}

#[tokio::test]
async fn a_shutdown_ends_pulls_with_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let server = long(dir.path(), &Script::new(greeting)).await;
    let port = server.port();
    let pull = tokio::spawn(async move { post(port, "/api/pull", &json!({"model": "demo"})).await });
    until("a pull", || dir.path().join("grandchild").exists()).await;
    let stopped = server.stop();
    let told = lines(&pull.await.unwrap());
    assert!(told.last().unwrap()["error"].as_str().unwrap().contains("shutting down"), "{told:?}");
    stopped.await.unwrap();
}

#[tokio::test]
async fn names_are_bounded_and_never_become_options() {
    let dir = tempfile::tempdir().unwrap();
    let said = "printf '%s\\n' \"$@\" > \"$(dirname \"$0\")/words\"; echo '{\"status\":\"failed\",\"exit\":3,\"message\":\"no\"}'";
    let mut how = arrivals(dir.path(), said).unwrap();
    how.pull[3] = dir.path().join("pull").into();
    let server = serve_with(&Script::new(greeting), HttpConfig { arrivals: Some(how), ..config() }).await;
    assert_eq!(post(server.port(), "/api/pull", &json!({"model": "--models-dir=/"})).await.status, 404);
    assert_eq!(std::fs::read_to_string(dir.path().join("words")).unwrap(), "--\n--models-dir=/\n");
    std::fs::remove_file(dir.path().join("words")).unwrap();
    for bad in [json!(""), json!("a b"), json!("a\nb"), json!("x".repeat(201)), json!(7), json!(null)] {
        for (path, field) in [("/api/pull", "model"), ("/api/create", "model"), ("/api/copy", "destination")] {
            let mut body = json!({"from": "demo", "source": "demo"});
            body[field] = bad.clone();
            let answer = post(server.port(), path, &body).await;
            assert!(answer.status == 400 && answer.text().contains(field) && answer.text().len() < 400, "{path} {bad}: {}", answer.text());
        }
        assert_eq!(delete(&server, &json!({"model": bad})).await.status, 400, "{bad}");
    }
    assert_eq!(post(server.port(), "/api/pull", &json!({"model": "demo", "insecure": true})).await.status, 400);
    assert!(!dir.path().join("words").exists());
}

#[tokio::test]
async fn an_upload_is_kept_if_it_is_what_its_digest_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = into(dir.path(), &Script::new(greeting), PULLED).await;
    let right = digest(FILE);
    assert_eq!(head(&server, &right).await, 404);
    let wrong = upload(&server, &digest(b"other"), FILE).await;
    assert!(wrong.status == 400 && wrong.text().contains(&right[7..]), "{}", wrong.text());
    assert_eq!((upload(&server, &right, FILE).await.status, head(&server, &right).await), (201, 200));
    assert_eq!(upload(&server, &right, FILE).await.status, 200);
    assert_eq!(upload(&server, &right, &[FILE, FILE].concat()).await.status, 400);
    for bad in ["sha256:0", "sha256:..%2F..%2Fx", &format!("md5:{}", "0".repeat(64)), &"0".repeat(64)] {
        assert_eq!((upload(&server, bad, FILE).await.status, head(&server, bad).await), (400, 400), "{bad}");
    }
    assert_eq!(upload(&server, "a/b", FILE).await.status, 404);
    assert_eq!(files(&dir.path().join(".blobs")), [format!("sha256-{}", &right[7..])]);
    let packed = request("POST", &format!("/api/blobs/{}", digest(b"")), &[("Content-Encoding", "gzip")], b"x");
    assert_eq!(raw(server.port(), &packed).await.status, 415);
}

#[tokio::test]
async fn an_upload_that_breaks_off_or_cannot_fit_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let patience = Duration::from_millis(300);
    let server =
        serve_with(&Script::new(greeting), HttpConfig { arrivals: arrivals(dir.path(), PULLED), body_timeout: patience, ..config() }).await;
    let path = format!("/api/blobs/{}", digest(FILE));
    let begin = |length: u64| format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let blobs = dir.path().join(".blobs");
    // One leaves, one falls silent.
    let mut leaving = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    leaving.write_all(&[begin(1 << 22).as_bytes(), &[0; 3 << 20]].concat()).await.unwrap();
    until("it arrives", || files(&blobs).len() == 1).await;
    drop(leaving);
    until("it is gone", || files(&blobs).is_empty()).await;
    let silent = raw(server.port(), &[begin(1 << 22).as_bytes(), FILE].concat()).await;
    assert_eq!((silent.status, files(&blobs).len()), (408, 0), "{}", silent.text());
    let large = raw(server.port(), begin(1 << 60).as_bytes()).await;
    assert!(large.status == 507 && large.text().contains("free"), "{}", large.text());
    assert_eq!(files(&blobs).len(), 0);
}

#[tokio::test]
async fn a_model_is_made_of_another_with_words_and_defaults() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let body = json!({
        "model": "pirate", "from": "demo:latest", "system": "Arr.", "template": "{% for m in messages %}{{ m.content }}{% endfor %}", "license": ["MIT", "and more"],
        "parameters": {"temperature": 0.5, "stop": ["\n"], "num_ctx": 512}, "quantize": "", "messages": [], "adapters": {}
    });
    let answer = post(server.port(), "/api/create", &body).await;
    let told: Vec<String> = lines(&answer).iter().map(|line| line["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, ["using existing model demo", "writing manifest", "success"]);
    let made = script.made().remove(0);
    let template = Some("{% for m in messages %}{{ m.content }}{% endfor %}".to_owned());
    assert_eq!((made.name.as_str(), made.weights), ("pirate", Weights::Of("demo".into())));
    assert_eq!(made.chat, Chat { template, system: Some("Arr.".into()), ..Chat::default() });
    assert_eq!((made.defaults.temperature, made.defaults.stop, made.defaults.context), (Some(0.5), vec!["\n".into()], Some(512)));
    assert_eq!(made.licence.as_deref(), Some("MIT\nand more"));
    let whole = post(server.port(), "/api/create", &json!({"model": "x", "from": "demo", "stream": false})).await;
    assert_eq!(whole.json(), json!({"status": "success"}));
}

#[tokio::test]
async fn what_a_manifest_cannot_say_is_refused_by_name_before_anything_is_made() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    for (more, word) in [
        (json!({"quantize": "q4_K_M"}), "quantize"),
        (json!({"adapters": {"a.gguf": digest(FILE)}}), "adapters"),
        (json!({"messages": [{"role": "user", "content": "Hi"}]}), "messages"),
        (json!({"modelfile": "FROM demo"}), "modelfile"),
        (json!({"parameters": {"num_gpu": 1}}), "num_gpu"),
        (json!({"parameters": {"temperature": "hot"}}), "temperature"),
        (json!({"license": 5}), "license"),
        (json!({"license": ["a", 5]}), "license"),
        // A template of Ollama's own kind, and one that is no template.
        (json!({"template": "{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}"}), "template"),
        (json!({"template": "{% for %}"}), "template"),
        (json!({"from": null}), "from"),
        (json!({"files": {"m.gguf": digest(FILE)}}), "files"),
        (json!({"from": null, "files": {"m.gguf": "../../x"}}), "files"),
        (json!({"from": null, "files": {"m.gguf": 1}}), "m.gguf"),
        (json!({"from": null, "files": {"a.gguf": digest(FILE), "b.gguf": digest(FILE)}}), "files"),
        (json!({"from": null, "files": {"m.gguf": digest(b"never sent")}}), "/api/blobs"),
    ] {
        let mut body = json!({"model": "new", "from": "demo"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = post(server.port(), "/api/create", &body).await;
        assert!(answer.status == 400 && answer.json()["error"].as_str().unwrap().contains(word), "{more}: {}", answer.text());
    }
    assert!(script.made().is_empty());
}

#[tokio::test]
async fn an_uploaded_file_becomes_a_model_or_stays_what_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let body = json!({"model": "mine", "files": {"my model.gguf": digest(FILE)}, "stream": false});
    let name = format!("sha256-{}.gguf", &digest(FILE)[7..]);
    let refusing = Script::new(greeting).refusing(ApiError::new(Kind::InvalidValue, "no GGUF"));
    let server = into(dir.path(), &refusing, PULLED).await;
    upload(&server, &digest(FILE), FILE).await;
    assert_eq!(post(server.port(), "/api/create", &body).await.status, 400);
    assert_eq!((files(dir.path()), head(&server, &digest(FILE)).await), (vec![], 200));

    let script = Script::new(greeting);
    let server = into(dir.path(), &script, PULLED).await;
    assert_eq!(post(server.port(), "/api/create", &body).await.json(), json!({"status": "success"}));
    assert_eq!((files(dir.path()), files(&dir.path().join(".blobs"))), (vec![name.clone()], vec![]));
    let sha256 = digest(FILE)[7..].to_owned();
    assert_eq!(script.made()[0].weights, Weights::File { name, sha256, source: vec![] });
    // It is here for the next one, too.
    assert_eq!(head(&server, &digest(FILE)).await, 200);
    assert_eq!(post(server.port(), "/api/create", &body).await.status, 200);
}

#[tokio::test]
async fn models_are_copied_and_removed_and_what_may_not_be_says_why() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let copied = post(server.port(), "/api/copy", &json!({"source": "demo:latest", "destination": "other"})).await;
    let removed = delete(&server, &json!({"name": "demo"})).await;
    assert_eq!((copied.status, copied.body.len(), removed.status, removed.body.len()), (200, 0, 200, 0));
    assert_eq!(script.changed(), ["copy demo other", "remove demo"]);
    assert_eq!(post(server.port(), "/api/copy", &json!({"source": "nobody", "destination": "x"})).await.status, 404);
    assert_eq!(delete(&server, &json!({"model": "nobody"})).await.status, 404);
    let server = serve(&Script::new(greeting).refusing(ApiError::new(Kind::Protected, "it was installed"))).await;
    let refused = delete(&server, &json!({"model": "demo"})).await;
    assert_eq!((refused.status, refused.json()), (403, json!({"error": "it was installed"})));
}

/// Every route that changes something, with a body that works.
fn changes() -> Vec<(&'static str, String, Vec<u8>)> {
    let body = |value: Value| value.to_string().into_bytes();
    vec![
        ("POST", "/api/pull".into(), body(json!({"model": "demo"}))),
        ("POST", "/api/create".into(), body(json!({"model": "new", "from": "demo"}))),
        ("POST", "/api/copy".into(), body(json!({"source": "demo", "destination": "new"}))),
        ("DELETE", "/api/delete".into(), body(json!({"model": "demo"}))),
        ("POST", format!("/api/blobs/{}", digest(FILE)), FILE.to_vec()),
        ("HEAD", format!("/api/blobs/{}", digest(FILE)), Vec::new()),
    ]
}

#[tokio::test]
async fn every_change_needs_an_admin_where_there_are_keys_and_no_foreign_page_may() {
    let dir = tempfile::tempdir().unwrap();
    let keys = KeyFile::new(&[("ada", "admin", ""), ("bob", "inference", "")]);
    let script = Script::new(greeting);
    let models = dir.path().join("models");
    let keyed = HttpConfig { arrivals: arrivals(&models, PULLED), ..keys.config() };
    let server = serve_with(&script, keyed).await;
    for (method, path, body) in changes() {
        for (headers, status) in [
            (vec![], 401),
            (vec![("Authorization", "Bearer bob")], 403),
            (vec![("Authorization", "Bearer ada"), ("Origin", "https://evil.example")], 403),
            (vec![("Authorization", "Bearer ada"), ("Origin", "null")], 403),
        ] {
            let answer = raw(server.port(), &request(method, &path, &headers, &body)).await;
            assert_eq!(answer.status, status, "{method} {path} {headers:?}");
        }
    }
    assert!(script.made().is_empty() && script.changed().is_empty() && !models.exists());
    for (method, path, body) in changes() {
        let answer = raw(server.port(), &request(method, &path, &[("Authorization", "Bearer ada")], &body)).await;
        assert!((200..300).contains(&answer.status), "{method} {path}: {} {}", answer.status, answer.text());
    }
    // Without keys only this machine may, and its user's browser is no way around that.
    let open = serve(&script).await;
    for (method, path, body) in changes() {
        let answer = raw(open.port(), &request(method, &path, &[("Origin", "https://evil.example")], &body)).await;
        assert_eq!(answer.status, 403, "{method} {path}");
    }
}

#[tokio::test]
async fn a_server_without_a_place_for_files_says_so() {
    let server = serve_with(&Script::new(greeting), HttpConfig { arrivals: None, ..config() }).await;
    for (path, body) in [("/api/pull", json!({"model": "demo"})), ("/api/create", json!({"model": "x", "files": {"a": digest(FILE)}}))] {
        let answer = post(server.port(), path, &body).await;
        assert!(answer.status == 500 && answer.text().contains("models folder"), "{}", answer.text());
    }
}
