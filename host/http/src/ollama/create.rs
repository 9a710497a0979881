//! `POST /api/create`: a model of other words, other defaults or an uploaded file. What is made is a manifest of the user's.
//!
//! A field that a manifest has no word for is refused by name: a model that silently lacks what its maker said would be another model.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use futures_util::stream;
use onebit_worker::{Chat, Recipe, Weights};
use serde_json::Value;

use super::arrivals::Arrivals;
use super::blobs::Digest;
use super::progress::{respond, step, success};
use super::{arrivals, known_name, name, parameters};
use crate::app::App;
use crate::errors::{ApiError, Kind};
use crate::fields::Fields;
use crate::gate::Caller;
use crate::keys::Scope;
use crate::template::conversation::{Conversation, Message, Role};
use crate::template::{TemplateError, TemplateSource};

/// What Ollama can do and this host cannot.
const REFUSED: &[(&str, &str)] = &[
    ("quantize", "weights are served as they are; upload a file that is quantised already"),
    ("quantization", "weights are served as they are; upload a file that is quantised already"),
    ("adapters", "weights are served as they are; merge the adapter into them first"),
    ("messages", "a manifest has no conversation; send the messages with every chat"),
    ("modelfile", "say what is in it with from, files, template, system and parameters"),
    ("path", "upload the file to /api/blobs, and name it in files"),
    ("remote_host", "models are served by this host alone"),
    ("renderer", "say how messages become a prompt with template"),
    ("parser", "how a model calls functions is read from its template"),
];
/// Characters of a template, a system message or a licence.
pub(super) const TEXT_MAX: usize = 256 << 10;

/// Handles the request.
pub async fn handle(State(app): State<App>, caller: Caller, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    caller.require(Scope::Admin)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let whole = fields.boolean("stream")? == Some(false);
    let name = name::read(&fields, "model", Some("name"), "the name of the new model")?.to_owned();
    for (field, instead) in REFUSED {
        if fields.value(field).is_some_and(says_something) {
            return Err(ApiError::unsupported(*field, format!("{field:?} is not supported: {instead}")));
        }
    }
    let template = text(&fields, "template")?.filter(|text| !text.trim().is_empty());
    if let Some(template) = &template {
        check_template(&app, &name, template).await?;
    }
    let chat = Chat { template, system: text(&fields, "system")?, ..Chat::default() };
    let recipe = |weights| -> Result<Recipe, ApiError> {
        Ok(Recipe { name, weights, chat, defaults: parameters::read(&fields)?, licence: licence(&fields)? })
    };
    let mut steps = Vec::new();
    match base(&app, &fields)? {
        Base::Model(from) => {
            steps.push(step(&format!("using existing model {from}")));
            app.models.make(recipe(Weights::Of(from))?).await?;
        }
        Base::File(digest) => {
            steps.push(step(&format!("using existing layer sha256:{}", digest.hex())));
            let weights = Weights::File { name: digest.model_file(), sha256: digest.hex().to_owned(), source: Vec::new() };
            let work = of_file(app.clone(), Arc::clone(arrivals::of(&app)?), digest, recipe(weights)?);
            // A client that leaves must not leave a file between two places.
            tokio::spawn(work)
                .await
                .map_err(|_| ApiError::new(Kind::Internal, "making the model failed; please report this with the request id"))??;
        }
    }
    steps.extend([step("writing manifest"), success()]);
    respond(&app, whole, stream::iter(steps.into_iter().map(Ok))).await
}

/// Makes a model of an uploaded file, or leaves the file where it was.
async fn of_file(app: App, arrivals: Arc<Arrivals>, digest: Digest, recipe: Recipe) -> Result<(), ApiError> {
    // Another one of the same file would find it moved, and see it go again.
    let _turn = arrivals.making().await;
    let blobs = arrivals.blobs();
    let Some(new) = blobs.adopt(&digest)? else {
        let hex = digest.hex();
        return Err(ApiError::invalid(
            "files",
            format!("there is no file sha256:{hex} here; send it to POST /api/blobs/sha256:{hex} first"),
        ));
    };
    let made = app.models.make(recipe).await;
    if made.is_err() && new {
        blobs.give_back(&digest);
    }
    made
}

/// Whose weights.
enum Base {
    Model(String),
    File(Digest),
}

fn base(app: &App, fields: &Fields<'_>) -> Result<Base, ApiError> {
    let from = fields.string("from")?.filter(|name| !name.is_empty());
    let files = fields.object("files")?.filter(|files| !files.is_empty());
    match (from, files) {
        (Some(_), Some(_)) => {
            Err(ApiError::invalid("files", "\"files\" and \"from\" exclude each other; name one place to take weights from"))
        }
        (Some(from), None) => name::check(fields, "from", from).map(|from| Base::Model(known_name(app, from))),
        (None, Some(files)) => {
            let mut all = files.iter();
            let (Some((file, digest)), None) = (all.next(), all.next()) else {
                return Err(ApiError::invalid(
                    "files",
                    "\"files\" must have one file, a whole model in GGUF; this host takes no other parts",
                ));
            };
            let inside = Fields::inside(files, "files");
            let digest = digest.as_str().ok_or_else(|| inside.wrong(file, digest, "a digest such as \"sha256:…\""))?;
            Digest::parse(digest).map(Base::File).ok_or_else(|| {
                let (file, digest) = (file.chars().take(80).collect::<String>(), digest.chars().take(80).collect::<String>());
                ApiError::invalid(
                    "files",
                    format!("\"files\" names {digest:?} for {file:?}; it must be \"sha256:\" and 64 hexadecimal digits"),
                )
            })
        }
        (None, None) => Err(fields.missing("from", "the name of a model that is here, or \"files\" with an uploaded one")),
    }
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

fn text(fields: &Fields<'_>, name: &str) -> Result<Option<String>, ApiError> {
    match fields.string(name)? {
        Some(text) if text.len() > TEXT_MAX => {
            Err(ApiError::invalid(name, format!("{name:?} is {} bytes long; it must have at most {TEXT_MAX}", text.len())))
        }
        text => Ok(text.map(str::to_owned)),
    }
}

/// One text, or several.
fn licence(fields: &Fields<'_>) -> Result<Option<String>, ApiError> {
    let Some(Value::Array(items)) = fields.value("license") else {
        return Ok(text(fields, "license")?.filter(|text| !text.trim().is_empty()));
    };
    let texts: Vec<&str> = items
        .iter()
        .map(|item| item.as_str().ok_or_else(|| fields.wrong("license", item, "a string or a list of strings")))
        .collect::<Result<_, _>>()?;
    let all = texts.join("\n");
    if all.len() > TEXT_MAX {
        return Err(ApiError::invalid("license", format!("\"license\" is {} bytes long; it must have at most {TEXT_MAX}", all.len())));
    }
    Ok(Some(all).filter(|text| !text.trim().is_empty()))
}

/// Templates are Jinja here, and Go's in Ollama. One that cannot be read would fail with the first chat.
async fn check_template(app: &App, model: &str, template: &str) -> Result<(), ApiError> {
    let source = TemplateSource { text: template.to_owned(), bos: None, eos: None, control_tokens: Vec::new() };
    let conversation = Conversation { messages: vec![Message::text(Role::User, "Hello")], ..Conversation::default() };
    match app.templates.render(model.to_owned(), source, conversation).await {
        // It may refuse this conversation and like others.
        Ok(_) | Err(TemplateError::Refused(_)) => Ok(()),
        Err(TemplateError::Unusable(words)) => Err(ApiError::invalid(
            "template",
            format!("\"template\" must be Jinja, as model files have it; Ollama's own templates are another language: {words}"),
        )),
        Err(TemplateError::Process(words)) => Err(ApiError::new(Kind::Internal, words)),
    }
}
