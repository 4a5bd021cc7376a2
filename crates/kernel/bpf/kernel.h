/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The kernel's types and constants that the programs share: of its structures, the fields that they read. The loader relocates each
 * access to the running kernel's offsets by its BTF (CO-RE).
 */
#ifndef TARE_KERNEL_H
#define TARE_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define false 0
#define true 1

#define NULL ((void *)0)

/* enum bpf_map_type, include/uapi/linux/bpf.h */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_TASK_STORAGE 29

/* Flags of maps, of updates, of task storage and of ring buffers, same file */
#define BPF_F_NO_PREALLOC 1U
#define BPF_NOEXIST 1U
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1U
#define BPF_RB_NO_WAKEUP 1U
#define BPF_RB_FORCE_WAKEUP 2U
#define BPF_RB_AVAIL_DATA 0

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_x86)
struct thread_info {
	__u32 status;
};

struct pt_regs {
	unsigned long bp, bx, r10, r8, r9, cx, dx, si, di, ip, sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct thread_info {
	unsigned long flags;
};

struct pt_regs {
	__u64 regs[31];
	__u64 sp, pc, orig_x0;
};
#endif

struct mm_struct {
	unsigned long arg_start, arg_end, env_end;
};

struct hlist_bl_node {
	void *next, **pprev;
};

struct qstr {
	const unsigned char *name;
};

struct inode {
	unsigned short i_mode;
	__u32 i_rdev;
	unsigned long i_ino;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fs_struct {
	struct path pwd;
};

struct in6_addr {
	__u8 bytes[16]; /* not relocated: read as a whole */
};

struct sock_common {
	__be32 skc_daddr, skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_type;
	__u16 sk_protocol;
};

struct socket {
	struct sock *sk;
};

struct task_struct {
	struct thread_info thread_info;
	int pid, tgid, exit_code;
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct files_struct *files;
	struct task_struct *group_leader;
	char comm[16];
};

#pragma clang attribute pop

/* Whether the task is in a 32-bit system call. */
static inline __attribute__((always_inline)) bool is_compat(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread_info.status & 2; /* TS_COMPAT, arch/x86/include/asm/thread_info.h */
#else
	return task->thread_info.flags & 1UL << 22; /* TIF_32BIT, arch/arm64/include/asm/thread_info.h */
#endif
}

#if defined(__TARGET_ARCH_x86)
#define NR_EXECVE 59 /* arch/x86/entry/syscalls/syscall_64.tbl */
#else
#define NR_EXECVE 221 /* include/uapi/asm-generic/unistd.h */
#endif

#endif
