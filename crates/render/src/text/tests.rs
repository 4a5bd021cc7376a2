use tare_profile::{Dso, Frame, Order, Row, Space, Symbol, Thread};

use super::*;
use crate::Graph;
use crate::{Amount, Style};

/// Two commands, one of them with a hostile name; stacks of functions, the outermost first.
fn profile(stacks: &[(&str, &[&str], u64)]) -> Profile {
    let mut profile = Profile::default();
    let name = profile.add_string(b"cycles");
    let event = profile.name_event(0, name);
    let short = profile.add_string(b"prog");
    let dso = profile.add_dso(Dso { path: short, short });
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
        profile.add_samples(
            Row {
                event,
                thread: Some(thread),
                comm: Some(comm),
                cpu: None,
                leaf,
                stack,
                trace: None,
                details: None,
            },
            Weight { period: *period, samples: 1 },
        );
    }
    profile
}

fn shown(profile: &Profile, view: &View) -> String {
    let mut out = Vec::new();
    text(&mut out, profile, view).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn columns_are_aligned_and_names_are_safe() {
    let profile = profile(&[("漢字", &["a"], 3), ("x\x1b[1m", &["a"], 1)]);
    let columns =
        vec![Column::Overhead, Column::Samples, Column::Key(Key::Comm), Column::Key(Key::Symbol)];
    let view = View { order: vec![Column::Overhead], columns, ..View::default() };
    let expected = "\
# Total Lost Samples: 0
#
# Samples: 2 of event 'cycles'
# Event count (approx.): 4
#
# Overhead       Samples  Command     Symbol
# ........  ............  ..........  ......
#
    75.00%             1  漢字        [.] a
    25.00%             1  x\\u{1b}[1m  [.] a


";
    assert_eq!(shown(&profile, &view), expected);
}

#[test]
fn a_graph_has_its_trunk_and_its_branches() {
    let profile = profile(&[("x", &["a", "b", "c"], 60), ("x", &["a", "b", "d", "e"], 40)]);
    let graph = Graph {
        order: Order::Caller,
        percent_limit: 0.5,
        skips_first: false,
        style: Style::Graph,
        amount: Amount::Percent,
    };
    let columns = vec![Column::Overhead, Column::Key(Key::Comm)];
    let text = shown(
        &profile,
        &View { order: vec![Column::Overhead], columns, graph: Some(graph), ..View::default() },
    );
    let expected = "
   100.00%  x
            |
            ---a
               b
               |          
               |--60.00%--c
               |          
                --40.00%--d
                          e

";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn what_is_missing_is_said() {
    let mut profile = profile(&[("x", &["a"], 60)]);
    profile.losses.lost_records = 7;
    profile.losses.own_samples = 3;
    let why = "the data end within a record\x1b".to_owned();
    profile.losses.gaps.push(tare_profile::Gap { offset: 99, bytes: 4, why });
    let text = shown(
        &profile,
        &View { columns: vec![Column::Overhead], order: vec![Column::Overhead], ..View::default() },
    );
    assert!(text.contains("# Total Lost Samples: 7\n# 7 records were lost"), "{text}");
    assert!(text.contains("\n# 3 samples of the recorder itself"), "{text}");
    assert!(text.contains("within a record\\u{1b}\n"), "{text}");
}

#[test]
fn counts_are_rounded_as_perf_does() {
    assert_eq!(
        [999, 1000, 1001, 2892, 1_000_001].map(rounded),
        ["999", "1000", "1K", "2K", "1000K"]
    );
    assert_eq!([1_001_000, 11_400_000].map(rounded), ["1M", "11M"]);
}
