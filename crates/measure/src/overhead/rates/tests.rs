use super::*;

/// 2 us stolen a sample, 1% of the counting loop lost at 4000 Hz.
fn row(asked_hz: u64) -> Row {
    let hz = asked_hz as f64;
    let loss = Loss {
        load: Kind::Counting,
        profiler: EVENTS.into(),
        lost: Estimate::with_error(0.001 + hz * 2.5e-6, 1e-4),
        beyond_events: None,
        rounds: vec![],
    };
    let cost = HandlerCost {
        stolen_us: (asked_hz > 0).then(|| Estimate::with_error(2.0, 0.01)),
        ..HandlerCost::default()
    };
    finish(
        asked_hz,
        &DeliveredSamples {
            samples: asked_hz,
            on_ns: 1_000_000_000,
            ..DeliveredSamples::default()
        },
        cost,
        vec![loss],
        vec![],
        None,
    )
}

fn slope(rows: &[Row], figure: Figure) -> Option<f64> {
    fits(rows)
        .into_iter()
        .find(|fitted| fitted.figure == figure)
        .map(|fitted| fitted.fit.slope_us.value)
}

#[test]
fn figures_are_fitted_where_rows_have_them() {
    let rows = [0, 100, 2000, 4000].map(row);
    assert!((slope(&rows, Figure::Stolen).unwrap() - 2.0).abs() < 0.01);
    assert!((slope(&rows, Figure::Counting).unwrap() - 2.5).abs() < 0.01);
    assert_eq!(slope(&rows, Figure::Handler), None);
    let counting =
        fits(&rows).into_iter().find(|fitted| fitted.figure == Figure::Counting).unwrap();
    assert!(counting.fit.intercept.value.abs() < 1e-6, "what 0 Hz lost is taken off: {counting:?}");
}

#[test]
fn a_throttled_row_is_never_fitted() {
    let spoil: [fn(&mut Row); 4] = [
        |row| row.throttles = 1,
        |row| row.limit_lowered_to = Some(50_000),
        |row| row.delivered_hz *= 0.8,
        |row| row.lost = row.samples / 50,
    ];
    for spoil in spoil {
        let mut rows = [100, 2000, 4000, 100_000].map(row);
        rows[3].cost.stolen_us = Some(Estimate::with_error(9.0, 0.01));
        spoil(&mut rows[3]);
        assert!(rows[3].throttled());
        assert!((slope(&rows, Figure::Stolen).unwrap() - 2.0).abs() < 0.01);
    }
    assert!(!row(4000).throttled());
}
