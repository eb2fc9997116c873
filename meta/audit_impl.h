/* Inside of the audit: audit.c (connection, transaction), audit_sql.c (the table), audit_mend.c (what SQL alone doesn't say). */
#ifndef SFS_META_AUDIT_IMPL_H
#define SFS_META_AUDIT_IMPL_H

#include "meta/audit.h"
#include "meta/catalog_impl.h"

#define SFS_AUDIT_INTERLEAVE (256u << 10) /* of groups without slabs */

struct sfs_audit {
    struct sfs_env *env;
    struct sfs_replicas *r;
    struct sfs_audit_geometry geo;
    sqlite3 *db;
    bool readonly, in_tx, changed;
    uint64_t name_seed;
    int64_t lost_group; /* the group without slabs that takes what is lost; 0: none yet */
    int64_t lost_space; /* of that space */
    uint64_t lost_used, lost_capacity; /* bytes of it */
};

/* How a fault is found and mended. find fills temp.found(a, b, c, t, ino): rows to show (what a, b, c and t mean stands beside it), ino one whose path helps. A script, or a function. mend likewise, from temp.found. again: mending one may
 * show another, so that it is looked for again until there is none. */
struct sfs_audit_rule {
    const char *find;
    int (*find_fn)(struct sfs_audit *a);
    const char *mend;
    int (*mend_fn)(struct sfs_audit *a);
    bool again;
};
extern const struct sfs_audit_rule sfs_audit_rules[SFS_FAULT_COUNT];

/* audit_mend.c */
int sfs_audit_find_shared(struct sfs_audit *a);
int sfs_audit_mend_roots(struct sfs_audit *a);
int sfs_audit_mend_cookies(struct sfs_audit *a);
int sfs_audit_mend_unattached(struct sfs_audit *a);
int sfs_audit_mend_lost(struct sfs_audit *a);    /* found: a = inode, b = offset of an extent */
int sfs_audit_mend_inline(struct sfs_audit *a);
int sfs_audit_mend_overlap(struct sfs_audit *a);

#endif
