// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Sums up system calls: by call in per-CPU arrays, or by call and thread or by call and cgroup in a hash table. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "arguments.h"
#include "counts.h"
#define KEEPS_NUMBERS
#include "follow.h"
#include "progress.h"

#define BUCKET_BITS 2
#include "histogram.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* What a sum covers besides the call. */
#define BY_CALL 0
#define BY_THREAD 1
#define BY_CGROUP 2
const volatile __u32 by = BY_CALL;

struct sums {
	__u64 calls;
	__u64 total_ns;
	__u64 max_ns;
	__u64 histogram[BUCKETS];
};

struct key {
	__u64 scope;
	__u32 slot;
	__u32 errno;
};

struct thread {
	__u32 process;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ALL_SLOTS);
	__type(key, __u32);
	__type(value, struct sums);
} by_call SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct key);
	__type(value, struct sums);
} by_scope SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct key);
	__type(value, __u64);
} errors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* Calls that began before the programs were attached and have returned since; their duration is unknown. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ALL_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} before SEC(".maps");

/* Kinds of losses: calls and errors that a table had no room for. */
#define MISSING_CALLS 0
#define MISSING_ERRORS 1

static const struct sums no_sums;

static __always_inline __u64 scope(struct task_struct *task)
{
	if (by == BY_THREAD)
		return task->pid;
	return by == BY_CGROUP ? bpf_get_current_cgroup_id() : 0;
}

static __noinline int add_error(__u64 scope, __u32 slot, __u32 errno)
{
	struct key key = { scope, slot, errno };
	__u64 one = 1, *number = bpf_map_lookup_elem(&errors, &key);

	if (!number) {
		if (!bpf_map_update_elem(&errors, &key, &one, BPF_NOEXIST))
			return 0;
		number = bpf_map_lookup_elem(&errors, &key);
	}
	if (number)
		__sync_fetch_and_add(number, 1);
	else
		count_missing(MISSING_ERRORS);
	return 0;
}

/* Several CPUs may add to a cgroup's sums. */
static __noinline int add_shared(__u64 scope, __u32 slot, __u64 ns)
{
	struct key key = { scope, slot, 0 };
	struct sums *sums = bpf_map_lookup_elem(&by_scope, &key);
	__u32 at = bucket(ns);

	if (!sums) {
		bpf_map_update_elem(&by_scope, &key, &no_sums, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&by_scope, &key);
	}
	if (!sums)
		return count_missing(MISSING_CALLS);
	__sync_fetch_and_add(&sums->calls, 1);
	__sync_fetch_and_add(&sums->total_ns, ns);
	if (at < BUCKETS)
		__sync_fetch_and_add(&sums->histogram[at], 1);
	raise_max(&sums->max_ns, ns);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 slot = slot_of(task, nr);
	struct task *known = followed(task, slot);

	if (known) {
		known->phase = INSIDE;
		known->slot = slot;
		known->start = bpf_ktime_get_ns();
	}
	return 0;
}

static __noinline int add_before(__u32 slot)
{
	__u64 *number = bpf_map_lookup_elem(&before, &slot);

	if (number)
		__sync_fetch_and_add(number, 1);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task *known = storage(task);
	__u32 slot, at, phase;
	struct sums *sums;
	__u64 ns = 0;

	if (!known || known->state != FOLLOWED)
		return 0;
	phase = leave_call(known);
	if (phase == NEW)
		return 0;
	if (phase == INSIDE) {
		slot = known->slot;
		ns = bpf_ktime_get_ns() - known->start;
	} else {
		slot = slot_of(task, call_of(regs));
	}
	if (phase == UNSEEN)
		return add_before(slot);
	if (ret < 0 && ret >= -4095)
		add_error(scope(task), slot, -ret);
	if (by != BY_CALL) {
		add_shared(scope(task), slot, ns);
		return 0;
	}
	sums = bpf_map_lookup_elem(&by_call, &slot);
	if (!sums)
		return 0;
	sums->calls++;
	sums->total_ns += ns;
	if (ns > sums->max_ns)
		sums->max_ns = ns;
	at = bucket(ns);
	if (at < BUCKETS)
		sums->histogram[at]++;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	follow_child(parent, child);
	return 0;
}

/* Keeps the names of exiting threads; those of others can still be read. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	struct task *known = bpf_task_storage_get(&tasks, task, NULL, 0);
	struct thread thread = {};
	__u32 tid = task->pid;

	if (by != BY_THREAD || !known || known->state != FOLLOWED)
		return 0;
	thread.process = task->tgid;
	bpf_get_current_comm(thread.comm, sizeof(thread.comm));
	bpf_map_update_elem(&threads, &tid, &thread, 0);
	return 0;
}
