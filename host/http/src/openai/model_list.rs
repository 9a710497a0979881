//! Models in OpenAI's shape.

use serde::Serialize;

use crate::models::ModelCard;

/// OpenAI's model object; `aliases` is ours.
#[derive(Serialize)]
pub struct ModelObject {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<String>,
}

impl From<ModelCard> for ModelObject {
    fn from(card: ModelCard) -> Self {
        Self { id: card.id, object: "model", created: card.created, owned_by: "onebit-host", aliases: card.aliases }
    }
}

/// All of them.
#[derive(Serialize)]
pub struct ModelObjects {
    object: &'static str,
    data: Vec<ModelObject>,
}

impl From<Vec<ModelCard>> for ModelObjects {
    fn from(cards: Vec<ModelCard>) -> Self {
        Self { object: "list", data: cards.into_iter().map(ModelObject::from).collect() }
    }
}
