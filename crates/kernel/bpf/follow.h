/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which tasks are followed. A task's state is in its task storage; a forked task gets its parent's state. The loader marks its own
 * process and the targets through their pidfds, so process ids of other namespaces don't matter.
 */
#ifndef TARE_FOLLOW_H
#define TARE_FOLLOW_H

/* States of a task; crates/kernel/src/bpf/follow.rs has the same numbers. */
#define UNKNOWN 0
#define FOLLOWED 1
#define LEFT_OUT 2
#define WAITING 3 /* the child before it executes the command: followed from its execve on */

struct task {
	__u64 start; /* when its system call began; 0: it is in none whose beginning was seen */
	__u32 slot;
	__u32 state;
	__u64 missed; /* records without room since the last one that fit */
	__u32 retry;  /* bit per argument: its memory couldn't be read at the call's beginning */
	__u32 phase;
};

/* Phases of a task. */
#define UNSEEN 0  /* neither beginning nor end of a call was seen: it may be in one that began before the programs were attached */
#define OUTSIDE 1 /* in none */
#define INSIDE 2  /* in a call whose beginning was seen */
#define NEW 3     /* forked: returns from its parent's call first */

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

const volatile __u32 all_tasks = 0;

/* Slots of system calls: 64-bit calls first, then 32-bit calls. The last slot of each stands for all other numbers. */
#define CALLS 512
#define SLOTS (2 * CALLS)

#ifdef KEEPS_NUMBERS
/* The first other numbers get slots behind these: each entry is a number times 2, plus 1 for 32-bit calls, plus 2. */
#define OTHERS 64
#define ALL_SLOTS (SLOTS + OTHERS)
struct others {
	__u64 keys[OTHERS];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct others);
} others SEC(".maps");

/* Returns the slot of a number that has none among the first; 0 if all are taken. */
static __noinline __u32 slot_of_other(__u32 nr, __u32 compat)
{
	__u32 zero = 0;
	struct others *all = bpf_map_lookup_elem(&others, &zero);
	__u64 key = ((__u64)nr << 1) + compat + 2, known;

	if (!all)
		return 0;
	for (__u32 i = 0; i < OTHERS; i++) {
		known = all->keys[i];
		if (!known)
			known = __sync_val_compare_and_swap(&all->keys[i], 0, key);
		if (!known || known == key)
			return SLOTS + i;
	}
	return 0;
}
#endif

static __always_inline __u32 slot_of(struct task_struct *task, long nr)
{
	__u32 slot = nr < 0 || nr >= CALLS ? CALLS - 1 : nr;

#ifdef KEEPS_NUMBERS
	if (slot == CALLS - 1) {
		__u32 other = slot_of_other(nr, is_compat(task));

		if (other)
			return other;
	}
#endif
	return is_compat(task) ? slot + CALLS : slot;
}

/* The state of a task without one of its own: its process's; else `all_tasks` decides. */
static __always_inline __u32 state_of_process(struct task_struct *task)
{
	struct task *leader = bpf_task_storage_get(&tasks, task->group_leader, NULL, 0);

	if (leader && leader->state != UNKNOWN)
		return leader->state;
	return all_tasks ? FOLLOWED : UNKNOWN;
}

static __always_inline bool is_followed(struct task_struct *task)
{
	struct task *known = bpf_task_storage_get(&tasks, task, NULL, 0);

	return (known ? known->state : state_of_process(task)) == FOLLOWED;
}

static __always_inline struct task *storage(struct task_struct *task)
{
	struct task *known = bpf_task_storage_get(&tasks, task, NULL, 0);
	__u32 state;

	if (known)
		return known;
	state = state_of_process(task);
	if (state != FOLLOWED)
		return NULL;
	known = bpf_task_storage_get(&tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (known)
		known->state = state;
	return known;
}

/* Returns the storage of the current task if it is followed, else NULL. Follows a waiting child from its execve on. */
static __always_inline struct task *followed(struct task_struct *task, __u32 slot)
{
	struct task *known = storage(task);

	if (!known)
		return NULL;
	if (known->state == WAITING && slot == NR_EXECVE)
		known->state = FOLLOWED;
	return known->state == FOLLOWED ? known : NULL;
}

/* Returns the storage of a task of a followed process; NULL for others and for threads of the kernel. */
static __always_inline struct task *followed_program(struct task_struct *task)
{
	struct task *known = task && task->mm ? storage(task) : NULL;

	return known && known->state == FOLLOWED ? known : NULL;
}

/*
 * Ends the call of a followed task, and returns the phase before. OUTSIDE: the kernel reported no beginning, because a seccomp filter or
 * a tracer answered the call in its place. UNSEEN: the call began before the programs were attached.
 */
static __always_inline __u32 leave_call(struct task *known)
{
	__u32 phase = known->phase;

	known->phase = OUTSIDE;
	return phase;
}

/* Follows a waiting child, which has executed the command. */
static __always_inline void follow_execution(struct task_struct *task)
{
	struct task *known = bpf_task_storage_get(&tasks, task, NULL, 0);

	if (known && known->state == WAITING)
		known->state = FOLLOWED;
}

static __always_inline bool follow_child(struct task_struct *parent, struct task_struct *child)
{
	struct task *of_parent = storage(parent), *of_child;

	if (!of_parent || of_parent->state == UNKNOWN)
		return false;
	of_child = bpf_task_storage_get(&tasks, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (of_child) {
		of_child->state = of_parent->state;
		of_child->phase = NEW;
	}
	return of_parent->state == FOLLOWED;
}

#endif
