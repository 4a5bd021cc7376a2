#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod config;
mod cost;
mod feed;
mod host_lock;
pub mod labels;
pub mod metrics;
mod naming;
mod open_window;
mod place;
pub mod push;
mod recording_export;
#[cfg(any(feature = "push", feature = "s3"))]
mod retry;
mod status;
mod store_text;
mod stored;
mod time_limit;
pub mod upload;
mod values;
mod window;
mod writer;

pub use cost::{CostMeter, RecorderFacts, finish_window};
pub use feed::{Feed, FeedSink};
pub use host_lock::{HostLock, HostLockError};
pub use naming::{NamelessFile, name_frames};
pub use open_window::{OpenWindowFile, WindowNote};
pub use place::{
    AGENT_FOLDER, AgentLocks, AgentPlace, PlaceError, PlaceNotice, STATUS_FILE, segment_info,
    symbol_options,
};
pub use recording_export::RecordingExport;
pub use status::{STATUS_VERSION, StatusDocument, write_config};
pub use store_text::{write_compaction, write_overview, write_symbolization, write_verification};
pub use stored::{OFF_CPU_EVENT, StoredRows, TimedRow, read_samples};
pub use time_limit::parse_time;
pub use window::{ClosedWindow, WindowCounts, WindowOptions, WindowSink, WindowTime, now_us};
pub use writer::{FinishedWindow, SegmentWriter, WriteTotals};
