//! Permutes the assignment of runs to A and B: if nothing differs, all assignments are equally
//! likely.

use fastrand::Rng;

use super::{FAMILYWISE, Series};

/// Maximum number of permutations, including the identity. If there are more, they are drawn at
/// random.
const MAX_PERMUTATIONS: usize = 20_000;

/// The result of the permutations.
pub(super) struct PermutedP {
    /// The corrected p of each series.
    pub(super) p: Vec<f64>,
    /// The value that the statistic of a non-significant series would have had to exceed.
    pub(super) critical: f64,
    /// Number of permutations.
    pub(super) permutations: usize,
}

/// Returns the smallest possible p with these numbers of runs.
pub(super) fn least_p(n_a: usize, n_b: usize) -> f64 {
    // With equal numbers, exchanging the sides gives the same statistic.
    let alike = if n_a == n_b { 2.0 } else { 1.0 };
    alike / count_combinations(n_a + n_b, n_b)
}

fn count_combinations(n: usize, chosen: usize) -> f64 {
    (0..chosen).map(|at| (n - at) as f64 / (chosen - at) as f64).product::<f64>().round()
}

/// Corrects the p of each series by the step-down procedure of the largest statistic (Westfall and
/// Young 1993, algorithm 4.1 with t in place of p):
///
/// ```text
/// |t₁| ≥ |t₂| ≥ … ≥ |tₘ|,   uⱼ = max of |t*ⱼ| … |t*ₘ| of a permutation
/// pⱼ = share of permutations with uⱼ ≥ |tⱼ|
/// corrected pⱼ = the largest of p₁ … pⱼ
/// ```
/// Whole runs are permuted, so series that depend on each other (shares that add up to 1, callers
/// and their callees) don't make the correction stricter than necessary.
pub(super) fn correct_p(series: &[Series], seed: u64) -> PermutedP {
    let mut rows = Rows::from_series(series);
    let observed = rows.statistics(&rows.identity());
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|a, b| observed[*b].total_cmp(&observed[*a]));
    rows.reorder(&order);
    let observed: Vec<f64> = order.iter().map(|at| observed[*at]).collect();
    let mut reached = vec![0_u32; observed.len()];
    let mut largest: Vec<Vec<f32>> = Vec::new();
    rows.permute(seed, |statistics| {
        let mut most = 0.0_f64;
        for at in (0..statistics.len()).rev() {
            most = most.max(statistics[at]);
            statistics[at] = most;
            // The same sums in another order differ in their last digits.
            reached[at] += u32::from(most >= observed[at] * (1.0 - 1e-9));
        }
        largest.push(thin_out(statistics));
    });
    let permutations = largest.len();
    let mut p = vec![1.0; series.len()];
    let mut so_far = 0.0_f64;
    let mut significant = 0;
    for (place, index) in order.iter().enumerate() {
        so_far = so_far.max(f64::from(reached[place]) / permutations as f64);
        p[*index] = so_far;
        significant += usize::from(so_far <= FAMILYWISE);
    }
    PermutedP { p, critical: critical_value(&mut largest, significant), permutations }
}

/// Keeps the largest statistics after 0, 1, 2, 4, … rows, which suffice for [`critical_value`].
fn thin_out(largest: &[f64]) -> Vec<f32> {
    let places = std::iter::once(0).chain((0..).map(|power| 1 << power));
    #[allow(clippy::cast_possible_truncation, reason = "seven digits are enough to order them")]
    places.map_while(|place| largest.get(place)).map(|most| *most as f32).collect()
}

/// Returns the value that the largest statistic of all rows but the first exceeds in at most 1% of
/// permutations. The number of first rows is the largest that `thin_out` kept, up to `significant`.
fn critical_value(largest: &mut [Vec<f32>], significant: usize) -> f64 {
    // The last entry of `thin_out` whose rows include all non-significant ones.
    let place = if significant == 0 { 0 } else { 1 + significant.ilog2() as usize };
    let place = place.min(largest.first().map_or(0, |row| row.len().saturating_sub(1)));
    largest.sort_by(|a, b| a.get(place).unwrap_or(&0.0).total_cmp(b.get(place).unwrap_or(&0.0)));
    let at = (largest.len() as f64 * (1.0 - FAMILYWISE)).ceil();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of it")]
    let at = (at as usize).min(largest.len().saturating_sub(1));
    largest.get(at).and_then(|row| row.get(place)).map_or(0.0, |most| f64::from(*most))
}

/// The values of all series: a row per series, a column per run. Each row's mean is subtracted.
struct Rows {
    columns: Vec<Vec<f64>>,
    n_b: usize,
    /// The sum of squares of each row.
    squares: Vec<f64>,
    /// The minimum variance of each row.
    least: Vec<f64>,
}

impl Rows {
    fn from_series(series: &[Series]) -> Self {
        let (n_a, n_b) = series.first().map_or((0, 0), |one| (one.a.len(), one.b.len()));
        let mut columns = vec![vec![0.0; series.len()]; n_a + n_b];
        let mut squares = vec![0.0; series.len()];
        for (row, one) in series.iter().enumerate() {
            let all: Vec<f64> = one.a.iter().chain(&one.b).copied().collect();
            let mean = super::mean(&all);
            for (column, value) in columns.iter_mut().zip(&all) {
                column[row] = value - mean;
            }
            squares[row] = super::sum_squares(&all);
        }
        let least = series.iter().map(|one| (one.step / 2.0).powi(2)).collect();
        Self { columns, n_b, squares, least }
    }

    fn reorder(&mut self, order: &[usize]) {
        let lists = self.columns.iter_mut().chain([&mut self.squares, &mut self.least]);
        for list in lists {
            *list = order.iter().map(|at| list[*at]).collect();
        }
    }

    /// The runs of B, as they are.
    fn identity(&self) -> Vec<usize> {
        (self.columns.len() - self.n_b..self.columns.len()).collect()
    }

    /// Computes |t| of each row if these runs are B's.
    fn statistics(&self, b: &[usize]) -> Vec<f64> {
        let mut sums = vec![0.0; self.squares.len()];
        for run in b {
            for (sum, value) in sums.iter_mut().zip(&self.columns[*run]) {
                *sum += value;
            }
        }
        let n = self.columns.len() as f64;
        let n_b = self.n_b as f64;
        let freedom = n - 2.0;
        let both = 1.0 / (n - n_b) + 1.0 / n_b;
        for (sum, (squares, least)) in sums.iter_mut().zip(self.squares.iter().zip(&self.least)) {
            let between = *sum * *sum * both;
            let variance = ((squares - between) / freedom).max(*least);
            *sum = if between > 0.0 { (between / variance).sqrt() } else { 0.0 };
        }
        sums
    }

    /// Calls `each` with the statistics of the identity and of each other permutation, or of random
    /// ones if there are more than [`MAX_PERMUTATIONS`].
    fn permute(&self, seed: u64, mut each: impl FnMut(&mut [f64])) {
        let n = self.columns.len();
        each(&mut self.statistics(&self.identity()));
        if count_combinations(n, self.n_b) <= MAX_PERMUTATIONS as f64 {
            // The identity is the last combination in this order.
            let mut b: Vec<usize> = (0..self.n_b).collect();
            while b != self.identity() {
                each(&mut self.statistics(&b));
                advance(&mut b, n);
            }
            return;
        }
        let mut rng = Rng::with_seed(seed);
        let mut runs: Vec<usize> = (0..n).collect();
        for _ in 1..MAX_PERMUTATIONS {
            for at in 0..self.n_b {
                runs.swap(at, rng.usize(at..n));
            }
            each(&mut self.statistics(&runs[..self.n_b]));
        }
    }
}

/// Advances to the next combination out of `n`, in lexicographic order.
fn advance(chosen: &mut [usize], n: usize) {
    let count = chosen.len();
    if let Some(at) = (0..count).rev().find(|at| chosen[*at] < n - count + at) {
        chosen[at] += 1;
        for behind in at + 1..count {
            chosen[behind] = chosen[behind - 1] + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumerates_each_permutation_once() {
        let series = Series { a: vec![1.0, 2.0, 3.0], b: vec![4.0, 5.0, 7.0], step: 0.0 };
        let rows = Rows::from_series(std::slice::from_ref(&series));
        let mut seen = Vec::new();
        rows.permute(1, |statistics| seen.push(statistics[0]));
        assert_eq!((seen.len(), count_combinations(6, 3)), (20, 20.0));
        // Only the identity and its exchange of sides reach this statistic: 2 of 20.
        let corrected = correct_p(&[series], 1);
        assert_eq!(corrected.p, [0.1]);
        assert_eq!(least_p(3, 3), 0.1);
    }

    #[test]
    fn least_p_by_hand() {
        assert_eq!((least_p(5, 5), least_p(4, 5)), (2.0 / 252.0, 1.0 / 126.0));
        assert_eq!((least_p(1, 9), count_combinations(20, 10)), (0.1, 184_756.0));
    }

    #[test]
    fn a_large_change_does_not_hide_a_smaller_one() {
        let noise = |at: usize| [0.3, -0.2, 0.1, 0.25, -0.15, -0.3, 0.05, 0.2][at % 8];
        let series = |shift: f64, from: usize| Series {
            a: (0..8).map(|at| noise(at + from)).collect(),
            b: (0..8).map(|at| shift + noise(at * 3 + from)).collect(),
            step: 0.0,
        };
        let p = correct_p(&[series(0.0, 1), series(50.0, 2), series(1.0, 3)], 1).p;
        assert!(p[0] > 0.1 && p[1] <= 0.001 && p[2] <= 0.001, "{p:?}");
    }
}
