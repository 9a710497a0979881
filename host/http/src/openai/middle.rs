//! Fill in the middle: what a model writes between a beginning and an end, in the control tokens its family was trained with.

use onebit_engine::{ModelFacts, Prompt, PromptPart};

use crate::errors::ApiError;

/// Marks of one family: before the beginning, before the end, before what is to be written.
struct Marks {
    prefix: &'static str,
    suffix: &'static str,
    middle: &'static str,
    /// The end stands first.
    suffix_first: bool,
}

const fn marks(prefix: &'static str, suffix: &'static str, middle: &'static str) -> Marks {
    Marks { prefix, suffix, middle, suffix_first: false }
}

static FAMILIES: &[Marks] = &[
    // Qwen2.5-Coder and later.
    marks("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    // StarCoder, SmolLM, Granite, Refact.
    marks("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    // DeepSeek.
    marks("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    // CodeGemma, GLM.
    marks("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
    // Code Llama.
    marks("<PRE>", "<SUF>", "<MID>"),
    // Codestral; it has no mark before what is to be written.
    Marks { prefix: "[PREFIX]", suffix: "[SUFFIX]", middle: "", suffix_first: true },
];

/// The prompt that asks for what stands between. `param` is what the dialect calls the end.
pub fn prompt(facts: &ModelFacts, before: &str, after: &str, param: &str) -> Result<Prompt, ApiError> {
    let has = |mark: &str| mark.is_empty() || facts.control_tokens.iter().any(|token| token.trim() == mark);
    let Some(family) = FAMILIES.iter().find(|family| has(family.prefix) && has(family.suffix) && has(family.middle)) else {
        return Err(ApiError::unsupported(
            param,
            format!("{param:?} asks to fill in the middle, and this model has no tokens for it; leave it out"),
        ));
    };
    let mark = |text: &str| PromptPart { text: text.to_owned(), control: true };
    let text = |text: &str| PromptPart { text: text.to_owned(), control: false };
    let parts = if family.suffix_first {
        vec![mark(family.suffix), text(after), mark(family.prefix), text(before)]
    } else {
        vec![mark(family.prefix), text(before), mark(family.suffix), text(after), mark(family.middle)]
    };
    Ok(Prompt::Parts(parts))
}
