/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The ring buffer of programs that write records, read by crates/kernel/src/bpf/record_ring.rs.
 */
#ifndef TARE_RING_H
#define TARE_RING_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ring SEC(".maps");

/* Records without room, of all tasks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} missing SEC(".maps");

/* Pending bytes above which each further record wakes the reader. */
const volatile __u32 watermark = 1 << 20;

/* Whether submitting a record wakes the reader: if more than `watermark` bytes are pending, or with `at_once`. */
static __always_inline __u64 wake_flags(bool at_once)
{
	__u64 waiting = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);

	return at_once || waiting > watermark ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

#endif
