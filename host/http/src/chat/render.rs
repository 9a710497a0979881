//! From a conversation to the prompt, by the model's chat template.

use onebit_engine::PromptPart;

use crate::app::App;
use crate::errors::{ApiError, Kind};
use crate::models::Leased;
use crate::template::conversation::Conversation;
use crate::template::{TemplateError, TemplateSource};

/// Renders.
pub(super) async fn render(app: &App, lease: &dyn Leased, conversation: Conversation) -> Result<Vec<PromptPart>, ApiError> {
    let facts = lease.facts();
    let Some(text) = facts.chat_template.clone() else {
        return Err(ApiError::new(
            Kind::TemplateMissing,
            format!(
                "the model {:?} has no chat template; use /v1/completions, or name a template in the model's manifest (`chat.template`)",
                lease.model()
            ),
        ));
    };
    let source = TemplateSource { text, bos: facts.bos.clone(), eos: facts.eos.clone(), control_tokens: facts.control_tokens.clone() };
    match app.templates.render(lease.model().to_owned(), source, conversation).await {
        Ok(parts) => Ok(parts),
        Err(TemplateError::Refused(words)) => Err(ApiError::new(Kind::TemplateRefused, words).param("messages")),
        Err(TemplateError::Unusable(words)) => Err(ApiError::new(
            Kind::TemplateMissing,
            format!("{words}; use /v1/completions, or name another template in the model's manifest"),
        )),
        Err(TemplateError::Process(words)) => Err(ApiError::new(Kind::Internal, words)),
    }
}
