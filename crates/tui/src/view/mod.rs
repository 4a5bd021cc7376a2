//! The views, each drawn on its own.

pub(super) mod annotate;
pub(super) mod compared;
pub(super) mod flame;
pub(super) mod functions;
pub(super) mod text;
pub(super) mod timeline;
pub(super) mod trees;

use tare_profile::{FrameId, FunctionKey, Profile, Space, StringId, ThreadId};
use tare_render::{function_name, inlined};

/// What is under the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// The function.
    pub(super) frame: Option<FrameId>,
    /// The thread, if each row is of one thread.
    pub(super) thread: Option<ThreadId>,
    /// The thread's name, if each row is of one name.
    pub(super) comm: Option<StringId>,
    /// The CPU, if each row is of one CPU.
    pub(super) cpu: Option<u32>,
    /// The call chain from the outermost function; empty if the line doesn't have one.
    pub(super) stack: Vec<FunctionKey>,
}

/// Returns a function's name in trees, with its file if `verbose`.
fn node_name(profile: &Profile, frame: FrameId, verbose: bool) -> String {
    let name = function_name(profile, Some(frame)) + inlined(profile, Some(frame));
    let dso = profile.frame(frame).and_then(|found| profile.dso(found.dso?));
    match dso.filter(|_| verbose) {
        Some(dso) => format!("{name}  {}", tare_format::printable(profile.string(dso.path))),
        None => name,
    }
}

fn space(profile: &Profile, frame: Option<FrameId>) -> Space {
    frame.and_then(|frame| profile.frame(frame)).map_or(Space::Unknown, |frame| frame.space)
}
