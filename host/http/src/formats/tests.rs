//! Answers as families write them, whole and cut at every place.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn tools() -> Arc<[Tool]> {
    let parameters = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "deep": {"type": "object"}},
        "required": ["city"]
    });
    Arc::from([
        Tool { name: "get_weather".into(), description: None, parameters },
        Tool { name: "now".into(), description: None, parameters: json!({"type": "object"}) },
    ])
}

/// What a reader of the answer has in the end.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    text: String,
    reasoning: String,
    calls: Vec<(String, Value)>,
    /// The text holds what began like a call.
    broken: bool,
}

fn gather(pieces: Vec<Piece>) -> Seen {
    let mut seen = Seen::default();
    let mut open: Option<(String, String)> = None;
    for piece in pieces {
        match piece {
            Piece::Text(text) => seen.text.push_str(&text),
            Piece::Reasoning(text) => seen.reasoning.push_str(&text),
            Piece::Call { name, id } => {
                assert!(!id.is_empty());
                open = Some((name, String::new()));
            }
            Piece::Arguments(text) => open.as_mut().expect("arguments of no call").1.push_str(&text),
            Piece::CallEnd => {
                let (name, arguments) = open.take().expect("the end of no call");
                seen.calls.push((name, serde_json::from_str(&arguments).expect("JSON")));
            }
            Piece::Broken(text) => {
                open = None;
                seen.broken = true;
                seen.text.push_str(&text);
            }
        }
    }
    seen
}

fn read(format: &str, reasoning: Option<Marks>, pieces: &[&str]) -> Seen {
    let format = if format.is_empty() { None } else { Some(tool_format(format).unwrap_or_else(|| panic!("no format {format}"))) };
    let mut parser = Parser::new(reasoning, format, tools());
    let mut all = Vec::new();
    for piece in pieces {
        all.extend(parser.push(piece));
    }
    all.extend(parser.finish());
    gather(all)
}

/// The same, however the text is cut into two, and character by character.
fn read_all_ways(format: &str, reasoning: Option<Marks>, text: &str) -> Seen {
    let whole = read(format, reasoning.clone(), &[text]);
    for at in (1..text.len()).filter(|at| text.is_char_boundary(*at)) {
        let cut = read(format, reasoning.clone(), &[&text[..at], &text[at..]]);
        assert_eq!(cut, whole, "{format}: {:?} | {:?}", &text[..at], &text[at..]);
    }
    let characters: Vec<String> = text.chars().map(String::from).collect();
    let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
    assert_eq!(read(format, reasoning, &characters), whole, "{format}: character by character");
    whole
}

fn think(opened: bool) -> Option<Marks> {
    Some(Marks { start: (!opened).then(|| "<think>".to_owned()), end: "</think>".to_owned() })
}

const TWO: &[(&str, &str)] = &[
    (
        "hermes",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}\n</tool_call>\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}}\n</tool_call>",
    ),
    (
        "tool-calls",
        "<tool_calls>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}, {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}}]</tool_calls>",
    ),
    (
        "tool-calls",
        "<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}}\n</tool_calls>",
    ),
    (
        "nemotron",
        "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}, {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}}]</TOOLCALL>",
    ),
    (
        "cohere",
        "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 3}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}}\n]<|END_ACTION|>",
    ),
    (
        "apertus",
        "<|tools_prefix|>[{\"get_weather\": {\"city\": \"Oslo\", \"days\": 3}}, {\"get_weather\": {\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}}]<|tools_suffix|>",
    ),
    (
        "mistral-list",
        "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}, \"id\": \"abcdefghi\"}, {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}, \"id\": \"abcdefghj\"}]",
    ),
    (
        "mistral",
        "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\", \"days\": 3}[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}",
    ),
    (
        "llama3",
        "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 3}}; {\"name\": \"get_weather\", \"parameters\": {\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}}",
    ),
    (
        "llama3",
        "<|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 3}}\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}}",
    ),
    (
        "kimi-k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Oslo\", \"days\": 3}<|tool_call_end|><|tool_call_begin|>functions.get_weather:1<|tool_call_argument_begin|>{\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}<|tool_call_end|><|tool_calls_section_end|>",
    ),
    (
        "deepseek-v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Oslo\", \"days\": 3}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "deepseek-v3.1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Oslo\", \"days\": 3}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "solar",
        "<|tool_calls|><|tool_call:begin|>call_00001<|tool_call:name|>get_weather<|tool_call:args|>{\"city\": \"Oslo\", \"days\": 3}<|tool_call:end|><|tool_call:begin|>call_00002<|tool_call:name|>get_weather<|tool_call:args|>{\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}<|tool_call:end|>",
    ),
    (
        "functionary",
        "<function=get_weather>{\"city\": \"Oslo\", \"days\": 3}</function><function=get_weather>{\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}</function>",
    ),
    (
        "glm",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>get_weather<arg_key>city</arg_key><arg_value>Bergen <x></arg_value><arg_key>deep</arg_key><arg_value>{\"a\": [1, true, null]}</arg_value></tool_call>",
    ),
    (
        "hunyuan",
        "<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Oslo</arg_value:opensource>\n<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>3</arg_value:opensource>\n</tool_call:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Bergen <x></arg_value:opensource>\n<arg_key:opensource>deep</arg_key:opensource>\n<arg_value:opensource>{\"a\": [1, true, null]}</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
    ),
    (
        "qwen3-coder",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_weather>\n<parameter=city>\nBergen <x>\n</parameter>\n<parameter=deep>\n{\"a\": [1, true, null]}\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "seed",
        "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n<parameter=days>3</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Bergen <x></parameter>\n<parameter=deep>{'a': [1, True, None]}</parameter>\n</function>\n</seed:tool_call>",
    ),
    (
        "minimax-m2",
        "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n<parameter name=\"days\">3</parameter>\n</invoke>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Bergen <x></parameter>\n<parameter name=\"deep\">{\"a\": [1, true, null]}</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
    (
        "deepseek-dsml",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Oslo</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Bergen <x></｜DSML｜parameter>\n<｜DSML｜parameter name=\"deep\" string=\"false\">{\"a\": [1, true, null]}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    (
        "gemma4",
        "<|tool_call>call:get_weather{city:<|\"|>Oslo<|\"|>,days:3}<tool_call|><|tool_call>call:get_weather{city:<|\"|>Bergen <x><|\"|>,deep:{a:[1,true,None]}}<tool_call|>",
    ),
    (
        "functiongemma",
        "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:3}<end_function_call><start_function_call>call:get_weather{city:<escape>Bergen <x><escape>,deep:{a:[1,true,null]}}<end_function_call>",
    ),
    (
        "lfm2",
        "<|tool_call_start|>[get_weather(city='Oslo', days=3), get_weather(city='Bergen <x>', deep={\"a\": [1, true, null]})]<|tool_call_end|>",
    ),
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\", \"days\": 3}<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Bergen <x>\", \"deep\": {\"a\": [1, true, null]}}",
    ),
];

#[test]
fn two_calls_of_every_family_are_read_however_they_are_cut() {
    let wanted = vec![
        ("get_weather".to_owned(), json!({"city": "Oslo", "days": 3})),
        ("get_weather".to_owned(), json!({"city": "Bergen <x>", "deep": {"a": [1, true, null]}})),
    ];
    for (format, text) in TWO {
        let seen = read_all_ways(format, None, text);
        assert_eq!(seen.calls, wanted, "{format}: {seen:?}");
        assert!(!seen.broken && seen.text.is_empty(), "{format}: {seen:?}");
    }
    let covered: Vec<&str> = TWO.iter().map(|(format, _)| *format).collect();
    let alike = ["granite", "gigachat", "deepseek-v4"];
    for format in TOOL_FORMATS {
        assert!(covered.contains(&format.name) || alike.contains(&format.name), "{} is not tested", format.name);
    }
}

#[test]
fn what_the_host_writes_of_calls_is_read_back_in_every_family() {
    let first = json!({"city": "Oslo <x>\n\"quoted\"", "days": 3});
    let second = json!({"city": "Bergen", "deep": {"a": [1, true, null, "b"]}});
    let calls = [("get_weather", &first), ("now", &json!({})), ("get_weather", &second)];
    let objects = calls.map(|(name, arguments)| (name, arguments.as_object().expect("an object")));
    for format in TOOL_FORMATS {
        let text = written(format, &objects);
        let seen = read_all_ways(format.name, None, &text);
        assert_eq!(seen.calls, calls.map(|(name, arguments)| (name.to_owned(), arguments.clone())), "{}: {text}", format.name);
        assert!(!seen.broken && seen.text.is_empty(), "{}: {seen:?}", format.name);
    }
}

#[test]
fn text_before_and_after_calls_is_text() {
    let call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let seen = read_all_ways("hermes", None, &format!("I look.\n\n{call}\nDone. < a <tool"));
    assert_eq!((seen.text.as_str(), seen.calls.len()), ("I look.Done. < a <tool", 1));
    // Without calls nothing is lost, whatever it looks like.
    for text in ["a <tool_cal b", "<tool_call", "x <", "  two  spaces  ", "\n"] {
        assert_eq!(read_all_ways("hermes", None, text).text, text);
    }
    assert_eq!(read_all_ways("llama3", None, "The answer is {\"name\": 1}").text, "The answer is {\"name\": 1}");
}

#[test]
fn what_is_no_call_comes_back_as_it_was_written() {
    for (format, text) in [
        ("hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": {oops}}\n</tool_call>"),
        ("hermes", "<tool_call>nonsense</tool_call>"),
        ("hermes", "<tool_call>\n{\"arguments\": {}}\n</tool_call>"),
        ("hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": "),
        ("hermes", "<tool_call>\n{\"name\": 7, \"arguments\": {}}\n</tool_call>"),
        ("kimi-k2", "<|tool_calls_section_begin|>hello"),
        ("deepseek-v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>[1]"),
        ("glm", "<tool_call>get_weather\nwhat now</tool_call>"),
        ("qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo"),
        ("gemma4", "<|tool_call>call:get_weather{city:<tool_call|>"),
        ("lfm2", "<|tool_call_start|>[get_weather(<|tool_call_end|>"),
        ("mistral", "[TOOL_CALLS]no arguments follow"),
    ] {
        let seen = read_all_ways(format, None, text);
        assert!(seen.calls.is_empty() && seen.broken, "{format}: {seen:?}");
        assert_eq!(seen.text, text, "{format}");
    }
    // A mark that is cut off after a whole call is still a mark.
    for (format, text) in [
        ("hermes", "<tool_call>{\"name\": \"now\"}</tool_c"),
        ("deepseek-v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call"),
        ("deepseek-v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁c"),
        ("deepseek-dsml", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML"),
    ] {
        let seen = read_all_ways(format, None, text);
        assert_eq!((seen.calls.len(), seen.text.as_str(), seen.broken), (1, "", false), "{format}");
    }
    // Only what is broken: the call before it counts.
    let seen = read_all_ways("hermes", None, "<tool_call>{\"name\": \"now\"}</tool_call><tool_call>{]");
    assert_eq!((seen.calls.len(), seen.text.as_str(), seen.broken), (1, "<tool_call>{]", true));
}

#[test]
fn arguments_go_out_while_they_are_written() {
    let mut parser = Parser::new(None, tool_format("hermes"), tools());
    assert!(parser.push("<tool_call>\n{\"name\": \"get_weather\", ").is_empty());
    assert!(
        matches!(&parser.push("\"arguments\": {\"city\": \"Os")[..], [Piece::Call { name, .. }, Piece::Arguments(text)] if name == "get_weather" && text == "{\"city\": \"Os")
    );
    assert_eq!(parser.push("lo"), [Piece::Arguments("lo".into())]);
    assert_eq!(parser.push("\"}}"), [Piece::Arguments("\"}".into()), Piece::CallEnd]);
    let mut parser = Parser::new(None, tool_format("qwen3-coder"), tools());
    parser.push("<tool_call>\n<function=get_weather>\n<parameter=city>\nA long");
    assert_eq!(parser.push(" text \"quoted\"\n"), [Piece::Arguments(" text \\\"quoted\\\"".into())]);
    assert_eq!(parser.push("</parameter>"), [Piece::Arguments("\"".into())]);
}

#[test]
fn arguments_may_be_a_string_that_holds_json_or_come_before_the_name() {
    for text in [
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Oslo\\\"}\"}</tool_call>",
        "<tool_call>{\"arguments\": {\"city\": \"Oslo\"}, \"name\": \"get_weather\"}</tool_call>",
        "<tool_call>{\"name\":\"get_weather\",\"extra\":[1,{\"a\":2}],\"parameters\":{\"city\":\"Oslo\"}}</tool_call>",
    ] {
        assert_eq!(read_all_ways("hermes", None, text).calls, [("get_weather".to_owned(), json!({"city": "Oslo"}))], "{text}");
    }
    assert_eq!(
        read_all_ways("hermes", None, "<tool_call>{\"name\": \"now\", \"arguments\": null}</tool_call>").calls,
        [("now".to_owned(), json!({}))]
    );
}

#[test]
fn reasoning_is_split_off_where_the_answer_begins_with_it() {
    let seen = read_all_ways("", think(false), "<think>\nHm, 1 < 2.\n</think>\n\nTwo.");
    assert_eq!((seen.reasoning.as_str(), seen.text.as_str()), ("Hm, 1 < 2.", "Two."));
    let seen = read_all_ways("", think(true), "Hm.</think>Two. </think>");
    assert_eq!((seen.reasoning.as_str(), seen.text.as_str()), ("Hm.", "Two. </think>"));
    let seen = read_all_ways("", think(false), "No <think>here</think>.");
    assert_eq!((seen.reasoning.as_str(), seen.text.as_str()), ("", "No <think>here</think>."));
    // Cut off in the middle: all of it is reasoning.
    assert_eq!(read_all_ways("hermes", think(true), "Hm, <tool_call>").reasoning, "Hm, <tool_call>");
    let seen = read_all_ways("hermes", think(false), "<think>I call.</think>\n<tool_call>{\"name\": \"now\"}</tool_call>");
    assert_eq!((seen.reasoning.as_str(), seen.text.as_str(), seen.calls.len()), ("I call.", "", 1));
}

#[test]
fn channels_of_harmony_are_told_apart() {
    let seen = read_all_ways("harmony", None, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Two.");
    assert_eq!((seen.reasoning.as_str(), seen.text.as_str()), ("Hm.", "Two."));
    assert_eq!(read_all_ways("harmony", None, "Just text.").text, "Just text.");
    let seen = read_all_ways("harmony", None, "<|channel|>commentary to=functions.now <|constrain|>json<|message|>oops");
    assert_eq!((seen.calls.len(), seen.text.as_str(), seen.broken), (0, "oops", true));
}

#[test]
fn every_demanded_grammar_has_its_start_and_its_marks() {
    let tools = tools();
    for format in TOOL_FORMATS {
        let Some(grammar) = grammar(format, Demand { tools: &tools, several: true }, None) else {
            assert!(["gemma4", "functiongemma", "lfm2"].contains(&format.name), "{}", format.name);
            continue;
        };
        assert!(grammar.lark.starts_with("start: "), "{}", format.name);
        for (number, mark) in grammar.marks.iter().enumerate() {
            assert!(!mark.is_empty());
            assert!(
                grammar.lark.contains(&format!("mark_{number}")) || grammar.lark.contains(&format!("until_{number}")),
                "{}",
                format.name
            );
        }
    }
}
