use super::*;

/// Numbers that follow from a seed (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A recording: records (time and body), and ends of rounds (`None`).
type Recording = Vec<Option<(u64, Vec<u8>)>>;

/// Rings fill while the recorder goes from one to the next: time passes between them, so a ring
/// that comes later shows younger records.
fn recording(numbers: &mut Numbers, rings: u64, rounds: u64) -> Recording {
    let mut now = 0;
    let mut emptied = vec![0; usize::try_from(rings).unwrap()];
    let mut recording = Vec::new();
    for _ in 0..rounds {
        for last in &mut emptied {
            now += numbers.below(40);
            let mut time = *last;
            loop {
                time += numbers.below(20);
                if time > now {
                    break;
                }
                let size = usize::try_from(numbers.below(40)).unwrap();
                recording.push(Some((time, vec![time.to_le_bytes()[0]; size])));
            }
            *last = now + 1;
        }
        recording.push(None);
    }
    recording
}

/// What went out: times, offsets, bodies. And the most that was held.
struct OrderedOutput {
    records: Vec<(u64, u64, Vec<u8>)>,
    most_held: usize,
    late: u64,
}

fn sort(recording: &Recording, bound: usize) -> OrderedOutput {
    let mut sorter = Sorter::new(bound);
    let mut out = OrderedOutput { records: Vec::new(), most_held: 0, late: 0 };
    let drain = |sorter: &mut Sorter, out: &mut OrderedOutput| {
        while let Some(ordered) = sorter.pop() {
            assert_eq!((ordered.record.kind, ordered.record.misc), (9, 2));
            out.records.push((ordered.time_ns, ordered.tag, ordered.record.body.to_vec()));
        }
    };
    for (offset, entry) in recording.iter().enumerate() {
        match entry {
            None => sorter.round(),
            Some((time, body)) => {
                sorter.push(
                    *time,
                    offset as u64,
                    &RawRecord { kind: 9, misc: 2, body, endian: Endian::NATIVE },
                );
                out.most_held = out.most_held.max(sorter.held());
            }
        }
        drain(&mut sorter, &mut out);
    }
    sorter.finish();
    drain(&mut sorter, &mut out);
    assert_eq!(sorter.pop(), None);
    out.late = sorter.late();
    out
}

/// Everything in order of time; records of one time in that of the recording.
fn expected(recording: &Recording) -> Vec<(u64, u64, Vec<u8>)> {
    let records = recording
        .iter()
        .enumerate()
        .filter_map(|(offset, entry)| Some((offset as u64, entry.as_ref()?)));
    let mut all: Vec<_> =
        records.map(|(offset, (time, body))| (*time, offset, body.clone())).collect();
    all.sort_by_key(|record| record.0);
    all
}

#[test]
fn what_goes_out_is_sorted_and_complete() {
    for seed in 1..=300 {
        let mut numbers = Numbers(seed);
        let rings = 1 + numbers.below(6);
        let rounds = numbers.below(30);
        let recording = recording(&mut numbers, rings, rounds);
        let out = sort(&recording, usize::MAX);
        assert_eq!((out.records, out.late), (expected(&recording), 0), "seed {seed}");
    }
}

#[test]
fn rounds_bound_what_waits() {
    let long = recording(&mut Numbers(7), 4, 2000);
    let out = sort(&long, usize::MAX);
    let whole: usize = long.iter().flatten().map(|(_, body)| body.len()).sum();
    assert_eq!(out.records.len(), long.iter().flatten().count());
    assert!(out.most_held < whole / 20, "{} of {whole} bytes waited", out.most_held);
}

/// With too small a limit nothing is lost, the limit holds, and records out of order are counted.
#[test]
fn a_bound_is_kept_and_what_it_costs_is_counted() {
    for seed in 1..=300 {
        let mut numbers = Numbers(seed);
        let rings = 2 + numbers.below(5);
        let recording = recording(&mut numbers, rings, 40);
        let bound = usize::try_from(200 + numbers.below(2000)).unwrap();
        let out = sort(&recording, bound);
        let mut records = out.records.clone();
        records.sort();
        assert_eq!(records, expected(&recording), "seed {seed}");
        assert!(
            out.most_held <= bound + 40 + size_of::<QueuedRecord>(),
            "seed {seed}: {} of {bound} bytes",
            out.most_held
        );
        let mut youngest = 0;
        let is_late = |(time, ..): &&(u64, u64, Vec<u8>)| {
            let before = youngest;
            youngest = youngest.max(*time);
            *time < before
        };
        let late = out.records.iter().filter(is_late).count();
        assert_eq!(out.late, late as u64, "seed {seed}");
    }
}

/// The timeline of the module's documentation.
#[test]
fn a_round_releases_what_the_round_before_had_seen() {
    let mut sorter = Sorter::default();
    let mut round = |times: &[u64]| {
        for time in times {
            sorter.push(
                *time,
                0,
                &RawRecord { kind: 9, misc: 0, body: &[], endian: Endian::NATIVE },
            );
        }
        sorter.round();
        std::iter::from_fn(|| sorter.pop().map(|ordered| ordered.time_ns)).collect::<Vec<_>>()
    };
    assert!(round(&[1, 4, 2, 3, 5]).is_empty());
    assert_eq!(round(&[6, 9, 7, 10]), [1, 2, 3, 4, 5]);
    assert_eq!(round(&[12, 11, 13]), [6, 7, 9, 10]);
    assert_eq!(round(&[]), [11, 12, 13]);
}
