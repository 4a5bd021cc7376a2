//! What is shown of a model, each view by itself.

pub(super) mod annotate;
pub(super) mod compared;
pub(super) mod flame;
pub(super) mod functions;
pub(super) mod text;
pub(super) mod timeline;
pub(super) mod trees;

use tare_profile::{FrameId, Function, Profile, Space, StringId, ThreadId};
use tare_render::{function_name, inlined};

/// What the cursor is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// The function.
    pub(super) frame: Option<FrameId>,
    /// The thread, where rows are told apart by it.
    pub(super) thread: Option<ThreadId>,
    /// The thread's name, where rows are told apart by it.
    pub(super) comm: Option<StringId>,
    /// The CPU, where rows are told apart by it.
    pub(super) cpu: Option<u32>,
    /// The call chain from the outermost function on, where it is one from there.
    pub(super) stack: Vec<Function>,
}

/// A function as trees show it, with its file where that is asked for.
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
