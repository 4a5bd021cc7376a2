// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Sums up time off the CPU by thread, state, stacks and waker; long waits are records. A running task's wait begins in sched_switch,
 * where its stacks can be read, and ends in the sched_switch that resumes the task. After sched_waking it only waits for its CPU.
 */
#include "offcpu.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Adds a part of a wait. Only the CPU that resumes the thread adds to its sums, and `visit` when counting stops. */
static __always_inline void add_to(void *sums, struct key *key, __u64 ns, __u64 now)
{
	struct sum *sum = bpf_map_lookup_elem(sums, key);

	if (sum) {
		sum->ns += ns;
		sum->waits++;
		if (ns > sum->longest_ns)
			sum->longest_ns = ns;
		sum->last = now;
		sum->cpu = bpf_get_smp_processor_id();
	} else {
		struct sum first = { ns, 1, ns, now, bpf_get_smp_processor_id(), 0 };

		if (bpf_map_update_elem(sums, key, &first, BPF_NOEXIST)) {
			count(MISSING_WAITS, 1);
			count(MISSING_NS, ns);
		}
	}
}

static __always_inline void add(__u32 epoch, struct key *key, __u64 ns, __u64 now)
{
	if (!ns)
		return;
	if (epoch & 1)
		add_to(&odd_sums, key, ns, now);
	else
		add_to(&even_sums, key, ns, now);
}

/* Writes a wait as a record of its own. Returns whether there was room. */
static __noinline int write_long(struct wait *wait, struct task_struct *task, __u64 woken, __u64 now)
{
	struct long_wait *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record)
		return 0;
	record->kind = RECORD_LONG_WAIT;
	record->cpu = bpf_get_smp_processor_id();
	record->pid = task->tgid;
	record->tid = task->pid;
	record->start = wait->start;
	record->woken = woken;
	record->end = now;
	record->kernel = wait->kernel;
	record->user = wait->user;
	record->waker = wait->waker;
	record->state = wait->state;
	record->unused = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 1;
}

/* Ends a wait at `now`: the task resumes, or counting stops. */
static __always_inline void end_wait(struct control *at, __u32 epoch, struct task_struct *task, struct wait *wait, __u64 now)
{
	struct key key = {};
	__u64 start = wait->start, woken;

	if (at->stopped)
		goto over;
	/* Time before the recording, or in a pause of it, doesn't count. */
	if (start < at->since)
		start = wait->start = at->since;
	woken = start;
	if (now <= start || now - start < min_ns) {
		count(SHORT_WAITS, 1);
		count(SHORT_NS, now > start ? now - start : 0);
		goto over;
	}
	if (wait->state)
		woken = wait->woken > start ? wait->woken : wait->woken ? start : now;
	if (long_us && now - start >= 1000ULL * long_us && write_long(wait, task, woken, now))
		goto over;
	key.kernel = wait->kernel;
	key.user = wait->user;
	key.waker = wait->waker;
	key.tid = task->pid;
	key.pid = task->tgid;
	key.state = wait->state;
	if (woken > start)
		add(epoch, &key, woken - start, now);
	key.state |= ON_RUN_QUEUE;
	if (now > woken)
		add(epoch, &key, now - woken, now);
over:
	wait->start = 0;
	wait->woken = 0;
	wait->waker = 0;
}

static __always_inline void leave(void *ctx, struct control *at, struct task_struct *task, __u32 state, __u64 now)
{
	struct wait *wait;
	__u64 site;

	if (is_kernels(task))
		return;
	wait = in_cgroups && !is_in_cgroup() ? NULL : followed(task);
	if (!wait)
		return;
	if (state & TASK_DEAD) {
		wait->start = 0;
		return;
	}
	/* Another CPU may have woken it up to 50 us before this one reports that it left. */
	if (!state || now - wait->woken > 50000)
		wait->woken = 0;
	wait->state = state;
	if (state && in_iowait(task))
		wait->state |= IO_WAIT;
	wait->start = now;
	if (at->stopped) {
		wait->kernel = 0;
		wait->user = 0;
		wait->site = 0;
		return;
	}
	site = stacks ? 0 : site_of(task, wait->state);
	if (!site || site != wait->site) {
		wait->kernel = kernel_stack(ctx);
		wait->site = site;
	}
	wait->user = stacks ? user_stack(ctx, task, wait, wait->kernel) : 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0, epoch;
	struct control *at = bpf_map_lookup_elem(&control, &zero);
	__u64 *busy = bpf_map_lookup_elem(&busy_cpus, &zero);
	struct wait *wait;

	if (!at || !busy)
		return 0;
	epoch = enter(at, busy);
	leave(ctx, at, prev, preempt ? 0 : prev_state & TASK_REPORTED, now);
	if (!is_kernels(next)) {
		wait = bpf_task_storage_get(&waits, next, NULL, 0);
		if (wait && wait->start)
			end_wait(at, epoch, next, wait, now);
	}
	*(volatile __u64 *)busy = 0;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct wait *wait = bpf_task_storage_get(&waits, task, NULL, 0);

	if (!wait || wait->follow != FOLLOWED)
		return 0;
	wait->woken = bpf_ktime_get_ns();
	wait->waker = wakers ? waker(ctx) : 0;
	return 0;
}

/* A new task waits for its first turn on a CPU. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct wait *of_parent, *wait;
	__u32 zero = 0;
	struct control *at = bpf_map_lookup_elem(&control, &zero);

	/* Not after the next call, which marks the parent. */
	if (in_cgroups && !is_in_cgroup())
		return 0;
	of_parent = followed_or_waiting(parent);
	if (!of_parent)
		return 0;
	wait = bpf_task_storage_get(&waits, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!wait)
		return 0;
	wait->follow = of_parent->follow;
	if (wait->follow != FOLLOWED)
		return 0;
	wait->start = bpf_ktime_get_ns();
	if (stacks == STACKS_COPIED && at && !at->stopped && !is_kernels(child))
		wait->user = user_stack(ctx, child, wait, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task)
{
	struct wait *wait = bpf_task_storage_get(&waits, task, NULL, 0);

	if (wait && wait->follow == WAITING)
		wait->follow = FOLLOWED;
	return 0;
}

/* Begins the waits in progress when counting starts, and ends those in progress when it stops. */
SEC("iter/task")
int visit(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 zero = 0;
	struct control *at = bpf_map_lookup_elem(&control, &zero);
	struct wait *wait;

	if (!task || !at || is_kernels(task))
		return 0;
	if (at->visit == VISIT_BEGIN) {
		wait = in_cgroups && !is_marked(task) ? NULL : followed(task);
		if (!wait || wait->start >= at->since || is_on_cpu(task))
			return 0;
		if (!wait->start)
			wait->state = state_of(task);
		wait->kernel = kernel_stack_of(task);
		wait->user = 0;
		wait->site = 0;
		wait->start = at->since;
		return 0;
	}
	wait = bpf_task_storage_get(&waits, task, NULL, 0);
	if (wait && wait->start)
		end_wait(at, at->epoch, task, wait, at->now);
	return 0;
}

/* Copies the user stacks of the waits that `visit` has begun. Leaves half of the ring to others. */
SEC("iter.s/task")
int copy_waiting(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 zero = 0;
	struct control *at = bpf_map_lookup_elem(&control, &zero);
	struct wait *wait;
	__u64 user;

	if (!task || !at || is_kernels(task))
		return 0;
	wait = bpf_task_storage_get(&waits, task, NULL, 0);
	if (!wait || wait->start != at->since || wait->user || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > RING / 2)
		return 0;
	user = mix(mix(mix(task->pid, at->since), at->generation), wait->kernel);
	if (!copy_stack(task, (void *)bpf_task_pt_regs(task), user, task))
		return 0;
	/* A copy of a task that ran meanwhile is no stack, and another wait's. */
	if (wait->start == at->since && !is_on_cpu(task))
		wait->user = user;
	return 0;
}
