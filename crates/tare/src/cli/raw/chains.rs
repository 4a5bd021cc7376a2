//! Call chains of recorded samples.

use super::definition::options;

options! {
    /// Inlined functions.
    #[derive(Clone, Debug, clap::Args)]
    pub struct InlineArgs {
        /// Show inlined functions as frames in call chains; their debug info may come from debuginfod servers
        #[arg(long, overrides_with = "no_inline")]
        pub inline: bool,

        /// Don't look up inlined functions
        #[arg(long, overrides_with = "inline")]
        pub no_inline: bool,
    }
}

options! {
    /// Length of call chains, for `report` and `script`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct ChainLengthArgs {
        /// Use at most N frames of a call chain
        #[arg(long, value_name = "N")]
        pub max_stack: Option<usize>,
    }
}
