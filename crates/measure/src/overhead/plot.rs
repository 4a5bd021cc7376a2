//! Plots cost against rate in the terminal.

/// Width of the plot, in characters.
const COLUMNS: usize = 60;
/// Height of the plot, in lines.
const LINES: usize = 12;

/// Points drawn with the same letter, and the line through them.
pub(super) struct Series {
    pub(super) letter: char,
    /// Rate in Hz and share of each point.
    pub(super) points: Vec<(f64, f64)>,
    /// The line: its share at 0 Hz, and its slope per Hz.
    pub(super) line: Option<(f64, f64)>,
}

/// Draws all series, from 0 to the highest rate and share; returns nothing if the highest rate or
/// share is 0. Lines are drawn as dots. If points overlap, the letter of the first stays.
pub(super) fn draw(series: &[Series]) -> Vec<String> {
    let points = || series.iter().flat_map(|one| &one.points);
    let highest = |value: fn(&(f64, f64)) -> f64| points().map(value).fold(0.0, f64::max);
    let hz = highest(|point| point.0);
    let share = highest(|point| point.1);
    if hz <= 0.0 || share <= 0.0 {
        return Vec::new();
    }
    let mut grid = [[' '; COLUMNS]; LINES];
    let mut put = |x: f64, y: f64, letter: char| {
        let place = |part: f64, places: usize| -> Option<usize> {
            // The result is in 0..places.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            (0.0..=1.0).contains(&part).then(|| (part * (places - 1) as f64).round() as usize)
        };
        if let (Some(column), Some(line)) = (place(x / hz, COLUMNS), place(y / share, LINES)) {
            let cell = &mut grid[LINES - 1 - line][column];
            if *cell == ' ' {
                *cell = letter;
            }
        }
    };
    for one in series {
        one.points.iter().for_each(|(x, y)| put(*x, *y, one.letter));
    }
    for (at_zero, per_hz) in series.iter().filter_map(|one| one.line) {
        for column in 0..COLUMNS {
            let x = hz * column as f64 / (COLUMNS - 1) as f64;
            put(x, at_zero + per_hz * x, '.');
        }
    }
    let label = |line: usize| match line {
        0 => format!("{:.2}%", share * 100.0),
        line if line == LINES - 1 => "0%".to_owned(),
        _ => String::new(),
    };
    let mut drawn: Vec<String> = grid
        .iter()
        .enumerate()
        .map(|(line, cells)| {
            format!("{:>8} |{}", label(line), cells.iter().collect::<String>())
                .trim_end()
                .to_owned()
        })
        .collect();
    drawn.push(format!("{:>8} +{}", "", "-".repeat(COLUMNS)));
    drawn.push(format!("{:>8}  0{:>width$.0} Hz", "", hz, width = COLUMNS - 1));
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_points_in_the_corners_and_the_line_between() {
        let series = [Series {
            letter: 's',
            points: vec![(0.0, 0.0), (4000.0, 0.01)],
            line: Some((0.0, 0.01 / 4000.0)),
        }];
        let drawn = draw(&series);
        assert_eq!(drawn.len(), LINES + 2);
        assert!(drawn[0].starts_with("   1.00% |") && drawn[0].ends_with('s'), "{}", drawn[0]);
        assert!(drawn[LINES - 1].starts_with("      0% |s."));
        assert!(drawn[LINES + 1].ends_with("4000 Hz"));
    }

    #[test]
    fn draws_nothing_without_points() {
        assert!(draw(&[]).is_empty());
        assert!(draw(&[Series { letter: 's', points: vec![(0.0, 0.0)], line: None }]).is_empty());
    }
}
