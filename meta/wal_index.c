/* The WAL index ("shared memory") and the locks on it and on the database file. Only this process has the
 * catalog open (the disks' label locks see to that), so both are plain memory: connections see each other
 * through here. One leaf lock guards everything; SQLite's own protocol on the index's bytes needs only the
 * barrier. */
#include <stdlib.h>
#include <string.h>
#include "meta/replicas_impl.h"

struct sfs_wal_index {
    struct sfs_mutex m; /* SFS_RANK_LEAF */
    LIST_HEAD(, sfs_index_user) users;
    void **regions;
    unsigned nregions;
};

struct sfs_wal_index *sfs_wal_index_new(struct sfs_env *env)
{
    struct sfs_wal_index *x = calloc(1, sizeof(*x));
    if (!x)
        return NULL;
    sfs_mutex_init(&x->m, env, SFS_RANK_LEAF);
    LIST_INIT(&x->users);
    return x;
}

static void drop_regions(struct sfs_wal_index *x)
{
    for (unsigned i = 0; i < x->nregions; i++)
        free(x->regions[i]);
    free(x->regions);
    x->regions = NULL;
    x->nregions = 0;
}

void sfs_wal_index_free(struct sfs_wal_index *x)
{
    if (!x)
        return;
    SFS_ASSERT(LIST_EMPTY(&x->users));
    drop_regions(x);
    sfs_mutex_destroy(&x->m);
    free(x);
}

void sfs_wal_index_join(struct sfs_wal_index *x, struct sfs_index_user *u)
{
    memset(u, 0, sizeof(*u));
    sfs_mutex_lock(&x->m);
    LIST_INSERT_HEAD(&x->users, u, next);
    sfs_mutex_unlock(&x->m);
}

void sfs_wal_index_leave(struct sfs_wal_index *x, struct sfs_index_user *u)
{
    sfs_mutex_lock(&x->m);
    LIST_REMOVE(u, next);
    if (LIST_EMPTY(&x->users))
        drop_regions(x); /* the next one to open reads the WAL anew */
    sfs_mutex_unlock(&x->m);
}

int sfs_wal_index_map(struct sfs_wal_index *x, unsigned region, size_t bytes, bool extend,
                      void volatile **out)
{
    int rc = SQLITE_OK;
    *out = NULL;
    sfs_mutex_lock(&x->m);
    if (region >= x->nregions && extend) {
        void **v = realloc(x->regions, (region + 1) * sizeof(*v));
        if (v)
            x->regions = v;
        while (v && x->nregions <= region && (v[x->nregions] = calloc(1, bytes)))
            x->nregions++;
        if (x->nregions <= region)
            rc = SQLITE_IOERR_NOMEM;
    }
    if (region < x->nregions)
        *out = x->regions[region];
    sfs_mutex_unlock(&x->m);
    return rc;
}

int sfs_wal_index_lock(struct sfs_wal_index *x, struct sfs_index_user *u, int offset, int n, int flags)
{
    uint16_t mask = (uint16_t)(((1u << n) - 1u) << offset);
    int rc = SQLITE_OK;
    sfs_mutex_lock(&x->m);
    if (flags & SQLITE_SHM_UNLOCK) {
        if (flags & SQLITE_SHM_SHARED)
            u->shared &= (uint16_t)~mask;
        else
            u->exclusive &= (uint16_t)~mask;
    } else {
        struct sfs_index_user *o;
        bool exclusive = flags & SQLITE_SHM_EXCLUSIVE;
        LIST_FOREACH(o, &x->users, next)
        if (o != u && ((o->exclusive & mask) || (exclusive && (o->shared & mask))))
            rc = SQLITE_BUSY;
        if (rc == SQLITE_OK && exclusive)
            u->exclusive |= mask;
        else if (rc == SQLITE_OK)
            u->shared |= mask;
    }
    sfs_mutex_unlock(&x->m);
    return rc;
}

void sfs_wal_index_barrier(struct sfs_wal_index *x)
{
    __sync_synchronize();
    sfs_mutex_lock(&x->m);
    sfs_mutex_unlock(&x->m);
}

int sfs_wal_index_lock_db(struct sfs_wal_index *x, struct sfs_index_user *u, int level)
{
    struct sfs_index_user *o;
    int rc = SQLITE_OK;
    sfs_mutex_lock(&x->m);
    LIST_FOREACH(o, &x->users, next)
    {
        if (o == u)
            continue;
        if (level == SQLITE_LOCK_SHARED     ? o->level >= SQLITE_LOCK_PENDING
            : level == SQLITE_LOCK_RESERVED ? o->level >= SQLITE_LOCK_RESERVED
                                            : o->level >= SQLITE_LOCK_SHARED)
            rc = SQLITE_BUSY;
    }
    if (rc == SQLITE_OK && u->level < level)
        u->level = level;
    sfs_mutex_unlock(&x->m);
    return rc;
}

void sfs_wal_index_unlock_db(struct sfs_wal_index *x, struct sfs_index_user *u, int level)
{
    sfs_mutex_lock(&x->m);
    if (u->level > level)
        u->level = level;
    sfs_mutex_unlock(&x->m);
}

bool sfs_wal_index_reserved(struct sfs_wal_index *x)
{
    struct sfs_index_user *o;
    bool reserved = false;
    sfs_mutex_lock(&x->m);
    LIST_FOREACH(o, &x->users, next)
    reserved |= o->level >= SQLITE_LOCK_RESERVED;
    sfs_mutex_unlock(&x->m);
    return reserved;
}
