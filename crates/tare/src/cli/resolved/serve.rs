//! Options of `tare serve`.

use std::path::PathBuf;

use tare_serve::{ServeOptions, Token};

use crate::cli::raw;
use crate::cli::resolved::samples::SampleSelection;
use crate::cli::resolved::stored::StoredSamples;
use crate::cli::resolved::symbols;
use crate::exit::Refusal;

/// Options of `tare serve`.
pub(crate) struct Serve {
    /// The recording, if no store is served.
    pub(crate) samples: SampleSelection,
    /// The store's folder.
    pub(crate) store: Option<PathBuf>,
    /// Address, token and names.
    pub(crate) options: ServeOptions,
}

impl Serve {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid, and if the token can't be read.
    pub(crate) fn resolve(raw: raw::ServeArgs) -> anyhow::Result<Self> {
        let raw::ServeArgs { recording, stored, listen, token_file, names, symbol_search } = raw;
        let selected = StoredSamples::resolve(&stored)?;
        let token = match token_file {
            Some(path) => Token::read(&path)?,
            None if listen.ip().is_loopback() => Token::random()?,
            None => {
                return Err(Refusal::usage(format!(
                    "--listen {listen}: other machines can connect, so give the secret for the link with --token-file FILE"
                ))
                .into());
            }
        };
        let store = selected.as_ref().map(StoredSamples::folder).transpose()?;
        let first = selected.map(|selected| selected.query).unwrap_or_default();
        let samples = SampleSelection {
            symbols: symbols::resolve(symbol_search),
            ..SampleSelection::all_of(recording.path())
        };
        let options = ServeOptions { address: listen, token, names, first };
        Ok(Self { samples, store, options })
    }
}
