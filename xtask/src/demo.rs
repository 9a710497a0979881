//! `cargo xtask demo`: from a fresh clone to an answer.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::server::{Server, free_port};
use crate::{http, model, paths, process, setup, stage};

/// Options of `demo`.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// The question.
    #[arg(default_value = "What is 2+2?")]
    prompt: String,
    /// Leave the server running after the answer, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    model: model::Args,
    #[command(flatten)]
    setup: setup::Args,
}

/// All of it.
pub fn run(args: &Args) -> Result<()> {
    setup::run(&args.setup)?;
    let dist = stage::run(&stage::Args { setup: args.setup.clone() })?;
    model::ensure_here(&args.model)?;

    let port = free_port()?;
    let since = process::begin(&format!("onebit-host serve on 127.0.0.1:{port}"));
    let mut command = Command::new(dist.join("bin/onebit-host"));
    command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
    let log = paths::root().join("target/demo.log");
    let server = Server::start(command, format!("http://127.0.0.1:{port}"), "/healthz", log, Duration::from_secs(60))?;
    process::done("ready", since);

    println!("\n> {}", args.prompt);
    let answer = ask(&server, &args.prompt);
    if answer.is_err() {
        eprintln!("\nthe server's last lines:\n{}", server.last_lines());
    }
    println!("{}\n", answer?);
    if args.keep {
        println!("{}", how_to_go_on(&server.base));
        println!("The server runs until Ctrl-C.");
        return server.wait();
    }
    println!("{}", how_to_go_on("http://127.0.0.1:8090"));
    Ok(())
}

/// Streams the answer to the terminal; gives back what computed it.
fn ask(server: &Server, prompt: &str) -> Result<String> {
    let body = json!({
        "model": model::NAME, "stream": true, "temperature": 0, "max_tokens": 200,
        "messages": [{"role": "user", "content": prompt}],
    });
    let mut by = String::new();
    http::stream(&format!("{}/v1/chat/completions", server.base), &body, |event| {
        if let Some(text) = event["choices"][0]["delta"]["content"].as_str() {
            print!("{text}");
            let _ = std::io::stdout().flush();
        }
        if let Some(computed) = event["system_fingerprint"].as_str().filter(|_| by.is_empty()) {
            by = format!("\n\n(computed by {computed})");
        }
        true
    })?;
    Ok(by)
}

fn how_to_go_on(base: &str) -> String {
    format!(
        "Go on:\n  target/dist/bin/onebit-host run {name}          talk in the terminal\n  target/dist/bin/onebit-host serve                  serve on 127.0.0.1:8090\n  \
         curl {base}/v1/chat/completions -H 'content-type: application/json' \\\n    -d '{{\"model\":\"{name}\",\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'",
        name = model::NAME
    )
}
