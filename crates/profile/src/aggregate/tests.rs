use super::*;
use crate::call_tree::Node;
use crate::tables::{Dso, Frame, Space, Symbol, Thread};

/// A profile of stacks of functions in one file, the outermost first, with periods.
fn profile(stacks: &[(&str, &[&str], u64)]) -> (Profile, EventId) {
    let mut profile = Profile::default();
    let name = profile.add_string(b"cycles");
    let event = profile.name_event(0, name);
    let file = profile.add_string(b"/bin/prog");
    let short = profile.add_string(b"prog");
    let dso = profile.add_dso(Dso { path: file, short });
    let thread = profile.add_thread(Thread { pid: 7, tid: 8 });
    for (comm, functions, period) in stacks {
        let comm = profile.add_string(comm.as_bytes());
        let mut frames = Vec::new();
        for name in *functions {
            let start = u64::from(name.as_bytes()[0]);
            let name = profile.add_string(name.as_bytes());
            let symbol = profile.add_symbol(Symbol { dso, name, start });
            let frame = profile.add_frame(Frame {
                space: Space::User,
                dso: Some(dso),
                function: Ok(symbol),
                address: start,
                is_inlined: false,
                line: None,
            });
            frames.insert(0, frame);
        }
        let leaf = frames.first().copied();
        let stack = profile.add_stack(&frames);
        let row = Row {
            event,
            thread: Some(thread),
            comm: Some(comm),
            cpu: None,
            leaf,
            stack,
            trace: None,
            details: None,
        };
        profile.add_samples(row, Weight { period: *period, samples: 1 });
    }
    (profile, event)
}

fn name(profile: &Profile, frame: FrameId) -> String {
    let symbol = profile.symbol(profile.frame(frame).unwrap().function.unwrap()).unwrap();
    String::from_utf8(profile.string(symbol.name).to_vec()).unwrap()
}

fn sums(profile: &Profile, table: &Table) -> Vec<(String, u64, u64)> {
    let mut sums: Vec<_> = table
        .entries
        .iter()
        .map(|e| (name(profile, e.frame.unwrap()), e.own.period, e.total.period))
        .collect();
    sums.sort();
    sums
}

#[test]
fn a_function_weighs_what_it_did_itself_and_what_it_called() {
    let (profile, event) =
        profile(&[("x", &["a", "b", "c"], 5), ("x", &["a", "c"], 2), ("x", &["a", "b", "a"], 1)]);
    let options = Options { keys: vec![Key::Symbol], children: true, ..Options::default() };
    let table = table(&profile, event, &options);
    let expected = [("a", 1, 8), ("b", 0, 6), ("c", 7, 7)]
        .map(|(name, own, total)| (name.to_owned(), own, total));
    assert_eq!(sums(&profile, &table), expected, "a that calls itself counts once");
    assert_eq!(table.all, Weight { period: 8, samples: 3 });
}

#[test]
fn without_children_only_leaves_have_entries() {
    let (profile, event) = profile(&[("x", &["a", "b"], 5), ("y", &["a", "b"], 2)]);
    let by_symbol =
        table(&profile, event, &Options { keys: vec![Key::Symbol], ..Options::default() });
    assert_eq!(sums(&profile, &by_symbol), [("b".to_owned(), 7, 7)]);
    let by_both = table(
        &profile,
        event,
        &Options { keys: vec![Key::Comm, Key::Symbol], ..Options::default() },
    );
    assert_eq!(by_both.entries.len(), 2);
}

#[test]
fn what_a_filter_hides_stays_in_the_total() {
    let (profile, event) = profile(&[("x", &["a", "b"], 5), ("y", &["a", "b"], 2)]);
    let filter = Filter { comms: vec![b"y".to_vec()], ..Filter::default() };
    let table =
        table(&profile, event, &Options { keys: vec![Key::Comm], filter, ..Options::default() });
    assert_eq!((table.entries.len(), table.entries[0].own.period, table.all.period), (1, 2, 7));
}

#[test]
fn trees_run_from_either_end() {
    let (profile, event) = profile(&[("x", &["a", "b", "c"], 5), ("x", &["a", "c"], 2)]);
    let tree = |order| {
        let options = Options { keys: vec![Key::Comm], trees: Some(order), ..Options::default() };
        let table = table(&profile, event, &options);
        let mut trees = table.call_trees(&profile, 0.0).unwrap();
        let tree = table.call_tree(&mut trees, &table.entries[0]);
        let line = |node: &Node| {
            (name(&profile, node.frame), node.total.period, node.own.period, node.children.len())
        };
        tree.nodes().iter().map(line).collect::<Vec<_>>()
    };
    let expected = |nodes: [(&str, u64, u64, usize); 4]| {
        nodes.map(|(name, total, own, children)| (name.to_owned(), total, own, children))
    };
    assert_eq!(
        tree(Order::Caller),
        expected([("a", 7, 0, 2), ("b", 5, 0, 1), ("c", 5, 5, 0), ("c", 2, 2, 0)])
    );
    assert_eq!(tree(Order::Callee)[0], ("c".to_owned(), 7, 0, 2));
    assert_eq!(tree(Order::Callee).len(), 4);
}
