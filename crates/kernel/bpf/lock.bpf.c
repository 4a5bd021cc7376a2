// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Sums up waits for kernel locks and futexes by call chain. At the first wait for a futex with a chain, the top of the stack is copied
 * too, so that the chain can be unwound without frame pointers.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "arguments.h"
#include "counts.h"
#include "follow.h"
#include "iterator.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* include/uapi/linux/bpf.h and include/trace/events/lock.h */
#define BPF_F_USER_STACK (1U << 8)
#define LCB_F_SPIN 1
#define LCB_F_MUTEX 32

/* The flags of a futex's key, in place of the tracepoint's. */
#define FUTEX (1U << 31)

#define FRAMES 24
#define NESTED 4
#define TOP 512
#define STACK 8192
#define REGISTERS 33

struct mm_struct___lock {
	unsigned long start_code, end_code;
} __attribute__((preserve_access_index));

#if defined(__TARGET_ARCH_x86)
#define STACK_POINTER 8
struct pt_regs___lock {
	unsigned long r15, r14, r13, r12;
} __attribute__((preserve_access_index));
#else
#define STACK_POINTER 32
#endif

/* crates/kernel/src/bpf/lock.rs has the same layouts. */
struct key {
	__u64 chain;
	__u32 process; /* 0 for kernel locks, whose waits of all processes are summed up */
	__u32 flags;
};

struct sums {
	__u64 waits;
	__u64 total_ns;
	__u64 max_ns;
};

struct chain {
	__u64 frames[FRAMES];
};

struct copy {
	__u64 time;
	__u64 chain;
	__u32 tid;
	__u32 process;
	__u64 bytes;
	__u64 registers[REGISTERS];
	__u8 stack[STACK];
};

/* A thread in a wait for a futex. */
struct waiting {
	__u64 start;
	__u64 is_earlier; /* it began before the programs were attached, and `start` is when they were */
	__u32 tid;
	__u32 process;
	__u64 registers[REGISTERS];
};

/* The lock isn't known of a wait that began before the programs were attached. */
#define UNKNOWN_LOCK 0

struct wait {
	__u64 lock;
	__u64 start;
	__u64 chain;
	__u64 flags;
};

/* A thread in a wait for a kernel lock. */
struct kernel_waiting {
	__u64 start;
	__u64 is_earlier; /* as in `struct waiting` */
	__u32 tid;
	__u32 process;
	__u64 flags;
	struct chain chain;
};

/* The functions that return with a lock, and the flags of these locks. */
#define LOCK_FUNCTIONS 32
struct lock_functions {
	__u64 start[LOCK_FUNCTIONS];
	__u64 end[LOCK_FUNCTIONS];
	__u32 flags[LOCK_FUNCTIONS];
};

/* Waits in progress: each began during the one before. */
struct waits {
	__u64 depth;
	struct wait at[NESTED];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct waits);
} of_tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lock_functions);
} lock_functions SEC(".maps");

/* Waits for spinning locks, none of which leaves its CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waits);
} of_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, struct sums);
} by_chain SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct chain);
} chains SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct chain);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct copy);
} copies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ring SEC(".maps");

/* Kinds of losses: waits that a table had no room for or whose end was missed, and copies that the ring buffer had no room for. */
#define MISSING_WAITS 0
#define MISSING_COPIES 1

/* A phase of a task: in a wait for a futex that began before the programs were attached. */
#define EARLIER 4

/* Whether such waits are listed and counted: for futexes, and for kernel locks. */
const volatile __u32 earlier = 0;
const volatile __u32 earlier_in_kernel = 0;

/* How many of the counted waits are such. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} earlier_waits SEC(".maps");

static const struct sums no_sums;

/* One step of a hash over words, similar to FNV-1a. */
static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x100000001b3ULL;
	return hash ^ hash >> 29;
}

static __noinline int add(__u64 chain, __u32 process, __u32 flags, __u64 ns)
{
	struct key key = { chain, process, flags };
	struct sums *sums = bpf_map_lookup_elem(&by_chain, &key);

	if (!sums) {
		bpf_map_update_elem(&by_chain, &key, &no_sums, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&by_chain, &key);
	}
	if (!sums)
		return count_missing(MISSING_WAITS);
	__sync_fetch_and_add(&sums->waits, 1);
	__sync_fetch_and_add(&sums->total_ns, ns);
	raise_max(&sums->max_ns, ns);
	return 0;
}

/* Mixes the frames of `chain` into `hash`. The result identifies the chain. */
static __always_inline __u64 hash_of(struct chain *chain, __u64 hash)
{
	for (int i = 0; i < FRAMES; i++) {
		if (!chain->frames[i])
			break;
		hash = mix(hash, chain->frames[i]);
	}
	return hash;
}

static __always_inline struct chain *frames(void *ctx, __u64 flags)
{
	__u32 zero = 0;
	struct chain *chain = bpf_map_lookup_elem(&scratch, &zero);
	long bytes;

	if (!chain)
		return NULL;
	bytes = bpf_get_stack(ctx, chain, sizeof(*chain), flags);
	if (bytes < 0)
		bytes = 0;
	for (int i = 0; i < FRAMES; i++)
		if (i * 8 >= bytes)
			chain->frames[i] = 0;
	return chain;
}

static __always_inline struct waits *waits_of(__u32 flags, bool create)
{
	__u32 zero = 0;

	if ((flags & (LCB_F_SPIN | LCB_F_MUTEX)) == LCB_F_SPIN)
		return bpf_map_lookup_elem(&of_cpus, &zero);
	return bpf_task_storage_get(&of_tasks, bpf_get_current_task_btf(), NULL,
				    create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, unsigned int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct waits *waits;
	struct chain *chain;
	struct wait *wait;
	__u64 depth, hash;

	if (!is_followed(task))
		return 0;
	waits = waits_of(flags, true);
	if (!waits)
		return count_missing(MISSING_WAITS);
	depth = waits->depth;
	/* It has ended: its thread runs. */
	if (depth == 1 && waits->at[0].lock == UNKNOWN_LOCK)
		depth = 0;
	if (depth >= NESTED) {
		/* The ends of these waits were missed. */
		depth = 0;
		count_missing(MISSING_WAITS);
	}
	/* A mutex reports again when it stops spinning and sleeps. */
	if (depth && waits->at[(depth - 1) & (NESTED - 1)].lock == (__u64)lock)
		return 0;
	chain = frames(ctx, 0);
	if (!chain)
		return 0;
	hash = hash_of(chain, 0xcbf29ce484222325ULL);
	if (!bpf_map_lookup_elem(&chains, &hash))
		bpf_map_update_elem(&chains, &hash, chain, BPF_NOEXIST);
	wait = &waits->at[depth & (NESTED - 1)];
	wait->lock = (__u64)lock;
	wait->chain = hash;
	wait->flags = flags;
	waits->depth = depth + 1;
	wait->start = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void count_earlier(void)
{
	__u32 zero = 0;
	__u64 *number = bpf_map_lookup_elem(&earlier_waits, &zero);

	if (number)
		__sync_fetch_and_add(number, 1);
}

static __always_inline bool end(struct waits *waits, void *lock, __u64 now)
{
#pragma unroll
	for (int i = NESTED - 1; i >= 0; i--) {
		struct wait *wait = &waits->at[i];

		if (i < waits->depth && (wait->lock == (__u64)lock || wait->lock == UNKNOWN_LOCK)) {
			waits->depth = i;
			if (wait->lock == UNKNOWN_LOCK)
				count_earlier();
			wait->lock = 0;
			add(wait->chain, 0, wait->flags, now - wait->start);
			return true;
		}
	}
	return false;
}

/* This tracepoint doesn't name the kind of lock. */
SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock, int ret)
{
	__u64 now = bpf_ktime_get_ns();
	struct waits *waits = waits_of(LCB_F_SPIN, false);

	if (waits && waits->depth && end(waits, lock, now))
		return 0;
	waits = waits_of(0, false);
	if (waits && waits->depth)
		end(waits, lock, now);
	return 0;
}

/* include/uapi/linux/futex.h, and EAGAIN of include/uapi/asm-generic/errno-base.h */
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAIT_REQUEUE_PI 11
#define FUTEX_LOCK_PI2 13
#define FUTEX_COMMAND 0x7f
#define EAGAIN 11

#define NR_FUTEX_WAITV 449
#define NR_FUTEX_WAIT 455
#define NR_FUTEX_COMPAT 240
#define NR_FUTEX_TIME64 422
#if defined(__TARGET_ARCH_x86)
#define NR_FUTEX 202
#else
#define NR_FUTEX 98
#endif

static __always_inline bool waits_for_futex(struct task_struct *task, struct pt_regs *regs, long nr)
{
	__u32 command;

	if (nr == NR_FUTEX_WAITV || nr == NR_FUTEX_WAIT)
		return true;
	if (nr != NR_FUTEX && nr != NR_FUTEX_COMPAT && nr != NR_FUTEX_TIME64)
		return false;
	if (is_compat(task) ? nr == NR_FUTEX : nr != NR_FUTEX)
		return false;
#if defined(__TARGET_ARCH_x86)
	command = is_compat(task) ? regs->cx : regs->si;
#else
	command = regs->regs[1];
#endif
	switch (command & FUTEX_COMMAND) {
	case FUTEX_WAIT:
	case FUTEX_LOCK_PI:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI2:
		return true;
	}
	return false;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task *known;

	if (!waits_for_futex(task, regs, nr))
		return 0;
	known = storage(task);
	if (known && known->state == FOLLOWED) {
		known->phase = INSIDE;
		known->start = bpf_ktime_get_ns();
	}
	return 0;
}

static __always_inline void read_registers(__u64 *registers, struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs___lock *more = (void *)regs;

	/* The instruction pointer, then the registers in DWARF's order. */
	registers[0] = regs->ip;
	registers[1] = 0;
	registers[2] = regs->dx;
	registers[3] = regs->cx;
	registers[4] = regs->bx;
	registers[5] = regs->si;
	registers[6] = regs->di;
	registers[7] = regs->bp;
	registers[8] = regs->sp;
	registers[9] = regs->r8;
	registers[10] = regs->r9;
	registers[11] = regs->r10;
	registers[12] = 0;
	registers[13] = more->r12;
	registers[14] = more->r13;
	registers[15] = more->r14;
	registers[16] = more->r15;
#else
	registers[0] = regs->pc;
#pragma unroll
	for (int i = 0; i < 31; i++)
		registers[1 + i] = regs->regs[i];
	registers[32] = regs->sp;
#endif
}

/*
 * Without frame pointers, chains of different callers look alike; the words on top of the stack that are addresses in the program's
 * own code tell them apart.
 */
static __always_inline __u64 hash_of_top(struct task_struct *task, struct copy *copy, __u64 hash)
{
	struct mm_struct *mm = task->mm;
	__u64 start, end, word;

	if (!mm)
		return hash;
	start = ((struct mm_struct___lock *)mm)->start_code;
	end = ((struct mm_struct___lock *)mm)->end_code;
	for (int i = 0; i < TOP / 8; i++) {
		word = *(__u64 *)(copy->stack + 8 * i);
		if (word >= start && word < end)
			hash = mix(hash, word);
	}
	return hash;
}

static __noinline int tell(struct copy *copy)
{
	__u64 sp = copy->registers[STACK_POINTER];
	__u32 bytes = 0;

	/* The stack may end less than STACK bytes above its pointer. */
	if (!bpf_probe_read_user(copy->stack, STACK, (void *)sp))
		bytes = STACK;
	else if (!bpf_probe_read_user(copy->stack, STACK / 2, (void *)sp))
		bytes = STACK / 2;
	else if (!bpf_probe_read_user(copy->stack, STACK / 4, (void *)sp))
		bytes = STACK / 4;
	else if (!bpf_probe_read_user(copy->stack, STACK / 8, (void *)sp))
		bytes = STACK / 8;
	else if (!bpf_probe_read_user(copy->stack, TOP, (void *)sp))
		bytes = TOP;
	copy->bytes = bytes;
	if (bpf_ringbuf_output(&ring, copy, sizeof(*copy), BPF_RB_FORCE_WAKEUP))
		count_missing(MISSING_COPIES);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task *known = bpf_task_storage_get(&tasks, task, NULL, 0);
	__u64 ns, hash, sp, now;
	struct chain *chain;
	struct copy *copy;
	__u32 zero = 0;

	if (!known || !known->start)
		return 0;
	now = bpf_ktime_get_ns();
	ns = now - known->start;
	known->start = 0;
	if (known->phase == EARLIER)
		count_earlier();
	/* The value had already changed: the call didn't wait. */
	if (ret == -EAGAIN)
		return 0;
	chain = frames(ctx, BPF_F_USER_STACK);
	copy = bpf_map_lookup_elem(&copies, &zero);
	if (!chain || !copy)
		return count_missing(MISSING_WAITS);
	read_registers(copy->registers, regs);
	sp = regs->sp;
	hash = mix(0xcbf29ce484222325ULL, task->tgid);
	hash = hash_of(chain, hash);
	if (!bpf_probe_read_user(copy->stack, TOP, (void *)sp))
		hash = hash_of_top(task, copy, hash);
	if (!bpf_map_lookup_elem(&chains, &hash)) {
		bpf_map_update_elem(&chains, &hash, chain, BPF_NOEXIST);
		copy->time = now;
		copy->chain = hash;
		copy->tid = task->pid;
		copy->process = task->tgid;
		tell(copy);
	}
	add(hash, task->tgid, FUTEX, ns);
	return 0;
}

/* Lists the waits for futexes in progress, and begins those that began before the programs were attached. */
SEC("iter/task")
int list_waits(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct waiting waiting = {};
	struct task *known = followed_program(task);
	struct pt_regs *regs;

	if (!known)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (!known->start) {
		if (!earlier || !is_blocked(task) || !waits_for_futex(task, regs, call_of(regs)))
			return 0;
		known->phase = EARLIER;
		known->start = bpf_ktime_get_ns();
	}
	waiting.start = known->start;
	waiting.is_earlier = known->phase == EARLIER;
	waiting.tid = task->pid;
	waiting.process = task->tgid;
	read_registers(waiting.registers, regs);
	bpf_seq_write(ctx->meta->seq, &waiting, sizeof(waiting));
	return 0;
}

/* Returns the function that the instruction before a return address calls; 0 if that is no direct call. */
static __always_inline __u64 called_before(__u64 returns_to)
{
#if defined(__TARGET_ARCH_x86)
	__u8 call[8] = {};
	__s32 distance;

	if (bpf_probe_read_kernel(call, 5, (void *)(returns_to - 5)) || call[0] != 0xe8)
		return 0;
	distance = call[1] | call[2] << 8 | call[3] << 16 | (__u32)call[4] << 24;
	return returns_to + distance;
#else
	__u32 call = 0;

	if (bpf_probe_read_kernel(&call, sizeof(call), (void *)(returns_to - 4)) || call >> 26 != 0x25)
		return 0;
	return returns_to - 4 + ((__s64)((__u64)call << 38) >> 36);
#endif
}

/*
 * Begins a thread's wait for a kernel lock, if it is in one that began before the programs were attached. The chain of a sleeping
 * thread lacks the functions of locks and of the scheduler (stack_trace_save_tsk(), kernel/stacktrace.c), so it begins with the caller
 * of the lock function. Returns the thread's waits.
 */
static __always_inline struct waits *begin_earlier(struct task_struct *task, struct chain *chain)
{
	__u32 zero = 0, at;
	struct lock_functions *functions = bpf_map_lookup_elem(&lock_functions, &zero);
	struct waits *waits;
	__u64 hash, called;

	if (!earlier_in_kernel || !functions || !is_blocked(task))
		return NULL;
	called = called_before(chain->frames[0]);
	for (at = 0; at < LOCK_FUNCTIONS; at++)
		if (called >= functions->start[at] && called < functions->end[at])
			break;
	if (at >= LOCK_FUNCTIONS)
		return NULL;
	waits = bpf_task_storage_get(&of_tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!waits)
		return NULL;
	hash = hash_of(chain, 0xcbf29ce484222325ULL);
	if (!bpf_map_lookup_elem(&chains, &hash))
		bpf_map_update_elem(&chains, &hash, chain, BPF_NOEXIST);
	waits->at[0].lock = UNKNOWN_LOCK;
	waits->at[0].chain = hash;
	waits->at[0].flags = functions->flags[at];
	waits->at[0].start = bpf_ktime_get_ns();
	waits->depth = 1;
	return waits;
}

/* Lists the waits for kernel locks in progress, and begins those that began before the programs were attached. */
SEC("iter/task")
int list_kernel_waits(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct kernel_waiting waiting = {};
	struct waits *waits;
	struct wait *wait;

	if (!task || !is_followed(task))
		return 0;
	waits = bpf_task_storage_get(&of_tasks, task, NULL, 0);
	if (waits && !waits->depth)
		waits = NULL;
	if (!waits && !is_blocked(task))
		return 0;
	if (bpf_get_task_stack(task, &waiting.chain, sizeof(waiting.chain), 0) < 0)
		return 0;
	if (!waits)
		waits = begin_earlier(task, &waiting.chain);
	if (!waits)
		return 0;
	wait = &waits->at[(waits->depth - 1) & (NESTED - 1)];
	waiting.start = wait->start;
	waiting.is_earlier = wait->lock == UNKNOWN_LOCK;
	waiting.tid = task->pid;
	waiting.process = task->tgid;
	waiting.flags = wait->flags;
	bpf_seq_write(ctx->meta->seq, &waiting, sizeof(waiting));
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task)
{
	follow_execution(task);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	follow_child(parent, child);
	return 0;
}
