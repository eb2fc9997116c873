/* What namespace.c, rename.c, xattr.c and file.c share. */
#ifndef SFS_VFS_NAMES_H
#define SFS_VFS_NAMES_H

#include "fs/vfs/acl.h"
#include "fs/vfs/vfs_impl.h"

/* A name for a new or existing entry: 0, -ENAMETOOLONG, -EINVAL; -EEXIST or -EINVAL for "." and "..": `dots`.
 * *len is filled. */
int sfs_name_length(const char *name, int dots, size_t *len);
/* The entry's row, and its inode (a reference). No inode lock held. -ENOENT */
int sfs_entry_find(struct sfs_inode *parent, const char *name, size_t len, struct sfs_dentry_row *row,
                   struct sfs_inode **out);
/* parent locked: 0, or -ENOTDIR, -ENOENT (deleted) */
int sfs_directory_check(struct sfs_inode *parent);
/* Inode and catalog locks held: one link less. When it was the last: deletes what nobody has open (*gone), as
 * far as that is little work. */
int sfs_link_drop(struct sfs_inode *i, bool *gone);
/* Inode lock held, after the catalog's was dropped: ends what sfs_link_drop began. *reap: the caller hands it
 * to the reaper, without locks. */
void sfs_link_dropped(struct sfs_inode *i, bool gone, bool *reap);

/* --- xattr.c: access lists ------------------------------------------------------------------------------ */
/* May this one keep set-gid of something of that group? */
bool sfs_cred_in_group(const struct sfs_cred *cred, gid_t gid);
/* Lock held, not in a batch (see sfs_lockset_lock): the mode has changed; the access list follows, and both are
 * in the catalog. */
int sfs_acl_follow_mode(struct sfs_inode *i);

/* What a new inode gets from its directory. */
struct sfs_inherited {
    size_t len;
    bool has_own;                    /* its access list says more than its mode */
    uint8_t given[SFS_ACL_MAX_BYTES]; /* the default list, which directories hand on */
    uint8_t own[SFS_ACL_MAX_BYTES];
};
/* Parent locked. *out: from malloc; NULL: it has no default list. */
int sfs_inherited_load(struct sfs_inode *parent, struct sfs_inherited **out);
/* Mode and flags of the new row. */
void sfs_inherited_apply(struct sfs_inherited *h, struct sfs_inode_row *row);
/* Catalog locked, the row inserted: the lists. */
int sfs_inherited_store(struct sfs_catalog *cat, const struct sfs_inherited *h, const struct sfs_inode_row *row);

#endif
