//! What sampling costs per token, printed. Run in release:
//! `cargo test --release -p onebit-engine -- --ignored --nocapture speed`.

use std::time::Instant;

use super::*;

#[test]
#[ignore = "a measurement, not a check: run it alone and in release"]
fn speed() {
    for size in [49_152usize, 151_936, 262_144] {
        let row: Vec<f32> = (0..size as u32)
            .map(|id| {
                let x = id.wrapping_mul(2_654_435_761) ^ 0x9E37_79B9;
                let noise = (x >> 8) as f32 / (1u32 << 24) as f32;
                // Shaped like a language model's: a wide hump and a few tokens far above it.
                noise * 8.0 - 4.0 + if x.is_multiple_of(1009) { 8.0 + 8.0 * noise } else { 0.0 }
            })
            .collect();
        let flat: Vec<f32> = row.iter().map(|logit| logit.min(4.0)).collect();
        let on = Sampling { temperature: 0.8, seed: Some(1), ..Sampling::default() };
        let penalties = Sampling { repetition_penalty: 1.1, ..Sampling::default() };
        let prompt: Vec<TokenId> = (0..64).collect();
        let cases: [(&str, Sampling, Option<u32>); 11] = [
            ("greedy", Sampling::default(), None),
            ("greedy + penalties", penalties, None),
            ("greedy + 5 logprobs", Sampling::default(), Some(5)),
            ("temperature", on.clone(), None),
            ("top-k 40", Sampling { top_k: 40, ..on.clone() }, None),
            ("top-k 40, top-p, min-p", Sampling { top_k: 40, top_p: 0.95, min_p: 0.05, ..on.clone() }, None),
            ("top-p 0.95", Sampling { top_p: 0.95, ..on.clone() }, None),
            ("min-p 0.05", Sampling { min_p: 0.05, ..on.clone() }, None),
            ("typical 0.95", Sampling { typical_p: 0.95, ..on.clone() }, None),
            ("flat: top-p 0.95", Sampling { top_p: 0.95, ..on.clone() }, None),
            ("flat: typical 0.95", Sampling { typical_p: 0.95, ..on }, None),
        ];
        for (name, settings, logprobs) in cases {
            let row = if name.starts_with("flat") { &flat } else { &row };
            let mut sampler = Sampler::new(settings, logprobs, &prompt);
            let mut scratch = Scratch::default();
            let mut times: Vec<f64> = (0..100)
                .map(|_| {
                    let begin = Instant::now();
                    std::hint::black_box(sampler.choose(std::hint::black_box(row), None, &mut scratch)).expect("a token");
                    begin.elapsed().as_secs_f64() * 1e6
                })
                .collect();
            times.sort_by(f64::total_cmp);
            println!("{size:>7} tokens  {name:<24} {:>8.1} µs", times[times.len() / 2]);
        }
    }
}
