//! Models come and go while the host runs: made, copied and removed by requests, or put into a folder by a pull.
//!
//! What a request has done is true for the next one: the catalog is read again before it is answered. Changes come one after another,
//! because each begins with what the catalog says.

use std::sync::{Arc, PoisonError};

use onebit_catalog::{Catalog, ModelEntry, Recipe, Shelf, Weights};

use super::{Host, HostError, Inner};

impl Host {
    /// Reads the folders of models and manifests again, whatever seems to have changed.
    ///
    /// # Errors
    /// [`HostError::Internal`].
    pub async fn look_again(&self) -> Result<(), HostError> {
        self.blocking(|inner| inner.view.again()).await.map(drop)
    }

    /// Makes a model. The next request that asks for it gets it.
    ///
    /// # Errors
    /// [`HostError::Shelf`], and what keeps the model that it is made from from being served.
    pub async fn make(&self, recipe: Recipe) -> Result<(), HostError> {
        self.change(move |inner, shelf| {
            let catalog = match &recipe.weights {
                Weights::Of(name) => inner.usable(name)?.0,
                Weights::File { .. } => inner.view.again(),
            };
            Ok(shelf.make(&catalog, &inner.config.paths(), recipe)?)
        })
        .await
    }

    /// Gives a model a second name, under which it may be changed and removed by itself.
    ///
    /// # Errors
    /// As for [`Host::make`].
    pub async fn copy(&self, source: &str, name: &str) -> Result<(), HostError> {
        let (source, name) = (source.to_owned(), name.to_owned());
        self.change(move |inner, shelf| {
            let (catalog, entry) = inner.usable(&source)?;
            if catalog.model(&name).is_some_and(|there| there.name == entry.name) {
                return Ok(());
            }
            Ok(shelf.copy(&catalog, &inner.config.paths(), &entry, &name)?)
        })
        .await
    }

    /// Removes a model; its running answers may finish.
    ///
    /// # Errors
    /// [`HostError::UnknownModel`], [`HostError::Shelf`].
    pub async fn remove(&self, name: &str) -> Result<(), HostError> {
        let name = name.to_owned();
        let removed = self.change(move |inner, shelf| {
            inner.view.again();
            let (catalog, entry) = inner.find(&name)?;
            shelf.remove(&catalog, &inner.config.paths(), &entry)?;
            inner.lock_plans().remove(&entry.name);
            Ok(entry.name.clone())
        });
        let (model, host) = (removed.await?, self.clone());
        // A running answer may take minutes, and for everybody else the model is gone already.
        tokio::spawn(async move { host.inner.supervisor.unload(&model).await });
        Ok(())
    }

    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &Shelf) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        self.blocking(move |inner| {
            let _turn = inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
            let done = work(inner, &inner.config.shelf());
            // Also after a failure: half of the work may have been done.
            inner.view.again();
            done
        })
        .await?
    }
}

impl Inner {
    /// A model that others can be made from, as the folders are now.
    fn usable(&self, name: &str) -> Result<(Arc<Catalog>, Arc<ModelEntry>), HostError> {
        self.view.again();
        let (catalog, entry) = self.find(name)?;
        self.servable(&entry)?;
        Ok((catalog, entry))
    }
}
