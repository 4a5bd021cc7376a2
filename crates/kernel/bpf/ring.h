/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The ring buffer of programs that write records; crates/kernel/src/bpf/record_ring.rs reads it.
 */
#ifndef TARE_RING_H
#define TARE_RING_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ring SEC(".maps");

/* Records that found no room, of all tasks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} missing SEC(".maps");

/* How many bytes may wait in the ring buffer before the reader is woken. */
const volatile __u32 watermark = 1 << 20;

/* Whether the reader is woken when a record is submitted now: with much that waits, or at once. */
static __always_inline __u64 wake_flags(bool at_once)
{
	__u64 waiting = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);

	return at_once || waiting > watermark ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

#endif
