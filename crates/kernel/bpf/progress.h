/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Lists the calls in progress of the followed tasks: an iterator writes a record for each into its file. */
#ifndef TARE_PROGRESS_H
#define TARE_PROGRESS_H

#include "iterator.h"

/* crates/kernel/src/bpf/progress.rs has the same layout. */
struct progress {
	__u64 start; /* 0 if the call began before the programs were attached */
	__u32 tid;
	__u32 process;
	__u32 slot;
	__u32 unused;
	__u64 values[6];
};

SEC("iter/task")
int list_calls(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct progress progress = {};
	struct task *known = followed_program(task);
	struct pt_regs *regs;
	long nr;

	if (!known)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	nr = call_of(regs);
	if (known->phase == INSIDE) {
		progress.slot = known->slot;
		progress.start = known->start;
		if (!progress.start)
			return 0;
	} else {
		/* The registers of a task that runs in user mode are those of an earlier call. */
		if (known->phase != UNSEEN || nr < 0 || !is_blocked(task))
			return 0;
		progress.slot = slot_of(task, nr);
	}
	progress.tid = task->pid;
	progress.process = task->tgid;
	read_values(task, regs, progress.values);
	bpf_seq_write(ctx->meta->seq, &progress, sizeof(progress));
	return 0;
}

#endif
