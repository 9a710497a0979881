//! What a route says of itself, as far as it does not follow from the route: that is added by [`super::Routes`].

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ComponentsBuilder, ContentBuilder, Required, Response, ResponseBuilder};

use super::shapes::{Record, Shape, either, holding, named, one_of, record, text, word};
use crate::dialect::Dialect;
use crate::errors::{Kind, ROWS, Row};
use crate::generation::stream::{EVENTS, LINES};

/// The content type of whole answers.
const JSON: &str = "application/json";
/// That of bytes without a meaning here.
const BYTES: &str = "application/octet-stream";

/// How every request may end.
const ANY: &[Kind] = &[Kind::BadHeaders, Kind::ForeignHost, Kind::ForeignOrigin, Kind::Internal];
/// Where there is a body to read.
const BODY: &[Kind] =
    &[Kind::InvalidJson, Kind::InvalidValue, Kind::MissingField, Kind::SlowBody, Kind::TooLarge, Kind::Encoding, Kind::QueueFull];
/// Where a model is asked.
const ASKING: &[Kind] = &[
    Kind::InvalidValue,
    Kind::UnknownModel,
    Kind::RateLimited,
    Kind::Cancelled,
    Kind::WorkerFailed,
    Kind::PluginFailed,
    Kind::LoadFailed,
    Kind::Unservable,
    Kind::OutOfMemory,
    Kind::QueueFull,
    Kind::Draining,
];
/// Where a model answers with words or vectors.
const COMPUTING: &[Kind] = &[Kind::UnsupportedField, Kind::ContextLength, Kind::UnsupportedJob];
/// Where messages become a prompt.
pub const CHATTING: &[Kind] = &[Kind::UnsupportedField, Kind::TemplateRefused, Kind::TemplateMissing];
/// Where only the owner of the server may.
pub const ADMIN: &[Kind] = &[Kind::Scope];

/// One route's own words.
pub struct Description {
    tag: &'static str,
    summary: &'static str,
    parameters: Vec<(&'static str, ParameterIn, Shape)>,
    body: Option<(&'static str, Shape)>,
    /// A body of bytes that are not looked into.
    bytes: Option<&'static str>,
    answers: Vec<Answer>,
    kinds: Vec<Kind>,
    stamped: bool,
    public: bool,
}

struct Answer {
    status: u16,
    about: &'static str,
    form: Form,
    /// More than one where the client's headers choose.
    shapes: Vec<(&'static str, Shape)>,
}

/// How a shape becomes a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// There is no body.
    Nothing,
    /// It is the body, of this type.
    Whole(&'static str),
    /// It is a line.
    Line,
    /// It is what an event without a name holds.
    Data,
    /// It is an event.
    Event,
}

impl Form {
    fn content(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Whole(content) => Some(content),
            Self::Line => Some(LINES),
            Self::Data | Self::Event => Some(EVENTS),
        }
    }
}

/// An event under its name, which is also the `type` of what it holds.
pub fn event(name: &str, holds: Record) -> Shape {
    event_of(name, holds.must("type", word(&[name], "")).into())
}

/// An event that holds this.
pub fn event_of(name: &str, holds: Shape) -> Shape {
    record("").must("event", word(&[name], "")).must("data", holding(JSON, holds)).into()
}

impl Description {
    /// `tag` is whose route it is.
    pub fn new(tag: &'static str, summary: &'static str) -> Self {
        Self {
            tag,
            summary,
            parameters: Vec::new(),
            body: None,
            bytes: None,
            answers: Vec::new(),
            kinds: Vec::new(),
            stamped: false,
            public: false,
        }
    }

    /// `?name=` that may be left out.
    pub fn query(mut self, name: &'static str, shape: Shape) -> Self {
        self.parameters.push((name, ParameterIn::Query, shape));
        self.ends(&[Kind::InvalidValue])
    }

    /// A header that may be left out.
    pub fn header(mut self, name: &'static str, about: &'static str) -> Self {
        self.parameters.push((name, ParameterIn::Header, text(about)));
        self
    }

    /// `{name}` of the path.
    pub fn path(mut self, name: &'static str, about: &'static str) -> Self {
        self.parameters.push((name, ParameterIn::Path, text(about)));
        self
    }

    /// The JSON object that is sent, under its name in the document.
    pub fn body(mut self, name: &'static str, shape: impl Into<Shape>) -> Self {
        self.body = Some((name, shape.into()));
        self.kinds.extend(BODY);
        self
    }

    /// The bytes that are sent.
    pub fn bytes(mut self, about: &'static str) -> Self {
        self.bytes = Some(about);
        self.kinds.extend([Kind::InvalidValue, Kind::SlowBody, Kind::Encoding]);
        self
    }

    /// What 200 holds, under its name in the document; of several, the client's headers choose.
    pub fn answer(self, name: &'static str, shape: impl Into<Shape>) -> Self {
        self.answer_as(JSON, name, shape)
    }

    /// The same, in another form. Of a stream, the shape is that of one line, or of what one event holds.
    pub fn answer_as(self, content: &'static str, name: &'static str, shape: impl Into<Shape>) -> Self {
        let form = match content {
            EVENTS => Form::Data,
            LINES => Form::Line,
            whole => Form::Whole(whole),
        };
        self.push(200, "The answer", form, name, shape.into())
    }

    /// A stream of events that have names; one of these shapes, which [`event`] makes, is how it tells that it broke off.
    pub fn events(self, name: &'static str, shapes: impl IntoIterator<Item = Shape>) -> Self {
        self.push(200, "The answer", Form::Event, name, either(shapes, ""))
    }

    /// An answer of another status that is not an error.
    pub fn status(self, status: u16, about: &'static str, name: &'static str, shape: impl Into<Shape>) -> Self {
        self.push(status, about, Form::Whole(JSON), name, shape.into())
    }

    fn push(mut self, status: u16, about: &'static str, form: Form, name: &'static str, shape: Shape) -> Self {
        match self.answers.iter_mut().find(|answer| answer.status == status && answer.form == form) {
            Some(answer) => answer.shapes.push((name, shape)),
            None => self.answers.push(Answer { status, about, form, shapes: vec![(name, shape)] }),
        }
        self
    }

    /// An answer without a body.
    pub fn nothing(mut self, status: u16, about: &'static str) -> Self {
        self.answers.push(Answer { status, about, form: Form::Nothing, shapes: Vec::new() });
        self
    }

    /// Headers of the answer say which plugin has the model.
    pub fn stamped(mut self) -> Self {
        self.stamped = true;
        self
    }

    /// A model computes the answer.
    pub fn computes(self) -> Self {
        self.stamped().ends(COMPUTING)
    }

    /// How it may end besides what follows from the rest.
    pub fn ends(mut self, kinds: &[Kind]) -> Self {
        self.kinds.extend(kinds);
        self
    }

    /// Needs no key.
    pub fn public(mut self) -> Self {
        self.public = true;
        self
    }

    /// The whole operation; its named shapes go into the document's.
    pub(super) fn operation(self, path: &str, id: String, asks: bool, shapes: &mut ComponentsBuilder) -> OperationBuilder {
        let mut keep = |name: &str, shape: Shape| {
            *shapes = std::mem::take(shapes).schema(name, shape);
            named(name)
        };
        let mut operation = OperationBuilder::new().tag(self.tag).summary(Some(self.summary)).operation_id(Some(id));
        for (name, place, shape) in self.parameters {
            let required = if place == ParameterIn::Path { Required::True } else { Required::False };
            operation = operation.parameter(ParameterBuilder::new().name(name).parameter_in(place).required(required).schema(Some(shape)));
        }
        if let Some((name, shape)) = self.body {
            let content = ContentBuilder::new().schema(Some(keep(name, shape))).build();
            let body = RequestBodyBuilder::new().required(Some(Required::True)).content(JSON, content);
            operation = operation.request_body(Some(body.build()));
        }
        if let Some(about) = self.bytes {
            let body = RequestBodyBuilder::new().required(Some(Required::True)).description(Some(about));
            operation = operation.request_body(Some(body.content(BYTES, ContentBuilder::new().build()).build()));
        }
        let mut good: Vec<(u16, ResponseBuilder)> = Vec::new();
        for Answer { status, about, form, shapes } in self.answers {
            let place = good.iter().position(|(known, _)| *known == status).unwrap_or_else(|| {
                good.push((status, ResponseBuilder::new().description(about)));
                good.len() - 1
            });
            let (_, response) = &mut good[place];
            let Some(content) = form.content() else { continue };
            let shape = one_of(shapes.into_iter().map(|(name, shape)| keep(name, shape)));
            *response = std::mem::take(response).content(content, ContentBuilder::new().schema(Some(part(form, shape, path))).build());
        }
        let good: Vec<(u16, Response)> = good.into_iter().map(|(status, response)| (status, told(response, self.stamped, path))).collect();
        let kinds: Vec<Kind> =
            [ANY, if self.public { &[] } else { &[Kind::Unauthorised] }, if asks { ASKING } else { &[] }, &self.kinds[..]].concat();
        let taken: Vec<u16> = good.iter().map(|(status, _)| *status).collect();
        let bad = errors(&kinds, &error_of(path)).into_iter().filter(|(status, _)| !taken.contains(status));
        for (status, response) in good.into_iter().chain(bad) {
            operation = operation.response(status.to_string(), response);
        }
        if self.public { operation.securities(Some([SecurityRequirement::default()])) } else { operation }
    }
}

/// The shape of a body. A stream that fails ends with the error; OpenAPI sees an event as its fields.
fn part(form: Form, shape: Shape, path: &str) -> Shape {
    match form {
        Form::Nothing | Form::Whole(_) | Form::Event => shape,
        Form::Line => either([shape, error_of(path)], ""),
        Form::Data => {
            let part = either([shape, error_of(path)], "");
            let data = either([holding(JSON, part), word(&["[DONE]"], "The last event of OpenAI's streams")], "");
            record("").must("data", data).into()
        }
    }
}

/// What errors of a route look like.
fn error_of(path: &str) -> Shape {
    let name = |dialect| match dialect {
        Dialect::OpenAi => "Error",
        Dialect::Anthropic => "AnthropicError",
        Dialect::Ollama => "OllamaError",
    };
    one_of(Dialect::all_of(path).into_iter().map(|dialect| named(name(dialect))))
}

/// With the headers that answers have.
fn told(response: ResponseBuilder, stamped: bool, path: &str) -> Response {
    let header = |about: &str| HeaderBuilder::new().schema(Some(text(""))).description(Some(about)).build();
    let mut response = response.header("x-request-id", header("The client's own, or a new one"));
    if Dialect::all_of(path).contains(&Dialect::Anthropic) {
        response = response.header("request-id", header("The same, for Anthropic's clients"));
    }
    if !stamped {
        return response.build();
    }
    response
        .header("x-onebit-plugin", header("Which plugin computed"))
        .header("x-onebit-plugin-version", header("Its version"))
        .header("x-onebit-device", header("On which device"))
        .header("x-onebit-queue-position", header("How many others had to end first, where that is known"))
        .header("x-onebit-queue-ms", header("From asking for the model until it began, where that is known"))
        .build()
}

/// Bad ends by status, in the shape of the route's dialect.
fn errors(kinds: &[Kind], shape: &Shape) -> Vec<(u16, Response)> {
    let mut statuses: Vec<u16> = kinds.iter().map(|kind| kind.row().status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    let response = |status: u16| {
        let rows: Vec<&Row> = ROWS.iter().filter(|row| row.status == status && kinds.contains(&row.kind)).collect();
        let codes: Vec<&str> = rows.iter().map(|row| row.code).collect();
        let mut response =
            ResponseBuilder::new().description(codes.join(", ")).content(JSON, ContentBuilder::new().schema(Some(shape.clone())).build());
        if rows.iter().any(|row| row.retry_after_s.is_some()) {
            let wait =
                HeaderBuilder::new().schema(Some(text(""))).description(Some("Seconds after which it may work, where waiting helps"));
            response = response.header("Retry-After", wait.build());
        }
        (status, response.build())
    };
    statuses.into_iter().map(response).collect()
}
