//! Constraints that want time or memory.

use super::*;

/// Rules or terminals of which each names the next.
fn chain(length: usize, letter: &str) -> String {
    let rules = (0..length).map(|n| format!("{letter}{n}: {letter}{} | \"a\"\n", n + 1));
    format!("start: {letter}0\n{}{letter}{length}: \"b\"\n", rules.collect::<String>())
}

#[test]
fn hostile_constraints_end_soon_one_way_or_the_other() {
    let deep_schema = format!("{}{}{}", "{\"items\":".repeat(120), "{}", "}".repeat(120));
    let references: String = (0..5000).map(|n| format!("\"d{n}\":{{\"$ref\":\"#/$defs/d{}\"}},", n + 1)).collect();
    let square: String =
        (0..14).map(|n| format!("{{\"anyOf\":[{{\"minimum\":{n}}},{{\"maximum\":-{n}}},{{\"multipleOf\":{}}}]}},", n + 2)).collect();
    let constraints = [
        schema(&deep_schema),
        schema(&"[".repeat(100_000)),
        schema(&format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{references}\"d5000\":{{}}}}}}")),
        schema(&format!("{{\"allOf\":[{square}{{}}]}}")),
        schema(r#"{"type":"string","minLength":4000000000}"#),
        schema(r#"{"type":"array","items":{"type":"string"},"minItems":4000000000}"#),
        schema(r#"{"type":"array","prefixItems":[{"type":"string"}],"minItems":100000,"maxItems":200000}"#),
        schema(r#"{"type":"string","pattern":"(a|b|ab)*(a|b|ab)*(a|b|ab)*[^c]{1000}$"}"#),
        schema(&format!("{{\"enum\":[{}0]}}", "\"entry\",".repeat(50_000))),
        regex("(x+x+)+y{1000}"),
        regex("((((a{100}){100}){100}){100}){100}"),
        regex(&"(".repeat(190)),
        regex(&format!("{}a{}", "(".repeat(190), ")".repeat(190))),
        regex(&"(a?".repeat(199)),
        regex(&"a?".repeat(20_000)),
        regex(&"(a|bc)".repeat(20_000)),
        regex(&"ab".repeat(100_000)),
        regex(&"(a|b.)".repeat(20_000)),
        regex(&"x{2,5}y".repeat(20_000)),
        Constraint::Gbnf(format!("root ::= {}", "\"a\" ".repeat(3900))),
        Constraint::Gbnf(format!("root ::= {}root", "[ab]? ".repeat(3900))),
        Constraint::Gbnf(
            (0..1990).fold(String::from("root ::= r0\n"), |text, n| text + &format!("r{n} ::= \"a\" r{} | \"b\"\n", n + 1))
                + "r1990 ::= [c]*",
        ),
        regex(".*.*.*.*.*.*.*.*.*x.{500}"),
        regex(&"\u{1F600}".repeat(200_000)),
        lark("start: start"),
        lark("start: a\na: b\nb: a"),
        lark("start: start start | \"a\""),
        lark("start: start start start | \"\" | \"a\""),
        lark(&format!("start: {}\"a\"{}", "(".repeat(150), ")".repeat(150))),
        lark(&chain(1900, "r")),
        lark(&chain(1900, "R")),
        lark(&chain(20_000, "r")),
        lark(&format!("start: {}start", "/[ab]/? ".repeat(60_000))),
        lark(&format!("start: {}start", "/[ab]/? ".repeat(10_000))),
        schema(&format!(
            "{{\"type\":\"object\",\"properties\":{{{}\"z\":{{}}}}}}",
            (0..3000).map(|n| format!("\"p{n}\":{{}},")).collect::<String>()
        )),
        lark("start: a{1000000}\na: b{1000000}\nb: \"x\""),
        lark("start: %json {\"$ref\":\"#\"}"),
    ];
    for constraint in constraints {
        let name = format!("{constraint:?}").chars().take(80).collect::<String>();
        let begin = Instant::now();
        let said = alone(&Toy::new(1, 64), GenerateRequest { max_tokens: Some(20), ..under(constraint, 1) });
        let took = begin.elapsed();
        println!("{took:?} {name}: {:.200}", format!("{:?}", said.end));
        assert!(took < Duration::from_secs(20), "{name} took {took:?}");
    }
}
