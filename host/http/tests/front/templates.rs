//! Templates that attack: each ends as a 400 within seconds, and the next chat is answered.

use std::time::{Duration, Instant};

use onebit_http::HttpConfig;
use onebit_http::models::Defaults;
use serde_json::json;

use super::client::post;
use super::script::{Script, config, facts, greeting, serve, serve_with};

fn with_template(text: &str) -> Script {
    let mut facts = facts();
    facts.chat_template = Some(text.to_owned());
    Script::with(facts, Defaults::default(), None, greeting)
}

#[tokio::test]
async fn a_template_that_explodes_hangs_or_breaks_its_stack_is_a_400() {
    let attacks = [
        // A value that shares itself: small in memory, endless in print and in comparison.
        "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x ~ '' }}",
        "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=['a'], y=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        // A value nested as deep as fuel allows: printing it, or only letting it go, ends the stack.
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% for j in range(9) %}{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}{{ ns.x }}",
    ];
    for text in attacks {
        let server = serve(&with_template(text)).await;
        let began = Instant::now();
        let answer =
            post(server.port(), "/v1/chat/completions", &json!({"model": "demo", "messages": [{"role": "user", "content": "x"}]})).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "chat_template_refused"), "{text}");
        assert!(began.elapsed() < Duration::from_secs(20), "{text}: {:?}", began.elapsed());
        // Without the template the same server goes on.
        let after = post(server.port(), "/v1/completions", &json!({"model": "demo", "prompt": "x"})).await;
        assert_eq!(after.status, 200);
    }
}

#[tokio::test]
async fn a_template_process_that_was_killed_is_replaced() {
    // A program of its own name: the other tests' processes are left alone.
    let own = std::env::temp_dir().join(format!("onebit-http-killed-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_onebit-http-render"), &own).unwrap();
    let server = serve_with(&Script::new(greeting), HttpConfig { renderer: Some(own.clone()), ..config() }).await;
    let ask = async || {
        post(server.port(), "/v1/chat/completions", &json!({"model": "demo", "messages": [{"role": "user", "content": "x"}]})).await.status
    };
    assert_eq!(ask().await, 200);
    let children: Vec<i32> = processes_of(&own);
    assert!(!children.is_empty(), "a chat starts one");
    for pid in children {
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(ask().await, 200);
    std::fs::remove_file(&own).unwrap();
}

/// The processes that run this program.
fn processes_of(program: &std::path::Path) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)).collect()
}
