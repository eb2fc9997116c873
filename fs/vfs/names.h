/* What namespace.c and rename.c share. */
#ifndef SFS_VFS_NAMES_H
#define SFS_VFS_NAMES_H

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

#endif
