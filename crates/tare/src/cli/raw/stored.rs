use std::path::PathBuf;

use super::definition::options;

options! {
    /// A store in place of a recording, for `report`, `flame` and `export`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Store")]
    pub struct StoreArgs {
        /// Read this store, which `tare agent` writes, in place of a recording: a folder, or
        /// s3://BUCKET/PREFIX
        #[arg(long, value_name = "DIR")]
        pub store: Option<PathBuf>,

        /// With --store: windows that start in the last TIME, such as 1h or 30d, or not before a
        /// date (UTC), such as 2026-11-26T10:00
        #[arg(long, value_name = "TIME", requires = "store")]
        pub since: Option<String>,

        /// With --store: windows that start before this long ago, or before a date
        #[arg(long, value_name = "TIME", requires = "store")]
        pub until: Option<String>,

        /// With --store: samples whose labels fulfil all of these conditions, such as
        /// service=api,version~^1.5,host!=a
        #[arg(long = "where", value_name = "LABEL=VALUE,…", requires = "store", value_delimiter = ',')]
        pub conditions: Vec<String>,
    }
}
