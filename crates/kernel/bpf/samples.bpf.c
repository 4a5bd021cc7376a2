// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Writes each system call as the two samples of perf events on raw_syscalls:sys_enter and sys_exit, into ring buffers with the layout
 * of perf events: a control page, then the data. A reader of those can read these.
 *
 *   rings   | control | data ...            | control | data ...           | chunks; those of a CPU follow each other
 *                     |  tail ====== head   |
 *
 * The control page is the last page of its chunk, so that it can be mapped together with the data.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "arguments.h"
#include "follow.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* crates/kernel/src/call_samples.rs has the same numbers. */
#define CHUNK_WORDS 8192
#define ENTER_ID (1ULL << 61)
#define EXIT_ID (ENTER_ID + 1)

/* A flag of maps, include/uapi/linux/bpf.h */
#define BPF_F_MMAPABLE (1U << 10)

/* Index of the event in `lost`. */
#define ENTER 0
#define EXIT 1

/* Words of records. */
#define ENTER_WORDS 14
#define EXIT_WORDS 9
#define LOST_WORDS 7

/* The first word of records: type, misc and size of struct perf_event_header, include/uapi/linux/perf_event.h. */
#define HEADER(type, misc, words) ((__u64)(8 * (words)) << 48 | (__u64)(misc) << 32 | (type))
#define PERF_RECORD_LOST 2
#define PERF_RECORD_SAMPLE 9
#define PERF_RECORD_MISC_KERNEL 1

/* Offset of data_head in struct perf_event_mmap_page, in words; the tail follows it. */
#define DATA_HEAD (1024 / 8)

struct chunk {
	__u64 words[CHUNK_WORDS];
};

/* State of a CPU's ring buffer, in cache lines that no other CPU writes. */
struct cpu {
	__u32 control;  /* the chunk of its control page; the data follow */
	__u32 busy;     /* a program is writing */
	__u64 mask;     /* bytes of data, less one; 0: it has no ring buffer */
	__u64 told;     /* position up to which the reader was woken */
	__u64 pending;  /* records without room since the last one that fit */
	__u64 lost[2];  /* lost samples of each event */
	__u64 unused[10];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct chunk);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* Each record reports that a quarter of a ring buffer was filled since the last one; the rest leaves the reader time to wake up. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} wakes SEC(".maps");

/* The numbers of the tracepoints (`common_type`). */
const volatile __u32 enter_type = 0;
const volatile __u32 exit_type = 0;

/* Offset of the control page in its chunk, in words. */
const volatile __u32 control_at = 0;

static __always_inline __u64 pair(__u32 first, __u32 second)
{
	return (__u64)second << 32 | first;
}

/* Writes a record that may span two chunks, word by word. */
static __noinline int store_across(struct cpu *cpu, __u64 at, const __u64 *words, __u32 count)
{
	for (__u32 i = 0; i < ENTER_WORDS; i++) {
		__u64 place = (at + 8 * i & cpu->mask) / 8;
		__u32 index = cpu->control + 1 + place / CHUNK_WORDS;
		struct chunk *chunk;

		if (i >= count)
			break;
		chunk = bpf_map_lookup_elem(&rings, &index);
		if (chunk)
			chunk->words[place % CHUNK_WORDS] = words[i];
	}
	return 0;
}

static __always_inline void store(struct cpu *cpu, __u64 at, const __u64 *words, __u32 count)
{
	__u64 place = (at & cpu->mask) / 8;
	__u32 index = cpu->control + 1 + place / CHUNK_WORDS;
	struct chunk *chunk = bpf_map_lookup_elem(&rings, &index);

	place %= CHUNK_WORDS;
	if (place > CHUNK_WORDS - ENTER_WORDS) {
		store_across(cpu, at, words, count);
		return;
	}
	if (chunk)
		__builtin_memcpy(&chunk->words[place], words, 8 * count);
}

/* Writes a record of losses. It ends with the task, the time, the CPU and the event of the next sample. */
static __always_inline void store_lost(struct cpu *cpu, __u64 at, const __u64 *sample)
{
	__u64 words[LOST_WORDS] = {
		HEADER(PERF_RECORD_LOST, 0, LOST_WORDS), sample[1], cpu->pending, sample[2], sample[3], sample[4], sample[1],
	};

	store(cpu, at, words, LOST_WORDS);
}

/* Writes a sample if it fits, after a record of earlier losses; else counts it as lost. */
static __always_inline void add(struct cpu *cpu, const __u64 *words, __u32 count, __u32 event)
{
	__u32 index = cpu->control, lost = cpu->pending ? LOST_WORDS : 0;
	struct chunk *control = bpf_map_lookup_elem(&rings, &index);
	volatile __u64 *head;
	__u64 at, end;

	if (!control)
		return;
	head = &control->words[control_at + DATA_HEAD];
	at = head[0];
	end = at + 8 * (lost + count);
	if (end - head[1] > cpu->mask + 1) {
		cpu->pending++;
		cpu->lost[event]++;
		return;
	}
	if (lost) {
		store_lost(cpu, at, words);
		cpu->pending = 0;
		at += 8 * LOST_WORDS;
	}
	store(cpu, at, words, count);
	/* Data first: pairs with the reader's load of the head. */
	asm volatile("" ::: "memory");
#if defined(__TARGET_ARCH_x86)
	head[0] = end; /* stores stay in order */
#else
	__sync_lock_test_and_set(head, end); /* an atomic operation that returns a value is a full barrier */
#endif
	if (end - cpu->told > cpu->mask / 4) {
		cpu->told = end;
		bpf_ringbuf_output(&wakes, &end, sizeof(end), BPF_RB_FORCE_WAKEUP);
	}
}

/*
 * Writes a sample into this CPU's ring buffer. Tracepoints of system calls run without preemption. If a kernel lets another task's
 * program run in between, that task's sample is lost, and counted.
 */
static __always_inline void write(struct task_struct *task, __u64 *words, __u32 count, __u32 event)
{
	__u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	if (!cpu)
		return;
	words[2] = pair(task->tgid, task->pid);
	words[3] = bpf_ktime_get_ns();
	words[4] = number;
	if (!cpu->mask || cpu->busy) {
		__sync_fetch_and_add(&cpu->lost[event], 1);
		return;
	}
	cpu->busy = 1;
	asm volatile("" ::: "memory");
	add(cpu, words, count, event);
	asm volatile("" ::: "memory");
	cpu->busy = 0;
}

/* Whether a call of this task is recorded. `nr` is the call's number at its beginning, and -1 at its return. */
static __always_inline bool is_recorded(struct task_struct *task, long nr)
{
	struct task *known = storage(task);

	if (!known)
		return false;
	if (known->state == WAITING && nr == NR_EXECVE && !is_compat(task)) {
		/* Its calls count from the return of its execve on, as with perf events that an execve enables. */
		known->state = FOLLOWED;
		return false;
	}
	return known->state == FOLLOWED;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 words[ENTER_WORDS], values[6];

	if (!is_recorded(task, nr))
		return 0;
	read_values(task, regs, values);
	words[0] = HEADER(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, ENTER_WORDS);
	words[1] = ENTER_ID;
	/* The raw data: their size, common_type, common_pid, then id and args, each shifted by half a word. */
	words[5] = pair(8 * (ENTER_WORDS - 5) - 4, enter_type);
	words[6] = pair(task->pid, nr);
	words[7] = pair(nr >> 32, values[0]);
#pragma unroll
	for (int i = 0; i < 5; i++)
		words[8 + i] = pair(values[i] >> 32, values[i + 1]);
	words[13] = values[5] >> 32;
	write(task, words, ENTER_WORDS, ENTER);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 words[EXIT_WORDS];
	long nr;

	if (!is_recorded(task, -1))
		return 0;
	nr = call_of(regs);
	words[0] = HEADER(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, EXIT_WORDS);
	words[1] = EXIT_ID;
	words[5] = pair(8 * (EXIT_WORDS - 5) - 4, exit_type);
	words[6] = pair(task->pid, nr);
	words[7] = pair(nr >> 32, ret);
	words[8] = (__u64)ret >> 32;
	write(task, words, EXIT_WORDS, EXIT);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	follow_child(parent, child);
	return 0;
}
