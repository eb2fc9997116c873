#include "tests/sim/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

#include "fs/base/error.h"

static void inode_free(struct sim_inode *i)
{
    for (unsigned n = 0; n < i->ndentries; n++)
        free(i->dentries[n].name);
    for (unsigned n = 0; n < i->nxattrs; n++) {
        free(i->xattrs[n].name);
        free(i->xattrs[n].value);
    }
    free(i->dentries);
    free(i->xattrs);
    free(i->target);
    if (S_ISREG(i->mode))
        sim_content_free(&i->content);
    free(i);
}

struct sim_inode *sim_tree_add(struct sim_tree *t, uint64_t ino, uint32_t mode, uint64_t clock)
{
    struct sim_inode *i = calloc(1, sizeof(*i));

    SFS_ASSERT(i);
    i->ino = ino;
    i->mode = mode;
    i->gone = UINT64_MAX;
    if (S_ISREG(mode))
        sim_content_init(&i->content, clock);
    TAILQ_INSERT_TAIL(&t->inodes, i, all);
    return i;
}

void sim_tree_init(struct sim_tree *t, uint64_t root_ino, mode_t mode)
{
    *t = (struct sim_tree){0};
    TAILQ_INIT(&t->inodes);
    t->root = sim_tree_add(t, root_ino, S_IFDIR | mode, 0);
    t->root->nlink = 2;
    t->root->parent = t->root;
    t->ninodes = 1;
}

void sim_tree_free(struct sim_tree *t)
{
    struct sim_inode *i;

    while ((i = TAILQ_FIRST(&t->inodes))) {
        TAILQ_REMOVE(&t->inodes, i, all);
        inode_free(i);
    }
    for (unsigned n = 0; n < t->nstates; n++)
        free(t->states[n].text);
    free(t->states);
    *t = (struct sim_tree){0};
    TAILQ_INIT(&t->inodes);
}

struct sim_inode *sim_tree_find(const struct sim_tree *t, uint64_t ino)
{
    struct sim_inode *i;

    TAILQ_FOREACH(i, &t->inodes, all)
    {
        if (i->ino == ino)
            return i;
    }
    return NULL;
}

/* --- directories ------------------------------------------------------------------------------------------------------------------- */

/* The place of a name: found, or where it would go. */
static unsigned slot_of(const struct sim_inode *dir, const char *name, bool *found)
{
    unsigned low = 0, high = dir->ndentries;

    *found = false;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        int c = strcmp(dir->dentries[mid].name, name);

        if (c == 0) {
            *found = true;
            return mid;
        }
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct sim_inode *sim_dir_get(const struct sim_inode *dir, const char *name)
{
    bool found;
    unsigned n = slot_of(dir, name, &found);

    return found ? dir->dentries[n].inode : NULL;
}

static void dir_insert(struct sim_inode *dir, const char *name, struct sim_inode *i)
{
    bool found;
    unsigned n = slot_of(dir, name, &found);

    SFS_ASSERT(!found);
    if (dir->ndentries == dir->dentry_room) {
        dir->dentry_room = dir->dentry_room ? dir->dentry_room * 2 : 8;
        dir->dentries = realloc(dir->dentries, dir->dentry_room * sizeof(*dir->dentries));
        SFS_ASSERT(dir->dentries);
    }
    memmove(&dir->dentries[n + 1], &dir->dentries[n], (dir->ndentries - n) * sizeof(*dir->dentries));
    dir->dentries[n] = (struct sim_dentry){.name = strdup(name), .inode = i};
    SFS_ASSERT(dir->dentries[n].name);
    dir->ndentries++;
}

static struct sim_inode *dir_remove(struct sim_inode *dir, const char *name)
{
    bool found;
    unsigned n = slot_of(dir, name, &found);
    struct sim_inode *i;

    SFS_ASSERT(found);
    i = dir->dentries[n].inode;
    free(dir->dentries[n].name);
    dir->ndentries--;
    memmove(&dir->dentries[n], &dir->dentries[n + 1], (dir->ndentries - n) * sizeof(*dir->dentries));
    return i;
}

bool sim_dir_below(const struct sim_inode *dir, const struct sim_inode *above)
{
    while (dir != above) {
        if (dir->parent == dir || !dir->parent)
            return false;
        dir = dir->parent;
    }
    return true;
}

/* --- what is allowed ----------------------------------------------------------------------------------------------------------------- */

int sim_tree_may_add(const struct sim_inode *dir, const char *name)
{
    if (strlen(name) > 255)
        return -ENAMETOOLONG;
    return sim_dir_get(dir, name) ? -EEXIST : 0;
}

int sim_tree_may_unlink(const struct sim_inode *dir, const char *name)
{
    const struct sim_inode *i = sim_dir_get(dir, name);

    if (!i)
        return -ENOENT;
    return S_ISDIR(i->mode) ? -EISDIR : 0;
}

int sim_tree_may_rmdir(const struct sim_inode *dir, const char *name)
{
    const struct sim_inode *i = sim_dir_get(dir, name);

    if (!i)
        return -ENOENT;
    if (!S_ISDIR(i->mode))
        return -ENOTDIR;
    return i->ndentries ? -ENOTEMPTY : 0;
}

int sim_tree_may_rename(const struct sim_inode *from, const char *name, const struct sim_inode *to, const char *newname, unsigned flags)
{
    const struct sim_inode *a = sim_dir_get(from, name), *b = sim_dir_get(to, newname);

    if (!a || (!b && (flags & RENAME_EXCHANGE)))
        return -ENOENT;
    if (b && (flags & RENAME_NOREPLACE))
        return -EEXIST;
    if (S_ISDIR(a->mode) && sim_dir_below(to, a))
        return -EINVAL;
    if (flags & RENAME_EXCHANGE)
        return S_ISDIR(b->mode) && sim_dir_below(from, b) ? -EINVAL : 0;
    if (!b)
        return 0;
    if (a == b)
        return 0;
    if (S_ISDIR(b->mode) && sim_dir_below(from, b))
        return -ENOTEMPTY;
    if (S_ISDIR(a->mode) && !S_ISDIR(b->mode))
        return -ENOTDIR;
    if (!S_ISDIR(a->mode) && S_ISDIR(b->mode))
        return -EISDIR;
    return S_ISDIR(b->mode) && b->ndentries ? -ENOTEMPTY : 0;
}

/* --- changes ------------------------------------------------------------------------------------------------------------------------- */

void sim_tree_link(struct sim_tree *t, struct sim_inode *dir, const char *name, struct sim_inode *i)
{
    dir_insert(dir, name, i);
    if (S_ISDIR(i->mode)) {
        i->parent = dir;
        i->nlink = 2;
        dir->nlink++;
        t->ninodes++;
    } else if (i->nlink++ == 0) {
        t->ninodes++;
    }
}

static uint64_t next_state(const struct sim_tree *t)
{
    return t->nstates ? t->states[t->nstates - 1].number + 1 : 0;
}

static void name_gone(struct sim_tree *t, struct sim_inode *dir, struct sim_inode *i)
{
    if (S_ISDIR(i->mode)) {
        dir->nlink--;
        i->nlink = 0;
    } else {
        i->nlink--;
    }
    if (i->nlink == 0) {
        i->gone = next_state(t);
        t->ninodes--;
    }
}

void sim_tree_unlink(struct sim_tree *t, struct sim_inode *dir, const char *name)
{
    name_gone(t, dir, dir_remove(dir, name));
}

static void exchange(struct sim_inode *from, const char *name, struct sim_inode *to, const char *newname)
{
    struct sim_inode *a = dir_remove(from, name), *b;

    if (from == to && strcmp(name, newname) == 0) {
        dir_insert(from, name, a);
        return;
    }
    b = dir_remove(to, newname);
    dir_insert(from, name, b);
    dir_insert(to, newname, a);
    if (S_ISDIR(a->mode)) {
        a->parent = to;
        from->nlink--;
        to->nlink++;
    }
    if (S_ISDIR(b->mode)) {
        b->parent = from;
        to->nlink--;
        from->nlink++;
    }
}

void sim_tree_rename(struct sim_tree *t, struct sim_inode *from, const char *name, struct sim_inode *to, const char *newname, unsigned flags)
{
    struct sim_inode *a = sim_dir_get(from, name), *b = sim_dir_get(to, newname);

    if (flags & RENAME_EXCHANGE) {
        exchange(from, name, to, newname);
        return;
    }
    if (a == b)
        return;
    if (b)
        sim_tree_unlink(t, to, newname);
    dir_remove(from, name);
    dir_insert(to, newname, a);
    if (S_ISDIR(a->mode)) {
        a->parent = to;
        from->nlink--;
        to->nlink++;
    }
}

static unsigned xattr_slot(const struct sim_inode *i, const char *name, bool *found)
{
    unsigned n = 0;

    while (n < i->nxattrs && strcmp(i->xattrs[n].name, name) < 0)
        n++;
    *found = n < i->nxattrs && strcmp(i->xattrs[n].name, name) == 0;
    return n;
}

const struct sim_xattr *sim_inode_xattr(const struct sim_inode *i, const char *name)
{
    bool found;
    unsigned n = xattr_slot(i, name, &found);

    return found ? &i->xattrs[n] : NULL;
}

void sim_inode_xattr_set(struct sim_inode *i, const char *name, const void *value, size_t len)
{
    bool found;
    unsigned n = xattr_slot(i, name, &found);

    if (!found) {
        i->xattrs = realloc(i->xattrs, (i->nxattrs + 1) * sizeof(*i->xattrs));
        SFS_ASSERT(i->xattrs);
        memmove(&i->xattrs[n + 1], &i->xattrs[n], (i->nxattrs - n) * sizeof(*i->xattrs));
        i->xattrs[n] = (struct sim_xattr){.name = strdup(name)};
        i->nxattrs++;
    }
    free(i->xattrs[n].value);
    i->xattrs[n].value = malloc(len ? len : 1);
    SFS_ASSERT(i->xattrs[n].name && i->xattrs[n].value);
    if (len)
        memcpy(i->xattrs[n].value, value, len);
    i->xattrs[n].len = len;
}

void sim_inode_xattr_remove(struct sim_inode *i, const char *name)
{
    bool found;
    unsigned n = xattr_slot(i, name, &found);

    SFS_ASSERT(found);
    free(i->xattrs[n].name);
    free(i->xattrs[n].value);
    i->nxattrs--;
    memmove(&i->xattrs[n], &i->xattrs[n + 1], (i->nxattrs - n) * sizeof(*i->xattrs));
}
