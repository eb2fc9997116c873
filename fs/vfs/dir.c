/* Reading directories. Entries come in the order of their cookies, which are hashes of the names: so a
 * position stays valid whatever is made or deleted meanwhile, and no entry that stays comes twice or not at
 * all. */
#include "fs/vfs/vfs_impl.h"

#include <stdlib.h>

#define COOKIE_DOT 1u
#define COOKIE_DOTDOT 2u  /* real ones begin at 16 */
#define BATCH_ROWS 64u

struct reading {
    struct sfs_vfs *vfs;
    bool attrs;
    sfs_vfs_dirent_fn fn;
    void *ctx;
};

static bool give_dots(const struct reading *r, uint64_t ino, uint64_t parent, uint64_t cookie)
{
    struct stat st = {.st_mode = S_IFDIR};

    st.st_ino = ino;
    if (cookie < COOKIE_DOT && !r->fn(r->ctx, ".", &st, COOKIE_DOT))
        return false;
    st.st_ino = parent;
    return cookie >= COOKIE_DOTDOT || r->fn(r->ctx, "..", &st, COOKIE_DOTDOT);
}

/* With attributes; *more is what fn said. */
static int give_full(const struct reading *r, const struct sfs_dentry_row *row, bool *more)
{
    struct sfs_inode *i;
    struct stat st;
    int rc = sfs_inode_get(r->vfs, row->ino, &i);

    if (rc)
        return rc == -ENOENT ? 0 : rc; /* deleted since the rows were read */
    sfs_mutex_lock(&i->lock);
    bool dead = i->dead;
    rc = sfs_inode_stat(i, &st);
    sfs_mutex_unlock(&i->lock);
    if (!rc && !dead) {
        *more = r->fn(r->ctx, row->name, &st, row->cookie);
        if (*more)
            sfs_inode_count_lookup(i);
    }
    sfs_inode_put(i);
    return rc;
}

static int give(const struct reading *r, const struct sfs_dentry_row *row, bool *more)
{
    if (r->attrs)
        return give_full(r, row, more);
    struct stat st = {.st_ino = row->ino, .st_mode = row->type};
    *more = r->fn(r->ctx, row->name, &st, row->cookie);
    return 0;
}

static int give_rows(const struct reading *r, uint64_t ino, uint64_t cookie)
{
    struct sfs_dentry_row *rows = malloc(BATCH_ROWS * sizeof(*rows));
    unsigned n;
    bool more = true;
    int rc;

    if (!rows)
        return -ENOMEM;
    do {
        sfs_catalog_lock(r->vfs->cat);
        rc = sfs_catalog_dentry_list(r->vfs->cat, ino, cookie, rows, BATCH_ROWS, &n);
        sfs_catalog_unlock(r->vfs->cat);
        for (unsigned k = 0; !rc && more && k < n; k++) {
            cookie = rows[k].cookie;
            rc = give(r, &rows[k], &more);
        }
    } while (!rc && more && n == BATCH_ROWS);
    free(rows);
    return rc;
}

int sfs_vfs_readdir(struct sfs_vfs *vfs, uint64_t ino, uint64_t cookie, bool attrs, sfs_vfs_dirent_fn fn,
                    void *ctx)
{
    struct reading r = {vfs, attrs, fn, ctx};
    struct sfs_inode *dir;
    uint64_t parent;
    bool dead;
    int rc = sfs_inode_get(vfs, ino, &dir);

    if (rc)
        return rc;
    sfs_mutex_lock(&dir->lock);
    rc = S_ISDIR(dir->row.mode) ? 0 : -ENOTDIR;
    parent = dir->row.parent;
    dead = dir->dead;
    if (!rc && !dead && cookie == 0)
        sfs_inode_accessed(dir);
    sfs_mutex_unlock(&dir->lock);
    if (!rc && !dead && (cookie >= COOKIE_DOTDOT || give_dots(&r, ino, parent, cookie)))
        rc = give_rows(&r, ino, cookie < COOKIE_DOTDOT ? COOKIE_DOTDOT : cookie);
    sfs_inode_put(dir);
    return rc;
}
