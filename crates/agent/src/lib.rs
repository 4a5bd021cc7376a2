#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod config;
mod feed;
mod host_lock;
pub mod labels;
mod naming;
mod open_window;
mod stored;
mod window;
mod writer;

pub use feed::{Feed, FeedSink};
pub use host_lock::{HostLock, HostLockError};
pub use naming::{NamelessFile, name_frames};
pub use open_window::{OpenWindowFile, WindowNote};
pub use stored::{OFF_CPU_EVENT, StoredRows, TimedRow, read_samples};
pub use window::{ClosedWindow, WindowCounts, WindowOptions, WindowSink, WindowTime, now_us};
pub use writer::{FinishedWindow, SegmentWriter, WriteTotals};
