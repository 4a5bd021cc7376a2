// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Writes context switches, wake-ups, migrations and forks of the followed tasks as records into a ring buffer. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "follow.h"
#include "ring.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Fields of a task besides those in kernel.h. */
struct thread_info___sched {
	__u32 cpu;
} __attribute__((preserve_access_index));

struct task_struct___sched {
	struct thread_info___sched thread_info;
	int exit_state;
} __attribute__((preserve_access_index));

/* Kinds of records; crates/kernel/src/bpf/sched.rs has the same numbers. */
#define SWITCH 1
#define WAKEUP 2
#define MIGRATE 3
#define BEGIN 4

/* Flags of records. */
#define TASK_FOLLOWED 1
#define OTHER_FOLLOWED 2
#define PREEMPTED 4

struct name {
	__u32 tid;
	__u32 process;
	char comm[16];
};

struct record {
	__u64 time;
	__u32 cpu;
	__u16 kind;
	__u16 flags;
	__u32 state; /* __state and exit_state of a task that leaves its CPU; the CPU that a task is moved from */
	__u32 to; /* the CPU that a task is moved to */
	struct name task;
	struct name other; /* the task that runs next, or that woke, moved or created the task */
};

/* Whether migrations are recorded. */
const volatile __u32 migrations = 0;

static __always_inline struct record *reserve(__u32 kind)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	__u32 zero = 0;
	__u64 *number;

	if (record) {
		record->time = bpf_ktime_get_ns();
		record->cpu = bpf_get_smp_processor_id();
		record->kind = kind;
		record->flags = 0;
		record->state = 0;
		record->to = 0;
		return record;
	}
	number = bpf_map_lookup_elem(&missing, &zero);
	if (number)
		__sync_fetch_and_add(number, 1);
	return NULL;
}

static __always_inline void submit(struct record *record)
{
	bpf_ringbuf_submit(record, wake_flags(false));
}

static __always_inline void describe(struct name *name, struct task_struct *task)
{
	name->tid = task->pid;
	name->process = task->tgid;
	bpf_probe_read_kernel(name->comm, sizeof(name->comm), &task->comm);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	bool of_prev = is_followed(prev), of_next = is_followed(next);
	struct record *record;

	if (!of_prev && !of_next && !all_tasks)
		return 0;
	record = reserve(SWITCH);
	if (!record)
		return 0;
	record->flags = (of_prev ? TASK_FOLLOWED : 0) | (of_next ? OTHER_FOLLOWED : 0) | (preempt ? PREEMPTED : 0);
	record->state = state | ((struct task_struct___sched *)prev)->exit_state;
	describe(&record->task, prev);
	describe(&record->other, next);
	submit(record);
	return 0;
}

static __always_inline int wakeup(struct task_struct *task)
{
	struct record *record;

	if (!is_followed(task))
		return 0;
	record = reserve(WAKEUP);
	if (!record)
		return 0;
	record->flags = TASK_FOLLOWED;
	describe(&record->task, task);
	describe(&record->other, bpf_get_current_task_btf());
	submit(record);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	return wakeup(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	return wakeup(task);
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int to)
{
	struct record *record;

	if (!migrations || !is_followed(task))
		return 0;
	record = reserve(MIGRATE);
	if (!record)
		return 0;
	record->flags = TASK_FOLLOWED;
	record->state = ((struct task_struct___sched *)task)->thread_info.cpu;
	record->to = to;
	describe(&record->task, task);
	describe(&record->other, bpf_get_current_task_btf());
	submit(record);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task)
{
	follow_execution(task);
	return 0;
}

/* Reports a new thread, because its id may have been another thread's before. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct record *record;

	follow_child(parent, child);
	if (!is_followed(child))
		return 0;
	record = reserve(BEGIN);
	if (!record)
		return 0;
	record->flags = TASK_FOLLOWED;
	describe(&record->task, child);
	describe(&record->other, parent);
	submit(record);
	return 0;
}
