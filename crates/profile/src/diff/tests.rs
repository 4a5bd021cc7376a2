use super::*;
use crate::ids::Id;
use crate::tables::{Dso, ProfileFrame, Symbol, Thread};

/// Creates a recording in which the first function calls the two others, which have these weights.
fn recording(names: [&str; 3], weights: [u64; 2]) -> (Profile, Vec<SliceRow>) {
    let mut profile = Profile::default();
    let event = profile.add_string(b"cycles");
    let event = profile.name_event(0, event);
    let path = profile.add_string(b"/bin/prog");
    let dso = profile.add_dso(Dso { path, short: path });
    let frames = names.map(|name| {
        let name = profile.add_string(name.as_bytes());
        let start = name.index() as u64 * 16;
        let symbol = profile.add_symbol(Symbol { dso, name, start });
        profile.add_frame(ProfileFrame {
            space: Space::User,
            dso: Some(dso),
            function: Ok(symbol),
            address: 0,
            is_inlined: false,
            line: None,
        })
    });
    let thread = Some(profile.add_thread(Thread { pid: 1, tid: 1 }));
    let comm = Some(profile.add_string(b"prog"));
    let mut samples = Vec::new();
    for (at, period) in weights.into_iter().enumerate() {
        let stack = profile.add_stack(&[frames[at + 1], frames[0]]);
        let leaf = Some(frames[at + 1]);
        let row = Row { thread, comm, leaf, stack, ..Row::new(event) };
        let slice = u32::try_from(at).unwrap();
        samples.push(SliceRow { row, slice, weight: Weight { period, samples: 1 } });
    }
    (profile, samples)
}

fn compare(options: DiffOptions) -> Runs {
    let mut runs = Runs::new(options);
    let (profile, samples) = recording(["main", "parse.isra.0", "lex"], [30, 70]);
    runs.add(0, &profile, samples.into_iter());
    let (profile, samples) = recording(["main", "parse.llvm.77", "lex"], [60, 40]);
    runs.add(1, &profile, samples.into_iter());
    runs
}

/// Lists each entry's name with its period on both sides.
fn table(runs: &Runs) -> Vec<(String, u64, u64)> {
    let one = |side, at| runs.weights(side, at).map(|weight| weight.period).sum();
    let text = |id: NameId| String::from_utf8_lossy(runs.name(id)).into_owned();
    let name = |entry: &DiffEntry| {
        let stack: Vec<_> = entry.stack.iter().copied().map(text).collect();
        entry.symbol.map_or_else(|| stack.join(";"), text)
    };
    runs.entries().enumerate().map(|(at, entry)| (name(entry), one(0, at), one(1, at))).collect()
}

#[test]
fn matches_functions_of_two_builds_by_name() {
    let keys = vec![SortKey::Symbol, SortKey::Dso];
    let runs = compare(DiffOptions { keys: keys.clone(), slices: true, ..DiffOptions::default() });
    assert_eq!(table(&runs), [("parse".to_owned(), 30, 60), ("lex".to_owned(), 70, 40)]);
    assert_eq!(runs.totals(1, 0).collect::<Vec<_>>(), [Weight { period: 100, samples: 2 }]);
    assert_eq!(runs.slices(0, SliceSubject::Entry(1)), [0.0, 70.0]);
    assert_eq!(runs.slices(1, SliceSubject::Event(0)), [60.0, 40.0]);
    let runs = compare(DiffOptions { keys, children: true, ..DiffOptions::default() });
    assert!(table(&runs).contains(&("main".to_owned(), 100, 100)));
}

#[test]
fn matches_stacks_by_the_names_of_their_functions() {
    let runs = compare(DiffOptions { stacks: true, ..DiffOptions::default() });
    let wanted = [("main;parse".to_owned(), 30, 60), ("main;lex".to_owned(), 70, 40)];
    assert_eq!(table(&runs), wanted);
}

#[test]
fn a_filter_changes_totals_only_if_they_are_relative() {
    let by_name = |name: &str| DiffOptions {
        keys: vec![SortKey::Symbol],
        filter: Filter { symbols: vec![name.into()], ..Filter::default() },
        ..DiffOptions::default()
    };
    assert_eq!(table(&compare(by_name("parse"))), [("parse".to_owned(), 30, 60)]);
    assert_eq!(table(&compare(by_name("parse.isra.0"))), [("parse".to_owned(), 30, 0)]);
    let filter = Filter { symbols: vec![b"lex".to_vec()], ..Filter::default() };
    let keys = vec![SortKey::Symbol];
    for (relative, total) in [(false, 100), (true, 70)] {
        let runs = compare(DiffOptions {
            keys: keys.clone(),
            filter: filter.clone(),
            relative,
            ..DiffOptions::default()
        });
        assert_eq!(table(&runs), [("lex".to_owned(), 70, 40)]);
        assert_eq!(runs.totals(0, 0).next().map(|all| all.period), Some(total));
    }
}
