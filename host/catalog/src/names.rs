//! Names: what one may be, how a person's spelling finds one, and which ones to suggest when none is found.
//!
//! A request gets the model it names, or an error that helps. So spelling is forgiven only where it cannot mean two things: upper and lower
//! case, an alias, and the tag `:latest`, which means "no tag". A name without its tag does not pick a tag.

use std::collections::BTreeMap;

/// Longest name, bytes.
const NAME_MAX: usize = 200;

/// Whether `name` may be a model's name.
pub fn check(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("must not be empty".into());
    }
    if name.len() > NAME_MAX {
        return Err(format!("has {} bytes; a name has at most {NAME_MAX}", name.len()));
    }
    match name.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Some(c) => Err(format!("has the character {c:?}; names have no white space and no control characters")),
        None => Ok(()),
    }
}

/// The form under which a name is compared.
pub(crate) fn fold(name: &str) -> String {
    let name = name.to_lowercase();
    name.strip_suffix(":latest").map(str::to_owned).unwrap_or(name)
}

/// Names and what they stand for. Exact spelling wins over folded spelling.
#[derive(Debug, Clone, Default)]
pub struct Names {
    exact: BTreeMap<String, usize>,
    folded: BTreeMap<String, usize>,
}

impl Names {
    /// Adds a name; returns the model that has it already, if it is another one.
    pub(crate) fn add(&mut self, name: &str, model: usize) -> Result<(), usize> {
        match self.folded.get(&fold(name)) {
            Some(&other) if other != model => Err(other),
            _ => {
                self.exact.insert(name.to_owned(), model);
                self.folded.insert(fold(name), model);
                Ok(())
            }
        }
    }

    /// The model of that name.
    pub(crate) fn get(&self, name: &str) -> Option<usize> {
        self.exact.get(name).or_else(|| self.folded.get(&fold(name))).copied()
    }

    /// The nearest names, best first, at most three: those that begin alike, then those that are spelled alike.
    pub fn suggest(&self, name: &str) -> Vec<String> {
        let wanted: String = fold(name).chars().take(NAME_MAX).collect();
        let mut rated: Vec<(f64, &String)> = self
            .exact
            .keys()
            .map(|known| {
                let folded = fold(known);
                let begins = !wanted.is_empty() && (folded.starts_with(&wanted) || wanted.starts_with(&folded));
                (if begins { 2.0 } else { strsim::jaro_winkler(&folded, &wanted) }, known)
            })
            .filter(|(score, _)| *score >= 0.75)
            .collect();
        rated.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
        rated.into_iter().take(3).map(|(_, known)| known.clone()).collect()
    }
}

/// The name of a model without a manifest: its file's stem in lower case, with what a name cannot hold replaced by `-`.
pub(crate) fn of_file(stem: &str) -> String {
    let mut name = String::new();
    for c in stem.to_lowercase().chars() {
        let c = if c.is_whitespace() || c.is_control() || c == ':' || c == '/' { '-' } else { c };
        if name.len() + c.len_utf8() <= NAME_MAX {
            name.push(c);
        }
    }
    name
}

/// `name:tag` for a stem that ends in the name of a weight type, as people who know Ollama write it: `smollm2-135m.q4_1` → `smollm2-135m:q4_1`.
pub(crate) fn tagged(name: &str) -> Option<String> {
    let at = name.rfind(['.', '-'])?;
    let (base, tag) = (name.get(..at)?, name.get(at + 1..)?);
    // K-quants carry a size letter that is no type of its own: q4_k_m.
    let kind = ["_s", "_m", "_l", "_xl"].iter().find_map(|size| tag.strip_suffix(size)).filter(|kind| kind.ends_with("_k")).unwrap_or(tag);
    (!base.is_empty() && onebit_weights::GgmlType::by_name(kind).is_some()).then(|| format!("{base}:{tag}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Names {
        let mut names = Names::default();
        for (model, name) in list.iter().enumerate() {
            names.add(name, model).unwrap();
        }
        names
    }

    #[test]
    fn spelling_is_forgiven_where_it_cannot_mean_two_things() {
        let names = names(&["smollm2:135m", "Qwen2", "phi:latest"]);
        for (name, expected) in [
            ("smollm2:135m", Some(0)),
            ("SmolLM2:135M", Some(0)),
            ("smollm2", None),
            ("smollm2:latest", None),
            ("smollm2:360m", None),
            ("qwen2", Some(1)),
            ("Qwen2:latest", Some(1)),
            ("phi", Some(2)),
            ("", None),
        ] {
            assert_eq!(names.get(name), expected, "{name:?}");
        }
    }

    #[test]
    fn a_name_has_one_model() {
        let mut names = names(&["a", "b"]);
        assert_eq!(names.add("A:latest", 1), Err(0));
        assert_eq!(names.add("A", 0), Ok(()));
    }

    #[test]
    fn the_nearest_names_are_suggested() {
        let names = names(&["smollm2:135m", "smollm2:360m", "qwen2.5-coder:0.5b"]);
        assert_eq!(names.suggest("smollm2"), ["smollm2:135m", "smollm2:360m"]);
        assert_eq!(names.suggest("smolm2:135m")[0], "smollm2:135m");
        assert_eq!(names.suggest("qwen2.5-coder:7b")[0], "qwen2.5-coder:0.5b");
        assert!(names.suggest("gpt-4o").is_empty());
        assert!(names.suggest(&"x".repeat(1 << 20)).is_empty());
    }

    #[test]
    fn names_of_files_can_be_asked_for() {
        assert_eq!(of_file("SmolLM2-135M-Instruct.Q4_1"), "smollm2-135m-instruct.q4_1");
        assert_eq!(of_file("My Model: 2"), "my-model--2");
        assert!(check(&of_file(&"é ".repeat(500))).is_ok());
    }

    #[test]
    fn the_weight_type_at_the_end_of_a_name_is_a_tag() {
        assert_eq!(tagged("smollm2-135m-instruct.q4_1").as_deref(), Some("smollm2-135m-instruct:q4_1"));
        assert_eq!(tagged("qwen2.5-coder-q4_k_m").as_deref(), Some("qwen2.5-coder:q4_k_m"));
        assert_eq!(tagged("llama-f16").as_deref(), Some("llama:f16"));
        assert_eq!(tagged("llama-instruct"), None);
        assert_eq!(tagged("q4_1"), None);
    }

    proptest::proptest! {
        #[test]
        fn every_file_name_becomes_a_legal_name(stem in ".{1,300}") {
            proptest::prop_assert!(check(&of_file(&stem)).is_ok());
        }
    }
}
