//! Holm's correction for testing many metrics at once.

/// Returns the adjusted p for each p, in the same order. The chance that any adjusted p falls below
/// 0.05 without a difference is at most 5%.
///
/// In ascending order p₁ … pₘ, adjusted pᵢ = max over j ≤ i of min(1, (m - j + 1) · pⱼ) (Holm
/// 1979).
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0f64;
    for (position, &index) in order.iter().enumerate() {
        largest = largest.max(((p.len() - position) as f64 * p[index]).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_an_example_computed_by_hand() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        // Ascending 0.005·4, 0.01·3, 0.03·2, then 0.04·1 raised to 0.06.
        for (got, wanted) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - wanted).abs() < 1e-12, "{adjusted:?}");
        }
    }

    #[test]
    fn is_at_most_1_and_leaves_a_single_p_unchanged() {
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
        assert_eq!(holm(&[0.03]), [0.03]);
        assert!(holm(&[]).is_empty());
    }
}
