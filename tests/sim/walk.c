/* Reads a tree through the file system into the model's form: names, attributes, xattrs, targets; not the contents. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/error.h"
#include "tests/sim/run.h"

struct entry {
    char *name;
    struct stat st;
};

struct walk {
    struct sim_actor *a;
    struct sim_tree *tree;
    char *why;
    size_t cap;
};

struct listing {
    struct entry *entries;
    unsigned n, room;
};

static bool collect(void *ctx, const char *name, const struct stat *st, uint64_t next_cookie)
{
    struct listing *l = ctx;

    (void)next_cookie;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    if (l->n == l->room) {
        l->room = l->room ? l->room * 2 : 16;
        l->entries = realloc(l->entries, l->room * sizeof(*l->entries));
        SFS_ASSERT(l->entries);
    }
    l->entries[l->n] = (struct entry){.name = strdup(name), .st = *st};
    SFS_ASSERT(l->entries[l->n].name);
    l->n++;
    return true;
}

static int walk_xattrs(struct walk *w, struct sim_inode *i)
{
    struct sfs_vfs *vfs = w->a->space->vfs;
    char *names = malloc(65536), *value = malloc(65536);
    size_t len = 0, value_len = 0;
    int rc;

    SFS_ASSERT(names && value);
    rc = sfs_vfs_listxattr(vfs, i->ino, names, 65536, &len);
    for (size_t at = 0; rc == 0 && at < len; at += strlen(names + at) + 1) {
        rc = sfs_vfs_getxattr(vfs, i->ino, names + at, value, 65536, &value_len);
        if (rc == 0)
            sim_inode_xattr_set(i, names + at, value, value_len);
    }
    if (rc < 0)
        snprintf(w->why, w->cap, "xattrs of inode %llu: %s", (unsigned long long)i->ino, strerror(-rc));
    free(names);
    free(value);
    return rc;
}

static int walk_target(struct walk *w, struct sim_inode *i)
{
    char *target = calloc(1, 4097);
    size_t len = 0;
    int rc;

    SFS_ASSERT(target);
    rc = sfs_vfs_readlink(w->a->space->vfs, i->ino, target, 4096, &len);
    if (rc < 0)
        snprintf(w->why, w->cap, "target of symlink %llu: %s", (unsigned long long)i->ino, strerror(-rc));
    i->target = target;
    return rc;
}

static int walk_dir(struct walk *w, struct sim_inode *dir);

static int walk_entry(struct walk *w, struct sim_inode *dir, const struct entry *e)
{
    struct sim_inode *i = sim_tree_find(w->tree, e->st.st_ino);
    int rc = 0;

    if (i && (S_ISDIR(i->mode) || i->mode != e->st.st_mode)) {
        snprintf(w->why, w->cap, "\"%s\" is inode %llu, which was met before as another thing or a directory", e->name,
                 (unsigned long long)i->ino);
        return -EUCLEAN;
    }
    if (!i) {
        i = sim_tree_add(w->tree, e->st.st_ino, e->st.st_mode, w->a->run->clock);
        i->uid = e->st.st_uid;
        i->gid = e->st.st_gid;
        i->rdev = e->st.st_rdev;
        i->mtime = e->st.st_mtim;
        if (S_ISREG(i->mode)) /* for the check: its size, as zeros until then */
            sim_version_append(sim_content_last(&i->content), sim_content_last(&i->content), 0, (uint64_t)e->st.st_size);
    }
    i->lookups++;
    sim_tree_link(w->tree, dir, e->name, i);
    if (i->lookups == 1)
        rc = walk_xattrs(w, i);
    if (rc == 0 && S_ISLNK(i->mode) && !i->target)
        rc = walk_target(w, i);
    if (rc == 0 && S_ISDIR(i->mode))
        rc = walk_dir(w, i);
    if (rc == 0 && S_ISDIR(i->mode) && e->st.st_nlink != i->nlink) {
        snprintf(w->why, w->cap, "directory \"%s\" (inode %llu) has link count %lu, and %u directories in it", e->name,
                 (unsigned long long)i->ino, (unsigned long)e->st.st_nlink, i->nlink - 2);
        rc = -EUCLEAN;
    }
    return rc;
}

static int walk_dir(struct walk *w, struct sim_inode *dir)
{
    struct listing l = {0};
    int rc = sfs_vfs_readdir(w->a->space->vfs, dir->ino, 0, true, collect, &l);

    if (rc < 0)
        snprintf(w->why, w->cap, "reading directory %llu: %s", (unsigned long long)dir->ino, strerror(-rc));
    for (unsigned n = 0; n < l.n; n++) {
        if (rc == 0)
            rc = walk_entry(w, dir, &l.entries[n]);
        else
            sfs_vfs_forget(w->a->space->vfs, l.entries[n].st.st_ino, 1);
        free(l.entries[n].name);
    }
    free(l.entries);
    return rc;
}

/* The link counts of files as stat tells them; in the text are those that were counted. */
static int check_links(struct walk *w)
{
    struct sim_inode *i;

    TAILQ_FOREACH(i, &w->tree->inodes, all)
    {
        struct stat st;
        int rc = sfs_vfs_getattr(w->a->space->vfs, i->ino, &st);

        if (rc < 0 || st.st_nlink != i->nlink) {
            snprintf(w->why, w->cap, "inode %llu has link count %lu and %u names (%s)", (unsigned long long)i->ino,
                     rc < 0 ? 0 : (unsigned long)st.st_nlink, i->nlink, strerror(-rc));
            return rc < 0 ? rc : -EUCLEAN;
        }
    }
    return 0;
}

int sim_walk(struct sim_actor *a, struct sim_tree *out, char *why, size_t cap)
{
    struct walk w = {.a = a, .tree = out, .why = why, .cap = cap};
    struct stat st;
    int rc;

    sim_tree_init(out, a->tree.root->ino, 0);
    rc = sfs_vfs_getattr(a->space->vfs, out->root->ino, &st);
    if (rc < 0) {
        snprintf(why, cap, "attributes of %s: %s", a->dir, strerror(-rc));
        return rc;
    }
    out->root->mode = st.st_mode;
    out->root->uid = st.st_uid;
    out->root->gid = st.st_gid;
    out->root->lookups = 0;
    rc = walk_xattrs(&w, out->root);
    if (rc == 0)
        rc = walk_dir(&w, out->root);
    return rc == 0 ? check_links(&w) : rc;
}
