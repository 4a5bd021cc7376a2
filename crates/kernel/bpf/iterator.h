/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The context of iterators over tasks that write into their file. */
#ifndef TARE_ITERATOR_H
#define TARE_ITERATOR_H

struct seq_file;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct task_struct___blocked {
	unsigned int __state;
};
#pragma clang attribute pop

/* Whether a task waits in the kernel, so that its registers are those of its call. */
static __always_inline bool is_blocked(struct task_struct *task)
{
	return ((struct task_struct___blocked *)task)->__state;
}

#endif
