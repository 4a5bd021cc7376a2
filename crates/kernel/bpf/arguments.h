/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A task's system call and its arguments, from its registers as the kernel reads them (arch/x86/include/asm/syscall.h and arm64's). */
#ifndef TARE_ARGUMENTS_H
#define TARE_ARGUMENTS_H

/* Like struct pt_regs: the loader ignores the part of a name after three underscores. */
struct pt_regs___call {
#if defined(__TARGET_ARCH_x86)
	unsigned long orig_ax;
#else
	__s32 syscallno;
#endif
} __attribute__((preserve_access_index));

/* The number of the returning call; -1 for the return from a signal handler, which replaces the registers. */
static __always_inline long call_of(struct pt_regs *regs)
{
	struct pt_regs___call *of = (void *)regs;

#if defined(__TARGET_ARCH_x86)
	return (int)of->orig_ax;
#else
	return of->syscallno;
#endif
}

static __always_inline void read_values(struct task_struct *task, struct pt_regs *regs, __u64 *values)
{
#if defined(__TARGET_ARCH_x86)
	if (is_compat(task)) {
		values[0] = (__u32)regs->bx;
		values[1] = (__u32)regs->cx;
		values[2] = (__u32)regs->dx;
		values[3] = (__u32)regs->si;
		values[4] = (__u32)regs->di;
		values[5] = (__u32)regs->bp;
		return;
	}
	values[0] = regs->di;
	values[1] = regs->si;
	values[2] = regs->dx;
	values[3] = regs->r10;
	values[4] = regs->r8;
	values[5] = regs->r9;
#else
	values[0] = regs->orig_x0;
	values[1] = regs->regs[1];
	values[2] = regs->regs[2];
	values[3] = regs->regs[3];
	values[4] = regs->regs[4];
	values[5] = regs->regs[5];
#endif
}

#endif
