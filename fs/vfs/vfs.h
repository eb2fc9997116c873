/* POSIX semantics over a space, without a FUSE type: inodes, directories, files, xattrs. Serves FUSE, the simulator and spacesfs-check alike.
 *
 * Inodes are named by number (64 bits, never reused); the root is sfs_vfs_root. Permission checks are the kernel's (default_permissions); what a file system itself must do is done here (set-gid directories, clearing of set-id bits and
 * capabilities, sticky is the kernel's, times, link counts). Names are bytes without '/' and NUL, 1 to 255 of them. All calls are thread-safe, return 0 or -errno, and block for I/O where they must.
 * Locks: SFS_RANK_NAMESPACE (one per space: every change of names), SFS_RANK_INODE (each inode: attributes, extent map, dirty data), SFS_RANK_ITABLE. */
#ifndef SFS_VFS_VFS_H
#define SFS_VFS_VFS_H

#include <sys/stat.h>
#include "fs/base/buf.h"
#include "fs/data/data.h"

struct sfs_vfs;
struct sfs_file;  /* an open file */

struct sfs_vfs_opts {
    bool readonly;
    bool noatime;               /* else relatime */
    uint64_t dirty_limit_bytes; /* 0 = 256 MiB: dirty data in memory; writers wait for write-back beyond it */
    uint64_t commit_interval_ns;/* 0 = 5 s */
    uint64_t cache_inodes;      /* 0 = 100,000: unused inodes kept in memory */
};
/* Over a volume of an open pool (sfs_pool_volume_get). Starts its write-back thread. Deletes orphans in the background. */
int sfs_vfs_open(struct sfs_volume *v, const struct sfs_vfs_opts *opts, struct sfs_vfs **out, struct sfs_error *err);
/* Stores and commits everything, then frees. The first error of that, else 0. Never fails to free. */
int sfs_vfs_close(struct sfs_vfs *vfs);
uint64_t sfs_vfs_root(const struct sfs_vfs *vfs);
int sfs_vfs_set_readonly(struct sfs_vfs *vfs, bool readonly); /* remount; to read-only: commits first */

struct sfs_cred {
    uid_t uid;
    gid_t gid;
    mode_t umask;               /* mode arguments come without it being applied: a default access list takes its place */
    bool privileged;            /* may keep set-gid of any group */
    bool (*in_group)(void *ctx, gid_t gid); /* supplementary groups; asked for at need. NULL: has none */
    void *ctx;
};

/* Look-up count: lookup, mknod, mkdir, symlink, create, link each count 1 on success for the inode they return; forget takes n back. An inode with a count stays in memory, and keeps its
 * attributes; an unlinked file keeps its contents until the last close. */
int sfs_vfs_lookup(struct sfs_vfs *vfs, uint64_t parent, const char *name, struct stat *st);   /* "." and ".." work */
void sfs_vfs_forget(struct sfs_vfs *vfs, uint64_t ino, uint64_t n);
int sfs_vfs_getattr(struct sfs_vfs *vfs, uint64_t ino, struct stat *st);
#define SFS_SET_MODE 1u
#define SFS_SET_UID 2u
#define SFS_SET_GID 4u
#define SFS_SET_SIZE 8u
#define SFS_SET_ATIME 16u
#define SFS_SET_MTIME 32u
#define SFS_SET_ATIME_NOW 64u
#define SFS_SET_MTIME_NOW 128u
#define SFS_SET_CTIME 256u
#define SFS_SET_KILLPRIV 512u   /* drop set-id bits and security.capability, as a write by an unprivileged program does */
int sfs_vfs_setattr(struct sfs_vfs *vfs, uint64_t ino, const struct stat *attr, unsigned set, const struct sfs_cred *cred, struct stat *out);

int sfs_vfs_mknod(struct sfs_vfs *vfs, uint64_t parent, const char *name, mode_t mode, dev_t rdev, const struct sfs_cred *cred, struct stat *st); /* regular files and special files */
int sfs_vfs_mkdir(struct sfs_vfs *vfs, uint64_t parent, const char *name, mode_t mode, const struct sfs_cred *cred, struct stat *st);
int sfs_vfs_symlink(struct sfs_vfs *vfs, uint64_t parent, const char *name, const char *target, const struct sfs_cred *cred, struct stat *st);
int sfs_vfs_readlink(struct sfs_vfs *vfs, uint64_t ino, char *buf, size_t cap, size_t *len);
int sfs_vfs_link(struct sfs_vfs *vfs, uint64_t ino, uint64_t parent, const char *name, struct stat *st);
int sfs_vfs_unlink(struct sfs_vfs *vfs, uint64_t parent, const char *name);
int sfs_vfs_rmdir(struct sfs_vfs *vfs, uint64_t parent, const char *name);
int sfs_vfs_rename(struct sfs_vfs *vfs, uint64_t parent, const char *name, uint64_t newparent, const char *newname, unsigned flags); /* RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT; rule 3 */

/* readdir: calls fn for entries after `cookie` (0 = from the start; "." and ".." come first), until fn returns false or the end. Stable under change. attrs: fill st fully (readdirplus), counting a look-up for each entry for which fn returned true
 * (not "." and ".."); else only st_ino and the type bits. */
typedef bool (*sfs_vfs_dirent_fn)(void *ctx, const char *name, const struct stat *st, uint64_t next_cookie);
int sfs_vfs_readdir(struct sfs_vfs *vfs, uint64_t ino, uint64_t cookie, bool attrs, sfs_vfs_dirent_fn fn, void *ctx);

/* flags: as open(2): O_TRUNC, O_APPEND, O_SYNC/O_DSYNC matter here. */
int sfs_vfs_open_file(struct sfs_vfs *vfs, uint64_t ino, int flags, struct sfs_file **out);
int sfs_vfs_create(struct sfs_vfs *vfs, uint64_t parent, const char *name, mode_t mode, int flags, const struct sfs_cred *cred, struct stat *st, struct sfs_file **out);
int sfs_vfs_tmpfile(struct sfs_vfs *vfs, uint64_t parent, mode_t mode, int flags, const struct sfs_cred *cred, struct stat *st, struct sfs_file **out);
/* Reads up to len bytes into out; *n = bytes read, short only at the end of the file. Holes are zeros. -EIO for what has no good copy: never wrong bytes. */
int sfs_vfs_read(struct sfs_file *f, void *out, size_t len, uint64_t off, size_t *n);
/* All or nothing, except that a full space may store a first part (*n < len). append: at the end, atomically (off is ignored). killpriv: the writer may not keep set-id bits. security.capability goes with every
 * write. */
int sfs_vfs_write(struct sfs_file *f, const void *data, size_t len, uint64_t off, bool append, bool killpriv, size_t *n);
int sfs_vfs_drop_privileges(struct sfs_file *f, bool set_id); /* before its contents change by other ways than write: security.capability goes, and set-id bits if the caller may not keep them */
int sfs_vfs_flush(struct sfs_file *f);                     /* close(2) of one descriptor: reports a write-back error that this open file has not yet seen, once */
int sfs_vfs_fsync(struct sfs_file *f, bool datasync);      /* durable on return; reports write-back errors once per open file */
int sfs_vfs_fsyncdir(struct sfs_vfs *vfs, uint64_t ino);
int sfs_vfs_sync(struct sfs_vfs *vfs);                     /* the whole space */
void sfs_vfs_release(struct sfs_file *f);                  /* NULL is fine */
uint64_t sfs_file_ino(const struct sfs_file *f);
int sfs_vfs_fallocate(struct sfs_file *f, int mode, uint64_t off, uint64_t len); /* 0, KEEP_SIZE, PUNCH_HOLE|KEEP_SIZE, ZERO_RANGE[|KEEP_SIZE], COLLAPSE_RANGE, INSERT_RANGE; allocation reserves nothing beyond making the call honest: -ENOSPC when it would not fit now */
int sfs_vfs_lseek(struct sfs_file *f, uint64_t off, int whence, uint64_t *out);  /* SEEK_DATA, SEEK_HOLE; -ENXIO */
/* Copies by reference (reflink) where offsets are aligned to SFS_BLOCK (or reach the end of the file), else by bytes. *n = bytes copied. */
int sfs_vfs_copy_range(struct sfs_file *in, uint64_t off_in, struct sfs_file *out, uint64_t off_out, uint64_t len, size_t *n);

/* user.*, trusted.*, security.*, and POSIX access lists: system.posix_acl_access (follows and sets the mode) and _default (inherited by what is made in the directory). */
int sfs_vfs_setxattr(struct sfs_vfs *vfs, uint64_t ino, const char *name, const void *value, size_t len, int flags, const struct sfs_cred *cred);  /* XATTR_CREATE, XATTR_REPLACE; limits of Linux */
int sfs_vfs_getxattr(struct sfs_vfs *vfs, uint64_t ino, const char *name, void *buf, size_t cap, size_t *len);
int sfs_vfs_listxattr(struct sfs_vfs *vfs, uint64_t ino, char *buf, size_t cap, size_t *len);
int sfs_vfs_removexattr(struct sfs_vfs *vfs, uint64_t ino, const char *name);

struct sfs_vfs_statfs { uint64_t block_bytes, blocks, bfree, bavail, files, ffree; unsigned namemax; };
int sfs_vfs_statfs(struct sfs_vfs *vfs, struct sfs_vfs_statfs *out);

/* Where a file lies, for `spacesfs where`: calls fn for each piece (off, len, group) of a file in order; inline contents: one call with group 0. Writes dirty data out first. */
int sfs_vfs_map(struct sfs_vfs *vfs, uint64_t ino, int (*fn)(void *ctx, uint64_t off, uint64_t len, uint64_t group, uint64_t goff, uint32_t slen), void *ctx);
/* Stores anew what [from, to) of a file has stored, in as few extents as can be: for compaction and against fragmentation. Whole pieces only (one that begins before `from` is left alone); contents, holes and times stay. 0; -EAGAIN: the file was changed
 * there meanwhile (what came before is done); -ENOENT, -ENOSPC, -EIO … No lock held. */
int sfs_vfs_rewrite(struct sfs_vfs *vfs, uint64_t ino, uint64_t from, uint64_t to);
int sfs_vfs_resolve(struct sfs_vfs *vfs, const char *path, uint64_t *ino); /* from the root, "/a/b"; follows no symlink. No look-up is counted */

#endif
