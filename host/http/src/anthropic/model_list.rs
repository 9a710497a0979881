//! Models in Anthropic's shape, in pages.

use serde::{Deserialize, Serialize};

use crate::errors::ApiError;
use crate::models::ModelCard;

/// Anthropic's default.
pub const PAGE: usize = 20;
/// Anthropic's limit.
pub const MAX_PAGE: usize = 1000;

/// What every model here is.
pub const LIFECYCLE: &str = "active";

/// Which page is wanted.
#[derive(Debug, Default, Deserialize)]
pub struct PageQuery {
    limit: Option<String>,
    after_id: Option<String>,
    before_id: Option<String>,
}

/// A model.
#[derive(Debug, Serialize)]
pub struct ModelInfo {
    r#type: &'static str,
    id: String,
    display_name: String,
    created_at: String,
    lifecycle: &'static str,
}

impl From<ModelCard> for ModelInfo {
    fn from(card: ModelCard) -> Self {
        let created = i64::try_from(card.created).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        // A time no calendar has is no time that a model came.
        let created = created.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        Self { r#type: "model", display_name: card.id.clone(), id: card.id, created_at: created.to_string(), lifecycle: LIFECYCLE }
    }
}

/// A page of models.
#[derive(Debug, Serialize)]
pub struct Page {
    data: Vec<ModelInfo>,
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
}

/// Cuts the page that is wanted.
pub fn page(cards: Vec<ModelCard>, query: &PageQuery) -> Result<Page, ApiError> {
    let limit = match &query.limit {
        None => PAGE,
        Some(text) => text.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit)).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            ApiError::invalid("limit", format!("\"limit\" is {shown:?}; it must be a whole number from 1 to {MAX_PAGE}"))
        })?,
    };
    let place = |param: &str, id: &Option<String>| {
        let found = id.as_ref().map(|id| cards.iter().position(|card| card.id == *id).ok_or(id)).transpose();
        found.map_err(|id| {
            let shown: String = id.chars().take(200).collect();
            ApiError::invalid(param, format!("{param:?} is {shown:?}, which is no model of this server; begin with the first page"))
        })
    };
    let (after, before) = (place("after_id", &query.after_id)?, place("before_id", &query.before_id)?);
    let (first, end) = (after.map_or(0, |at| at + 1), before.unwrap_or(cards.len()));
    let whole = end.saturating_sub(first);
    // A page before a model ends there; any other begins where it may.
    let skipped = if before.is_some() { first + whole.saturating_sub(limit) } else { first };
    let data: Vec<ModelInfo> = cards.into_iter().take(end).skip(skipped).take(limit).map(ModelInfo::from).collect();
    let id_of = |model: Option<&ModelInfo>| model.map(|model| model.id.clone());
    Ok(Page { has_more: whole > data.len(), first_id: id_of(data.first()), last_id: id_of(data.last()), data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(limit: Option<&str>, after: Option<&str>, before: Option<&str>) -> Result<Page, ApiError> {
        let cards = ["a", "b", "c", "d"]
            .map(|id| ModelCard { id: id.into(), aliases: Vec::new(), created: 1_700_000_000, details: Default::default() })
            .to_vec();
        let owned = |text: Option<&str>| text.map(str::to_owned);
        page(cards, &PageQuery { limit: owned(limit), after_id: owned(after), before_id: owned(before) })
    }

    fn ids(page: &Page) -> String {
        page.data.iter().map(|model| model.id.as_str()).collect()
    }

    #[test]
    fn pages_are_cut_where_they_are_asked_for() {
        for (limit, after, before, wanted, more) in [
            (None, None, None, "abcd", false),
            (Some("2"), None, None, "ab", true),
            (Some("2"), Some("b"), None, "cd", false),
            (Some("2"), None, Some("d"), "bc", true),
            (None, Some("d"), None, "", false),
            (None, Some("c"), Some("b"), "", false),
        ] {
            let page = ask(limit, after, before).expect("a page");
            assert_eq!((ids(&page).as_str(), page.has_more), (wanted, more), "{limit:?} {after:?} {before:?}");
        }
        let first = ask(None, None, None).expect("a page");
        assert_eq!((first.first_id.as_deref(), first.last_id.as_deref()), (Some("a"), Some("d")));
        assert_eq!(first.data[0].created_at, "2023-11-14T22:13:20Z");
    }

    #[test]
    fn a_page_that_cannot_be_is_refused() {
        assert!(ask(Some("0"), None, None).is_err());
        assert!(ask(Some("1001"), None, None).is_err());
        assert!(ask(Some("x"), None, None).is_err());
        assert_eq!(ask(None, Some("z"), None).expect_err("no such model").param.as_deref(), Some("after_id"));
    }
}
