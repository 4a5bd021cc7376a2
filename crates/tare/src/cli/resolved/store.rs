//! Options of `tare store`.

use tare_agent::config::DEFAULT_STORE;
use tare_symbols::SymbolOptions;

use crate::cli::raw::{self, StoreAction};
use crate::cli::resolved::stored::StoredSamples;
use crate::cli::resolved::symbols;
use crate::exit::Refusal;

/// An action on a store.
#[derive(Debug)]
pub(crate) struct StoreCommand {
    pub(crate) action: StoreAction,
    /// The store, and the segments that `status` shows.
    pub(crate) stored: StoredSamples,
    /// Sources of symbols for `symbolize`.
    pub(crate) symbols: SymbolOptions,
    pub(crate) json: bool,
}

impl StoreCommand {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid, or has no effect on the action.
    pub(crate) fn resolve(mut raw: raw::StoreCommandArgs) -> Result<Self, Refusal> {
        raw.stored.store.get_or_insert_with(|| DEFAULT_STORE.into());
        let raw::StoreArgs { since, until, conditions, .. } = &raw.stored;
        let selects = since.is_some() || until.is_some() || !conditions.is_empty();
        let action = raw.action;
        if selects && action != StoreAction::Status {
            return Err(Refusal::usage(
                "--since, --until and --where select what status shows; other actions take all of the store",
            ));
        }
        let stored = StoredSamples::from_store(&raw.stored)?;
        if let Some(filter) = stored.query.filters.iter().find(|filter| filter.label() != "host") {
            return Err(Refusal::usage(format!(
                "--where: {filter}: status knows hosts only, as in --where host=web-1; tare report selects by all labels"
            )));
        }
        let symbols = symbols::resolve(raw.symbol_search);
        Ok(Self { action, stored, symbols, json: raw.json.json })
    }
}
