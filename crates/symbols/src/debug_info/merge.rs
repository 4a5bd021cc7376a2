//! Merges the answers of several threads, in address order.

use std::ops::Range;

use super::file::DebugFile;
use super::{ThreadAnswers, UnitTask};
use crate::answers::{AnswerFrame, Answers, SYMBOL_ONLY};
use crate::texts::{TextId, Texts};

/// Addresses per additional thread.
const THREAD_ADDRESSES: usize = 1 << 14;

/// Consecutive addresses with consecutive answers.
struct Stretch<'p> {
    addresses: Range<usize>,
    part: usize,
    answers: &'p Answers,
    /// Index of the first address in the answers.
    first: usize,
}

/// Answers for consecutive addresses.
struct MergedStretch<'f> {
    answers: Answers,
    /// Indices among these addresses of those whose file only the symbol table has, with that file.
    files: Vec<(usize, &'f [u8])>,
}

/// Merges the answers of all parts, with up to this many threads.
pub(super) fn merge(
    main: &DebugFile,
    tasks: &[UnitTask],
    mut parts: Vec<ThreadAnswers>,
    addresses: &[u64],
    threads: usize,
) -> Answers {
    let mut texts = Texts::new(main.name_bytes());
    let mut ids = Vec::new();
    for (number, part) in parts.iter_mut().enumerate() {
        let own = std::mem::take(&mut part.texts);
        if number == 0 {
            // The texts of the first part keep their numbers.
            texts = own;
            ids.push(None);
        } else {
            ids.push(Some(texts.append(&own)));
        }
    }
    let stretches = stretches(tasks, &parts);
    let frames = parts.iter().flat_map(|part| &part.answers).map(|(_, found)| found.frame_count());
    let frames: usize = frames.sum();
    let look_up = |range: Range<usize>| {
        let mut answers = Answers::default();
        answers.reserve(range.len(), frames / addresses.len().max(1) * (range.len() * 9 / 8));
        found(main, addresses, &stretches, &ids, range, answers)
    };
    let threads = threads.clamp(1, 1 + addresses.len() / THREAD_ADDRESSES);
    let each = addresses.len().div_ceil(threads).max(1);
    let range = |number: usize| {
        let first = (number * each).min(addresses.len());
        first..(first + each).min(addresses.len())
    };
    std::thread::scope(|scope| {
        let spawned: Vec<_> =
            (1..threads).map(|number| scope.spawn(move || look_up(range(number)))).collect();
        let MergedStretch { answers: mut all, files } = look_up(range(0));
        set_files(&mut all, &mut texts, &files);
        for thread in spawned {
            match thread.join() {
                Ok(MergedStretch { mut answers, files }) => {
                    set_files(&mut answers, &mut texts, &files);
                    all.append_shared(answers);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all.texts = texts;
        all
    })
}

/// Sets the files that only the symbol table has.
fn set_files(answers: &mut Answers, texts: &mut Texts, files: &[(usize, &[u8])]) {
    for (number, file) in files {
        if let Some(outermost) = answers.outermost(*number) {
            outermost.file = Some(texts.add(file));
        }
    }
}

/// Returns the stretches of all answers, in address order.
fn stretches<'p>(tasks: &[UnitTask], parts: &'p [ThreadAnswers]) -> Vec<Stretch<'p>> {
    let mut stretches = Vec::new();
    for (part, found) in parts.iter().enumerate() {
        for (task, answers) in &found.answers {
            let mut first = 0;
            for run in &tasks[*task].runs {
                let addresses = run.addresses.clone();
                let len = addresses.len();
                stretches.push(Stretch { addresses, part, answers, first });
                first += len;
            }
        }
    }
    stretches.sort_unstable_by_key(|stretch| stretch.addresses.start);
    stretches
}

/// Collects the answers for a range of the addresses.
fn found<'f>(
    main: &'f DebugFile,
    addresses: &[u64],
    stretches: &[Stretch<'_>],
    ids: &[Option<Vec<TextId>>],
    range: Range<usize>,
    answers: Answers,
) -> MergedStretch<'f> {
    let mut merged = MergedStretch { answers, files: Vec::new() };
    let mut at = stretches.partition_point(|stretch| stretch.addresses.end <= range.start);
    for (number, place) in range.enumerate() {
        while stretches.get(at).is_some_and(|stretch| stretch.addresses.end <= place) {
            at += 1;
        }
        let stretch = stretches.get(at).filter(|stretch| stretch.addresses.start <= place);
        let mut frames = stretch.map_or(&[][..], |stretch| {
            stretch.answers.get(stretch.first + place - stretch.addresses.start)
        });
        let of_part = stretch.and_then(|stretch| ids.get(stretch.part)?.as_ref());
        let id =
            |id: TextId| of_part.map_or(Some(id), |ids| ids.get(id.number() as usize).copied());
        if frames.last().is_none_or(|outer| outer.file.is_none())
            && let Some(file) = main.symbol_file(addresses[place])
        {
            merged.files.push((number, file));
            frames = if frames.is_empty() { SYMBOL_ONLY } else { frames };
        }
        merged.answers.push(frames.iter().map(|frame| AnswerFrame {
            name: frame.name.and_then(id),
            file: frame.file.and_then(id),
            ..*frame
        }));
    }
    merged
}
