//! `GET /openapi.json`: what the front has, in OpenAPI 3.1, for clients, generators and fuzzers.
//!
//! A route is made together with its description ([`Routes::ask`], [`Routes::tell`]), so that neither can be without the other, and this
//! document comes from the same calls as the router. Each room describes its own routes beside its handlers (`openai/openapi.rs` and its
//! siblings); the health and request routes are in `own.rs`. What the description says of a field is held against the reader by the tests,
//! which send every documented field with wrong types and beyond its bounds.

mod describe;
mod own;
pub mod shapes;

use std::sync::Arc;

use axum::handler::Handler;
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, get, on};
use axum::{Json, Router};
use utoipa::openapi::path::{HttpMethod, Paths};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApiBuilder};

pub use describe::{ADMIN, CHATTING, Description, event, event_of};
pub use own::{document, health, metrics, ready, request_cancel, requests};

use crate::app::App;
use crate::dialect::anthropic_type;
use crate::errors::{ROWS, Row};
use shapes::{Shape, or_null, record, text, word};

/// How a route is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads.
    Get,
    /// Says only whether it is there.
    Head,
    /// Does.
    Post,
    /// Removes.
    Delete,
}

/// Routes and the document of them.
pub struct Routes {
    asking: Router<App>,
    telling: Router<App>,
    paths: Paths,
    shapes: ComponentsBuilder,
}

impl Routes {
    /// None.
    pub fn new() -> Self {
        Self { asking: Router::new(), telling: Router::new(), paths: Paths::new(), shapes: ComponentsBuilder::new() }
    }

    /// A route that asks a model.
    pub fn ask<H, T>(mut self, verb: Verb, path: &str, handler: H, description: Description) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.describe(verb, path, description, true);
        Self { asking: self.asking.route(path, on(verb.filter(), handler)), ..self }
    }

    /// A route that asks none.
    pub fn tell<H, T>(mut self, verb: Verb, path: &str, handler: H, description: Description) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.describe(verb, path, description, false);
        Self { telling: self.telling.route(path, on(verb.filter(), handler)), ..self }
    }

    fn describe(&mut self, verb: Verb, path: &str, description: Description, asks: bool) {
        // axum marks a parameter that reaches over slashes, OpenAPI has no word for it.
        let shown = path.replace("{*", "{");
        let words = shown.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let id = words.fold(verb.name().to_owned(), |id, word| id + "_" + word);
        let operation = description.operation(path, id, asks, &mut self.shapes);
        self.paths.add_path_operation(shown, vec![verb.method()], operation);
    }

    /// The routes that ask models, and all others with the document of both.
    pub fn publish(mut self, path: &str) -> (Router<App>, Router<App>) {
        self.describe(Verb::Get, path, document(), false);
        let info = InfoBuilder::new().title("onebit-host").version(env!("CARGO_PKG_VERSION")).description(Some(
            "OpenAI's, Anthropic's, Ollama's and llama-server's routes over any model that the host can serve. Fields that a request has beside the \
             documented ones are ignored, unless they would change the answer: those are refused by name.",
        ));
        let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("x-api-key", "The same key, in another header")));
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let errors = [("Error", error()), ("AnthropicError", anthropic_error()), ("OllamaError", ollama_error())];
        let components = errors.into_iter().fold(self.shapes, |shapes, (name, shape)| shapes.schema(name, shape));
        let none: [&str; 0] = [];
        let document = OpenApiBuilder::new()
            .info(info.build())
            .paths(self.paths)
            .components(Some(components.security_scheme("bearer", bearer).security_scheme("key", key).build()))
            // The last: without configured keys none is needed.
            .security(Some([
                SecurityRequirement::new("bearer", none),
                SecurityRequirement::new("key", none),
                SecurityRequirement::default(),
            ]))
            .build();
        let document = Arc::new(document);
        let answer = move || async move { Json(&*document).into_response() };
        (self.asking, self.telling.route(path, get(answer)))
    }
}

impl Verb {
    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Head => MethodFilter::HEAD,
            Self::Post => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    fn method(self) -> HttpMethod {
        match self {
            Self::Get => HttpMethod::Get,
            Self::Head => HttpMethod::Head,
            Self::Post => HttpMethod::Post,
            Self::Delete => HttpMethod::Delete,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::Post => "post",
            Self::Delete => "delete",
        }
    }
}

/// OpenAI's error object, with the types and codes that the table of errors has.
fn error() -> Shape {
    let types = types(|row| row.type_);
    let codes: Vec<&str> = ROWS.iter().map(|row| row.code).collect();
    let inside = record("")
        .must("message", text("What happened, to what, and what to do next"))
        .must("type", word(&types, ""))
        .must("param", or_null(text("The field at fault")))
        .must("code", word(&codes, ""));
    record("").must("error", inside.into()).into()
}

/// Anthropic's, which is also the last event of a stream that broke off.
fn anthropic_error() -> Shape {
    let inside = record("")
        .must("type", word(&types(|row| anthropic_type(row.kind)), ""))
        .must("message", text("What happened, to what, and what to do next"));
    record("").must("type", word(&["error"], "")).must("error", inside.into()).must("request_id", text("As in the headers")).into()
}

/// The words that a dialect has for the rows.
fn types(word: impl Fn(&Row) -> &'static str) -> Vec<&'static str> {
    let mut types: Vec<&str> = ROWS.iter().map(word).collect();
    types.sort_unstable();
    types.dedup();
    types
}

fn ollama_error() -> Shape {
    record("").must("error", text("What happened, to what, and what to do next")).into()
}
