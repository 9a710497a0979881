//! The requests that are measured, in words that both servers understand.
//!
//! Prompts are token ids, so that both compute exactly as many; each round has its own, so that no prefix cache
//! answers where none is meant to.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::server::Server;
use crate::{http, model};

/// Token ids that look like none before: a small generator, started from the round.
fn tokens(count: usize, seed: u32) -> Vec<u32> {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            1000 + u32::try_from(state % 40_000).unwrap_or_default()
        })
        .collect()
}

fn body(prompt: &[u32], max_tokens: u32, stream: bool) -> Value {
    let mut body = json!({
        "model": model::NAME, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": true, "stream": stream,
    });
    if stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

/// What a stream looked like from outside.
struct Watched {
    first: Instant,
    last: Instant,
    tokens: u64,
}

fn watch(server: &Server, body: &Value) -> Result<Watched> {
    let (mut first, mut last, mut tokens) = (None, None, 0);
    http::stream(&format!("{}/v1/completions", server.base), body, |event| {
        if event["choices"][0]["text"].as_str().is_some_and(|text| !text.is_empty()) {
            let now = Instant::now();
            first.get_or_insert(now);
            last = Some(now);
        }
        if let Some(count) = event["usage"]["completion_tokens"].as_u64() {
            tokens = count;
        }
        true
    })?;
    ensure!(tokens > 0, "the stream told no usage");
    Ok(Watched { first: first.context("no text came")?, last: last.context("no text came")?, tokens })
}

/// Tokens a second after the first.
pub fn decode(server: &Server, count: u32, round: u32) -> Result<f64> {
    speed(&watch(server, &body(&tokens(5, round), count, true))?, count)
}

/// The same, of an answer that is held to a schema which does not let it end.
pub fn decode_held(server: &Server, schema: &Value, count: u32, round: u32) -> Result<f64> {
    let mut body = body(&tokens(5, round), count, true);
    body["json_schema"] = schema.clone();
    // An end where the schema wants more would contradict it.
    body["ignore_eos"] = false.into();
    speed(&watch(server, &body)?, count)
}

fn speed(watched: &Watched, count: u32) -> Result<f64> {
    ensure!(watched.tokens == u64::from(count), "{} tokens came, {count} were asked for", watched.tokens);
    Ok((watched.tokens - 1) as f64 / (watched.last - watched.first).as_secs_f64())
}

/// Tokens of a prompt a second, the first token of the answer included.
pub fn prompt(server: &Server, count: usize, round: u32) -> Result<f64> {
    let request = body(&tokens(count, 1000 + round), 1, false);
    let since = Instant::now();
    let answer = http::post(&format!("{}/v1/completions", server.base), &request)?;
    let time = since.elapsed().as_secs_f64();
    ensure!(answer["usage"]["prompt_tokens"] == count, "the prompt has {} tokens, {count} were sent", answer["usage"]["prompt_tokens"]);
    Ok(count as f64 / time)
}

/// From sending to the first text.
pub fn first_token_ms(server: &Server, count: usize, round: u32) -> Result<f64> {
    let request = body(&tokens(count, 2000 + round), 4, true);
    let since = Instant::now();
    Ok((watch(server, &request)?.first - since).as_secs_f64() * 1e3)
}

/// The same, of the prompt that [`first_token_ms`] sent in this round and `more` tokens behind it.
pub fn next_turn_ms(server: &Server, count: usize, more: usize, round: u32) -> Result<f64> {
    let prompt = [tokens(count, 2000 + round), tokens(more, 4000 + round)].concat();
    let since = Instant::now();
    Ok((watch(server, &body(&prompt, 4, true))?.first - since).as_secs_f64() * 1e3)
}

/// Tokens a second of all streams together.
pub fn crowd(server: &Server, streams: u32, count: u32, round: u32) -> Result<f64> {
    together(server, streams, count, |stream| tokens(16, 3000 + round * 100 + stream))
}

/// The same, of streams whose prompts begin with the same tokens.
pub fn crowd_alike(server: &Server, streams: u32, alike: usize, count: u32, round: u32) -> Result<f64> {
    let instructions = tokens(alike, 5000 + round);
    together(server, streams, count, |stream| [instructions.clone(), tokens(16, 6000 + round * 100 + stream)].concat())
}

fn together(server: &Server, streams: u32, count: u32, prompt: impl Fn(u32) -> Vec<u32> + Sync) -> Result<f64> {
    let prompt = &prompt;
    let since = Instant::now();
    let made: u64 = std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..streams).map(|stream| scope.spawn(move || watch(server, &body(&prompt(stream), count, true)))).collect();
        jobs.into_iter()
            .map(|job| job.join().map_err(|_| anyhow::anyhow!("a stream's thread panicked"))?.map(|watched| watched.tokens))
            .sum::<Result<u64>>()
    })?;
    Ok(made as f64 / since.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_two_rounds_share_no_beginning_and_hold_real_tokens() {
        assert_ne!(tokens(1, 1), tokens(1, 2));
        assert_eq!(tokens(512, 7), tokens(512, 7));
        assert!(tokens(512, 7).iter().all(|id| (1000..41_000).contains(id)));
    }
}
