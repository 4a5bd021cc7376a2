use super::*;

fn row(symbol: &str, share: [f64; 2], shown: [bool; 2]) -> DiffRow {
    let figure = |a: f64, b: f64, is_significant| DiffFigure {
        a,
        b,
        difference: Some(Estimate { value: b - a, low: b - a - 0.01, high: b - a + 0.01 }),
        ratio: (a > 0.0).then(|| Estimate { value: b / a, low: b / a - 0.02, high: b / a + 0.02 }),
        p: Some(if is_significant { 0.0004 } else { 0.7 }),
        detectable: Some(0.015),
        is_significant,
    };
    DiffRow {
        symbol: Some(symbol.to_owned()),
        space: Some('.'),
        samples: share.map(|share| if share > 0.0 { 100 } else { 0 }),
        share: figure(share[0], share[1], shown[0]),
        weight: figure(share[0] * 4e8, share[1] * 4.4e8, shown[1]),
        ..DiffRow::default()
    }
}

fn diff() -> Diff {
    let recording =
        |name: &str| ComparedRecording { name: name.to_owned(), samples: 4000, losses: Vec::new() };
    let lex = row("lex", [0.30, 0.28], [true, false]);
    let ratio = Some(Estimate { value: 0.96, low: 0.91, high: 1.01 });
    let weight = DiffFigure { b: 1.152e8, ratio, ..lex.weight };
    let rows = vec![
        DiffRow { weight, ..lex },
        row("main", [0.10, 0.10], [false, false]),
        row("parse", [0.598, 0.61], [true, true]),
        row("tiny", [0.002, 0.0], [false, false]),
        row("added", [0.0, 0.01], [true, true]),
    ];
    let all = DiffFigure { a: 4e8, b: 4.4e8, ..DiffFigure::default() };
    let event = EventDiff { name: "cpu-clock".to_owned(), unit: Unit::Nanoseconds, all, rows };
    Diff {
        recordings: [vec![recording("a1.data"), recording("a2.data")], vec![recording("b.data")]],
        per: "run".to_owned(),
        method: "the method".to_owned(),
        events: vec![event],
        ..Diff::default()
    }
}

#[test]
fn lists_changes_first_and_counts_hidden_rows() {
    let mut text = Vec::new();
    let view = DiffView { percent_limit: 0.5, ..DiffView::default() };
    diff_text(&mut text, &diff(), &view).unwrap();
    let text = String::from_utf8(text).unwrap();
    let names = ["lex", "parse", "added", "main"];
    let places: Vec<_> = names.iter().map(|name| text.find(&format!("[.] {name}"))).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{text}");
    for part in [
        "# A: 2 recordings, a1.data to a2.data, 8,000 samples",
        "# Event 'cpu-clock': 400.0 ms -> 440.0 ms per run, +10.00%",
        "30.00%  -2.00%  [-3.00, -1.00]  1.50%   120.0 ms   -4.00%",
        "smaller share  [.] lex",
        "more           [.] parse",
        "new            [.] added",
        "none shown     [.] main",
        "# 1 row without a change below 0.5% not shown",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_share_that_only_others_changed_is_no_change_of_the_function() {
    // All samples weigh half as much again; this function weighs 2% more, so its share falls.
    let judged = |weight: DiffFigure, share: [f64; 2]| {
        let row = row("steady", share, [true, false]);
        DiffRow { weight, ..row }.verdict()
    };
    let weight = |b: f64, interval: Option<[f64; 2]>| DiffFigure {
        a: 1e8,
        b,
        ratio: interval.map(|[low, high]| Estimate { value: b / 1e8, low, high }),
        p: interval.map(|_| 0.7),
        ..DiffFigure::default()
    };
    let others = DiffVerdict::OthersChanged;
    assert_eq!(judged(weight(1.02e8, Some([0.98, 1.06])), [0.3, 0.204]), others);
    assert_eq!(judged(weight(1.02e8, None), [0.3, 0.204]), others);
    assert_eq!(judged(weight(0.98e8, None), [0.2, 0.3]), others);
    assert!(!others.is_change());
    assert_eq!(judged(weight(0.7e8, None), [0.3, 0.204]), DiffVerdict::SmallerShare);
    assert_eq!(judged(weight(1.5e8, None), [0.2, 0.3]), DiffVerdict::LargerShare);
    // The runs vary so much that the weight may have changed as much as the share.
    assert_eq!(judged(weight(1.02e8, Some([0.6, 1.5])), [0.3, 0.204]), DiffVerdict::SmallerShare);
}

#[test]
fn separates_columns_by_the_given_text() {
    let mut text = Vec::new();
    let separator = Some(",".to_owned());
    let view = DiffView { separator, quiet: true, period: true, ..DiffView::default() };
    diff_text(&mut text, &diff(), &view).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().all(|line| line.matches(',').count() == 10), "{text}");
}

#[test]
fn sorts_as_perf_does() {
    let diff = diff();
    let first = |order| {
        let view = DiffView { order, ..DiffView::default() };
        view.rows(&diff.events[0]).0[0].name()
    };
    assert_eq!(first(DiffOrder::Baseline), "[.] parse");
    assert_eq!(first(DiffOrder::Delta), "[.] parse");
    assert_eq!(first(DiffOrder::DeltaAbs), "[.] lex");
    assert_eq!(first(DiffOrder::Ratio), "[.] added");
    assert_eq!(first(DiffOrder::Weighted(1.0, 0.0)), "[.] added");
}

#[test]
fn writes_a_document_with_a_version() {
    let mut json = Vec::new();
    diff_json(&mut json, &diff(), &DiffView::default()).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(document["version"], 1);
    let row = &document["events"][0]["rows"][0];
    assert_eq!((&row["symbol"], &row["change"]), (&"lex".into(), &"smaller_share".into()));
    assert_eq!(
        row["share"]["difference"]["low"].as_f64().map(|low| (low * 100.0).round()),
        Some(-3.0)
    );
}

#[test]
fn formats_amounts_with_few_digits() {
    assert_eq!(amount(1.612e8, Unit::Nanoseconds), "161.2 ms");
    assert_eq!(amount(1.5e9, Unit::Nanoseconds), "1.50 s");
    assert_eq!(amount(1_340_000.0, Unit::Count), "1.34 M");
    assert_eq!(
        (amount(0.0, Unit::Count), amount(0.25, Unit::Count)),
        ("0".to_owned(), "0.25".to_owned())
    );
    assert_eq!(amount(-2500.0, Unit::Count), "-2.50 K");
}
