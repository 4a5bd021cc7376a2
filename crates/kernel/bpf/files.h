/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A descriptor's current file: the components of its path, last component first, up to the top of the tree of mounts; and a
 * description, with the addresses of a socket.
 */
#ifndef TARE_FILES_H
#define TARE_FILES_H

#include <bpf/bpf_core_read.h>

#define AT_FDCWD -100
#define MAX_PARTS 64

/* Flags of a description. */
#define UNLINKED 1 /* in no folder, such as a deleted file, a disconnected one, or the root of a file system */
#define DISCONNECTED 2 /* no path leads to it, as to a pipe, a socket, a memfd, an anonymous inode */

#define S_IFMT 0170000
#define S_IFSOCK 0140000

/* crates/kernel/src/bpf/calls.rs has the same layout. */
struct description {
	__u64 inode;
	__u32 mode;
	__u32 flags;
	__u32 device;
	__u16 family;
	__u16 type;
	__u16 protocol;
	__u16 state;
	__u16 local_port;
	__u16 remote_port; /* in network byte order */
	__u8 local[16];
	__u8 remote[16];
};

struct path_walk {
	struct dentry *dentry;
	struct mount *mount;
	__u32 argument;
	__u32 parts;
	__u32 flags;
};

int add(__u64 address, __u32 most, __u32 how, __u32 label);

static long add_part(__u32 i, struct path_walk *walk)
{
	struct dentry *dentry = walk->dentry, *parent;
	struct mount *mount = walk->mount, *above;

	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
		above = BPF_CORE_READ(mount, mnt_parent);
		if (above == mount)
			return 1;
		walk->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = above;
		return 0;
	}
	parent = BPF_CORE_READ(dentry, d_parent);
	add((__u64)BPF_CORE_READ(dentry, d_name.name), 256, KERNEL_STRING, LABEL(walk->argument, PATH_PART, walk->parts++));
	if (parent == dentry || !parent) {
		walk->flags |= DISCONNECTED;
		return 1;
	}
	walk->dentry = parent;
	return 0;
}

static __always_inline void describe_socket(struct file *file, struct description *description)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);

	description->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	description->state = BPF_CORE_READ(sk, __sk_common.skc_state);
	description->type = BPF_CORE_READ(sk, sk_type);
	description->protocol = BPF_CORE_READ(sk, sk_protocol);
	description->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	description->remote_port = BPF_CORE_READ(sk, __sk_common.skc_dport);
	if (description->family == 10) {
		bpf_core_read(description->local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(description->remote, 16, &sk->__sk_common.skc_v6_daddr);
	} else {
		bpf_core_read(description->local, 4, &sk->__sk_common.skc_rcv_saddr);
		bpf_core_read(description->remote, 4, &sk->__sk_common.skc_daddr);
	}
}

/* Adds a chunk with a description, if there is room. A global function such as add() takes no pointer to the stack as a number. */
static __always_inline int add_description(__u32 argument, struct description *description)
{
	struct buffer *b = buffer();
	__u32 *at = length(), from;
	struct chunk *chunk;

	if (!b || !at)
		return 0;
	from = *at;
	if (from > PAYLOAD)
		return 1;
	chunk = (void *)b->payload + from;
	chunk->label = LABEL(argument, DESCRIPTION, 0);
	chunk->length = sizeof(*description);
	__builtin_memcpy(chunk + 1, description, sizeof(*description));
	*at = from + sizeof(*chunk) + sizeof(*description);
	return 1;
}

/* Adds a descriptor's file: the components of its path, then the description. AT_FDCWD is the current folder. */
__noinline int add_file(__u32 argument, int fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct description description = {};
	struct path_walk walk = { .argument = argument };
	struct vfsmount *mnt;
	struct file **files, *file = NULL;
	struct dentry *dentry;
	struct inode *inode;

	if (fd == AT_FDCWD) {
		dentry = BPF_CORE_READ(task, fs, pwd.dentry);
		mnt = BPF_CORE_READ(task, fs, pwd.mnt);
		description.mode = 0040000;
	} else {
		if ((__u32)fd >= BPF_CORE_READ(task, files, fdt, max_fds))
			return 0;
		files = BPF_CORE_READ(task, files, fdt, fd);
		if (bpf_probe_read_kernel(&file, sizeof(file), files + (__u32)fd) || !file)
			return 0;
		dentry = BPF_CORE_READ(file, f_path.dentry);
		mnt = BPF_CORE_READ(file, f_path.mnt);
		inode = BPF_CORE_READ(file, f_inode);
		description.inode = BPF_CORE_READ(inode, i_ino);
		description.mode = BPF_CORE_READ(inode, i_mode);
		description.device = BPF_CORE_READ(inode, i_rdev);
	}
	if (!dentry || !mnt)
		return 0;
	if ((description.mode & S_IFMT) == S_IFSOCK)
		describe_socket(file, &description);
	if (!BPF_CORE_READ(dentry, d_hash.pprev))
		walk.flags |= UNLINKED;
	walk.dentry = dentry;
	walk.mount = (void *)mnt - bpf_core_field_offset(struct mount, mnt);
	bpf_loop(MAX_PARTS, add_part, &walk, 0);
	description.flags = walk.flags;
	return add_description(argument, &description);
}

#endif
