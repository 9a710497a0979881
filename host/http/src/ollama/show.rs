//! `POST /api/show`: what is known of one model, without loading it.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use onebit_worker::Purpose;
use serde_json::{Map, Value, json};

use super::models::{details, time};
use super::{known_name, parameters};
use crate::app::App;
use crate::errors::ApiError;
use crate::fields::Fields;

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Json<Value>, ApiError> {
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    // Older clients say `name`.
    let asked = match fields.string("model")? {
        Some(name) => name,
        None => fields.string("name")?.ok_or_else(|| fields.missing("model", "the name of a model of GET /api/tags"))?,
    };
    let name = known_name(&app, asked);
    let cards = app.models.cards();
    let Some(card) = cards.into_iter().find(|card| card.id == name || card.aliases.contains(&name)) else {
        return Err(app.models.unknown(&name));
    };
    let known = &card.details;
    let architecture = known.architecture.clone().unwrap_or_default();
    let mut info = Map::new();
    info.insert("general.architecture".into(), architecture.as_str().into());
    if let Some(parameters) = known.parameters {
        info.insert("general.parameter_count".into(), parameters.into());
    }
    if let Some(context) = known.context_trained {
        info.insert(format!("{architecture}.context_length"), context.into());
    }
    // Every model that chats calls functions: where its template does not know them, the host writes them.
    let capabilities: &[&str] = match known.purpose {
        Some(Purpose::Embed) => &["embedding"],
        // Ollama has no word for it.
        Some(Purpose::Rank) => &[],
        _ if known.chats => &["completion", "tools"],
        _ => &["completion"],
    };
    let said = app.models.said(&card.id)?;
    let (template, system) = (said.chat.template.unwrap_or_default(), said.chat.system.unwrap_or_default());
    let parameters = parameters::write(&said.defaults);
    Ok(Json(json!({
        "license": known.licence.clone().unwrap_or_default(),
        "modelfile": modelfile(&card.id, &template, &system, &parameters),
        "parameters": parameters.iter().map(|(name, value)| format!("{name:<30} {value}")).collect::<Vec<_>>().join("\n"),
        // The manifest's; that of the model's file is the file's own.
        "template": template,
        "system": system,
        "details": details(known),
        "model_info": info,
        "capabilities": capabilities,
        "modified_at": time(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(card.created)),
    })))
}

/// As Ollama's users write it. The name stands for weights and manifest.
fn modelfile(name: &str, template: &str, system: &str, parameters: &[(&str, String)]) -> String {
    let mut text = format!("# served by onebit-host; see its manifest\nFROM {name}\n");
    for (word, value) in [("TEMPLATE", template), ("SYSTEM", system)].into_iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("{word} \"\"\"{value}\"\"\"\n"));
    }
    for (name, value) in parameters {
        text.push_str(&format!("PARAMETER {name} {value}\n"));
    }
    text
}
