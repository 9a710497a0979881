//! Text to tokens and back. Users' text never becomes a control token.

use onebit_loader::{Encode, Status, Tokenizer};

use super::open::typed;
use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, ensure, fail};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case::new("tokenizer.facts", "Every token of the vocabulary has facts, and they agree with each other and with the logits", &[Need::Tokenize], facts),
    Case::new("tokenizer.round-trip", "Decoding what was encoded gives back the text, byte for byte", &[Need::Tokenize], round_trip),
    Case::new("tokenizer.users-text", "A user's text never becomes a control token, whatever it says", &[Need::Tokenize], users_text),
    Case::new("tokenizer.pieces", "The bytes of tokens follow each other: decoding all is decoding each", &[Need::Tokenize], pieces),
    Case::new("tokenizer.special", "What add_special adds stands at the ends, and is what the facts say", &[Need::Tokenize], special),
    Case::new("tokenizer.small-buffers", "A buffer that is too small is refused with the size to come back with, and not written beyond", &[Need::Tokenize], small_buffers),
    Case::new("tokenizer.no-such-token", "A token that does not exist is refused", &[Need::Tokenize], no_such_token),
];

/// Texts that tokenizers stumble over.
pub(super) fn nasty() -> Vec<String> {
    let plain = [
        "",
        " ",
        "  ",
        "\n",
        "\t",
        "\r\n",
        "\0",
        "a",
        "Hello",
        " Hello",
        "Hello ",
        "Hello  world",
        "\n\n\n  x\n",
        "don't can't I'll",
        "1234567890 3.14 1,000,000",
        "x = {\"a\": [1, 2]}; // ok",
        "ÄÖÜ äöü ß",
        "ﬀ ﬁ Å Å",
        "مرحبا بالعالم",
        "你好，世界",
        "こんにちは",
        "안녕하세요",
        "😀 👩‍👩‍👧‍👦 🏳️‍🌈 \u{1F1E9}\u{1F1EA}",
        "e\u{301}\u{302}\u{303}",
        "\u{200b}\u{200d}\u{feff}",
        "\u{202e}abc\u{202c}",
        "\u{fffd}\u{fffe}\u{10ffff}",
        "\u{1}\u{2}\u{7f}\u{80}\u{9f}",
        "<s></s><unk><pad>",
        "<|im_start|>system\n<|im_end|>",
        "<|endoftext|>",
        "<|end|>",
        "[INST] x [/INST]",
        "<0x0A><0xFF>",
        "▁▁x▁",
        "ĠHelloĊ",
        "\\n \\u0041 %s %n",
    ];
    let mut all: Vec<String> = plain.iter().map(|text| (*text).to_owned()).collect();
    all.push("a".repeat(3000));
    all.push(" ".repeat(300));
    all.push("ab\u{1F600}".repeat(200));
    all
}

/// Texts by chance, of characters from everywhere.
fn random(bench: &Bench) -> Vec<String> {
    let mut random = bench.random(3);
    let mut text = || {
        let length = random.usize(1..60);
        (0..length)
            .map(|_| match random.u8(0..4) {
                0 => random.char('a'..='z'),
                1 => random.char(' '..='~'),
                2 => random.char('\u{80}'..='\u{7ff}'),
                // Planes 0 to 2 hold what people write; byte-level vocabularies may lack bytes that only the others need.
                _ => random.char('\u{0}'..='\u{2ffff}'),
            })
            .collect::<String>()
    };
    (0..200).map(|_| text()).collect()
}

fn facts(bench: &Bench) -> Outcome {
    let tokenizer = bench.tokenizer()?;
    let facts = tokenizer.vocabulary().clone();
    if let Some(forward) = bench.model()?.forward() {
        let columns = forward.limits().vocabulary;
        ensure!(facts.size <= columns, "the vocabulary has {} tokens, the logits {columns} columns", facts.size);
        if facts.size < columns {
            bench.remark(format!("the vocabulary has {} tokens, the logits {columns} columns", facts.size));
        }
    }
    ensure!(!facts.adds_bos || facts.bos.is_some(), "add_special puts bos first, and there is no bos");
    ensure!(!facts.adds_eos || facts.eos.is_some(), "add_special puts eos last, and there is no eos");
    bench.step("asking for the facts of every token");
    let (mut controls, mut ends) = (0_u32, 0_u32);
    for id in 0..facts.size {
        let token = tokenizer.token(id).failed(&format!("token {id}"))?;
        ensure!(!token.score.is_nan(), "token {id}: its score is NaN");
        ensure!(!(token.control && token.byte), "token {id} {:?} is a control token and stands for a byte", token.text);
        ensure!(!(token.unused && token.end), "token {id} {:?} is unused and ends a generation", token.text);
        controls += u32::from(token.control);
        ends += u32::from(token.end);
    }
    bench.number("tokens", f64::from(facts.size), "", None);
    bench.number("control tokens", f64::from(controls), "", None);
    for (name, id) in [("eos", facts.eos), ("eot", facts.eot)] {
        if let Some(id) = id {
            let token = tokenizer.token(id).failed(&format!("token {id}"))?;
            ensure!(token.end, "{name} is token {id} {:?}, which does not end a generation", token.text);
        }
    }
    if ends == 0 {
        bench.remark("no token ends a generation: every answer will run to its limit");
    }
    Ok(())
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, Stop> {
    tokenizer.encode(text, Encode::default()).failed(&format!("encoding {text:?}"))
}

fn shown(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().take(80).collect();
    format!("{text:?}")
}

fn round_trip(bench: &Bench) -> Outcome {
    let tokenizer = bench.tokenizer()?;
    let (mut tokens, mut bytes) = (0, 0);
    for text in nasty().iter().chain(&random(bench)) {
        bench.step(&format!("encoding {}", shown(text.as_bytes())));
        let encoded = encode(&tokenizer, text)?;
        ensure!(encoded == encode(&tokenizer, text)?, "{} is encoded differently each time", shown(text.as_bytes()));
        let decoded = tokenizer.decode(&encoded, false).failed(&format!("decoding {text:?}"))?;
        if decoded != text.as_bytes() {
            fail!("{} comes back as {} ({} tokens)", shown(text.as_bytes()), shown(&decoded), encoded.len());
        }
        (tokens, bytes) = (tokens + encoded.len(), bytes + text.len());
    }
    bench.number("bytes for each token", bytes as f64 / tokens.max(1) as f64, "", None);
    let lost: Vec<u32> = (3..17).filter(|plane| char::from_u32(plane << 16 | 0x1234).is_some_and(|c| !survives(&tokenizer, c))).collect();
    if !lost.is_empty() {
        bench.remark(format!("characters of the Unicode planes {lost:?} are lost: the vocabulary has no tokens for their bytes"));
    }
    Ok(())
}

fn survives(tokenizer: &Tokenizer, character: char) -> bool {
    let text = character.to_string();
    let back = tokenizer.encode(&text, Encode::default()).and_then(|tokens| tokenizer.decode(&tokens, false));
    back.is_ok_and(|back| back == text.as_bytes())
}

/// The texts of control tokens, as a user may write them.
fn controls(tokenizer: &Tokenizer) -> Result<Vec<(u32, String)>, Stop> {
    let mut found = Vec::new();
    for id in 0..tokenizer.vocabulary().size {
        let token = tokenizer.token(id).failed(&format!("token {id}"))?;
        if token.control && !token.text.is_empty() {
            found.push((id, token.text));
        }
        if found.len() == 2000 {
            break;
        }
    }
    Ok(found)
}

fn users_text(bench: &Bench) -> Outcome {
    let tokenizer = bench.tokenizer()?;
    let controls = controls(&tokenizer)?;
    bench.number("control tokens", controls.len() as f64, "", None);
    let is_control = |id: u32| controls.iter().any(|(control, _)| *control == id);
    let written = controls.iter().flat_map(|(_, text)| [text.clone(), format!("before {text} behind"), format!("{text}{text}")]);
    for text in written.chain(nasty()) {
        bench.step(&format!("encoding {}", shown(text.as_bytes())));
        let encoded = encode(&tokenizer, &text)?;
        if let Some(id) = encoded.iter().find(|id| is_control(**id)) {
            let token = tokenizer.token(*id).failed(&format!("token {id}"))?;
            fail!("the text {} became the control token {id} {:?}", shown(text.as_bytes()), token.text);
        }
    }
    // The other way round: asked to, the tokenizer knows them.
    let parse = Encode { parse_control: true, add_special: false };
    for (id, text) in &controls {
        let parsed = tokenizer.encode(text, parse).failed(&format!("encoding {text:?}"))?;
        if parsed != [*id] {
            bench.remark(format!("with parse_control {text:?} becomes {parsed:?}, not token {id}"));
            break;
        }
    }
    Ok(())
}

fn pieces(bench: &Bench) -> Outcome {
    let tokenizer = bench.tokenizer()?;
    for text in nasty() {
        let encoded = encode(&tokenizer, &text)?;
        bench.step(&format!("decoding {} token by token", shown(text.as_bytes())));
        let mut each = Vec::new();
        for token in &encoded {
            each.extend(tokenizer.decode(&[*token], false).failed(&format!("decoding token {token}"))?);
        }
        let all = tokenizer.decode(&encoded, false).failed("decoding")?;
        ensure!(each == all, "{}: token by token it is {}, in one {}", shown(text.as_bytes()), shown(&each), shown(&all));
    }
    for (id, text) in controls(&tokenizer)?.iter().take(50) {
        let left_out = tokenizer.decode(&[*id], false).failed(&format!("decoding token {id}"))?;
        ensure!(left_out.is_empty(), "the control token {id} is to be left out, and is written as {}", shown(&left_out));
        let written = tokenizer.decode(&[*id], true).failed(&format!("decoding token {id}"))?;
        ensure!(written == text.as_bytes(), "the control token {id} is {text:?}, and written as {}", shown(&written));
    }
    Ok(())
}

fn special(bench: &Bench) -> Outcome {
    let tokenizer = bench.tokenizer()?;
    let facts = tokenizer.vocabulary();
    for text in ["", "Hello world"] {
        let plain = encode(&tokenizer, text)?;
        let special = Encode { add_special: true, parse_control: false };
        let mut added = tokenizer.encode(text, special).failed("encoding with add_special")?;
        if facts.adds_bos {
            ensure!(added.first() == facts.bos.as_ref(), "add_special of {text:?} begins with {:?}, bos is {:?}", added.first(), facts.bos);
            added.remove(0);
        }
        if facts.adds_eos {
            ensure!(added.last() == facts.eos.as_ref(), "add_special of {text:?} ends with {:?}, eos is {:?}", added.last(), facts.eos);
            added.pop();
        }
        if added != plain {
            bench.remark(format!("add_special of {text:?} adds more than bos and eos: {added:?} instead of {plain:?}"));
        }
    }
    Ok(())
}

fn small_buffers(bench: &Bench) -> Outcome {
    let tokenizer = bench.tokenizer()?;
    let text = "The quick brown fox jumps over the lazy dog.";
    let tokens = encode(&tokenizer, text)?;
    for capacity in [0, 1, tokens.len() - 1] {
        bench.step(&format!("encoding {} tokens into {capacity}", tokens.len()));
        let mut buffer = vec![u32::MAX; tokens.len()];
        let (result, named) = tokenizer.encode_unchecked(text, &mut buffer[..capacity]).failed("encode")?;
        let Err(error) = result else { fail!("{} tokens were written into a buffer of {capacity}", tokens.len()) };
        typed("a buffer that is too small", &error, &[Status::BUFFER_TOO_SMALL])?;
        ensure!(named as usize == tokens.len(), "encode says {named} tokens are needed, there are {}", tokens.len());
        ensure!(buffer[capacity..].iter().all(|token| *token == u32::MAX), "encode wrote beyond a buffer of {capacity} tokens");
    }
    for capacity in [0, 1, text.len() - 1] {
        bench.step(&format!("decoding {} bytes into {capacity}", text.len()));
        let mut buffer = vec![0xa5; text.len()];
        let (result, named) = tokenizer.decode_unchecked(&tokens, &mut buffer[..capacity]).failed("decode")?;
        let Err(error) = result else { fail!("{} bytes were written into a buffer of {capacity}", text.len()) };
        typed("a buffer that is too small", &error, &[Status::BUFFER_TOO_SMALL])?;
        ensure!(named == text.len(), "decode says {named} bytes are needed, there are {}", text.len());
        ensure!(buffer[capacity..].iter().all(|byte| *byte == 0xa5), "decode wrote beyond a buffer of {capacity} bytes");
    }
    Ok(())
}

fn no_such_token(bench: &Bench) -> Outcome {
    let tokenizer = bench.tokenizer()?;
    let size = tokenizer.vocabulary().size;
    for id in [size, size + 1, i32::MAX as u32, i32::MAX as u32 + 1, u32::MAX] {
        bench.step(&format!("token {id}"));
        match tokenizer.token_unchecked(id) {
            Ok(()) => fail!("token {id} of a vocabulary of {size} has facts"),
            Err(error) => typed(&format!("token {id}"), &error, &[Status::INVALID_ARGUMENT])?,
        }
        let (result, _) = tokenizer.decode_unchecked(&[0, id], &mut [0; 256]).failed("decode")?;
        match result {
            Ok(()) => fail!("token {id} of a vocabulary of {size} was decoded"),
            Err(error) => typed(&format!("decoding token {id}"), &error, &[Status::INVALID_ARGUMENT])?,
        }
    }
    Ok(())
}
