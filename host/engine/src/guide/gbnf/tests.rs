use super::to_lark;
use crate::backend::{TokenFacts, Vocabulary};
use crate::guide::tests::accepts;
use crate::request::Constraint;
use crate::testing::Toy;

fn accepted(grammar: &str, texts: &[&str]) -> Vec<bool> {
    accepts(&Constraint::Gbnf(grammar.to_owned()), texts)
}

const JSON: &str = r#"
# JSON, as its notation is usually written.
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
"#;

#[test]
fn the_usual_grammar_of_json_accepts_json() {
    let texts = [
        r#"{}"#,
        "{ \"a\": [1, -2.5e+3, \"x\\n\\u00e9 \u{e9}\u{1F600}\"], \"b\": {\"c\": null}\n}",
        r#"{"a": tru}"#,
        r#"{"a": 01}"#,
        r#"{"a": 1,}"#,
        r#"[1]"#,
        r#"{"a": "\x"}"#,
    ];
    assert_eq!(accepted(JSON, &texts), [true, true, false, false, false, false, false]);
}

#[test]
fn the_strings_of_json_are_one_lexeme_and_its_numbers_are_characters() {
    // A string has optional space behind it there, and is not told from a longer one; without the space it is.
    let tight = JSON.replace(")* \"\\\"\" ws", ")* \"\\\"\"");
    let lark = to_lark(&tight).expect("a lawful grammar");
    let lexemes = lark.lines().filter(|line| line.contains("(?:")).count();
    assert_eq!(lexemes, 1, "{lark}");
    assert_eq!(accepted(&tight, &[r#"{"a":"b"}"#, r#"{"a":"b" }"#]), [true, false]);
}

#[test]
fn every_form_means_what_it_says() {
    for (grammar, good, bad) in [
        ("root ::= \"a\" | \"b\" \"c\"", &["a", "bc"][..], &["b", "abc", ""][..]),
        ("root ::= \"x\"{2}", &["xx"], &["x", "xxx"]),
        ("root ::= \"x\"{2,}", &["xx", "xxxxx"], &["x"]),
        ("root ::= \"x\"{1,3}", &["x", "xxx"], &["", "xxxx"]),
        ("root ::= \"x\"{,2} \"y\"", &["y", "xxy"], &["xxxy"]),
        ("root ::= \"x\"? \"y\"+ \"z\"*", &["y", "xyyzz"], &["xz", "x"]),
        ("root ::= [a-cx] [^a-c]", &["ad", "x\n", "b\u{e9}"], &["da", "aa"]),
        ("root ::= [\\x41-\\x43] \"\\x44\" \"\\u00e9\" \"\\U0001F600\"", &["AD\u{e9}\u{1F600}"], &["DD\u{e9}\u{1F600}"]),
        ("root ::= [a\\]\\-\\\\] \"\\t\\r\\n\\\"\\\\\"", &["]\t\r\n\"\\", "-\t\r\n\"\\"], &["b\t\r\n\"\\"]),
        ("root ::= [a-]", &["-", "a"], &["b"]),
        ("root ::= . .", &["ab", "\n\u{e9}"], &["a", "abc"]),
        ("root ::= (\"a\" | \"b\")+ (\"c\" (\"d\")?)?", &["abba", "acd"], &["cd"]),
        ("root ::= one # a comment | with \"marks\"\none ::= \"1\" # another\n# end", &["1"], &["2"]),
        ("root ::=\n  \"a\" |\n  \"b\"\n  | \"c\"\nother ::= \"d\"", &["a", "b", "c"], &["d"]),
        ("root ::= \"/\" [/] \"(?i)\"", &["//(?i)"], &["//(?I)", "//"]),
        ("root ::= \"\" | \"a\"", &["a"], &["b"]),
        // What a lexer that takes the longest piece would lose, without and with recursion.
        ("root ::= [a-z]* \"b\"", &["b", "abcb"], &["abc"]),
        ("root ::= \"(\" root \")\" | [a-z]* \"b\" [a-c]", &["bc", "((abbc))", "bbb"], &["b", "(bc"]),
        ("root ::= \"in\" \" \" root | word\nword ::= [a-z]+", &["in x", "in in in", "inn", "i", "in"], &["in ", " x"]),
        (
            "root ::= \"[\" list? \"]\"\nlist ::= (word | root) (\",\" list)?\nword ::= \"'\" [^']* \"'\"",
            &["[]", "['a,]',['']]"],
            &["['a]"],
        ),
        ("Root-2 ::= \"no\"\nroot ::= Root-2 | Root_2\nRoot_2 ::= \"yes\"", &["no", "yes"], &["Root"]),
    ] {
        assert_eq!(accepted(grammar, good), vec![true; good.len()], "{grammar}\n{}", to_lark(grammar).expect("lawful"));
        assert_eq!(accepted(grammar, bad), vec![false; bad.len()], "{grammar}\n{}", to_lark(grammar).expect("lawful"));
    }
}

#[test]
fn tokens_are_named_as_they_are_in_lark() {
    let toy = Toy::new(1, 10);
    let TokenFacts { text, .. } = toy.token(crate::testing::MARK).expect("a token");
    for token in [text.as_str(), "<[258]>"] {
        assert!(to_lark(&format!("root ::= {token} \"a\"")).expect("lawful").contains(token));
        assert_eq!(accepted(&format!("root ::= {token}? \"a\""), &["a"]), [true]);
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (grammar, words) in [
        ("", "no rule \"root\""),
        ("other ::= \"a\"", "no rule \"root\""),
        ("root ::= other", "other is used"),
        ("root ::= \"a\"\nroot ::= \"b\"", "line 2"),
        ("root = \"a\"", "\"::=\" was expected"),
        ("root ::= \"a", "no end"),
        ("root ::= \"a\nb\"", "line 1"),
        ("root ::= [a", "no end"),
        ("root ::= []", "no characters"),
        ("root ::= [z-a]", "backwards"),
        ("root ::= \"\\q\"", "not an escape"),
        ("root ::= \"\\u12\"", "hexadecimal"),
        ("root ::= \"\\uD800\"", "hexadecimal"),
        ("root ::= \"a\"{x}", "number of times"),
        ("root ::= \"a\"{3,2}", "number of times"),
        ("root ::= \"a\"{9999999}", "number of times"),
        ("root ::= \"a\"{", "no end"),
        ("root ::= (\"a\"", "\")\" was expected"),
        ("root ::= \"a\" )", "end of the rule"),
        ("root ::= <a", "no end"),
        ("root ::= !<[3]>", "not supported"),
        ("::= \"a\"", "name was expected"),
    ] {
        let error = to_lark(grammar).expect_err(grammar);
        assert!(error.contains(words), "{grammar}: {error}");
    }
    assert!(to_lark(&format!("root ::= {}", "(".repeat(5000))).is_err());
    assert!(to_lark(&format!("root ::= {}", "\"a\" ".repeat(4001))).is_err());
    let rules: String = (0..3000).map(|n| format!("r{n} ::= \"a\"\n")).collect();
    assert!(to_lark(&format!("root ::= r0\n{rules}")).is_err());
}

#[test]
fn rules_that_double_are_not_spelled_out() {
    let doubling: String = (0..60).map(|n| format!("r{n} ::= r{} r{}\n", n + 1, n + 1)).collect();
    let lark = to_lark(&format!("root ::= r0\n{doubling}r60 ::= \"a\"")).expect("lawful");
    assert!(lark.len() < 200_000, "{} bytes", lark.len());
}
