//! Wilcoxon's signed-rank test of paired differences.

use super::normal_below;

/// Maximum number of non-zero differences for which the null distribution is counted. With more, p
/// is computed by the normal approximation, whose error is then below 0.002.
const EXACT_UP_TO: usize = 60;

/// Computes the two-sided p of the hypothesis that the differences are symmetric around zero; 1 if
/// all are zero.
///
/// All |differences| are ranked, including zeros (Pratt 1959: dropping zeros first would lose
/// information), ties share their mean rank, and then the ranks of zeros are left out. With r the
/// remaining ranks, and W the sum of those with a positive sign:
///
/// ```text
/// under the null, every sign is a fair coin:  mean of W = Σr / 2,  variance of W = Σr² / 4
/// ```
///
/// Both the counted distribution and the normal one (with continuity correction) use these ranks,
/// so ties and zeros need no further correction. If the order within each pair is drawn at random,
/// that draw is the coin: equal commands get a correct p even if the machine's speed drifts.
#[must_use]
pub fn signed_rank(differences: &[f64]) -> f64 {
    let ranks = doubled_ranks(differences);
    let total: usize = ranks.iter().map(|&(rank, _)| rank).sum();
    let positive: usize =
        ranks.iter().filter(|&&(_, positive)| positive).map(|&(rank, _)| rank).sum();
    // The distribution is symmetric, so twice the tail of the smaller sum is the two-sided p.
    let smaller = positive.min(total - positive);
    if ranks.len() <= EXACT_UP_TO {
        count_p(&ranks, total, smaller)
    } else {
        approximate_p(&ranks, total, smaller)
    }
}

/// Returns the rank of each non-zero difference, and whether it is positive. Ranks are doubled, so
/// that shared ranks are integers. NaNs are left out.
fn doubled_ranks(differences: &[f64]) -> Vec<(usize, bool)> {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| !d.is_nan()).collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut ranks = Vec::with_capacity(sorted.len());
    let mut before = 0;
    for tied in sorted.chunk_by(|a, b| a.abs() == b.abs()) {
        // The doubled mean of the ranks before + 1 ..= before + len.
        let rank = 2 * before + tied.len() + 1;
        ranks.extend(tied.iter().filter(|d| **d != 0.0).map(|d| (rank, *d > 0.0)));
        before += tied.len();
    }
    ranks
}

/// Computes p by counting: twice the share of all sign patterns whose doubled rank sum is at most
/// `smaller`, but not more than 1.
fn count_p(ranks: &[(usize, bool)], total: usize, smaller: usize) -> f64 {
    let mut share = vec![0.0; total + 1];
    share[0] = 1.0;
    let mut reached = 0;
    for &(rank, _) in ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= rank { share[sum - rank] } else { 0.0 };
            share[sum] = (share[sum] + with) / 2.0;
        }
    }
    (2.0 * share[..=smaller].iter().sum::<f64>()).min(1.0)
}

/// Computes p by the normal approximation.
fn approximate_p(ranks: &[(usize, bool)], total: usize, smaller: usize) -> f64 {
    // In doubled ranks: mean total / 2, variance Σrank² / 4, continuity correction 1.
    let squares: f64 = ranks.iter().map(|&(rank, _)| (rank as f64).powi(2)).sum();
    let below_mean = total as f64 / 2.0 - smaller as f64 - 1.0;
    (2.0 * normal_below(-below_mean.max(0.0) / (squares.sqrt() / 2.0))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_samples_match_counting_by_hand() {
        // Five of one sign: 2 of 32 patterns are as extreme.
        assert_eq!(signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0]), 2.0 / 32.0);
        // Only rank 1 negative: sums 0 and 1 on each side, 4 of 32.
        assert_eq!(signed_rank(&[-1.0, 2.0, 3.0, 4.0, 5.0]), 4.0 / 32.0);
        assert_eq!(signed_rank(&[]), 1.0);
        assert_eq!(signed_rank(&[0.0, 0.0]), 1.0);
    }

    #[test]
    fn matches_a_printed_critical_value() {
        // n = 10, W = 8: two-sided 0.0488 (Wilcoxon's table: critical value 8 at 0.05). Rank 8 is
        // negative, the others are positive.
        let differences = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -8.0, 9.0, 10.0];
        assert!((signed_rank(&differences) - 0.0488).abs() < 0.0001);
    }

    #[test]
    fn zeros_take_ranks_and_ties_share_them() {
        // Two zeros take ranks 1 and 2; the four others tie at 4.5: all positive is 2 of 16.
        assert_eq!(signed_rank(&[0.0, 0.0, 1.0, 1.0, 1.0, 1.0]), 2.0 / 16.0);
    }

    #[test]
    fn the_approximation_agrees_with_counting_at_the_limit() {
        let mut rng = fastrand::Rng::with_seed(1);
        let differences: Vec<f64> =
            (0..EXACT_UP_TO).map(|_| (rng.f64() * 40.0).round() - 15.0).collect();
        let ranks = doubled_ranks(&differences);
        let total = ranks.iter().map(|&(r, _)| r).sum();
        for smaller in [total / 4, total / 3, total / 2 - 10] {
            let exact = count_p(&ranks, total, smaller);
            let normal = approximate_p(&ranks, total, smaller);
            assert!((exact - normal).abs() < 0.002, "{exact} {normal}");
        }
    }

    #[test]
    fn p_does_not_depend_on_the_sign() {
        let differences = [0.3, -1.2, 2.2, 0.9, 0.0, -0.1, 4.0];
        let flipped: Vec<f64> = differences.iter().map(|d| -d).collect();
        assert_eq!(signed_rank(&differences), signed_rank(&flipped));
    }
}
