// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Copies the part of a user stack that samples of perf events have no room for. The program runs before each sample of its events, and
 * writes the pages of the stack into a ring buffer, if the stack is deeper than the copies in samples.
 *
 *   stack     sp ..................................... end
 *   sample    [ copied ]
 *   pieces           [ page ][ page ][ page ][ page ]
 *
 * A large local array has pages that are in no memory until the program writes to them. The kernel's copy in the sample ends at the
 * first of them, so the pieces begin there, and leave those pages out.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* include/linux/sched.h; include/uapi/linux/bpf.h */
#define PF_KTHREAD 0x00200000
#define BPF_RB_RING_SIZE 1

#define PAGE 4096
#define MOST (1 << 20)    /* bytes of a stack, from the stack pointer on */
#define SAMPLE (64 << 10) /* bytes of a stack, above all that a sample copies */

/* A stack's end is at most this far above the stack pointer. */
#define LARGEST_STACK (1ULL << 30)

#if defined(__TARGET_ARCH_x86)
#define IP 16 /* of struct pt_regs, as ptrace(2) has it */
#define SP 19
#else
#define IP 32 /* of struct user_pt_regs */
#define SP 31
#endif

/* Bytes that the samples themselves copy. */
const volatile __u32 copied = 0;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct mm_struct___deep {
	unsigned long start_stack;
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct___deep {
	unsigned long fsbase;
};
#else
struct thread_struct___deep {
	struct {
		unsigned long tp_value;
	} uw;
};
#endif

struct task_struct___deep {
	unsigned int flags;
	int pid, tgid;
	struct mm_struct___deep *mm;
	struct thread_struct___deep thread;
};
#pragma clang attribute pop

/* A page of a stack. crates/format/src/record/stack_piece.rs has the same layout: a record like those of perf events. */
struct piece {
	__u32 kind;
	__u16 misc, size;
	__u32 pid, tid;
	__u64 time;
	__u64 ip, sp; /* the user registers, which the sample has too */
	__u64 address;
	__u8 bytes[PAGE];
};
#define RECORD_STACK_PIECE 0x74617265

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

#define MISSING 0    /* stacks without room */
#define COPIES 1     /* other stacks */
#define COPYING_NS 2 /* time that copying these took */
#define COUNTS 3
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(__u32 which, __u64 number)
{
	__u64 *of = bpf_map_lookup_elem(&counts, &which);

	if (of)
		*of += number;
}

static __always_inline __u64 thread_pointer(struct task_struct___deep *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase;
#else
	return task->thread.uw.tp_value;
#endif
}

/*
 * The first thread's stack ends below its arguments, others' below the thread control block, to which the thread pointer points. In
 * 32-bit programs on x86-64 that is another register, so only the end of the first thread's stack is known.
 */
static __always_inline __u64 bytes_to_end(struct task_struct___deep *task, __u64 sp)
{
	__u64 room = LARGEST_STACK, above = thread_pointer(task) - sp;

	if (above < room)
		room = above;
	above = task->mm->start_stack - sp;
	return task->pid == task->tgid && above < room ? above : room;
}

struct copying {
	__u64 time, pid_tid, ip, sp;
	__u64 page, end;
};

/* Whether a page can be read without a page fault. */
static __always_inline bool is_in_memory(__u64 page)
{
	__u8 byte;

	return !bpf_probe_read_user(&byte, 1, (void *)page);
}

/* Goes on to the first page that isn't in memory, or to the end of what the sample copies. */
static long pass_page(__u32 index, struct copying *at)
{
	if (at->page >= at->sp + copied || at->page >= at->end || !is_in_memory(at->page))
		return 1;
	at->page += PAGE;
	return 0;
}

static long copy_page(__u32 index, struct copying *at)
{
	struct piece *piece;
	__u64 wake;

	if (at->page >= at->end)
		return 1;
	if (!is_in_memory(at->page)) {
		at->page += PAGE;
		return 0;
	}
	piece = bpf_ringbuf_reserve(&ring, sizeof(*piece), 0);
	if (!piece) {
		count(MISSING, 1);
		return 1;
	}
	piece->kind = RECORD_STACK_PIECE;
	piece->misc = 0;
	piece->size = sizeof(*piece);
	piece->pid = at->pid_tid >> 32;
	piece->tid = at->pid_tid;
	piece->time = at->time;
	piece->ip = at->ip;
	piece->sp = at->sp;
	piece->address = at->page;
	if (bpf_probe_read_user(piece->bytes, PAGE, (void *)at->page)) {
		bpf_ringbuf_discard(piece, BPF_RB_NO_WAKEUP);
		return 1;
	}
	at->page += PAGE;
	/* The reader sleeps until a quarter of the ring is full. */
	wake = at->page >= at->end && bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE) / 4;
	bpf_ringbuf_submit(piece, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("perf_event")
int copy_rest(void *ctx)
{
	struct task_struct *running = bpf_get_current_task_btf();
	struct task_struct___deep *task = (void *)running;
	__u64 *registers, room, free;
	struct copying at;

	if (task->flags & PF_KTHREAD || !task->mm)
		return 1;
	registers = (void *)bpf_task_pt_regs(running);
	if (bpf_probe_read_kernel(&at.sp, sizeof(at.sp), registers + SP) || bpf_probe_read_kernel(&at.ip, sizeof(at.ip), registers + IP))
		return 1;
	room = bytes_to_end(task, at.sp);
	if (room == LARGEST_STACK)
		return 1;
	if (room > MOST)
		room = MOST;
	at.page = at.sp & ~(PAGE - 1ULL);
	at.end = at.sp + room;
	bpf_loop(SAMPLE / PAGE + 1, pass_page, &at, 0);
	if (at.page >= at.end && room <= copied)
		return 1;
	if (at.page > at.sp + copied)
		at.page -= PAGE;
	/* A stack without its outer part would be copied in vain. */
	room = at.end - at.page;
	free = bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE) - bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	if (free < room + room / 32 + 2 * sizeof(struct piece)) {
		count(MISSING, 1);
		return 1;
	}
	at.time = bpf_ktime_get_ns();
	at.pid_tid = bpf_get_current_pid_tgid();
	bpf_loop(MOST / PAGE + 1, copy_page, &at, 0);
	count(COPIES, 1);
	count(COPYING_NS, bpf_ktime_get_ns() - at.time);
	return 1;
}
