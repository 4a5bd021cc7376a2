/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Values that several CPUs update: losses, and the longest of several durations. */
#ifndef TARE_COUNTS_H
#define TARE_COUNTS_H

/* Two kinds of losses; each program defines them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} missing SEC(".maps");

static __noinline int count_missing(__u32 which)
{
	__u64 *number = bpf_map_lookup_elem(&missing, &which);

	if (number)
		__sync_fetch_and_add(number, 1);
	return 0;
}

static __always_inline void raise_max(__u64 *max, __u64 ns)
{
	__u64 before;

#pragma unroll
	for (int i = 0; i < 4; i++) {
		before = *max;
		if (ns <= before || __sync_val_compare_and_swap(max, before, ns) == before)
			break;
	}
}

#endif
