use std::net::SocketAddr;
use std::path::PathBuf;

use super::{RecordingArgs, StoreArgs, SymbolSearch};

/// Arguments of `tare serve`.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("store", |arg| arg.conflicts_with_all(["file", "input"])),
    after_help = "\
Examples:
  tare serve --store /var/lib/tare              print the link to the page, and serve it until Ctrl-C
  tare serve --store profiles --since 6h --where service=api
  tare serve                                    the recording perf.data
  tare serve --store profiles --listen 0.0.0.0:8080 --token-file token --host tare.example.org

tare-serve(1) describes the page, and who can read it.")]
pub struct ServeArgs {
    /// The recording.
    #[command(flatten)]
    pub recording: RecordingArgs,

    /// A store in place of a recording.
    #[command(flatten)]
    pub stored: StoreArgs,

    /// Address and port; 0 for any free port
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:0",
        help_heading = "Server"
    )]
    pub listen: SocketAddr,

    /// Read the token of the link from FILE, which others must not read [default: a random one]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub token_file: Option<PathBuf>,

    /// A further name of this server, such as that of a proxy; it may be repeated
    #[arg(long = "host", value_name = "NAME", help_heading = "Server")]
    pub names: Vec<String>,

    /// Sources of symbols.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}
