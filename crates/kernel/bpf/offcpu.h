/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The maps and layouts of offcpu.bpf.c, its stacks and its followed tasks. crates/kernel/src/bpf/off_cpu/ has the same layouts. */
#ifndef TARE_OFFCPU_H
#define TARE_OFFCPU_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* enum bpf_map_type and flags of bpf_get_stack(), include/uapi/linux/bpf.h */
#define BPF_MAP_TYPE_CGROUP_ARRAY 8
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_F_USER_STACK (1ULL << 8)

/* include/linux/sched.h */
#define TASK_DEAD 0x80
#define TASK_REPORTED 0x90ff /* the bits of a state that are kept: up to TASK_DEAD, TASK_RTLOCK_WAIT and TASK_FROZEN */
#define PF_KTHREAD 0x00200000

/* Flags beside the state of a wait. */
#define IO_WAIT 0x100
#define ON_RUN_QUEUE 0x200

/* Which tasks' time counts. */
#define UNKNOWN 0
#define FOLLOWED 1
#define LEFT_OUT 2
#define WAITING 3 /* the child before it executes the command */

const volatile __u32 all_tasks = 0;
const volatile __u32 in_cgroups = 0; /* number of cgroups that the recording is limited to; 0: not limited */
const volatile __u32 wakers = 0;
const volatile __u32 min_ns = 0;
const volatile __u32 long_us = 0; /* waits of at least this length are records; 0: none */

/* Which stacks are kept: the few kernel frames that name the reason of a wait; all, with copies of user stacks; all, by frame
 * pointers. */
#define STACKS_NONE 0
#define STACKS_COPIED 1
#define STACKS_FRAME_POINTERS 2
const volatile __u32 stacks = STACKS_NONE;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#if defined(__TARGET_ARCH_x86)
struct thread_struct___pointer {
	unsigned long fsbase;
};
#else
struct thread_struct___pointer {
	struct {
		unsigned long tp_value;
	} uw;
};
#endif

struct task_struct___waits {
	unsigned int flags;
	unsigned int __state;
	unsigned int on_cpu; /* int, or u8 on newer kernels: the loader doesn't narrow signed fields */
	unsigned in_iowait : 1;
	struct mm_struct___code *mm;
	struct thread_struct___pointer thread;
};

struct mm_struct___code {
	unsigned long mmap_base, start_code, end_code, start_stack, arg_start;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs___call {
	unsigned long orig_ax, ip, sp;
};
#else
struct pt_regs___call {
	__u64 regs[31];
	__u64 sp, pc;
};
#endif

struct bpf_iter__task {
	void *meta;
	struct task_struct *task;
};
#pragma clang attribute pop

struct wait {
	__u64 start;  /* when it left its CPU or was created; 0: it doesn't wait */
	__u64 woken;  /* when it was woken; 0: not yet */
	__u64 kernel; /* its stacks: keys of `all_stacks`, or for `user` of a copy */
	__u64 user;
	__u64 waker;  /* a key of `all_wakers` */
	__u64 copied; /* the user stack that was copied last */
	__u64 site;   /* the call site of `kernel` */
	__u64 unused;
	__u32 state;
	__u32 follow;
};

struct key {
	__u64 kernel, user, waker;
	__u32 tid, pid, state, unused;
};

struct sum {
	__u64 ns, waits, longest_ns, last;
	__u32 cpu, unused;
};

#define FRAMES 127
#define FEW_FRAMES 10
struct stack {
	__u64 count;
	__u64 frames[FRAMES];
};

struct waker {
	__u64 kernel, user;
	__u32 tid, pid;
	char comm[16];
};

struct control {
	__u64 since; /* earlier time doesn't count */
	__u64 now;   /* for `visit` */
	__u32 epoch;
	__u32 visit;
	__u32 stopped;
	__u32 generation; /* copies of earlier generations are made again */
};
#define VISIT_BEGIN 1
#define VISIT_END 2

#define RECORD_COPY 1
#define RECORD_LONG_WAIT 2
#define RECORD_PIECE 3

#define PAGE 4096
#if defined(__TARGET_ARCH_x86)
#define REGISTERS 21 /* struct pt_regs, as ptrace(2) has it */
#define IP 16
#define SP 19
#else
#define REGISTERS 34 /* struct user_pt_regs */
#define IP 32
#define SP 31
#endif

/* A user stack: a page of it at a time, lowest first, then the registers. */
struct piece {
	__u32 kind, unused;
	__u64 user;
	__u64 address;
	__u8 bytes[PAGE];
};

struct copy {
	__u32 kind, unused;
	__u32 pid, tid;
	__u64 time;
	__u64 user;
	__u64 registers[REGISTERS];
};

/* Most pages of a copy: of a stack whose end is known, and of any other. */
const volatile __u32 copied_pages = 2;
#define MOST_PAGES 16
#define PAGES_OF_UNKNOWN 2

/* A page of a stack, and which addresses are known to follow a call, in the lowest bit. */
#define AT_ONCE 8
#define BLOCKS (PAGE / 8 / AT_ONCE)
#define ANSWERS 1024
struct words {
	__u64 words[PAGE / 8];
	__u64 answers[ANSWERS];
};

/* Return addresses outside the program are this close to the place where the kernel begins to map libraries, and not in the stack
 * itself, which is no larger than STACK_REACH if its end is unknown. */
#define NEAR (1ULL << 40)
#define STACK_REACH (8 << 20)

/* A stack's end is at most this far above the stack pointer. */
#define LARGEST_STACK (1ULL << 30)

struct long_wait {
	__u32 kind, cpu;
	__u32 pid, tid;
	__u64 start, woken, end;
	__u64 kernel, user, waker;
	__u32 state, unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wait);
} waits SEC(".maps");

/* Sums of even and odd epochs: one is read while the other grows. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, struct sum);
} even_sums SEC(".maps"), odd_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct stack);
} all_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct waker);
} all_wakers SEC(".maps");

/* The keys of copied user stacks. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u32);
} copied SEC(".maps");

#define RING (8 << 20)
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

/* One more than the epoch that a program on this CPU adds to; 0 if none runs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} busy_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct words);
} tops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} cgroups SEC(".maps");

/* Losses, and waits that were too short. */
#define MISSING_WAITS 0
#define MISSING_NS 1
#define MISSING_COPIES 2
#define SHORT_WAITS 3
#define SHORT_NS 4
#define COUNTS 5
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

static __always_inline struct task_struct___waits *fields(struct task_struct *task)
{
	return (void *)task;
}

static __always_inline bool is_kernels(struct task_struct *task)
{
	return fields(task)->flags & PF_KTHREAD || !task->pid;
}

static __always_inline bool in_iowait(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(fields(task), in_iowait);
}

static __always_inline bool is_on_cpu(struct task_struct *task)
{
	return fields(task)->on_cpu;
}

static __always_inline __u32 state_of(struct task_struct *task)
{
	__u32 state = fields(task)->__state & TASK_REPORTED;

	return state && in_iowait(task) ? state | IO_WAIT : state;
}

/*
 * Returns the epoch to whose sums the program may add. The program announces the epoch and reads it once more, so that the reader can
 * wait for programs that still use the old one.
 */
static __always_inline __u32 enter(struct control *at, __u64 *busy)
{
	__sync_lock_test_and_set(busy, 1 + (__u64)*(volatile __u32 *)&at->epoch);
	return *(volatile __u32 *)&at->epoch;
}

/* Returns a task's state if it is followed or waits for its execve. An unknown task has its process's; else `all_tasks` decides. */
static __always_inline struct wait *followed_or_waiting(struct task_struct *task)
{
	struct wait *wait = bpf_task_storage_get(&waits, task, NULL, 0), *leader;
	__u32 follow = all_tasks ? FOLLOWED : UNKNOWN;

	if (wait)
		return wait->follow == FOLLOWED || wait->follow == WAITING ? wait : NULL;
	leader = bpf_task_storage_get(&waits, task->group_leader, NULL, 0);
	if (leader && leader->follow != UNKNOWN)
		follow = leader->follow;
	if (follow != FOLLOWED)
		return NULL;
	wait = bpf_task_storage_get(&waits, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (wait)
		wait->follow = follow;
	return wait;
}

static __always_inline struct wait *followed(struct task_struct *task)
{
	struct wait *wait = followed_or_waiting(task);

	return wait && wait->follow == FOLLOWED ? wait : NULL;
}

/* Whether a task's process is marked as followed. The loader marks the processes of the cgroups at its start. */
static __always_inline bool is_marked(struct task_struct *task)
{
	struct wait *leader = bpf_task_storage_get(&waits, task->group_leader, NULL, 0);

	return leader && leader->follow == FOLLOWED;
}

/* Whether the running task is in one of the cgroups or below it. */
static __always_inline bool is_in_cgroup(void)
{
	for (__u32 i = 0; i < 64; i++) {
		if (i >= in_cgroups)
			break;
		if (bpf_current_task_under_cgroup(&cgroups, i) == 1)
			return true;
	}
	return false;
}

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

/* Adds the stack in the scratch memory to `all_stacks`. Returns its key; 0 for an empty stack. */
static __always_inline __u64 keep(struct stack *stack, long bytes)
{
	__u64 hash = 0x243f6a8885a308d3ULL;
	__u32 frames;

	if (bytes <= 0)
		return 0;
	frames = (__u64)bytes / 8;
	stack->count = frames;
	for (__u32 i = 0; i < FRAMES; i++) {
		if (i >= frames)
			break;
		hash = mix(hash, stack->frames[i]);
	}
	if (!bpf_map_lookup_elem(&all_stacks, &hash))
		bpf_map_update_elem(&all_stacks, &hash, stack, 0);
	return hash;
}

static __always_inline struct stack *scratch_stack(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch, &zero);
}

/* Keeps the running task's kernel stack, which begins with the program and its callers. Returns its key. */
static __always_inline __u64 kernel_stack(void *ctx)
{
	struct stack *stack = scratch_stack();

	if (!stack)
		return 0;
	if (!stacks)
		return keep(stack, bpf_get_stack(ctx, stack->frames, 8 * FEW_FRAMES, 0));
	return keep(stack, bpf_get_stack(ctx, stack->frames, sizeof(stack->frames), 0));
}

/*
 * Identifies a wait's origin: the system call, its call site, and the state. If only reasons are kept, consecutive waits from one
 * origin share the stack of the first: walking the kernel's stack is most of the cost of a switch.
 */
static __always_inline __u64 site_of(struct task_struct *task, __u32 state)
{
	struct pt_regs___call *registers = (void *)bpf_task_pt_regs(task);
	__u64 site = state;

#if defined(__TARGET_ARCH_x86)
	site = mix(mix(mix(site, registers->ip), registers->sp), registers->orig_ax);
#else
	site = mix(mix(mix(site, registers->pc), registers->sp), registers->regs[8]);
#endif
	return site;
}

/* Keeps the kernel stack of a task that isn't running. Returns its key. */
static __always_inline __u64 kernel_stack_of(struct task_struct *task)
{
	struct stack *stack = scratch_stack();

	if (!stack)
		return 0;
	if (!stacks)
		return keep(stack, bpf_get_task_stack(task, stack->frames, 8 * FEW_FRAMES, 0));
	return keep(stack, bpf_get_task_stack(task, stack->frames, sizeof(stack->frames), 0));
}

/* The address in a word of a stack; pointer authentication signs return addresses in the bits above. */
static __always_inline __u64 address_in(__u64 word)
{
#if defined(__TARGET_ARCH_x86)
	return word;
#else
	return word & ((1ULL << 48) - 1);
#endif
}

/* Reads whether the instruction before an address is a call. */
static __always_inline bool read_follows_call(__u64 address)
{
#if defined(__TARGET_ARCH_x86)
	__u64 code;

	/* e8 and an offset, or ff /2 of 2 to 7 bytes */
	if (bpf_probe_read_user(&code, sizeof(code), (void *)(address - sizeof(code))))
		return false;
	return (code >> 24 & 0xff) == 0xe8 || (code >> 48 & 0x38ff) == 0x10ff || (code >> 40 & 0x38ff) == 0x10ff ||
	       (code >> 32 & 0x38ff) == 0x10ff || (code >> 16 & 0x38ff) == 0x10ff || (code >> 8 & 0x38ff) == 0x10ff;
#else
	__u32 code;

	/* BL; BLR, also with pointer authentication */
	if (address & 3 || bpf_probe_read_user(&code, sizeof(code), (void *)(address - sizeof(code))))
		return false;
	return (code & 0xfc000000) == 0x94000000 || (code & 0xfefff000) == 0xd63f0000;
#endif
}

/* Whether the instruction before an address is a call; `salt` names the address space and the epoch. Remembers the answer. */
static __always_inline bool follows_call(__u64 *answers, __u64 address, __u64 salt)
{
	__u64 question = mix(salt, address) & ~1ULL, *answer = &answers[question >> 1 & (ANSWERS - 1)], known = *answer;

	if ((known & ~1ULL) != question) {
		known = question | read_follows_call(address);
		*answer = known;
	}
	return known & 1;
}

static __always_inline __u64 thread_pointer(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return fields(task)->thread.fsbase;
#else
	return fields(task)->thread.uw.tp_value;
#endif
}

/* A user stack from the page that holds the stack pointer to its end. */
struct extent {
	__u64 page;
	__u64 end;   /* no page from here on is copied */
	__u64 reach; /* bytes from the stack pointer on that are no code */
};

/*
 * Finds how much of a stack is copied. The first thread's ends below its arguments and environment, other threads' below the thread
 * control block, to which the thread pointer points.
 */
static __always_inline struct extent extent_of(struct task_struct *task, __u64 sp)
{
	struct extent extent = { .page = sp & ~(PAGE - 1ULL) };
	struct mm_struct___code *mm = fields(task)->mm;
	__u64 room = LARGEST_STACK, above = thread_pointer(task) - sp, pages = copied_pages;

	if (above < room)
		room = above;
	above = mm ? mm->start_stack - sp : room;
	if (above < room)
		room = above;
	if (room == LARGEST_STACK && pages > PAGES_OF_UNKNOWN)
		pages = PAGES_OF_UNKNOWN;
	extent.end = extent.page + pages * PAGE;
	if (extent.end > sp + room)
		extent.end = sp + room;
	extent.reach = room == LARGEST_STACK ? STACK_REACH : room;
	return extent;
}

/* A scan of the words of a stack, and the key so far. */
struct scan {
	__u64 hash, sp;
	struct extent extent;
	__u64 first;       /* the block of words that holds the stack pointer */
	__u64 start, size; /* the program's code */
	__u64 libraries;
	__u64 salt;
	__u64 unread; /* the last page that isn't in memory */
};

/* Adds the next words that can be return addresses to the key. Leaves out pages that aren't in memory, as large local arrays have. */
static long add_words(__u32 index, struct scan *scan)
{
	__u64 block = index + scan->first, at = scan->extent.page + 8 * AT_ONCE * block, word;
	__u64 page = at & ~(PAGE - 1ULL);
	__u32 zero = 0, first = (block & (BLOCKS - 1)) * AT_ONCE;
	struct words *top = bpf_map_lookup_elem(&tops, &zero);

	if (!top || at >= scan->extent.end)
		return 1;
	if ((!index || !first) && bpf_probe_read_user(top->words, PAGE, (void *)page))
		scan->unread = page;
	if (page == scan->unread)
		return 0;
#pragma clang loop unroll(full)
	for (__u32 k = 0; k < AT_ONCE; k++) {
		word = address_in(top->words[first + k]);
		if (word < PAGE || at + 8 * k < scan->sp || at + 8 * k >= scan->extent.end)
			continue;
		if (word - scan->start < scan->size || (word - scan->libraries < 2 * NEAR && word - scan->sp > scan->extent.reach &&
							follows_call(top->answers, word, scan->salt)))
			scan->hash = mix(scan->hash, word);
	}
	return 0;
}

/*
 * Identifies a user stack without unwinding: by thread, program, the place of the kernel call and the stack pointer there, the words
 * that can be return addresses in the bytes that a copy has, and the generation of copies. Other callers have other return addresses, so
 * no stack gets another one's key, unless both differ only in addresses that are taken for the stack's own. One that differs in a stale
 * word is copied again.
 */
static __noinline __u64 user_key(struct task_struct *task, __u64 ip, __u64 sp)
{
	struct mm_struct___code *mm = fields(task)->mm;
	struct control *at;
	struct scan scan;
	__u32 zero = 0;

	at = bpf_map_lookup_elem(&control, &zero);
	if (!mm || !at)
		return 0;
	scan.hash = mix(mix(mix(mix(task->pid, ip), sp), mm->arg_start), at->generation);
	scan.sp = sp;
	scan.extent = extent_of(task, sp);
	scan.first = (sp & (PAGE - 1)) / 8 / AT_ONCE;
	scan.start = mm->start_code;
	scan.size = mm->end_code - mm->start_code;
	scan.libraries = mm->mmap_base - NEAR;
	scan.salt = mix(task->tgid, at->epoch);
	scan.unread = 0;
	bpf_loop(MOST_PAGES * BLOCKS, add_words, &scan, 0);
	return mix(scan.hash, scan.extent.end);
}

/* Whether a page of the running task can be read without a page fault. */
static __always_inline bool is_in_memory(__u64 page)
{
	__u8 byte;

	return !bpf_probe_read_user(&byte, 1, (void *)page);
}

/* Copies a page of a task's stack, if it is in memory. Returns whether there was room. */
static __always_inline bool copy_page(__u64 user, __u64 address, struct task_struct *other)
{
	struct piece *piece;
	long unread;

	if (!other && !is_in_memory(address))
		return true;
	piece = bpf_ringbuf_reserve(&ring, sizeof(*piece), 0);
	if (!piece)
		return false;
	piece->kind = RECORD_PIECE;
	piece->user = user;
	piece->address = address;
	unread = other ? bpf_copy_from_user_task(piece->bytes, PAGE, (void *)address, other, 0) :
			 bpf_probe_read_user(piece->bytes, PAGE, (void *)address);
	if (unread) {
		bpf_ringbuf_discard(piece, BPF_RB_NO_WAKEUP);
		return true;
	}
	bpf_ringbuf_submit(piece, BPF_RB_NO_WAKEUP);
	return true;
}

/* Copies a task's user stack: the running task's, or that of `other`, which waits. Returns whether there was room. */
static __always_inline bool copy_stack(struct task_struct *task, struct pt_regs *registers, __u64 user, struct task_struct *other)
{
	struct extent extent;
	struct copy *copy;
	__u64 sp;

	if (bpf_probe_read_kernel(&sp, sizeof(sp), (__u64 *)registers + SP))
		return true;
	extent = extent_of(task, sp);
	for (__u32 i = 0; i < MOST_PAGES; i++) {
		if (extent.page >= extent.end)
			break;
		if (!copy_page(user, extent.page, other))
			goto full;
		extent.page += PAGE;
	}
	copy = bpf_ringbuf_reserve(&ring, sizeof(*copy), 0);
	if (!copy)
		goto full;
	copy->kind = RECORD_COPY;
	copy->pid = task->tgid;
	copy->tid = task->pid;
	copy->time = bpf_ktime_get_ns();
	copy->user = user;
	bpf_probe_read_kernel(copy->registers, sizeof(copy->registers), registers);
	bpf_ringbuf_submit(copy, BPF_RB_NO_WAKEUP);
	return true;
full:
	count(MISSING_COPIES, 1);
	return false;
}

static __noinline int copy_own_stack(struct task_struct *task, struct pt_regs *registers, __u64 user)
{
	return copy_stack(task, registers, user, NULL);
}

/*
 * Keeps or copies a user stack: the running task's, or that of its new child, whose memory is still the same. Returns its key. `wait`,
 * if given, remembers the last copied one.
 */
static __always_inline __u64 user_stack(void *ctx, struct task_struct *task, struct wait *wait, __u64 kernel)
{
	struct stack *stack = scratch_stack();
	struct pt_regs *registers;
	__u64 ip, sp, user;
	__u32 one = 1;

	if (!stack)
		return 0;
	if (stacks == STACKS_FRAME_POINTERS)
		return keep(stack, bpf_get_stack(ctx, stack->frames, sizeof(stack->frames), BPF_F_USER_STACK));
	registers = (void *)bpf_task_pt_regs(task);
	if (bpf_probe_read_kernel(&ip, sizeof(ip), (__u64 *)registers + IP) ||
	    bpf_probe_read_kernel(&sp, sizeof(sp), (__u64 *)registers + SP))
		return 0;
	user = mix(user_key(task, ip, sp), kernel);
	if (wait && wait->copied == user)
		return user;
	if (!bpf_map_lookup_elem(&copied, &user)) {
		if (!copy_own_stack(task, registers, user))
			return user;
		bpf_map_update_elem(&copied, &user, &one, 0);
	}
	if (wait)
		wait->copied = user;
	return user;
}

/* Adds the running task to `all_wakers`. Returns its key. */
static __always_inline __u64 waker(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct waker waker = { .tid = task->pid, .pid = task->tgid };
	__u64 hash;

	waker.kernel = kernel_stack(ctx);
	if (stacks && !is_kernels(task))
		waker.user = user_stack(ctx, task, NULL, 0);
	bpf_get_current_comm(waker.comm, sizeof(waker.comm));
	hash = mix(mix(mix(waker.kernel, waker.user), waker.tid), *(__u64 *)waker.comm);
	if (!bpf_map_lookup_elem(&all_wakers, &hash))
		bpf_map_update_elem(&all_wakers, &hash, &waker, 0);
	return hash;
}

#endif
