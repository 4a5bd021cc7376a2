/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Buckets of durations: 1 << BUCKET_BITS, which the program defines, for each power of two from 2^5 ns on.
 * crates/kernel/src/histogram.rs has the same numbers.
 */
#ifndef TARE_HISTOGRAM_H
#define TARE_HISTOGRAM_H

#define FIRST_POWER 5
#define POWERS 36
#define BUCKETS (POWERS << BUCKET_BITS)

/* Returns a duration's bucket. The last bucket also counts longer ones, the first shorter ones. */
static __always_inline __u32 bucket(__u64 ns)
{
	__u32 power = 0, at;
	__u64 rest = ns;

	if (rest >> 32) { power += 32; rest >>= 32; }
	if (rest >> 16) { power += 16; rest >>= 16; }
	if (rest >> 8) { power += 8; rest >>= 8; }
	if (rest >> 4) { power += 4; rest >>= 4; }
	if (rest >> 2) { power += 2; rest >>= 2; }
	if (rest >> 1) power += 1;
	if (power < FIRST_POWER)
		return 0;
	at = ((power - FIRST_POWER) << BUCKET_BITS) + (ns >> (power - BUCKET_BITS) & ((1 << BUCKET_BITS) - 1));
	return at < BUCKETS ? at : BUCKETS - 1;
}

#endif
