//! Compiled templates, one per model, made on first use and made anew when the model's template or vocabulary changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{ChatTemplate, TemplateError, TemplateSource};

/// More models than a host serves at a time; beyond it the cache starts over, which costs a compilation each and nothing else.
const MAX_ENTRIES: usize = 64;

/// The cache.
#[derive(Debug, Default)]
pub struct Templates {
    entries: Mutex<HashMap<String, Arc<ChatTemplate>>>,
}

impl Templates {
    /// The compiled template of a model.
    pub fn get(&self, model: &str, source: TemplateSource) -> Result<Arc<ChatTemplate>, TemplateError> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = entries.get(model)
            && *known.source() == source
        {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(ChatTemplate::new(source)?);
        if entries.len() >= MAX_ENTRIES {
            entries.clear();
        }
        entries.insert(model.to_owned(), Arc::clone(&made));
        Ok(made)
    }
}
