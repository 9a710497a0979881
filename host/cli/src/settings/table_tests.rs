//! The rows of the table of settings agree with each other and with themselves.

use super::row::Fallback;
use super::table::*;
use crate::places::Places;

#[test]
fn every_row_is_complete_and_names_nothing_twice() {
    for (at, row) in TABLE.iter().enumerate() {
        assert!(row.help().ends_with('.'), "{}: a sentence", row.key());
        assert_eq!(row.key(), row.key().to_lowercase());
        assert!(!row.flag().contains('_'), "{}", row.flag());
        assert!(row.env()[0].starts_with("ONEBIT_"), "{}", row.key());
        for other in &TABLE[..at] {
            assert!(row.key() != other.key() && row.flag() != other.flag() && row.env()[0] != other.env()[0], "{}", row.key());
        }
    }
}

#[test]
fn every_default_can_be_read() {
    for row in TABLE {
        match row.fallback() {
            Fallback::Text(text) => row.check(&[text.to_owned()]).unwrap(),
            Fallback::Computed(compute, _) => row.check(&compute(&Places::default())).unwrap(),
            Fallback::Unset => {}
        }
    }
}
