//! Who asks, and what they may do. The gate puts it into every request that it lets in.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use onebit_engine::Priority;

use super::keys::Key;
use super::meter::Meter;
use crate::errors::{ApiError, Kind};
use crate::keys::Scope;

/// Who asks. A handler takes it as an argument.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    key: Option<Arc<Key>>,
    scope: Scope,
    shares_prefixes: bool,
}

impl Caller {
    /// Somebody with a key.
    pub(super) fn with(key: Arc<Key>, shares_prefixes: bool) -> Self {
        Self { scope: key.scope, key: Some(key), shares_prefixes }
    }

    /// Somebody without one, where none is needed.
    pub(super) fn anonymous(scope: Scope) -> Self {
        Self { key: None, scope, shares_prefixes: true }
    }

    /// The name of the key.
    pub(crate) fn name(&self) -> Option<&str> {
        self.key.as_ref().map(|key| key.name.as_str())
    }

    /// Before whom its requests go where requests wait.
    pub(crate) fn priority(&self) -> Priority {
        self.key.as_ref().map_or(Priority::default(), |key| key.priority)
    }

    /// With whom its requests share what was computed for the same beginning: with those of this key; `None` = with all.
    pub(crate) fn prefix_scope(&self) -> Option<String> {
        self.name().filter(|_| !self.shares_prefixes).map(str::to_owned)
    }

    /// The books of the key.
    pub(super) fn meter(&self) -> Option<&Arc<Meter>> {
        self.key.as_ref().map(|key| &key.meter)
    }

    /// An answer took so many tokens.
    pub(crate) fn charge(&self, tokens: u64) {
        if let Some(meter) = self.meter() {
            meter.charge(tokens);
        }
    }

    /// Refuses whoever may not.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scope >= scope {
            return Ok(());
        }
        let message = match self.name() {
            Some(name) => format!("the key {name:?} is for {}, and this needs {scope}; use a key with that scope", self.scope),
            None => format!("this needs a key with the scope {scope}; the server has none, so it is done from its own machine only"),
        };
        Err(ApiError::new(Kind::Scope, message))
    }

    /// Whether a request of `other` is this caller's to see and to end. Those without a key cannot be told apart, so nothing is theirs.
    pub(crate) fn commands(&self, other: &Self) -> bool {
        self.scope >= Scope::Admin || self.name().is_some_and(|name| other.name() == Some(name))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    /// A request that no gate let in has no rights.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self::anonymous(Scope::Inference)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Limits;

    fn caller(name: &str, scope: Scope) -> Caller {
        Caller::with(Arc::new(Key::new(name, [0; 32], scope, Limits::default())), false)
    }

    #[test]
    fn admin_includes_inference_and_not_the_other_way_round() {
        let (admin, user) = (caller("a", Scope::Admin), caller("b", Scope::Inference));
        assert!(admin.require(Scope::Inference).is_ok() && admin.require(Scope::Admin).is_ok());
        assert!(user.require(Scope::Inference).is_ok());
        let refused = user.require(Scope::Admin).unwrap_err();
        assert_eq!((refused.kind.row().status, refused.kind.row().code), (403, "insufficient_scope"));
    }

    #[test]
    fn a_key_commands_its_own_requests_and_admin_all() {
        let (admin, user, nobody) = (caller("a", Scope::Admin), caller("b", Scope::Inference), Caller::anonymous(Scope::Inference));
        assert!(admin.commands(&user) && admin.commands(&nobody) && user.commands(&caller("b", Scope::Inference)));
        assert!(!user.commands(&admin) && !user.commands(&nobody) && !nobody.commands(&nobody));
    }
}
