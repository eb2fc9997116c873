/* Picking operations and running them, in one fiber or several; what all operations share. */
#include <errno.h>
#include <string.h>

#include "tests/sim/run.h"

/* --- one operation ----------------------------------------------------------------------------------------------------------------------- */

void sim_op_begin(struct sim_actor *a, const char *name)
{
    a->start = ++a->run->clock;
    a->op = name;
    a->maybe = false;
}

/* Is there so little room that ENOSPC is honest? What statfs says is free must be so, within 5 % and a slab. */
static bool tight(struct sim_actor *a, uint64_t need_bytes)
{
    struct sfs_vfs_statfs fs;
    struct sim_run *r = a->run;

    if (r->full || sfs_vfs_statfs(a->space->vfs, &fs) < 0)
        return true; /* a full disk has no room for its catalog either, whatever is free elsewhere */
    if (need_bytes == 0 && r->faulted)
        return true; /* write-back met a moment without room: a lost disk took what had been free, then came back or was healed */
    return fs.bavail * fs.block_bytes < fs.blocks * fs.block_bytes / 20 + SIM_SLAB_BYTES + need_bytes;
}

bool sim_op_maybe(struct sim_actor *a, int rc, uint64_t need_bytes)
{
    struct sim_run *r = a->run;
    struct sfs_vfs_statfs fs;

    if (sim_crashed(r)) {
        r->stop = true;
        return true;
    }
    if (rc == -ENOSPC && tight(a, need_bytes)) {
        a->full = 20;
        return true;
    }
    if (rc == -ENOSPC && sfs_vfs_statfs(a->space->vfs, &fs) == 0)
        sim_note(r, "%llu bytes were wanted; %llu of %llu blocks are available", (unsigned long long)need_bytes, (unsigned long long)fs.bavail,
                 (unsigned long long)fs.blocks);
    if (rc == -EIO && a->space->damaged)
        return true;
    if ((rc == -EIO || rc == -EROFS || rc == -ENOSPC) && r->doomed) {
        r->stop = true;
        return true;
    }
    return false;
}

bool sim_op_done(struct sim_actor *a, int rc, int want, uint64_t need_bytes)
{
    struct sim_run *r = a->run;

    sim_hash(r, (uint64_t)(int64_t)rc);
    sim_hash(r, sfs_env_mono_ns(r->env));
    if (!sim_alive(r))
        r->stop = true;
    if (rc == want)
        return rc == 0;
    sim_note(r, "  %s: %s", a->op, strerror(-rc));
    if (!sim_op_maybe(a, rc, need_bytes))
        sim_fail(r, "%s in %s/%s returned %s, expected %s", a->op, a->space->name, a->dir, rc ? strerror(-rc) : "success",
                 want ? strerror(-want) : "success");
    a->maybe = r->stop && want == 0;
    return a->maybe;
}

void sim_op_state(struct sim_actor *a)
{
    struct sim_run *r = a->run;

    r->clock++;
    sim_tree_push(&a->tree, a->start, a->maybe ? UINT64_MAX : r->clock, sfs_env_mono_ns(r->env));
    sim_note(r, "  %s: state %llu, events %llu to %llu", a->op, (unsigned long long)a->tree.states[a->tree.nstates - 1].number,
             (unsigned long long)a->start, a->maybe ? 0ull : (unsigned long long)r->clock);
}

void sim_op_content(struct sim_actor *a, struct sim_inode *i)
{
    struct sim_run *r = a->run;

    sim_note(r, "  %s: inode %llu has version %llu of %llu bytes", a->op, (unsigned long long)i->ino,
             (unsigned long long)sim_content_last(&i->content)->number, (unsigned long long)sim_content_size(&i->content));

    r->clock++;
    sim_content_done(&i->content, a->maybe ? UINT64_MAX : r->clock, sfs_env_mono_ns(r->env));
    i->mtime_set = false;
}

void sim_durable(struct sim_run *r, struct sim_space *s, uint64_t clock)
{
    if (sim_crashed(r))
        return; /* it returned success, but what it says can't be told from a call that did not return */
    for (unsigned i = 0; i < r->nactors; i++)
        sim_tree_durable(&r->actors[i].tree, clock, r->actors[i].space == s);
}

/* --- picking ------------------------------------------------------------------------------------------------------------------------------- */

struct sim_inode *sim_pick_dir(struct sim_actor *a)
{
    struct sim_inode *i, *picked = a->tree.root;
    uint64_t seen = 0;

    TAILQ_FOREACH(i, &a->tree.inodes, all)
    {
        if (S_ISDIR(i->mode) && i->nlink > 0 && sim_rng_below(&a->rng, ++seen) == 0)
            picked = i;
    }
    return picked;
}

bool sim_pick(struct sim_actor *a, mode_t type, struct sim_pick *out)
{
    for (int tries = 0; tries < 12; tries++) {
        struct sim_inode *dir = sim_pick_dir(a);
        struct sim_dentry *d;

        if (!dir->ndentries)
            continue;
        d = &dir->dentries[sim_rng_below(&a->rng, dir->ndentries)];
        if (type && (d->inode->mode & S_IFMT) != type)
            continue;
        *out = (struct sim_pick){.dir = dir, .inode = d->inode, .name = d->name};
        return true;
    }
    return false;
}

/* --- look-ups, as a kernel would hold them ---------------------------------------------------------------------------------------------------- */

int sim_hold_dir(struct sim_actor *a, struct sim_inode *dir)
{
    if (dir->lookups > 0)
        return 0;
    for (unsigned n = 0; n < dir->parent->ndentries; n++) {
        if (dir->parent->dentries[n].inode == dir)
            return sim_hold(a, dir->parent, dir->parent->dentries[n].name, dir);
    }
    return -ENOENT;
}

int sim_hold(struct sim_actor *a, struct sim_inode *dir, const char *name, struct sim_inode *i)
{
    struct stat st;
    int rc;

    if (i->lookups > 0)
        return 0;
    rc = sim_hold_dir(a, dir);
    if (rc == 0)
        rc = sfs_vfs_lookup(a->space->vfs, dir->ino, name, &st);
    if (rc == 0) {
        if (st.st_ino != i->ino)
            sim_fail(a->run, "look-up of %s found inode %llu, expected %llu", name, (unsigned long long)st.st_ino,
                     (unsigned long long)i->ino);
        i->lookups = 1;
        return 0;
    }
    if (!sim_op_maybe(a, rc, 0))
        sim_fail(a->run, "look-up of %s (inode %llu): %s", name, (unsigned long long)i->ino, strerror(-rc));
    return rc;
}

void sim_forget(struct sim_actor *a, struct sim_inode *i)
{
    if (i->lookups && i != a->tree.root) {
        sfs_vfs_forget(a->space->vfs, i->ino, i->lookups);
        i->lookups = 0;
    }
}

void sim_close_file(struct sim_actor *a, unsigned n)
{
    struct sim_inode *i = a->files[n].inode;

    sfs_vfs_release(a->files[n].file);
    a->files[n] = a->files[--a->nfiles];
    i->opens--;
    if (i->nlink == 0 && i->opens == 0)
        sim_forget(a, i);
}

void sim_close_files(struct sim_actor *a)
{
    while (a->nfiles > 0)
        sim_close_file(a, a->nfiles - 1);
}

/* --- running ---------------------------------------------------------------------------------------------------------------------------------- */

static const struct sim_op *draw(struct sim_rng *g, const struct sim_op *const *tables)
{
    uint64_t total = 0, at;

    for (const struct sim_op *const *t = tables; *t; t++) {
        for (const struct sim_op *o = *t; o->name; o++)
            total += o->weight;
    }
    at = sim_rng_below(g, total);
    for (const struct sim_op *const *t = tables; *t; t++) {
        for (const struct sim_op *o = *t; o->name; o++) {
            if (at < o->weight)
                return o;
            at -= o->weight;
        }
    }
    return NULL;
}

static void one_op(struct sim_actor *a)
{
    static const struct sim_op *const all[] = {sim_data_ops, sim_file_ops, sim_name_ops, sim_admin_ops, sim_disk_ops, NULL};
    struct sim_run *r = a->run;
    const struct sim_op *op = draw(&a->rng, all);

    r->op_count++;
    r->stats.ops++;
    sim_hash(r, r->op_count);
    sim_hash(r, (uint64_t)op->name[0] << 8 | (uint64_t)op->name[1]);
    if (a->full > 0 && sim_rng_chance(&a->rng, 40)) {
        a->full--;
        sim_op_unlink(a);
        return;
    }
    sim_note(r, "%s/%s %s", a->space->name, a->dir, op->name);
    op->fn(a);
}

struct fiber {
    struct sim_run *run;
    unsigned number;
    struct sfs_thread *thread;
};

static void fiber_run(void *arg)
{
    struct fiber *f = arg;
    struct sim_run *r = f->run;
    struct sim_rng g = sim_rng_stream(r->opt.seed, 200 + 10 * r->epoch + f->number);

    while (!r->stop && r->ops_left > 0) {
        struct sim_actor *a;

        do {
            a = &r->actors[sim_rng_below(&g, r->nactors)];
        } while (a->fiber != f->number);
        r->ops_left--;
        one_op(a);
        if (sim_crashed(r))
            r->stop = true;
        if (r->nfibers == 1 && !r->stop && sim_rng_chance(&g, 4))
            sim_faults_step(r);
    }
}

void sim_workload(struct sim_run *r)
{
    struct fiber fibers[SIM_MAX_FIBERS] = {0};
    struct sim_rng g = sim_rng_stream(r->opt.seed, 209 + 10 * r->epoch);
    int rc;

    r->stop = false;
    r->ops_left = r->opt.ops;
    for (unsigned i = 0; i < r->nfibers; i++)
        fibers[i] = (struct fiber){.run = r, .number = i};
    if (r->nfibers == 1) {
        fiber_run(&fibers[0]);
        return;
    }
    for (unsigned i = 0; i < r->nfibers; i++) {
        rc = sfs_thread_start(r->env, "workload", fiber_run, &fibers[i], &fibers[i].thread);
        if (rc < 0)
            sim_fail(r, "a fiber can't be started: %s", strerror(-rc));
    }
    while (!r->stop && r->ops_left > 0) { /* faults in the midst of operations */
        sfs_env_sleep_ns(r->env, sim_rng_below(&g, SIM_NS_PER_S));
        if (!r->stop && r->ops_left > 0)
            sim_faults_step(r);
    }
    for (unsigned i = 0; i < r->nfibers; i++)
        sfs_thread_join(fibers[i].thread);
}
