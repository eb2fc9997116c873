/* POSIX access control lists, as the kernel hands them over in system.posix_acl_access and _default
 * (linux/posix_acl_xattr.h): a version, then entries of tag, permissions and id, little-endian. The kernel
 * checks access by them; keeping mode and list in step is the file system's part, and done with this.
 *
 * A list is valid when it has one entry each for owner, owning group and others, further users and groups in
 * ascending order behind the first two, and, when there are any of those, a mask. It is minimal when it has
 * only the three: then it says no more than the mode, and isn't stored.
 *
 * Pure: no locks, no I/O. The functions on a list want one that sfs_acl_check has found valid. */
#ifndef SFS_VFS_ACL_H
#define SFS_VFS_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define SFS_ACL_ACCESS "system.posix_acl_access"
#define SFS_ACL_DEFAULT "system.posix_acl_default"
#define SFS_ACL_MAX_BYTES 4096u /* the kernel reads no more than a page */

/* 0: valid. -ENODATA: has no entries, which means that there is no list. -EINVAL; -EOPNOTSUPP: of another
 * version; -E2BIG. */
int sfs_acl_check(const void *acl, size_t len);
/* The list as a mode: its rights for owner, group (the mask, where there is one) and others, in 0777.
 * *minimal: it says no more than that. */
mode_t sfs_acl_mode(const void *acl, size_t len, bool *minimal);
/* chmod: gives the rights of mode to owner, mask (the owning group, where there is none) and others. */
void sfs_acl_chmod(void *acl, size_t len, mode_t mode);
/* A new file below a directory with this default list: the list becomes its own, with no more than mode asks
 * for, and *mode is what the list leaves of it. True: the list is more than the mode, and is to be stored. */
bool sfs_acl_inherit(void *acl, size_t len, mode_t *mode);

#endif
