//! Call chains of recorded samples.

use super::definition::options;

options! {
    /// Inlined functions.
    #[derive(Clone, Debug, clap::Args)]
    pub struct InlineArgs {
        /// Show inlined functions as frames in call chains (needs debug info)
        #[arg(long, overrides_with = "no_inline")]
        pub inline: bool,

        /// Don't look up inlined functions (default)
        #[arg(long, overrides_with = "inline")]
        pub no_inline: bool,
    }
}

impl InlineArgs {
    /// Whether inlined functions are shown where they are the default, as in perf's text output.
    /// `by_request` leaves them out of forms that programs read, unless `--inline` is typed.
    #[must_use]
    pub fn is_default_on(&self, by_request: bool) -> bool {
        if by_request { self.inline } else { !self.no_inline }
    }
}

/// Help of `--inline` where it is the default.
pub(super) const INLINE_HELP: &str = "Show inlined functions as frames in call chains (default with debug info; with --json only if typed)";

/// Help of `--no-inline` where `--inline` is the default.
pub(super) const NO_INLINE_HELP: &str = "Don't look up inlined functions";

options! {
    /// Length of call chains, for `report` and `script`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct ChainLengthArgs {
        /// Use at most N frames of a call chain
        #[arg(long, value_name = "N")]
        pub max_stack: Option<usize>,
    }
}
