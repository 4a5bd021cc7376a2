//! A sample and its frames, as JSON documents have them.

use serde::Serialize;
use tare_replay::DsoAddress;

/// A sample. Fields that the event doesn't record are left out, except `comm`, which is then null.
/// Addresses are hexadecimal strings, because JavaScript's numbers hold integers of 53 bits only.
#[derive(Serialize)]
pub(crate) struct JsonSample {
    pub(crate) event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time_ns: Option<u64>,
    pub(crate) comm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) period: Option<u64>,
    #[serde(flatten)]
    pub(crate) at: Option<JsonFrame>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) addr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) callchain: Option<Vec<JsonFrame>>,
}

/// An address of code with its symbol, file and source line.
#[derive(Default, Serialize)]
pub(crate) struct JsonFrame {
    pub(crate) ip: String,
    pub(crate) symbol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u64>,
    pub(crate) dso: Option<String>,
    /// The reason why there is no symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unresolved: Option<String>,
    /// The source of the symbol's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<&'static str>,
    /// Whether it was inlined into the next frame.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) inlined: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<u32>,
    /// The address to look up in debug info; `None` if it isn't looked up.
    #[serde(skip)]
    pub(crate) call: Option<DsoAddress>,
}
