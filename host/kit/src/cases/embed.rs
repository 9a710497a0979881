//! Texts to vectors.

use onebit_loader::{Embedder, Encode, PluginError, Status};

use super::open::typed;
use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, ensure, fail};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case::new("embed.vectors", "Vectors are finite, of length 1 where asked for, and the same bits each time", &[Need::Embed], vectors),
    Case::new("embed.alone", "A text's vector does not depend on the texts beside it", &[Need::Embed], alone),
    Case::new("embed.refused", "A text that is too long is refused with both numbers, a token that does not exist as invalid", &[Need::Embed], refused),
];

/// How far a value of a normalised vector may be off, beside other texts: the order of additions changes.
const CLOSE: f64 = 1e-2;

fn embedder(bench: &Bench) -> Result<Embedder, Stop> {
    bench.model()?.embedder().ok_or_else(|| Stop::Skipped("this model has no onebit.embed/1".into()))
}

/// Three texts as tokens, each of at most `most`.
pub(super) fn texts(bench: &Bench, most: usize) -> Result<Vec<Vec<u32>>, Stop> {
    let words = ["A cat sat on the mat.", "The moon is far away, and the sea is near.", "x"];
    let encode = |text: &&str| match bench.model()?.tokenizer() {
        Some(tokenizer) => tokenizer.encode(text, Encode::default()).failed("encoding a text"),
        None => Ok(text.bytes().map(|byte| u32::from(byte) % 16).collect()),
    };
    words.iter().map(|text| encode(text).map(|tokens| tokens.into_iter().take(most).collect())).collect()
}

pub(super) fn slices(texts: &[Vec<u32>]) -> Vec<&[u32]> {
    texts.iter().map(Vec::as_slice).collect()
}

pub(super) fn furthest(left: &[f32], right: &[f32]) -> f64 {
    left.iter().zip(right).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max)
}

fn vectors(bench: &Bench) -> Outcome {
    let embedder = embedder(bench)?;
    let texts = texts(bench, embedder.limits().max_tokens as usize)?;
    bench.step("embedding");
    let first = embedder.embed(&slices(&texts), true, None).failed("embed")?;
    for (index, vector) in first.iter().enumerate() {
        let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        ensure!((length - 1.0).abs() < 1e-3, "vector {index} was to have length 1 and has {length}");
    }
    ensure!(first[0] != first[1], "two different texts have the same vector");
    let again = embedder.embed(&slices(&texts), true, None).failed("embed")?;
    let bits = |vectors: &[Vec<f32>]| vectors.iter().flatten().map(|value| value.to_bits()).collect::<Vec<_>>();
    ensure!(bits(&first) == bits(&again), "the same texts once more have vectors that differ by {:e}", furthest(&first[0], &again[0]));
    bench.step("embedding without scaling");
    let plain = embedder.embed(&slices(&texts), false, None).failed("embed")?;
    for (index, (plain, scaled)) in plain.iter().zip(&first).enumerate() {
        let length = plain.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        let by_hand: Vec<f32> = plain.iter().map(|value| (f64::from(*value) / length.max(1e-30)) as f32).collect();
        let off = furthest(&by_hand, scaled);
        ensure!(off < 1e-3, "vector {index} points another way when it is scaled: values differ by {off}");
    }
    Ok(())
}

fn alone(bench: &Bench) -> Outcome {
    let embedder = embedder(bench)?;
    let texts = texts(bench, embedder.limits().max_tokens as usize)?;
    bench.step("embedding texts together");
    let together = embedder.embed(&slices(&texts), true, None).failed("embed")?;
    let mut worst = 0.0_f64;
    for (text, vector) in texts.iter().zip(&together) {
        bench.step("embedding a text alone");
        let alone = embedder.embed(&[text.as_slice()], true, None).failed("embed")?;
        worst = worst.max(alone.first().map_or(f64::INFINITY, |alone| furthest(alone, vector)));
    }
    bench.number("difference of a value", worst, "", Some(CLOSE));
    ensure!(worst <= CLOSE, "a text's vector changes by {worst} with the texts beside it");
    Ok(())
}

/// The refusal of what is one token too long.
pub(super) fn too_long(what: &str, error: &PluginError, most: u32) -> Outcome {
    typed(&format!("{what} that is too long"), error, &[Status::CONTEXT_OVERFLOW])?;
    let numbers = (error.have, error.need);
    let right = (u64::from(most), u64::from(most) + 1);
    ensure!(numbers == right, "reported are have, need = {numbers:?}, not {right:?}");
    Ok(())
}

fn refused(bench: &Bench) -> Outcome {
    let embedder = embedder(bench)?;
    let most = embedder.limits().max_tokens;
    let text = texts(bench, most as usize)?.swap_remove(0);
    if most < 1 << 20 {
        bench.step("embedding a text that is one token too long");
        let long: Vec<u32> = text.iter().copied().cycle().take(most as usize + 1).collect();
        match embedder.embed_unchecked(&long, None) {
            Ok(_) => fail!("a text of {} tokens was embedded; the limit is {most}", long.len()),
            Err(error) => too_long("a text", &error, most)?,
        }
    }
    for id in [u32::MAX, i32::MAX as u32] {
        bench.step(&format!("embedding token {id}"));
        match embedder.embed_unchecked(&[id], None) {
            Ok(_) => fail!("token {id} was embedded"),
            Err(error) => typed(&format!("token {id}"), &error, &[Status::INVALID_ARGUMENT])?,
        }
    }
    bench.step("embedding after the refusals");
    embedder.embed(&[text.as_slice()], true, None).failed("embed after the refusals")?;
    Ok(())
}
