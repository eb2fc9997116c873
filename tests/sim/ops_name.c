/* Operations on names. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/error.h"
#include "tests/sim/pattern.h"
#include "tests/sim/run.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

#define MANY_INODES 90u

static const struct sfs_cred cred = {.uid = 1000, .gid = 1000, .privileged = true};

/* Few enough that they are met again; a few long ones, and bytes that are no UTF-8. */
static void pick_name(struct sim_rng *g, char out[260])
{
    uint64_t n = sim_rng_below(g, 30);

    if (n < 24) {
        snprintf(out, 260, "n%llu", (unsigned long long)n);
    } else if (n < 27) {
        memset(out, 'l', 255);
        out[255] = '\0';
        out[254] = (char)('a' + n - 24);
    } else {
        snprintf(out, 260, "\xff \xc3%llu\n", (unsigned long long)n);
    }
}

/* The model's inode for what a call made. */
static struct sim_inode *made(struct sim_actor *a, struct sim_inode *dir, const char *name, int rc, const struct stat *st, mode_t mode)
{
    struct sim_inode *i = sim_tree_add(&a->tree, rc == 0 ? st->st_ino : 0, mode, a->start);

    if (rc == 0) {
        if (st->st_mode != mode || st->st_uid != cred.uid || st->st_gid != cred.gid || st->st_size != 0) {
            if (!S_ISLNK(mode))
                sim_fail(a->run, "%s made mode %o owner %u:%u size %lld, expected mode %o", a->op, st->st_mode, st->st_uid, st->st_gid,
                         (long long)st->st_size, mode);
        }
        i->lookups = 1;
    }
    i->uid = cred.uid;
    i->gid = cred.gid;
    sim_tree_link(&a->tree, dir, name, i);
    return i;
}

static bool begin_in_dir(struct sim_actor *a, const char *op, struct sim_inode **dir, char name[260])
{
    if (a->tree.ninodes > MANY_INODES && sim_rng_chance(&a->rng, 80)) {
        sim_op_unlink(a);
        return false;
    }
    *dir = sim_pick_dir(a);
    pick_name(&a->rng, name);
    if (sim_hold_dir(a, *dir) < 0)
        return false;
    sim_op_begin(a, op);
    return true;
}

static void op_create(struct sim_actor *a)
{
    struct sim_inode *dir, *i;
    struct sfs_file *file = NULL;
    char name[260];
    struct stat st = {0};
    int rc;

    if (!begin_in_dir(a, "create", &dir, name))
        return;
    if (sim_dir_get(dir, name))
        return; /* what creating an existing file does is the caller's affair: O_EXCL or not */
    rc = sfs_vfs_create(a->space->vfs, dir->ino, name, 0640, O_RDWR | O_CREAT, &cred, &st, &file);
    if (!sim_op_done(a, rc, 0, 4096))
        return;
    i = made(a, dir, name, rc, &st, S_IFREG | 0640);
    sim_op_state(a);
    if (rc < 0)
        return;
    if (a->nfiles < SIM_MAX_FILES && sim_rng_chance(&a->rng, 50)) {
        a->files[a->nfiles++] = (struct sim_file){.file = file, .inode = i, .flags = O_RDWR};
        i->opens++;
        return;
    }
    sfs_vfs_release(file);
}

static void op_mkdir(struct sim_actor *a)
{
    struct sim_inode *dir;
    char name[260];
    struct stat st = {0};
    int rc;

    if (!begin_in_dir(a, "mkdir", &dir, name))
        return;
    rc = sfs_vfs_mkdir(a->space->vfs, dir->ino, name, 0750, &cred, &st);
    if (!sim_op_done(a, rc, sim_tree_may_add(dir, name), 4096))
        return;
    made(a, dir, name, rc, &st, S_IFDIR | 0750);
    sim_op_state(a);
}

static void op_mknod(struct sim_actor *a)
{
    static const mode_t kinds[] = {S_IFREG, S_IFIFO, S_IFCHR, S_IFSOCK};
    mode_t mode = kinds[sim_rng_below(&a->rng, 4)] | 0604;
    dev_t rdev = S_ISCHR(mode) ? 0x1234 : 0;
    struct sim_inode *dir;
    char name[260];
    struct stat st = {0};
    int rc;

    if (!begin_in_dir(a, "mknod", &dir, name))
        return;
    rc = sfs_vfs_mknod(a->space->vfs, dir->ino, name, mode, rdev, &cred, &st);
    if (!sim_op_done(a, rc, sim_tree_may_add(dir, name), 4096))
        return;
    made(a, dir, name, rc, &st, mode)->rdev = rdev;
    sim_op_state(a);
}

static void op_symlink(struct sim_actor *a)
{
    struct sim_inode *dir;
    char name[260], target[4096], got[4096];
    struct stat st = {0};
    struct sim_inode *i;
    size_t len = sim_rng_chance(&a->rng, 10) ? sim_rng_between(&a->rng, 1, 4095) : sim_rng_between(&a->rng, 1, 100), n = 0;
    int rc;

    if (!begin_in_dir(a, "symlink", &dir, name))
        return;
    for (size_t k = 0; k < len; k++)
        target[k] = (char)('a' + sim_rng_below(&a->rng, 26));
    target[len] = '\0';
    rc = sfs_vfs_symlink(a->space->vfs, dir->ino, name, target, &cred, &st);
    if (!sim_op_done(a, rc, sim_tree_may_add(dir, name), 4096))
        return;
    i = made(a, dir, name, rc, &st, S_IFLNK | 0777);
    i->target = strdup(target);
    SFS_ASSERT(i->target);
    sim_op_state(a);
    if (rc < 0)
        return;
    rc = sfs_vfs_readlink(a->space->vfs, i->ino, got, sizeof(got), &n);
    if (rc == 0 ? n != len || memcmp(got, target, len) != 0 : !sim_op_maybe(a, rc, 0))
        sim_fail(a->run, "readlink after symlink: %s, %zu bytes of %zu", strerror(-rc), n, len);
}

static void op_tmpfile(struct sim_actor *a)
{
    struct sim_inode *dir, *i;
    struct sfs_file *file = NULL;
    char name[260];
    struct stat st = {0};
    int rc;

    if (!begin_in_dir(a, "tmpfile", &dir, name) || sim_dir_get(dir, name))
        return;
    rc = sfs_vfs_tmpfile(a->space->vfs, dir->ino, 0600, O_RDWR, &cred, &st, &file);
    if (!sim_op_done(a, rc, 0, 4096) || rc < 0)
        return;
    if (sim_rng_chance(&a->rng, 30)) {
        sfs_vfs_release(file);
        sfs_vfs_forget(a->space->vfs, st.st_ino, 1);
        return;
    }
    sim_op_begin(a, "link of tmpfile");
    rc = sfs_vfs_link(a->space->vfs, st.st_ino, dir->ino, name, &st);
    if (sim_op_done(a, rc, 0, 4096)) {
        i = made(a, dir, name, rc, &st, S_IFREG | 0600);
        if (rc < 0)
            i->ino = st.st_ino;
        i->lookups = rc == 0 ? 2 : 1;
        sim_op_state(a);
    } else {
        sfs_vfs_forget(a->space->vfs, st.st_ino, 1);
    }
    sfs_vfs_release(file);
}

static void op_link(struct sim_actor *a)
{
    struct sim_inode *dir;
    struct sim_pick p;
    char name[260];
    struct stat st = {0};
    int rc;

    if (!sim_pick(a, 0, &p) || S_ISDIR(p.inode->mode) || sim_hold(a, p.dir, p.name, p.inode) < 0 ||
        !begin_in_dir(a, "link", &dir, name))
        return;
    if (p.inode->nlink == 0)
        return; /* deleted to make room */
    rc = sfs_vfs_link(a->space->vfs, p.inode->ino, dir->ino, name, &st);
    if (!sim_op_done(a, rc, sim_tree_may_add(dir, name), 4096))
        return;
    sim_tree_link(&a->tree, dir, name, p.inode);
    if (rc == 0) {
        p.inode->lookups++;
        if (st.st_ino != p.inode->ino || st.st_nlink != p.inode->nlink)
            sim_fail(a->run, "link: inode %llu with %lu links, expected %llu with %u", (unsigned long long)st.st_ino,
                     (unsigned long)st.st_nlink, (unsigned long long)p.inode->ino, p.inode->nlink);
    }
    sim_op_state(a);
}

/* The last name may be gone: then the kernel lets go, too. */
static void unnamed(struct sim_actor *a, struct sim_inode *i)
{
    if (i && i->nlink == 0 && i->opens == 0)
        sim_forget(a, i);
}

void sim_op_unlink(struct sim_actor *a)
{
    struct sim_pick p;
    char name[260];
    bool dir;
    int rc, want;

    if (!sim_pick(a, 0, &p) || sim_hold_dir(a, p.dir) < 0)
        return;
    snprintf(name, sizeof(name), "%s", p.name);
    if (sim_rng_chance(&a->rng, 5))
        pick_name(&a->rng, name);
    p.inode = sim_dir_get(p.dir, name);
    dir = p.inode ? S_ISDIR(p.inode->mode) : false;
    if (sim_rng_chance(&a->rng, 5))
        dir = !dir;
    sim_op_begin(a, dir ? "rmdir" : "unlink");
    want = dir ? sim_tree_may_rmdir(p.dir, name) : sim_tree_may_unlink(p.dir, name);
    rc = dir ? sfs_vfs_rmdir(a->space->vfs, p.dir->ino, name) : sfs_vfs_unlink(a->space->vfs, p.dir->ino, name);
    if (rc == -ENOSPC)
        sim_fail(a->run, "%s: there is no space to delete something", a->op);
    if (!sim_op_done(a, rc, want, 0))
        return;
    sim_tree_unlink(&a->tree, p.dir, name);
    sim_op_state(a);
    unnamed(a, p.inode);
}

/* --- rename ---------------------------------------------------------------------------------------------------------------------------------- */

static void rename_to(struct sim_actor *a, struct sim_inode *from, const char *name, struct sim_inode *to, const char *newname, unsigned flags)
{
    struct sim_inode *moved = sim_dir_get(from, name), *over = sim_dir_get(to, newname);
    bool stored;
    int rc, want;

    sim_op_begin(a, flags & RENAME_EXCHANGE ? "exchange" : over ? "rename over" : "rename");
    want = sim_tree_may_rename(from, name, to, newname, flags);
    rc = sfs_vfs_rename(a->space->vfs, from->ino, name, to->ino, newname, flags);
    if (!sim_op_done(a, rc, want, 4096))
        return;
    stored = over && over != moved && !(flags & RENAME_EXCHANGE) && S_ISREG(moved->mode) && S_ISREG(over->mode);
    sim_tree_rename(&a->tree, from, name, to, newname, flags);
    sim_op_state(a);
    if (stored && !a->space->damaged) { /* rule 3 */
        struct sim_state *s = &a->tree.states[a->tree.nstates - 1];

        s->floor_inode = moved;
        s->floor_version = sim_content_last(&moved->content)->number;
    }
    unnamed(a, over);
}

static void op_rename(struct sim_actor *a)
{
    struct sim_inode *to = sim_pick_dir(a);
    char name[260], newname[260];
    unsigned flags = 0;
    struct sim_pick p, q;

    if (!sim_pick(a, 0, &p))
        return;
    snprintf(name, sizeof(name), "%s", p.name);
    pick_name(&a->rng, newname);
    if (sim_rng_chance(&a->rng, 50) && sim_pick(a, p.inode->mode & S_IFMT, &q)) {
        to = q.dir;
        snprintf(newname, sizeof(newname), "%s", q.name);
    }
    if (sim_rng_chance(&a->rng, 25))
        flags = sim_rng_chance(&a->rng, 50) ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (sim_hold_dir(a, p.dir) == 0 && sim_hold_dir(a, to) == 0)
        rename_to(a, p.dir, name, to, newname, flags);
}

/* As editors save: a temporary file, written whole, then renamed over the old one; synced or not. */
static void op_replace(struct sim_actor *a)
{
    bool sync = sim_rng_chance(&a->rng, 50);
    char name[260], temporary[260];
    struct sfs_file *file = NULL;
    struct stat st = {0};
    struct sim_inode *i;
    struct sim_pick p;
    uint8_t *data;
    size_t len = sim_rng_between(&a->rng, 1, 200000), n = 0;
    uint32_t tag = a->run->next_tag++;
    int rc;

    if (!sim_pick(a, S_IFREG, &p) || sim_hold_dir(a, p.dir) < 0)
        return;
    snprintf(name, sizeof(name), "%s", p.name);
    snprintf(temporary, sizeof(temporary), ".tmp%u", tag);
    sim_op_begin(a, "create");
    rc = sfs_vfs_create(a->space->vfs, p.dir->ino, temporary, 0644, O_RDWR | O_CREAT, &cred, &st, &file);
    if (!sim_op_done(a, rc, 0, 4096))
        return;
    i = made(a, p.dir, temporary, rc, &st, S_IFREG | 0644);
    sim_op_state(a);
    if (rc < 0 || a->run->stop) {
        sfs_vfs_release(file);
        return;
    }
    data = malloc(len);
    SFS_ASSERT(data);
    sim_pattern_fill(data, tag, 0, len);
    sim_op_begin(a, "write");
    rc = sfs_vfs_write(file, data, len, 0, false, false, &n);
    free(data);
    if (sim_op_done(a, rc, 0, len)) {
        sim_content_write(&i->content, a->start, 0, rc == 0 ? n : len, tag);
        sim_op_content(a, i);
    }
    if (rc == 0 && sync && !a->run->stop) {
        sim_op_begin(a, "fsync");
        rc = sfs_vfs_fsync(file, false);
        if (sim_op_done(a, rc, 0, 0) && rc == 0 && !sim_crashed(a->run)) {
            sim_durable(a->run, NULL, a->start);
            sim_content_floor(&i->content, sim_content_last(&i->content)->number);
        }
    }
    sfs_vfs_release(file);
    if (rc == 0 && !a->run->stop)
        rename_to(a, p.dir, temporary, p.dir, name, 0);
}

const struct sim_op sim_name_ops[] = {
    {"create", 90, op_create},   {"mkdir", 30, op_mkdir},       {"mknod", 8, op_mknod},     {"symlink", 15, op_symlink},
    {"tmpfile", 6, op_tmpfile},  {"link", 20, op_link},         {"unlink", 60, sim_op_unlink}, {"rename", 60, op_rename},
    {"replace", 25, op_replace}, {0},
};
