//! Laws that several targets share.

/// A refusal is one line that says something, and that a terminal can show: a control character in it would be the file's author
/// speaking to the terminal of whoever reads the log.
pub fn is_a_sentence(message: &str) {
    assert!(!message.trim().is_empty(), "a refusal without a word");
    assert!(!message.chars().any(char::is_control), "a control character in {message:?}");
}
