//! Lines of source and inlined functions, which debug info is asked for when all addresses are
//! known.

use std::num::NonZeroUsize;

use tare_profile::{Frame, FrameId, Line, Profile, ReplacedRows, Symbol};
use tare_symbols::{DsoAddress, Location};

use crate::machine::Machine;

/// The frames that debug info is to be asked about.
#[derive(Debug)]
pub(super) struct Lines {
    with_inlined: bool,
    asked: Vec<LineRequest>,
}

/// A frame as it is without lines.
#[derive(Clone, Copy, Debug)]
struct LineRequest {
    frame: FrameId,
    at: DsoAddress,
    /// What the frame's address is to be: of a function its start.
    address: u64,
}

/// What is put in the place of a frame.
#[derive(Debug, Default)]
struct Replacement {
    leaf: Option<FrameId>,
    chain: Vec<FrameId>,
}

impl Lines {
    /// Nothing is asked yet.
    pub(super) fn new(with_inlined: bool) -> Self {
        Self { with_inlined, asked: Vec::new() }
    }

    /// Debug info is to be asked about an address, whose frame has this address without it.
    pub(super) fn ask(&mut self, frame: FrameId, at: DsoAddress, address: u64) {
        self.asked.push(LineRequest { frame, at, address });
    }

    /// Puts the frames with their lines into the profile, and those of inlined functions into its
    /// call chains. Where a sample was remains the function that has the symbol, as in perf, with
    /// the line of the innermost one.
    /// Returns which row of the profile each row is by now.
    pub(super) fn locate(self, profile: &mut Profile, machine: &Machine) -> ReplacedRows {
        // Of a caller, the line is that of its call, which ends before the return address.
        let call = |at: DsoAddress| DsoAddress { address: at.address.saturating_sub(1), ..at };
        let exact: Vec<_> = self.asked.iter().map(|asked| asked.at).collect();
        let calls: Vec<_> = exact.iter().map(|at| call(*at)).collect();
        let mut addresses = exact;
        addresses.extend(calls);
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let found = machine.frames(&addresses, threads);
        let count = self.asked.len();
        let [mut exact, mut calls] = [Vec::new(), Vec::new()];
        for (place, asked) in self.asked.iter().enumerate() {
            let mut replace = |place| {
                let frames: Vec<_> = found.get(place).collect();
                self.replacement(profile, machine, asked, &frames)
            };
            exact.push(replace(place));
            calls.push(replace(place + count));
        }
        let by_frame = FramePositions::new(self.asked.iter().map(|asked| asked.frame));
        profile.replace_frames(
            |frame| by_frame.get(frame).and_then(|at| exact.get(at)?.leaf).unwrap_or(frame),
            |frame, is_caller, chain| {
                let replaced = if is_caller { &calls } else { &exact };
                match by_frame.get(frame).and_then(|at| replaced.get(at)) {
                    Some(replacement) => chain.extend_from_slice(&replacement.chain),
                    None => chain.push(frame),
                }
            },
        )
    }

    fn replacement(
        &self,
        profile: &mut Profile,
        machine: &Machine,
        asked: &LineRequest,
        frames: &[tare_symbols::Frame<'_>],
    ) -> Replacement {
        let Some(own) = profile.frame(asked.frame).copied() else { return Replacement::default() };
        let own = Frame { address: asked.address, ..own };
        let line = |location: Option<Location<'_>>, profile: &mut Profile| {
            location.map(|at| Line {
                file: profile.add_string(at.file.as_bytes()),
                line: at.line,
                column: at.column,
            })
        };
        let innermost = line(frames.first().and_then(|frame| frame.location), profile);
        let leaf = profile.add_frame(Frame { line: innermost, ..own });
        // A call that doesn't return may be a function's last instruction: the next one's has the
        // name.
        let symbol = machine.symbol(asked.at).ok();
        if !self.with_inlined || frames.last().is_none_or(|last| last.symbol != symbol) {
            return Replacement { leaf: Some(leaf), chain: vec![leaf] };
        }
        let mut chain = Vec::new();
        for frame in frames {
            let line = line(frame.location, profile);
            let inlined = frame.name.ok().zip(own.dso).filter(|_| frame.is_inlined);
            chain.push(match inlined {
                Some((name, dso)) => {
                    let name = profile.add_string(name.as_bytes());
                    let symbol = profile.add_symbol(Symbol { dso, name, start: 0 });
                    let function = Ok(symbol);
                    let address = 0;
                    profile.add_frame(Frame { function, address, is_inlined: true, line, ..own })
                }
                None => profile.add_frame(Frame { line, ..own }),
            });
        }
        Replacement { leaf: Some(leaf), chain }
    }
}

/// Where frames stand in a list.
struct FramePositions(std::collections::HashMap<FrameId, usize, foldhash::fast::RandomState>);

impl FramePositions {
    fn new(frames: impl Iterator<Item = FrameId>) -> Self {
        Self(frames.enumerate().map(|(at, frame)| (frame, at)).collect())
    }

    fn get(&self, frame: FrameId) -> Option<usize> {
        self.0.get(&frame).copied()
    }
}
