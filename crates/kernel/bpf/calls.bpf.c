// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Writes records into a ring buffer: at the beginning of system calls, with their arguments and the memory they point to; at their
 * return, with the memory that the kernel wrote; and at forks, exits and signals. The loader's table has the rules for copying.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "arguments.h"
#include "follow.h"
#include "progress.h"
#include "ring.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Kinds of records. */
#define ENTER 1
#define EXIT 2
#define FORK 3
#define END 4
#define SIGNAL 5
/* The beginning of a call that returns now: of one that began before the programs were attached, or wasn't executed. */
#define BEFORE 6
#define ANSWERED 7

/* What to copy of an argument; crates/kernel/src/bpf/calls.rs has the same numbers. */
#define NOTHING 0
#define STRING 1 /* up to a NUL byte */
#define BYTES 2 /* `size` bytes */
#define ITEMS 3 /* items of `size` bytes; argument `count` holds their number */
#define RETURNED 4 /* items of `size` bytes; the call returns their number */
#define STRINGS 5 /* a vector of strings, up to NULL */
#define ENVIRONMENT 6 /* the number of strings in such a vector */
#define VECTORS 7 /* an array of struct iovec, whose length argument `count` holds, and the memory of each */
#define MESSAGE 8 /* struct msghdr, and the memory it points to */
#define COUNTED 9 /* bytes; argument `count` points to their 32-bit number */
#define DESCRIPTOR 10 /* the descriptor's file */
#define DESCRIPTORS 11 /* two descriptors and their files */

/* When to copy it. */
#define AT_ENTER 1
#define AT_EXIT 2 /* if the call succeeded */
#define AT_FAILURE 4 /* at the exit, if it failed */

/* Contents of a chunk, besides an argument itself. */
#define WHOLE 0
#define ELEMENT 1 /* of a vector, with its number in `index` */
#define NAME 2
#define CONTROL 3
#define PATH_PART 4 /* a path component, from the end */
#define DESCRIPTION 5 /* struct description */
#define UNREADABLE 0x80 /* flag: nothing, as reading would need a page fault or isn't allowed */

/* How to copy it. */
#define USER_BYTES 0
#define USER_STRING 1
#define KERNEL_STRING 2

/* `argument` of the call's result, and added for the second of two descriptors. */
#define RESULT 7
#define SECOND 0x10

/* What to record of a call. */
#define RETURNS_DESCRIPTOR 2

#define PAYLOAD 12288
#define MOST 4096
#define MAX_VECTORS 16
#define MAX_STRINGS 33

struct argument {
	__u8 kind;
	__u8 when;
	__u8 count;
	__u8 unused;
	__u16 size;
	__u16 most;
};

struct call {
	__u32 wanted;
	__u32 above_stack; /* not 0: the first argument is at the stack pointer plus this (rt_sigreturn) */
	struct argument arguments[6];
};

struct chunk {
	__u32 length;
	__u32 label;
};

#define LABEL(argument, what, index) ((argument) | (what) << 8 | (__u32)(index) << 16)

struct record {
	__u64 time;
	__u32 tid;
	__u32 process;
	__u16 kind;
	__u16 slot;
	__u32 missed;
	__u32 number; /* of a beginning call */
	__u32 unused;
	__u64 values[6];
};

/* A call's arguments, for functions that the verifier checks on their own. */
struct values {
	__u64 at[6];
};

struct buffer {
	struct record record;
	__u8 payload[PAYLOAD + MOST + 64];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct buffer);
} buffers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} lengths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct call);
} calls SEC(".maps");

/* Whether files of descriptors are recorded; if not, the verifier skips that code. */
const volatile __u32 descriptors = 0;

struct user_iovec {
	__u64 base;
	__u64 length;
};

struct user_msghdr {
	__u64 name;
	__u32 name_length;
	__u32 padding;
	__u64 vectors;
	__u64 vector_count;
	__u64 control;
	__u64 control_length;
	__u32 flags;
	__u32 padding2;
};

static __always_inline struct buffer *buffer(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&buffers, &zero);
}

static __always_inline __u32 *length(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&lengths, &zero);
}

static __always_inline void begin(struct buffer *b, struct task_struct *task, __u32 kind, __u32 slot)
{
	b->record.time = bpf_ktime_get_ns();
	b->record.tid = task->pid;
	b->record.process = task->tgid;
	b->record.kind = kind;
	b->record.slot = slot;
}

static __always_inline void submit(struct buffer *b, struct task *known, __u32 payload)
{
	__u32 zero = 0;
	__u64 *number, flags = wake_flags(false);

	if (payload > PAYLOAD + MOST)
		payload = PAYLOAD + MOST;
	b->record.missed = known->missed;
	if (!bpf_ringbuf_output(&ring, b, sizeof(b->record) + payload, flags)) {
		known->missed = 0;
		return;
	}
	known->missed++;
	number = bpf_map_lookup_elem(&missing, &zero);
	if (number)
		__sync_fetch_and_add(number, 1);
}

/*
 * The verifier checks a global function once, and a static one again for each of its callers: with static ones, loading took half a
 * second. It doesn't know what a global function's caller checked.
 *
 * Adds a chunk, if there is room: `most` bytes of memory, or a string. Returns 0 if the memory can't be read, else 1.
 */
__noinline int add(__u64 address, __u32 most, __u32 how, __u32 label)
{
	struct buffer *b = buffer();
	__u32 *at = length(), from;
	struct chunk *chunk;
	long n;

	if (!b || !at)
		return 0;
	from = *at;
	if (from > PAYLOAD)
		return 1;
	if (most > MOST)
		most = MOST;
	chunk = (void *)b->payload + from;
	if (how == USER_STRING)
		n = bpf_probe_read_user_str(chunk + 1, most, (void *)address);
	else if (how == USER_BYTES)
		n = bpf_probe_read_user(chunk + 1, most, (void *)address);
	else
		n = bpf_probe_read_kernel_str(chunk + 1, most, (void *)address);
	if (n < 0) {
		chunk->label = label | UNREADABLE << 8;
		chunk->length = 0;
		*at = from + sizeof(*chunk);
		return 0;
	}
	if (how == USER_BYTES)
		n = most;
	chunk->label = label;
	chunk->length = n;
	*at = from + sizeof(*chunk) + ((n + 7) & ~7u);
	return 1;
}

#include "files.h"

static __always_inline __u64 least(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* Context of the loops below; bpf_loop() has its body verified once. */
struct walk {
	__u64 address;
	__u64 count;
	__u64 left;
	__u32 most;
	__u32 argument;
	__u32 width;
	__u32 failed;
};

static long add_string(__u32 i, struct walk *walk)
{
	__u64 string = 0;

	if (bpf_probe_read_user(&string, walk->width == 4 ? 4 : 8, (void *)(walk->address + i * walk->width))) {
		add(0, 0, 0, LABEL(walk->argument, ELEMENT | UNREADABLE, i));
		walk->failed = 1;
		return 1;
	}
	if (!string)
		return 1;
	add(string, walk->most, 1, LABEL(walk->argument, ELEMENT, i));
	return 0;
}

static long count_string(__u32 i, struct walk *walk)
{
	__u64 string = 0;

	walk->failed = !!bpf_probe_read_user(&string, walk->width == 4 ? 4 : 8, (void *)(walk->address + i * walk->width));
	walk->count = i;
	return walk->failed || !string;
}

/* The number is stored as the index of an empty chunk. */
static __noinline int add_environment(struct walk *walk)
{
	bpf_loop(2048, count_string, walk, 0);
	return !walk->failed && add(walk->address, 0, 0, LABEL(walk->argument, WHOLE, walk->count));
}

static long add_vector(__u32 i, struct walk *walk)
{
	struct user_iovec vector;

	if (i >= walk->count || !walk->left)
		return 1;
	if (bpf_probe_read_user(&vector, sizeof(vector), (void *)(walk->address + i * sizeof(vector))))
		return 1;
	add(vector.base, least(least(vector.length, walk->left), walk->most), 0, LABEL(walk->argument, ELEMENT, i));
	walk->left -= least(walk->left, vector.length);
	return 0;
}

static __noinline int add_vectors(struct walk *walk)
{
	if (!add(walk->address, least(walk->count, MAX_VECTORS) * sizeof(struct user_iovec), 0, LABEL(walk->argument, WHOLE, 0)))
		return 0;
	bpf_loop(MAX_VECTORS, add_vector, walk, 0);
	return 1;
}

static __noinline int add_message(struct walk *walk)
{
	__u64 address = walk->address;
	__u32 argument = walk->argument;
	struct user_msghdr message;

	if (bpf_probe_read_user(&message, sizeof(message), (void *)address)) {
		add(address, 1, 0, LABEL(argument, WHOLE, 0));
		return 0;
	}
	add(address, sizeof(message), 0, LABEL(argument, WHOLE, 0));
	if (message.name)
		add(message.name, least(message.name_length, 128), 0, LABEL(argument, NAME, 0));
	if (message.control)
		add(message.control, least(message.control_length, 256), 0, LABEL(argument, CONTROL, 0));
	walk->address = message.vectors;
	walk->count = message.vector_count;
	add_vectors(walk);
	return 1;
}

/* Returns 0 if memory can't be read. `ret` is -1 before the call returns, so that all of a vector is copied; 0 after a failure. */
__noinline int add_argument(struct call *call, struct values *values, __u32 at, __u64 ret, __u32 width)
{
	struct argument *argument;
	__u64 address, count;
	__u32 most, bytes = 0;
	int pair[2] = {};
	struct walk walk;

	if (!call || !values || at > 5)
		return 1;
	argument = &call->arguments[at];
	address = values->at[at];
	count = values->at[argument->count > 5 ? 5 : argument->count];
	most = argument->most;
	walk = (struct walk){ address, count, ret, most, at, width, 0 };
	if (argument->kind == DESCRIPTOR) {
		if (descriptors)
			add_file(at, address);
		return 1;
	}
	if (!address)
		return 1;
	switch (argument->kind) {
	case STRING:
		return add(address, most, 1, LABEL(at, WHOLE, 0));
	case BYTES:
		return add(address, argument->size, 0, LABEL(at, WHOLE, 0));
	case ITEMS:
		return add(address, least(count * argument->size, most), 0, LABEL(at, WHOLE, 0));
	case RETURNED:
		return add(address, least(ret * argument->size, most), 0, LABEL(at, WHOLE, 0));
	case STRINGS:
		bpf_loop(MAX_STRINGS, add_string, &walk, 0);
		return !walk.failed;
	case ENVIRONMENT:
		return add_environment(&walk);
	case VECTORS:
		return add_vectors(&walk);
	case MESSAGE:
		return add_message(&walk);
	case COUNTED:
		if (bpf_probe_read_user(&bytes, sizeof(bytes), (void *)count))
			return 0;
		return add(address, least(bytes, most), 0, LABEL(at, WHOLE, bytes));
	case DESCRIPTORS:
		if (!descriptors || bpf_probe_read_user(pair, sizeof(pair), (void *)address))
			return 0;
		add_file(at, pair[0]);
		add_file(at | SECOND, pair[1]);
		return add(address, sizeof(pair), 0, LABEL(at, WHOLE, 0));
	}
	return 1;
}

/* Writes a record of a call's beginning, if the call is wanted. */
static __noinline int begin_call(struct pt_regs *regs, __u32 slot, __u32 kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task *known = bpf_task_storage_get(&tasks, task, NULL, 0);
	struct call *call = bpf_map_lookup_elem(&calls, &slot);
	__u32 width = slot >= CALLS ? 4 : 8, *used = length();
	struct buffer *b = buffer();

	if (!known || !b || !call || !used || !call->wanted)
		return 0;
	known->slot = slot;
	known->retry = 0;
	*used = 0;
	begin(b, task, kind, slot);
	b->record.number = call_of(regs);
	read_values(task, regs, b->record.values);
	if (call->above_stack)
		b->record.values[0] = regs->sp + call->above_stack;
#pragma unroll
	for (__u32 i = 0; i < 6; i++)
		if (call->arguments[i].when & AT_ENTER && !add_argument(call, (struct values *)b->record.values, i, -1, width))
			known->retry |= 1 << i;
	known->start = b->record.time;
	submit(b, known, *used);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 slot = slot_of(task, nr);
	struct task *known = followed(task, slot);

	if (!known)
		return 0;
	known->phase = INSIDE;
	return begin_call(regs, slot, ENTER);
}

/*
 * A forked task gets its parent's constants into memory at its first access only, so the strings of an execve are often missing at its
 * beginning. The new program has them: the arguments, one after the other, and the path behind the environment.
 */
static __noinline int add_words(struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	__u64 start, length;

	if (!mm)
		return 0;
	start = mm->arg_start;
	length = mm->arg_end - start;
	add(mm->env_end, MOST, 1, LABEL(0, WHOLE, 0));
	return add(start, least(length, MOST), 0, LABEL(1, NAME, 0));
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task *known = storage(task);
	struct buffer *b = buffer();
	__u32 slot, width, when, phase, *used = length();
	bool failed = ret < 0 && ret >= -4095;
	struct values values = {};
	struct call *call;

	if (!known || known->state != FOLLOWED)
		return 0;
	phase = leave_call(known);
	if (phase == UNSEEN || phase == OUTSIDE)
		begin_call(regs, slot_of(task, call_of(regs)), phase == UNSEEN ? BEFORE : ANSWERED);
	if (!known->start || !b || !used)
		return 0;
	slot = known->slot;
	width = slot >= CALLS ? 4 : 8;
	call = bpf_map_lookup_elem(&calls, &slot);
	if (!call)
		return 0;
	*used = 0;
	begin(b, task, EXIT, slot);
	read_values(task, regs, values.at);
#if defined(__TARGET_ARCH_x86)
	if (is_compat(task) && slot < CALLS)
		goto done; /* the program was replaced since the call began */
#endif
	if (slot == NR_EXECVE && !failed) {
		if (known->retry)
			add_words(bpf_get_current_task_btf());
		goto done;
	}
	when = failed ? AT_FAILURE : AT_EXIT;
#pragma unroll
	for (__u32 i = 0; i < 6; i++)
		if (call->arguments[i].when & when || known->retry & 1 << i)
			add_argument(call, &values, i, failed ? 0 : ret, width);
	if (descriptors && call->wanted & RETURNS_DESCRIPTOR && !failed)
		add_file(RESULT, ret);
done:
	b->record.values[0] = ret;
	b->record.values[1] = b->record.time - known->start;
	known->start = 0;
	submit(b, known, *used);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct buffer *b = buffer();
	struct task *known;

	if (!follow_child(parent, child) || !b)
		return 0;
	known = bpf_task_storage_get(&tasks, parent, NULL, 0);
	if (!known)
		return 0;
	begin(b, parent, FORK, 0);
	b->record.values[0] = child->pid;
	b->record.values[1] = child->tgid;
	submit(b, known, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	struct task *known = bpf_task_storage_get(&tasks, task, NULL, 0);
	struct buffer *b = buffer();

	if (!known || known->state != FOLLOWED || !b)
		return 0;
	begin(b, task, END, 0);
	b->record.values[0] = task->exit_code;
	submit(b, known, 0);
	return 0;
}

/* enum of include/trace/events/signal.h */
#define TRACE_SIGNAL_DELIVERED 0
#define TRACE_SIGNAL_IGNORED 1

/* What happened to a signal; crates/kernel/src/bpf/calls.rs has the same numbers. */
#define ARRIVED 0
#define IGNORED 1
#define SENT 2

static __always_inline int signal(struct task_struct *task, struct task *known, int number, void *info, __u32 fate)
{
	struct buffer *b = buffer();

	if (!b)
		return 0;
	begin(b, task, SIGNAL, 0);
	b->record.values[0] = number;
	b->record.values[1] = fate;
	if (bpf_probe_read_kernel(b->payload, 48, info))
		submit(b, known, 0);
	else
		submit(b, known, 48);
	return 0;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(signal_deliver, int number, void *info, void *action)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task *known = storage(task);

	if (!known || known->state != FOLLOWED)
		return 0;
	return signal(task, known, number, info, ARRIVED);
}

/*
 * Ignored signals never arrive; strace shows them too, as its tracees stop for them. One that ends the process doesn't arrive either: the
 * kernel sends SIGKILL to each thread in its place (complete_signal() of kernel/signal.c).
 */
SEC("tp_btf/signal_generate")
int BPF_PROG(signal_generate, int number, void *info, struct task_struct *task, int group, int result)
{
	struct task *known;

	if (result != TRACE_SIGNAL_IGNORED && result != TRACE_SIGNAL_DELIVERED)
		return 0;
	known = bpf_task_storage_get(&tasks, task, NULL, 0);
	if (!known || known->state != FOLLOWED)
		return 0;
	return signal(task, known, number, info, result == TRACE_SIGNAL_IGNORED ? IGNORED : SENT);
}
