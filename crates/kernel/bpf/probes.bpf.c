// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Calls of functions: their number, durations and arguments, and the stacks of the slowest. `enter` and `leave` are on a function,
 * `hit` is on a place that is only passed, such as a USDT probe. A probe's number is its link's cookie. Programs on uprobes can be
 * preempted, so they update per-CPU values atomically.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "follow.h"
#include "ring.h"

#define BUCKET_BITS 5
#include "histogram.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define ARGUMENTS 8
#define LOADS 4
#define TEXT 64
/* Most return addresses of a task that the kernel replaces (MAX_URETPROBE_DEPTH, kernel/events/uprobes.c). */
#define DEPTH 64
#define TEXT_DEPTH 16
#define MOST_SLOWEST 32
#define OUTER 16
#define KERNEL_FRAMES 32
#define PIECE 1024
#define PIECES 8

/* Where an argument's value starts from. */
#define CONSTANT 0
#define REGISTER 1
#define RETURNED 2 /* the register of the return value */

#define UNREAD_TEXTS ARGUMENTS

/* Kinds of records. */
#define CALL 1
#define SLOW 2

#if defined(__TARGET_ARCH_x86)
/* Bytes that a return pops off the stack. */
#define POPPED 8
struct registers {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#else
#define POPPED 0
struct registers {
	__u64 regs[31], sp, pc, pstate;
};
#endif

struct argument {
	__u64 constant;
	__s64 offsets[LOADS]; /* added before each load, the last one before a string is read */
	__u16 at;             /* offset among the registers, in bytes */
	__u8 base;
	__u8 loads;
	__u8 size;       /* of the last load, in bytes */
	__u8 is_text;    /* the value is the address of a string */
	__u8 user_loads; /* bit per load: reads the program's memory */
	__u8 at_return;  /* the base is that of the call, and memory is read at the return */
};

struct probe {
	__u64 min_ns; /* shortest call that is a record */
	__u8 in_kernel;
	__u8 each; /* each call of at least `min_ns` is a record */
	__u8 has_texts;
	__u8 count;
	__u32 unused;
	struct argument arguments[ARGUMENTS];
};

struct sums {
	__u64 calls;
	__u64 returned;
	__u64 total_ns;
	__u64 max_ns;
	__u64 histogram[BUCKETS];
};

struct frame {
	__u64 start;
	__u64 sp;
	__u64 returns_to;
	__u32 probe;
	__u32 unreadable; /* bit per argument; from UNREAD_TEXTS on: only its string, whose address is its value */
	__u64 values[ARGUMENTS];
};

struct frames {
	__u64 depth;
	struct frame frames[DEPTH];
};

struct texts {
	char text[ARGUMENTS][TEXT];
};

struct text_frames {
	struct texts frames[TEXT_DEPTH];
};

/* The slowest calls so far; a call at or below the limit isn't one of them. */
struct slowest {
	__u64 limit;
	__u64 ns[MOST_SLOWEST];
};

struct call {
	__u64 time; /* its beginning */
	__u64 duration;
	__u32 tid;
	__u32 process;
	__u16 kind;
	__u16 probe;
	__u32 unreadable;
	char comm[16];
	__u64 values[ARGUMENTS];
};

struct call_with_texts {
	struct call call;
	struct texts texts;
};

struct return_address {
	__u64 at;
	__u64 is;
};

struct slow_call {
	struct call call;
	struct texts texts;
	struct registers registers;
	/* During a call the stack holds the address of the kernel's trampoline in place of these. */
	struct return_address outer[OUTER];
	__u64 kernel[KERNEL_FRAMES];
	__u64 copied;
	__u8 stack[PIECES * PIECE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct probe);
} probes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sums);
} sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slowest);
} slowest SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct frames);
} pending SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct text_frames);
} pending_texts SEC(".maps");

/* Number of slowest calls of each probe that are reported with their stacks; at most MOST_SLOWEST. */
const volatile __u32 slowest_count = 0;

/* Keeps the compiler from merging an index into a sum that the verifier can't bound. */
static __always_inline __u64 opaque(__u64 number)
{
	asm volatile("" : "+r"(number));
	return number;
}

static __always_inline struct task *known(struct task_struct *task)
{
	struct task *known = storage(task);

	return known && known->state == FOLLOWED ? known : NULL;
}

static __always_inline __u64 stack_pointer(struct registers *regs)
{
	return regs->sp;
}

/* Where arguments are read from and into. */
struct walk {
	struct registers *regs;
	struct probe *probe;
	__u64 *values;
	struct texts *texts;
	__u64 unreadable;
	__u64 at_return; /* read only what is read at the return: else all others */
};

static long read_argument(__u32 i, struct walk *walk)
{
	struct argument *argument = &walk->probe->arguments[i & (ARGUMENTS - 1)];
	__u64 value = argument->constant, loaded, *kept = &walk->values[i & (ARGUMENTS - 1)];
	__u64 unread_text = 1UL << (i + UNREAD_TEXTS);
	__u32 size;
	long failed = 0;

	if (walk->at_return && walk->unreadable & unread_text) {
		/* The call may have touched the memory. */
		value = *kept;
		walk->unreadable &= ~(unread_text | 1UL << i);
		goto text;
	}
	if (walk->at_return && argument->at_return)
		value = *kept;
	else if ((argument->base == RETURNED) != walk->at_return)
		return 0;
	else if (argument->base != CONSTANT)
		bpf_probe_read_kernel(&value, sizeof(value), (void *)walk->regs + argument->at);
	if (!walk->at_return && argument->at_return)
		goto out;
	for (__u32 load = 0; load < LOADS && load < argument->loads && !failed; load++) {
		value += argument->offsets[load];
		size = load + 1 == argument->loads && !argument->is_text ? argument->size : 8;
		if (size > 8)
			size = 8;
		loaded = 0;
		if (argument->user_loads & 1 << load)
			failed = bpf_probe_read_user(&loaded, size, (void *)value);
		else
			failed = bpf_probe_read_kernel(&loaded, size, (void *)value);
		value = loaded;
	}
	if (failed || !argument->is_text)
		goto out;
	value += argument->offsets[LOADS - 1];
text:
	if (!walk->texts)
		failed = 1;
	else if (argument->user_loads & 1 << (LOADS - 1))
		failed = bpf_probe_read_user_str(walk->texts->text[i & (ARGUMENTS - 1)], TEXT, (void *)value) < 0;
	else
		failed = bpf_probe_read_kernel_str(walk->texts->text[i & (ARGUMENTS - 1)], TEXT, (void *)value) < 0;
	if (failed)
		walk->unreadable |= unread_text;
out:
	if (failed)
		walk->unreadable |= 1UL << i;
	*kept = value;
	return 0;
}

static __always_inline void fill(struct call *call, struct task_struct *task, __u32 at, __u16 kind)
{
	call->kind = kind;
	call->probe = at;
	call->tid = task->pid;
	call->process = task->tgid;
	bpf_get_current_comm(call->comm, sizeof(call->comm));
}

static __always_inline void submit(void *record, bool at_once)
{
	bpf_ringbuf_submit(record, wake_flags(at_once));
}

static __noinline int count_missing(void)
{
	__u32 zero = 0;
	__u64 *number = bpf_map_lookup_elem(&missing, &zero);

	if (number)
		__sync_fetch_and_add(number, 1);
	return 0;
}

/* Counts and records passes of a single instruction. */
SEC("uprobe")
int hit(struct registers *regs)
{
	__u32 at = bpf_get_attach_cookie(regs);
	struct task_struct *task = bpf_get_current_task_btf();
	struct probe *probe = bpf_map_lookup_elem(&probes, &at);
	struct sums *sum = bpf_map_lookup_elem(&sums, &at);
	struct call_with_texts *record;
	struct walk walk = {};

	if (!probe || !sum || !known(task))
		return 0;
	__sync_fetch_and_add(&sum->calls, 1);
	if (!probe->each)
		return 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return count_missing();
	fill(&record->call, task, at, CALL);
	record->call.time = bpf_ktime_get_ns();
	record->call.duration = 0;
	walk.regs = regs;
	walk.probe = probe;
	walk.values = record->call.values;
	walk.texts = &record->texts;
	bpf_loop(probe->count, read_argument, &walk, 0);
	record->call.unreadable = walk.unreadable;
	submit(record, false);
	return 0;
}

/* Search through a task's calls, from the innermost. */
struct search {
	struct frames *frames;
	__u64 sp;
	__u64 depth;
	__u32 probe;
	bool in_kernel;
	bool found;
};

static __always_inline struct frame *innermost(struct search *search)
{
	return &search->frames->frames[opaque(search->depth - 1) & (DEPTH - 1)];
}

/* Deeper calls on the stack ended without a return: longjmp(3), an exception. */
static long leave_ended(__u32 i, struct search *search)
{
	if (!search->depth || innermost(search)->sp >= search->sp)
		return 1;
	search->depth--;
	return 0;
}

static long find_returned(__u32 i, struct search *search)
{
	struct frame *frame;

	if (!search->depth)
		return 1;
	frame = innermost(search);
	search->depth--;
	search->found = frame->probe == search->probe && (search->in_kernel || frame->sp == search->sp);
	return search->found;
}

SEC("uprobe")
int enter(struct registers *regs)
{
	__u32 at = bpf_get_attach_cookie(regs);
	struct task_struct *task = bpf_get_current_task_btf();
	struct probe *probe = bpf_map_lookup_elem(&probes, &at);
	struct sums *sum = bpf_map_lookup_elem(&sums, &at);
	struct search search = { .sp = stack_pointer(regs) };
	struct text_frames *texts = NULL;
	struct frames *frames;
	__u64 depth;
	struct frame *frame;

	if (!probe || !sum || !known(task))
		return 0;
	__sync_fetch_and_add(&sum->calls, 1);
	frames = bpf_task_storage_get(&pending, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!frames)
		return 0;
	search.frames = frames;
	search.depth = frames->depth;
	if (!probe->in_kernel)
		bpf_loop(DEPTH, leave_ended, &search, 0);
	else if (search.depth >= DEPTH)
		search.depth = 0; /* filled up by returns that the kernel missed */
	depth = search.depth;
	if (depth >= DEPTH)
		return 0;
	frame = &frames->frames[depth & (DEPTH - 1)];
	frame->probe = at;
	frame->sp = search.sp;
	frame->unreadable = 0;
	frame->returns_to = 0;
#if POPPED
	if (slowest_count && !probe->in_kernel)
		bpf_probe_read_user(&frame->returns_to, 8, (void *)search.sp);
#endif
	if (probe->count) {
		struct walk walk = {};

		if (probe->has_texts && depth < TEXT_DEPTH)
			texts = bpf_task_storage_get(&pending_texts, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
		walk.regs = regs;
		walk.probe = probe;
		walk.values = frame->values;
		walk.texts = texts ? &texts->frames[depth & (TEXT_DEPTH - 1)] : NULL;
		bpf_loop(probe->count, read_argument, &walk, 0);
		frame->unreadable = walk.unreadable;
	}
	frames->depth = depth + 1;
	frame->start = bpf_ktime_get_ns();
	return 0;
}

static __always_inline bool among_slowest(__u32 at, __u64 ns)
{
	struct slowest *known = bpf_map_lookup_elem(&slowest, &at);
	__u64 least, limit = -1;
	__u32 which = 0;

	if (!known || ns <= known->limit)
		return false;
	least = known->ns[0];
	for (__u32 i = 1; i < MOST_SLOWEST && i < slowest_count; i++)
		if (known->ns[i] < least) {
			least = known->ns[i];
			which = i;
		}
	__sync_val_compare_and_swap(&known->ns[which & (MOST_SLOWEST - 1)], least, ns);
	for (__u32 i = 0; i < MOST_SLOWEST && i < slowest_count; i++)
		if (known->ns[i] < limit)
			limit = known->ns[i];
	known->limit = limit;
	return true;
}

static __always_inline void copy_values(struct call *call, struct frame *frame)
{
#pragma unroll
	for (int i = 0; i < ARGUMENTS; i++)
		call->values[i] = frame->values[i];
	call->unreadable = frame->unreadable;
}

/* Reads the arguments that are read at the return into the record, and strings that couldn't be read at the call. */
static __always_inline void read_returned(struct call *call, struct texts *texts, struct registers *regs, struct probe *probe)
{
	struct walk walk = {};

	if (!probe->count)
		return;
	walk.regs = regs;
	walk.probe = probe;
	walk.values = call->values;
	walk.texts = texts;
	walk.unreadable = call->unreadable;
	walk.at_return = 1;
	bpf_loop(probe->count, read_argument, &walk, 0);
	call->unreadable = walk.unreadable;
}

static __always_inline struct texts *texts_of(struct task_struct *task, struct probe *probe, __u64 depth)
{
	struct text_frames *texts;

	if (!probe->has_texts || depth >= TEXT_DEPTH)
		return NULL;
	texts = bpf_task_storage_get(&pending_texts, task, NULL, 0);
	return texts ? &texts->frames[opaque(depth) & (TEXT_DEPTH - 1)] : NULL;
}

static __always_inline void copy_stack(struct slow_call *record, struct registers *regs, bool in_kernel)
{
	struct registers *user = regs;
	__u64 sp;

	__builtin_memset(record->kernel, 0, sizeof(record->kernel));
	if (in_kernel) {
		bpf_get_stack(regs, record->kernel, sizeof(record->kernel), 0);
		user = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	}
	if (bpf_probe_read_kernel(&record->registers, sizeof(record->registers), user))
		__builtin_memset(&record->registers, 0, sizeof(record->registers));
	sp = record->registers.sp;
	record->copied = 0;
#pragma unroll
	for (int i = 0; i < PIECES; i++) {
		if (bpf_probe_read_user(record->stack + i * PIECE, PIECE, (void *)(sp + i * PIECE)))
			break;
		record->copied += PIECE;
	}
}

static __always_inline void copy_outer(struct slow_call *record, struct frames *frames, __u64 depth)
{
	for (__u64 i = 0; i < OUTER; i++) {
		struct return_address none = {}, *outer = &record->outer[i];

		*outer = none;
		if (i < depth) {
			struct frame *frame = &frames->frames[opaque(depth - 1 - i) & (DEPTH - 1)];

			outer->at = frame->sp;
			outer->is = frame->returns_to;
		}
	}
}

SEC("uretprobe")
int leave(struct registers *regs)
{
	__u64 now = bpf_ktime_get_ns(), depth, ns, max;
	__u32 at = bpf_get_attach_cookie(regs), in_bucket;
	struct task_struct *task = bpf_get_current_task_btf();
	struct frames *frames = bpf_task_storage_get(&pending, task, NULL, 0);
	struct probe *probe = bpf_map_lookup_elem(&probes, &at);
	struct sums *sum = bpf_map_lookup_elem(&sums, &at);
	struct search search;
	struct frame *frame;
	struct texts *texts;

	if (!frames || !probe || !sum)
		return 0;
	search = (struct search){ frames, stack_pointer(regs) - POPPED, frames->depth, at, probe->in_kernel };
	bpf_loop(DEPTH, find_returned, &search, 0);
	if (!search.found)
		return 0; /* it began before the probe was attached */
	depth = search.depth;
	frame = &frames->frames[opaque(depth) & (DEPTH - 1)];
	ns = now - frame->start;
	frames->depth = depth;
	__sync_fetch_and_add(&sum->returned, 1);
	__sync_fetch_and_add(&sum->total_ns, ns);
	in_bucket = bucket(ns);
	if (in_bucket < BUCKETS)
		__sync_fetch_and_add(&sum->histogram[in_bucket], 1);
#pragma unroll
	for (int i = 0; i < 4; i++) {
		max = sum->max_ns;
		if (ns <= max || __sync_val_compare_and_swap(&sum->max_ns, max, ns) == max)
			break;
	}
	if (ns < probe->min_ns)
		return 0;
	if (probe->each) {
		struct call_with_texts *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

		if (!record) {
			count_missing();
		} else {
			fill(&record->call, task, at, CALL);
			record->call.time = frame->start;
			record->call.duration = ns;
			copy_values(&record->call, frame);
			texts = texts_of(task, probe, depth);
			if (texts)
				bpf_probe_read_kernel(&record->texts, sizeof(record->texts), texts);
			read_returned(&record->call, &record->texts, regs, probe);
			submit(record, false);
		}
	}
	if (slowest_count && among_slowest(at, ns)) {
		struct slow_call *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

		if (!record)
			return count_missing();
		fill(&record->call, task, at, SLOW);
		record->call.time = frame->start;
		record->call.duration = ns;
		copy_values(&record->call, frame);
		texts = texts_of(task, probe, depth);
		if (texts)
			bpf_probe_read_kernel(&record->texts, sizeof(record->texts), texts);
		read_returned(&record->call, &record->texts, regs, probe);
		copy_outer(record, frames, depth);
		copy_stack(record, regs, probe->in_kernel);
		submit(record, true);
	}
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	follow_child(parent, child);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task)
{
	follow_execution(task);
	return 0;
}
