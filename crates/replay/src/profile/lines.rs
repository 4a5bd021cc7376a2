//! Looks up source lines and inlined functions once all addresses are known.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use tare_profile::{FrameId, Profile, ProfileFrame, ReplacedRows, SourceLine, Symbol};
use tare_symbols::{DsoAddress, SourceLocation};

use crate::machine::Machine;

/// Frames that get lines.
#[derive(Debug)]
pub(super) struct LineLookup {
    with_inlined: bool,
    with_linkage_names: bool,
    requests: Vec<LineRequest>,
    /// The index of each requested frame among the requests.
    by_frame: HashMap<FrameId, u32, foldhash::fast::RandomState>,
}

/// A frame without lines.
#[derive(Clone, Copy, Debug)]
struct LineRequest {
    frame: FrameId,
    at: DsoAddress,
    /// The address of the frame with lines.
    address: u64,
}

/// The frames that replace one without lines.
#[derive(Debug, Default)]
struct Replacement {
    leaf: Option<FrameId>,
    chain: Vec<FrameId>,
}

impl LineLookup {
    pub(super) fn new(with_inlined: bool) -> Self {
        Self {
            with_inlined,
            with_linkage_names: false,
            requests: Vec::new(),
            by_frame: HashMap::default(),
        }
    }

    /// Notes the names that inlined functions have in their files, too.
    pub(super) fn with_linkage_names(self, with_linkage_names: bool) -> Self {
        Self { with_linkage_names, ..self }
    }

    /// Requests the lines of a frame, which then gets this address. Further requests of the same
    /// frame are ignored.
    pub(super) fn request(&mut self, frame: FrameId, at: DsoAddress, address: u64) {
        let Ok(next) = u32::try_from(self.requests.len()) else { return };
        if *self.by_frame.entry(frame).or_insert(next) == next {
            self.requests.push(LineRequest { frame, at, address });
        }
    }

    /// Adds lines to the profile's frames, and inlined functions to its call chains. As in perf,
    /// the leaf remains the function that has the symbol, with the line of the innermost function.
    /// Returns the new row of each row.
    pub(super) fn locate(self, profile: &mut Profile, machine: &Machine) -> ReplacedRows {
        let addresses: Vec<_> = self.requests.iter().map(|request| request.at).collect();
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let debug_frames = machine.frames(&addresses, threads);
        let mut replacements = Vec::new();
        for (index, request) in self.requests.iter().enumerate() {
            let frames: Vec<_> = debug_frames.get(index).collect();
            replacements.push(self.make_replacement(profile, request, &frames));
        }
        let replacement = |frame| replacements.get(*self.by_frame.get(&frame)? as usize);
        profile.replace_frames(
            |frame| replacement(frame).and_then(|now| now.leaf).unwrap_or(frame),
            |frame, chain| match replacement(frame) {
                Some(replacement) => chain.extend_from_slice(&replacement.chain),
                None => chain.push(frame),
            },
        )
    }

    fn make_replacement(
        &self,
        profile: &mut Profile,
        request: &LineRequest,
        frames: &[tare_symbols::Frame<'_>],
    ) -> Replacement {
        let Some(own) = profile.frame(request.frame) else {
            return Replacement::default();
        };
        let own = ProfileFrame { address: request.address, ..own };
        let line = |frame: &tare_symbols::Frame<'_>, profile: &mut Profile| {
            let SourceLocation { file, line, column } = frame.location?;
            let file = profile.add_string(file.as_bytes());
            Some(SourceLine { file, line, column, first_line: frame.first_line })
        };
        let innermost = frames.first().and_then(|frame| line(frame, profile));
        let leaf = profile.add_frame(ProfileFrame { line: innermost, ..own });
        if !self.with_inlined || frames.is_empty() {
            return Replacement { leaf: Some(leaf), chain: vec![leaf] };
        }
        let mut chain = Vec::new();
        for frame in frames {
            let line = line(frame, profile);
            let inlined = frame.name.ok().zip(own.dso).filter(|_| frame.is_inlined);
            chain.push(match inlined {
                Some((name, dso)) => {
                    let name = profile.add_string(name.as_bytes());
                    let symbol = profile.add_symbol(Symbol { dso, name, start: 0 });
                    if let Some(name) = frame.linkage_name.filter(|_| self.with_linkage_names) {
                        let name = profile.add_string(name.as_bytes());
                        profile.set_linkage_name(symbol, name);
                    }
                    let function = Ok(symbol);
                    let address = 0;
                    profile.add_frame(ProfileFrame {
                        function,
                        address,
                        is_inlined: true,
                        line,
                        ..own
                    })
                }
                None => profile.add_frame(ProfileFrame { line, ..own }),
            });
        }
        Replacement { leaf: Some(leaf), chain }
    }
}
