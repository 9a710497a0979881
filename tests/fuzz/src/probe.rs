//! The line of a probe process, in which a plugin ran.

use onebit_worker::fuzzing::probe_answer;

use crate::law;

/// An answer that was understood says the same when it is written again, and holds nothing that a terminal would obey.
pub fn run(bytes: &[u8]) {
    match probe_answer(bytes) {
        Ok(written) => {
            assert_eq!(probe_answer(&written).as_ref(), Ok(&written));
            // Written as JSON, a control character is an escape of its own.
            let text = String::from_utf8(written).expect("JSON is UTF-8");
            assert!(
                !["\\u00", "\\n", "\\r", "\\t", "\\b", "\\f", "\u{7f}"].iter().any(|escape| text.replace("\\\\", "").contains(escape)),
                "{text}"
            );
        }
        Err(refusal) => law::is_a_sentence(&refusal),
    }
}
