use std::convert::Infallible;

use crate::answer::AnswerFormat;
use crate::answer::flame::FlameGraph;
use crate::answer::flame::tree::CallTree;
use crate::rows::RowValue::{Int, Null, Text};

fn graph(frames: &[(i64, &[&str])], sums: &[(&str, i64, i64)]) -> FlameGraph {
    let mut graph = FlameGraph::new("all".to_owned());
    for (label, stack, weight) in sums {
        let row = [Text("cycles"), Text(label), Null, Int(*stack), Int(1), Int(*weight)];
        graph.add_sum(&row).unwrap();
    }
    for (stack, names) in frames {
        for (depth, name) in (0..).zip(*names) {
            let row = [Int(*stack), Int(depth), Text(name), Text("/bin/x")];
            graph.add_frame(&row).unwrap();
        }
    }
    graph
}

fn written(graph: &FlameGraph, format: AnswerFormat) -> String {
    let mut out = Vec::new();
    graph.write(format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Stacks are innermost first, lines outermost first.
#[test]
fn chains_that_share_their_outer_frames_share_nodes() {
    let frames: [(i64, &[&str]); 4] =
        [(1, &["b", "a"]), (2, &["c", "a"]), (3, &["a"]), (4, &["x;y\n", "z"])];
    let graph =
        graph(&frames, &[("s", 1, 10), ("s", 2, 30), ("s", 3, 5), ("t", 4, 55), ("t", 0, 7)]);
    let mut nodes = Vec::new();
    let mut tell = |place: super::tree::TreePlace| {
        let name = graph.name(place.node.kind);
        nodes.push(format!("{} {name} {} {}", place.depth, place.node.total, place.node.own));
        Ok::<bool, Infallible>(true)
    };
    CallTree::new(&graph).visit(&mut tell).unwrap();
    let expected = [
        "0 cycles 107 0",
        "1 t 62 7",
        "2 z 55 0",
        "3 x;y\n 55 55",
        "1 s 45 0",
        "2 a 45 5",
        "3 c 30 30",
        "3 b 10 10",
    ];
    assert_eq!(nodes, expected);
    let lines = written(&graph, AnswerFormat::Csv);
    let expected = "event,stack,samples,weight\ncycles,t,1,7\ncycles,t;z;x:y\\n,1,55\ncycles,s;a,1,5\ncycles,s;a;c,1,30\ncycles,s;a;b,1,10\n";
    assert_eq!(lines, expected);
    let document: serde_json::Value =
        serde_json::from_str(&written(&graph, AnswerFormat::Json)).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[7]["parent"], &rows[3]["name"]), (8, &5.into(), &"x;y\n".into()));
    let text = written(&graph, AnswerFormat::Text);
    assert!(text.contains("\\n") && text.contains("  0.00%    z\n"), "{text}");
    assert!(written(&graph, AnswerFormat::Page).contains("x;y"));
}

#[test]
fn deep_chains_and_gaps_are_drawn() {
    let names = vec!["f"; 20_000];
    let mut graph = graph(&[(1, &names)], &[("s", 1, 10), ("s", 2, 1)]);
    graph.add_frame(&[Int(2), Int(3), Text("outer"), Null]).unwrap();
    let lines = written(&graph, AnswerFormat::Csv);
    assert!(lines.contains("cycles,s;outer;[unknown];[unknown];[unknown],1,1\n"));
    assert_eq!(written(&graph, AnswerFormat::Json).matches("\"parent\"").count(), 2 + 20_000 + 4);
}

#[test]
fn rows_that_no_store_has_are_refused() {
    let mut graph = graph(&[(1, &["a"]), (2, &["a"])], &[]);
    for row in [[Int(1), Int(1)], [Int(2), Int(0)], [Int(3), Int(-1)]] {
        assert!(graph.add_frame(&[row[0], row[1], Text("a"), Null]).is_none(), "{row:?}");
    }
    // Far beyond any stack: memory stays bounded.
    graph.add_frame(&[Int(4), Int(i64::MAX), Text("a"), Null]).unwrap();
    assert!(graph.chain(4).is_empty());
    let row = [Text("cycles"), Null, Null, Int(1), Int(1), Int(-1)];
    assert!(graph.add_sum(&row).is_none());
}
