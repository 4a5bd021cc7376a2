//! Looks up source lines and inlined functions once all addresses are known.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use tare_profile::{FrameId, Profile, ProfileFrame, ReplacedRows, SourceLine, Symbol};
use tare_symbols::{DsoAddress, DsoId, SourceLocation};

use crate::machine::Machine;

/// What frames get from debug info.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineNeeds {
    pub(super) lines: bool,
    pub(super) inlined: bool,
}

/// Frames that get lines or inlined functions.
#[derive(Debug)]
pub(super) struct LineLookup {
    needs: LineNeeds,
    with_linkage_names: bool,
    requests: Vec<LineRequest>,
}

/// Number of addresses that are looked up together. More have results of many megabytes.
const BATCH: usize = 1 << 14;

/// A frame without lines. It has the address in its DSO to look up. There may be millions.
#[derive(Clone, Copy, Debug)]
struct LineRequest {
    frame: FrameId,
    dso: DsoId,
    /// The address of the frame with lines.
    address: u64,
}

/// The frames that replace one without lines.
#[derive(Debug, Default)]
struct Replacement {
    leaf: Option<FrameId>,
    chain: Vec<FrameId>,
}

/// The frames that change.
type Replacements = HashMap<FrameId, Replacement, foldhash::fast::RandomState>;

/// Returns the number of requests to look up together: all of each file, because its debug info is
/// read once.
fn batch_len(requests: &[LineRequest]) -> usize {
    let Some(last) = requests.get(BATCH - 1) else { return requests.len() };
    let of_last = requests[BATCH..].iter().take_while(|request| request.dso == last.dso);
    BATCH + of_last.count()
}

impl LineLookup {
    /// `None` if nothing is needed.
    pub(super) fn new(needs: LineNeeds) -> Option<Self> {
        let lookup = Self { needs, with_linkage_names: false, requests: Vec::new() };
        (needs.lines || needs.inlined).then_some(lookup)
    }

    /// Whether the addresses of a DSO are looked up.
    pub(super) fn has_dso(&self, machine: &Machine, dso: DsoId) -> bool {
        match self.needs.lines {
            true => machine.may_have_lines(dso),
            false => machine.may_have_inlined(dso),
        }
    }

    /// Notes the names that inlined functions have in their files, too.
    pub(super) fn with_linkage_names(self, with_linkage_names: bool) -> Self {
        Self { with_linkage_names, ..self }
    }

    /// Requests the lines of a new frame of a DSO, which then gets this address.
    pub(super) fn request(&mut self, frame: FrameId, dso: DsoId, address: u64) {
        self.requests.push(LineRequest { frame, dso, address });
    }

    /// Adds lines to the profile's frames, and inlined functions to its call chains. As in perf,
    /// the leaf remains the function that has the symbol, with the line of the innermost function.
    /// Returns the new row of each row.
    pub(super) fn locate(mut self, profile: &mut Profile, machine: &Machine) -> ReplacedRows {
        let mut requests = std::mem::take(&mut self.requests);
        let address =
            |request: &LineRequest| profile.frame(request.frame).map_or(0, |frame| frame.address);
        if requests.len() > BATCH {
            requests.sort_unstable_by_key(|request| (request.dso, address(request)));
        }
        let mut replacements: Replacements = HashMap::default();
        let mut rest = &requests[..];
        while !rest.is_empty() {
            let batch = rest.split_at(batch_len(rest));
            self.look_up(profile, machine, batch.0, &mut replacements);
            rest = batch.1;
        }
        profile.replace_frames(
            |frame| replacements.get(&frame).and_then(|now| now.leaf).unwrap_or(frame),
            |frame, chain| match replacements.get(&frame) {
                Some(replacement) => chain.extend_from_slice(&replacement.chain),
                None => chain.push(frame),
            },
        )
    }

    /// Finds the replacements of frames. Most frames without debug info stay as they are.
    fn look_up(
        &self,
        profile: &mut Profile,
        machine: &Machine,
        requests: &[LineRequest],
        replacements: &mut Replacements,
    ) {
        let at = |request: &LineRequest| {
            let address = profile.frame(request.frame).map_or(0, |frame| frame.address);
            DsoAddress { dso: request.dso, address }
        };
        let addresses: Vec<_> = requests.iter().map(at).collect();
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let debug_frames = machine.frames(&addresses, threads);
        for (index, request) in requests.iter().enumerate() {
            let frames: Vec<_> = debug_frames.get(index).collect();
            let replacement = self.make_replacement(profile, request, &frames);
            if replacement.leaf != Some(request.frame) || replacement.chain != [request.frame] {
                replacements.insert(request.frame, replacement);
            }
        }
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
            if !self.needs.lines {
                return None;
            }
            let SourceLocation { file, line, column } = frame.location?;
            let file = profile.add_string(file.as_bytes());
            Some(SourceLine { file, line, column, first_line: frame.first_line })
        };
        let innermost = frames.first().and_then(|frame| line(frame, profile));
        let leaf = profile.add_frame(ProfileFrame { line: innermost, ..own });
        if !self.needs.inlined || frames.is_empty() {
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
