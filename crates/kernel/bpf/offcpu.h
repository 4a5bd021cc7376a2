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
struct task_struct___waits {
	unsigned int flags;
	unsigned int __state;
	unsigned int on_cpu; /* int, or u8 on newer kernels: the loader doesn't narrow signed fields */
	unsigned in_iowait : 1;
	struct mm_struct___code *mm;
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

struct copy {
	__u32 kind, size;
	__u32 pid, tid;
	__u64 time;
	__u64 user;
	__u64 registers[REGISTERS];
	__u8 stack[3 * PAGE]; /* at most two pages; the third is for the verifier */
};

/* The words of a copy's stack, and which addresses are known to follow a call, in the lowest bit. */
#define WORDS (2 * PAGE / 8)
#define AT_ONCE 8
#define ANSWERS 1024
struct words {
	__u64 words[3 * PAGE / 8]; /* as in `copy` */
	__u64 answers[ANSWERS];
};

/* Return addresses outside the program are this close to the place where the kernel begins to map libraries; code is not this close
 * above the stack pointer, where the stack itself is. */
#define NEAR (1ULL << 40)
#define STACK_REACH (8 << 20)

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

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
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

/* Reads up to two pages of the running task's stack, page by page, as the stack may be shorter. Returns the number of bytes. */
static __always_inline __u64 read_stack(void *into, __u64 sp)
{
	__u64 first = PAGE - (sp & (PAGE - 1)), rest = PAGE - first;
	if (bpf_probe_read_user(into, first, (void *)sp))
		return 0;
	if (bpf_probe_read_user(into + first, PAGE, (void *)(sp + first)))
		return first;
	if (!rest || bpf_probe_read_user(into + first + PAGE, rest & (PAGE - 1), (void *)(sp + first + PAGE)))
		return first + PAGE;
	return 2 * PAGE;
}

/* A scan of the words of a stack, and the key so far. */
struct scan {
	__u64 hash, words, sp;
	__u64 start, size; /* the program's code */
	__u64 libraries;
	__u64 salt;
};

/* Adds the next words that can be return addresses to the key. */
static long add_words(__u32 block, struct scan *scan)
{
	__u32 zero = 0, first = block * AT_ONCE;
	struct words *top = bpf_map_lookup_elem(&tops, &zero);
	__u64 word;

	if (!top || first >= scan->words || first >= WORDS)
		return 1;
#pragma clang loop unroll(full)
	for (__u32 k = 0; k < AT_ONCE; k++) {
		word = address_in(top->words[first + k]);
		if (word < PAGE)
			continue;
		if (word - scan->start < scan->size || (word - scan->libraries < 2 * NEAR && word - scan->sp > STACK_REACH &&
							follows_call(top->answers, word, scan->salt)))
			scan->hash = mix(scan->hash, word);
	}
	return 0;
}

/*
 * Identifies a user stack without unwinding: by thread, program, the place of the kernel call and the stack pointer there, the words
 * that can be return addresses in the bytes that a copy has, and the generation of copies. Other callers have other return addresses, so
 * no stack gets another one's key, unless both differ only in addresses up to STACK_REACH above it. One that differs in a stale word is copied again.
 */
static __noinline __u64 user_key(struct task_struct *task, __u64 ip, __u64 sp)
{
	struct mm_struct___code *mm = fields(task)->mm;
	struct control *at;
	struct words *top;
	struct scan scan;
	__u32 zero = 0;
	__u64 bytes, used, end;

	at = bpf_map_lookup_elem(&control, &zero);
	top = bpf_map_lookup_elem(&tops, &zero);
	if (!mm || !at || !top)
		return 0;
	bytes = read_stack(top->words, sp);
	/* Above the first thread's stack are arguments and environment. */
	used = mm->start_stack - sp;
	if (bytes > used)
		bytes = used;
	end = bytes / 8;
	asm volatile("" : "+r"(end)); /* else the compiler adds `bytes`, which has no bound on Linux 6.1 */
	if (end > WORDS)
		return 0;
	for (__u32 k = 0; k < AT_ONCE; k++)
		top->words[end + k] = 0;
	scan.hash = mix(mix(mix(mix(task->pid, ip), sp), mm->arg_start), at->generation);
	scan.words = end;
	scan.sp = sp;
	scan.start = mm->start_code;
	scan.size = mm->end_code - mm->start_code;
	scan.libraries = mm->mmap_base - NEAR;
	scan.salt = mix(task->tgid, at->epoch);
	bpf_loop(WORDS / AT_ONCE, add_words, &scan, 0);
	return mix(scan.hash, bytes);
}

static __noinline int copy_stack(struct task_struct *task, struct pt_regs *registers, __u64 user)
{
	struct copy *copy = bpf_ringbuf_reserve(&ring, sizeof(*copy), 0);

	if (!copy) {
		count(MISSING_COPIES, 1);
		return 0;
	}
	copy->kind = RECORD_COPY;
	copy->pid = task->tgid;
	copy->tid = task->pid;
	copy->time = bpf_ktime_get_ns();
	copy->user = user;
	bpf_probe_read_kernel(copy->registers, sizeof(copy->registers), registers);
	copy->size = read_stack(copy->stack, copy->registers[SP]);
	bpf_ringbuf_submit(copy, BPF_RB_NO_WAKEUP);
	return 1;
}

/* Keeps or copies the running task's user stack. Returns its key. `wait`, if given, remembers the last copied one. */
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
		if (!copy_stack(task, registers, user))
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
