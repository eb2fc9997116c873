/* Operations on attributes, xattrs and open files; reading directories. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/base/error.h"
#include "tests/sim/run.h"

/* --- open files -------------------------------------------------------------------------------------------------------------------------------- */

static void op_open(struct sim_actor *a)
{
    int flags = O_RDWR | (sim_rng_chance(&a->rng, 5) ? O_TRUNC : 0);
    struct sfs_file *file = NULL;
    struct sim_pick p;
    int rc;

    if (a->nfiles == SIM_MAX_FILES || !sim_pick(a, S_IFREG, &p) || sim_hold(a, p.dir, p.name, p.inode) < 0)
        return;
    sim_op_begin(a, "open");
    rc = sfs_vfs_open_file(a->space->vfs, p.inode->ino, flags, &file);
    if (!sim_op_done(a, rc, 0, 0))
        return;
    if (flags & O_TRUNC) {
        sim_content_truncate(&p.inode->content, a->start, 0);
        sim_op_content(a, p.inode);
    }
    if (rc < 0)
        return;
    a->files[a->nfiles++] = (struct sim_file){.file = file, .inode = p.inode, .flags = flags};
    p.inode->opens++;
}

static void op_close(struct sim_actor *a)
{
    unsigned n;
    int rc;

    if (a->nfiles == 0)
        return;
    n = (unsigned)sim_rng_below(&a->rng, a->nfiles);
    sim_op_begin(a, "flush");
    rc = sfs_vfs_flush(a->files[n].file);
    sim_op_done(a, rc, 0, 0);
    sim_close_file(a, n);
}

static void op_forget(struct sim_actor *a)
{
    struct sim_pick p;

    if (sim_pick(a, 0, &p) && p.inode->opens == 0)
        sim_forget(a, p.inode);
}

/* --- attributes ----------------------------------------------------------------------------------------------------------------------------------- */

static void op_getattr(struct sim_actor *a)
{
    struct sim_pick p;
    struct stat st = {0};
    int rc;

    if (!sim_pick(a, 0, &p) || sim_hold(a, p.dir, p.name, p.inode) < 0)
        return;
    sim_op_begin(a, "getattr");
    rc = sfs_vfs_getattr(a->space->vfs, p.inode->ino, &st);
    if (!sim_op_done(a, rc, 0, 0) || rc < 0)
        return;
    if (st.st_ino != p.inode->ino || st.st_mode != p.inode->mode || st.st_nlink != p.inode->nlink || st.st_uid != p.inode->uid ||
        st.st_gid != p.inode->gid)
        sim_fail(a->run, "getattr of inode %llu: mode %o nlink %lu owner %u:%u, expected mode %o nlink %u owner %u:%u",
                 (unsigned long long)p.inode->ino, st.st_mode, (unsigned long)st.st_nlink, st.st_uid, st.st_gid, p.inode->mode,
                 p.inode->nlink, p.inode->uid, p.inode->gid);
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size != sim_content_size(&p.inode->content))
        sim_fail(a->run, "getattr of inode %llu: size %lld, expected %llu", (unsigned long long)p.inode->ino, (long long)st.st_size,
                 (unsigned long long)sim_content_size(&p.inode->content));
    if (p.inode->mtime_set && (st.st_mtim.tv_sec != p.inode->mtime.tv_sec || st.st_mtim.tv_nsec != p.inode->mtime.tv_nsec))
        sim_fail(a->run, "getattr of inode %llu: mtime %lld.%09ld, set to %lld.%09ld", (unsigned long long)p.inode->ino,
                 (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long long)p.inode->mtime.tv_sec, p.inode->mtime.tv_nsec);
}

static void op_chmod(struct sim_actor *a)
{
    struct sim_pick p;
    struct stat st = {0}, out;
    unsigned set = sim_rng_chance(&a->rng, 60) ? SFS_SET_MODE : SFS_SET_UID | SFS_SET_GID;
    int rc;

    if (!sim_pick(a, 0, &p) || S_ISLNK(p.inode->mode) || sim_hold(a, p.dir, p.name, p.inode) < 0)
        return;
    st.st_mode = (p.inode->mode & S_IFMT) | (mode_t)sim_rng_below(&a->rng, 0777);
    st.st_uid = (uid_t)sim_rng_below(&a->rng, 5000);
    st.st_gid = (gid_t)sim_rng_below(&a->rng, 5000);
    sim_op_begin(a, "chmod");
    rc = sfs_vfs_setattr(a->space->vfs, p.inode->ino, &st, set, &(struct sfs_cred){.privileged = true}, &out);
    if (!sim_op_done(a, rc, 0, 0))
        return;
    if (set & SFS_SET_MODE) {
        p.inode->mode = st.st_mode;
    } else {
        p.inode->uid = st.st_uid;
        p.inode->gid = st.st_gid;
    }
    sim_note(a->run, "  inode %llu: mode %o owner %u:%u", (unsigned long long)p.inode->ino, p.inode->mode, p.inode->uid, p.inode->gid);
    sim_op_state(a);
}

/* Any time: before 1970, after 2038, after 2262. */
static void op_utimens(struct sim_actor *a)
{
    struct sim_pick p;
    struct stat st = {0}, out;
    int rc;

    if (!sim_pick(a, 0, &p) || sim_hold(a, p.dir, p.name, p.inode) < 0)
        return;
    st.st_mtim.tv_sec = (time_t)sim_rng_below(&a->rng, 20000000000ull) - 5000000000;
    st.st_mtim.tv_nsec = (long)sim_rng_below(&a->rng, SIM_NS_PER_S);
    st.st_atim = st.st_mtim;
    sim_op_begin(a, "utimens");
    rc = sfs_vfs_setattr(a->space->vfs, p.inode->ino, &st, SFS_SET_MTIME | SFS_SET_ATIME, &(struct sfs_cred){.privileged = true}, &out);
    if (!sim_op_done(a, rc, 0, 0))
        return;
    p.inode->mtime_set = S_ISREG(p.inode->mode) && rc == 0;
    p.inode->mtime = st.st_mtim;
}

/* --- xattrs ------------------------------------------------------------------------------------------------------------------------------------------ */

static void op_setxattr(struct sim_actor *a)
{
    size_t len = sim_rng_chance(&a->rng, 10) ? sim_rng_below(&a->rng, 20000) : sim_rng_below(&a->rng, 100);
    uint8_t *value = malloc(len + 1);
    const struct sim_xattr *old;
    struct sim_pick p;
    char name[32];
    int rc, flags = 0, want = 0;

    SFS_ASSERT(value);
    for (size_t n = 0; n < len; n++)
        value[n] = (uint8_t)sim_rng_next(&a->rng);
    if (!sim_pick(a, 0, &p) || S_ISLNK(p.inode->mode) || sim_hold(a, p.dir, p.name, p.inode) < 0) {
        free(value);
        return;
    }
    snprintf(name, sizeof(name), "user.x%llu", (unsigned long long)sim_rng_below(&a->rng, 6));
    old = sim_inode_xattr(p.inode, name);
    if (sim_rng_chance(&a->rng, 20)) {
        flags = sim_rng_chance(&a->rng, 50) ? XATTR_CREATE : XATTR_REPLACE;
        want = flags == XATTR_CREATE ? (old ? -EEXIST : 0) : (old ? 0 : -ENODATA);
    }
    sim_op_begin(a, "setxattr");
    rc = sfs_vfs_setxattr(a->space->vfs, p.inode->ino, name, value, len, flags, &(struct sfs_cred){.privileged = true});
    if (sim_op_done(a, rc, want, len + 4096)) {
        sim_inode_xattr_set(p.inode, name, value, len);
        sim_op_state(a);
    }
    free(value);
}

static void op_getxattr(struct sim_actor *a)
{
    const struct sim_xattr *x;
    struct sim_pick p;
    uint8_t *got;
    size_t len = 0;
    char name[32];
    int rc;

    if (!sim_pick(a, 0, &p) || sim_hold(a, p.dir, p.name, p.inode) < 0)
        return;
    snprintf(name, sizeof(name), "user.x%llu", (unsigned long long)sim_rng_below(&a->rng, 6));
    x = sim_inode_xattr(p.inode, name);
    got = malloc(65536);
    SFS_ASSERT(got);
    sim_op_begin(a, "getxattr");
    rc = sfs_vfs_getxattr(a->space->vfs, p.inode->ino, name, got, 65536, &len);
    if (sim_op_done(a, rc, x ? 0 : -ENODATA, 0) && rc == 0 && (len != x->len || memcmp(got, x->value, len) != 0))
        sim_fail(a->run, "getxattr %s of inode %llu: %zu bytes, expected %zu, or others", name, (unsigned long long)p.inode->ino, len,
                 x->len);
    free(got);
}

static void op_removexattr(struct sim_actor *a)
{
    struct sim_pick p;
    char name[32];
    int rc;

    if (!sim_pick(a, 0, &p) || sim_hold(a, p.dir, p.name, p.inode) < 0)
        return;
    snprintf(name, sizeof(name), "user.x%llu", (unsigned long long)sim_rng_below(&a->rng, 6));
    if (p.inode->nxattrs > 0 && sim_rng_chance(&a->rng, 80))
        snprintf(name, sizeof(name), "%s", p.inode->xattrs[0].name);
    sim_op_begin(a, "removexattr");
    rc = sfs_vfs_removexattr(a->space->vfs, p.inode->ino, name);
    if (!sim_op_done(a, rc, sim_inode_xattr(p.inode, name) ? 0 : -ENODATA, 0))
        return;
    sim_inode_xattr_remove(p.inode, name);
    sim_op_state(a);
}

/* --- directories -------------------------------------------------------------------------------------------------------------------------------------- */

struct listing {
    struct sim_actor *a;
    struct sim_inode *dir;
    unsigned seen, left;
    uint64_t cookie;
};

static bool listed(void *ctx, const char *name, const struct stat *st, uint64_t next_cookie)
{
    struct listing *l = ctx;
    struct sim_inode *i;

    if (l->left-- == 0)
        return false;
    l->cookie = next_cookie;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    i = sim_dir_get(l->dir, name);
    if (!i)
        sim_fail(l->a->run, "readdir of inode %llu shows \"%s\", which isn't there", (unsigned long long)l->dir->ino, name);
    if (i->ino != st->st_ino || (i->mode & S_IFMT) != (st->st_mode & S_IFMT))
        sim_fail(l->a->run, "readdir shows \"%s\" as inode %llu mode %o, expected %llu mode %o", name, (unsigned long long)st->st_ino,
                 st->st_mode, (unsigned long long)i->ino, i->mode);
    l->seen++;
    return true;
}

static void op_readdir(struct sim_actor *a)
{
    struct listing l = {.a = a, .dir = sim_pick_dir(a)};
    uint64_t before;
    int rc;

    if (sim_hold_dir(a, l.dir) < 0)
        return;
    do { /* in several calls, each from the cookie of the last */
        before = l.cookie;
        l.left = (unsigned)sim_rng_between(&a->rng, 1, 30);
        sim_op_begin(a, "readdir");
        rc = sfs_vfs_readdir(a->space->vfs, l.dir->ino, l.cookie, false, listed, &l);
        if (!sim_op_done(a, rc, 0, 0) || rc < 0)
            return;
    } while (l.cookie != before);
    if (l.seen != l.dir->ndentries)
        sim_fail(a->run, "readdir of inode %llu shows %u names of %u", (unsigned long long)l.dir->ino, l.seen, l.dir->ndentries);
}

const struct sim_op sim_file_ops[] = {
    {"open", 40, op_open},         {"close", 35, op_close},       {"forget", 20, op_forget},       {"getattr", 30, op_getattr},
    {"chmod", 20, op_chmod},       {"utimens", 15, op_utimens},   {"setxattr", 25, op_setxattr},   {"getxattr", 10, op_getxattr},
    {"removexattr", 10, op_removexattr}, {"readdir", 25, op_readdir}, {0},
};
