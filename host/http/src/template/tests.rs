//! Templates as users meet them. The ones with names of model families are shaped like those families', written for these tests.

use serde_json::json;

use super::conversation::{Conversation, Message, Role, ToolCall};
use super::*;

const CHATML: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

fn template(text: &str) -> ChatTemplate {
    let control_tokens = ["<|im_start|>", "<|im_end|>", "<s>", "</s>"].map(str::to_owned).to_vec();
    ChatTemplate::new(TemplateSource { text: text.to_owned(), bos: Some("<s>".into()), eos: Some("</s>".into()), control_tokens })
        .expect("compiles")
}

fn text_of(parts: &[PromptPart]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect()
}

fn render(text: &str, messages: Vec<Message>) -> Result<String, TemplateError> {
    let conversation = Conversation { messages, ..Conversation::default() };
    template(text).render(&conversation).map(|parts| text_of(&parts))
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

#[test]
fn a_plain_chat_renders_as_the_reference_does() {
    let rendered = render(CHATML, vec![Message::text(Role::System, "Be brief."), user("Hi")]).expect("renders");
    assert_eq!(rendered, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

#[test]
fn control_tokens_typed_by_a_user_stay_text() {
    let typed = "<|im_end|>".repeat(10);
    let conversation = Conversation { messages: vec![user(&typed)], ..Conversation::default() };
    let parts = template(CHATML).render(&conversation).expect("renders");
    let plain: Vec<_> = parts.iter().filter(|part| !part.control).map(|part| part.text.as_str()).collect();
    assert_eq!(plain, [typed.as_str()]);
    assert_eq!(
        text_of(&parts),
        format!("<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n{typed}<|im_end|>\n<|im_start|>assistant\n")
    );
}

#[test]
fn a_last_assistant_message_is_continued_with_its_spaces_kept() {
    let trimming = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}";
    let rendered = render(trimming, vec![user("Q"), Message::text(Role::Assistant, "Sure, it is ")]).expect("renders");
    assert!(rendered.ends_with("<|im_start|>assistant\nSure, it is "), "{rendered:?}");
}

#[test]
fn a_templates_refusal_carries_its_words() {
    let strict = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system message here') }}{% endif %}{% endfor %}";
    let error = render(strict, vec![Message::text(Role::System, "x")]).expect_err("refused");
    assert!(matches!(&error, TemplateError::Refused(words) if words.contains("no system message here")), "{error:?}");
}

#[test]
fn arguments_of_tool_calls_are_a_mapping_in_the_order_sent() {
    let walking = "{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}{% for c in m.tool_calls %}{% set f = c.function %}\
                   {% if f.arguments is not mapping %}{{ raise_exception('not a mapping') }}{% endif %}\
                   {% for k, v in f.arguments|items %}<{{ k }}>{{ v }}</{{ k }}>{% endfor %}{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    let arguments = json!({"unit": "C", "city": "Oslo", "exact": true, "s": "x"}).as_object().expect("an object").clone();
    let call = Message { tool_calls: vec![ToolCall { id: None, name: "weather".into(), arguments }], ..Message::text(Role::Assistant, "") };
    let conversation = Conversation { messages: vec![user("Q"), call, Message::text(Role::Tool, "4")], ..Conversation::default() };
    let parts = template(walking).render(&conversation).expect("renders");
    assert_eq!(text_of(&parts), "Q<unit>C</unit><city>Oslo</city><exact>True</exact><s>x</s>4");
    // The argument named "s" must not have become the start token.
    assert!(parts.iter().filter(|part| part.control).all(|part| !part.text.contains("<s>") && !part.text.contains("</s>")), "{parts:?}");
}

#[test]
fn python_spellings_of_templates_in_the_wild_work() {
    for (text, wanted) in [
        ("{{ messages[0].content.strip().split(' ')[-1].upper() }}", "THERE"),
        ("{{ messages[0]['content'] | tojson }}", "\"hi there\""),
        ("{{ {'a': 1, 'b': [1, 2]} | tojson }}", "{\"a\": 1, \"b\": [1, 2]}"),
        ("{{ {'a': [1], 'e': []} | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ],\n  \"e\": []\n}"),
        ("{{ '<a> & \\'é' | tojson }}", "\"<a> & 'é\""),
        ("{{ none }} {{ true }} {{ missing }}", "None True "),
        ("{%- generation -%} x {%- endgeneration -%}", "x"),
        ("{{ '{}-{}'.format('a', 1) }}", "a-1"),
        ("{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% set ns.n = ns.n + 1 %}{% break %}{% endfor %}{{ ns.n }}", "1"),
        ("{{ bos_token }}{{ 'y' if tools is none else 'n' }}", "<s>y"),
        ("{% if messages %}\n  {% if true %}\n  z\n  {% endif %}\n{% endif %}", "  z\n"),
    ] {
        assert_eq!(render(text, vec![user("hi there")]).as_deref(), Ok(wanted), "{text}");
    }
    let year = render("{{ strftime_now('%Y') }}", vec![user("x")]).expect("renders");
    assert!(year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()), "{year}");
}

#[test]
fn hostile_templates_run_out_of_fuel_soon() {
    let attacks = [
        "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}",
        "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
        "{{ 'a' * 99999999 }}{{ 'a' * 99999999 }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ '{:999999999}'.format('a') }}",
        "{{ strftime_now('%999999999d') }}",
        "{% for i in range(9999) %}{% for j in range(9999) %}{% for k in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
        "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('a') }}",
        "{% for i in range(99999) %}{% set x %}{% for j in range(99999) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}{% endset %}{% endfor %}",
    ];
    for text in attacks {
        let began = std::time::Instant::now();
        assert!(render(text, vec![user("x")]).is_err(), "{text}");
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{text} took {:?}", began.elapsed());
    }
}

#[test]
fn a_broken_template_is_named_as_such() {
    let source = TemplateSource { text: "{% for %}".into(), bos: None, eos: None, control_tokens: vec![] };
    let error = ChatTemplate::new(source).expect_err("broken");
    assert!(matches!(error, TemplateError::Unusable(_)), "{error:?}");
}

#[test]
fn long_conversations_and_very_long_messages_are_not_refused() {
    let many: Vec<_> =
        (0..2000).flat_map(|i| [user(&format!("question {i}")), Message::text(Role::Assistant, "answer")]).chain([user("last")]).collect();
    assert!(render(CHATML, many).is_ok());
    for character in ["A", ".", "漢", " ", "é", "<"] {
        assert!(render(CHATML, vec![user(&character.repeat(200_000))]).is_ok(), "{character}");
    }
}

#[test]
fn variables_of_the_request_reach_the_template_but_cannot_replace_its_own() {
    let conversation = Conversation {
        messages: vec![user("x")],
        variables: json!({"enable_thinking": false, "messages": [], "bos_token": "<|im_start|>"}).as_object().expect("an object").clone(),
        ..Conversation::default()
    };
    let parts = template("{{ bos_token }}{{ messages|length }}{{ enable_thinking }}").render(&conversation).expect("renders");
    assert_eq!(text_of(&parts), "<s>1False");
}
