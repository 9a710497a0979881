//! What clients say, through the templates of models: text must stay text.

use onebit_engine::PromptPart;
use onebit_http::template::conversation::{Conversation, Message, Role, ToolCall};
use onebit_http::template::guard::Guard;
use onebit_http::template::{ChatTemplate, TemplateError, TemplateSource};

use crate::law;

/// ChatML, as many models have it.
pub const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Writes names between brackets, where a client's `s` would make a start token, and walks over the arguments of calls.
const BRACKETS: &str = "{% for m in messages %}<{{ m.name or 'none' }}>{{ m.content }}</{{ m.name or 'none' }}>{% for c in m.tool_calls or [] %}\
    {% for k, v in c.function.arguments|items %}<{{ k }}>{{ v }}</{{ k }}>{% endfor %}{% endfor %}{% endfor %}";

/// The control tokens of the model of these targets.
pub fn control_tokens() -> Vec<String> {
    ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<|a|>", "é漢"].map(str::to_owned).to_vec()
}

/// Messages are separated by byte 0x1E; the first byte of one chooses its role and shape.
///
/// Through ChatML come exactly the turn markers of its turns, whatever the texts are; through brackets comes none. The model is given the
/// texts as they were sent: what a template that knows no control tokens writes is what this one writes.
pub fn run(bytes: &[u8]) {
    let conversation = Conversation { messages: bytes.split(|byte| *byte == 0x1E).map(message).collect(), ..Conversation::default() };
    let guard = Guard::new(&control_tokens()).expect("six tokens");
    let turns = conversation.messages.len() * 2;
    // An answer that is to be continued has no end yet; else the next turn is begun.
    let wanted = if conversation.continues() { turns - 1 } else { turns + 1 };
    for (text, wanted) in [(CHATML, wanted), (BRACKETS, 0)] {
        let parts = render(text, control_tokens(), &conversation);
        let plain = render(text, Vec::new(), &conversation);
        match (parts, plain) {
            (Ok(parts), Ok(plain)) => {
                assert_eq!(joined(&parts), joined(&plain), "a text was altered");
                assert_eq!(guard.count(&parts), wanted, "{parts:?}");
            }
            (parts, plain) => {
                let refusals: Vec<TemplateError> = [parts.err(), plain.err()].into_iter().flatten().collect();
                refusals.iter().for_each(|error| law::is_a_sentence(&error.to_string()));
            }
        }
    }
}

fn render(text: &str, control_tokens: Vec<String>, conversation: &Conversation) -> Result<Vec<PromptPart>, TemplateError> {
    ChatTemplate::new(TemplateSource { text: text.to_owned(), bos: None, eos: None, control_tokens })?.render(conversation)
}

fn joined(parts: &[PromptPart]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect()
}

fn message(bytes: &[u8]) -> Message {
    let (shape, text) = bytes.split_first().unwrap_or((&0, &[]));
    let text = String::from_utf8_lossy(text).into_owned();
    let role = [Role::User, Role::Assistant, Role::System, Role::Tool][usize::from(shape & 3)];
    let mut message = Message::text(role, text.as_str());
    if shape & 4 != 0 {
        message.name = Some(text.clone());
    }
    if shape & 8 != 0 && role == Role::Assistant {
        let arguments = [(text.clone(), text.clone().into())].into_iter().collect();
        message.tool_calls = vec![ToolCall { id: None, name: text, arguments }];
    }
    message
}
