/* What came back after a crash, a kill or a clean end, held against the model.
 *
 * One moment of commit must explain all trees at once. For each tree every state that it may be in is tried: names and attributes must be those of
 * the state, contents must be made of allowed versions. Such a state holds for commits between `from` (the latest beginning of anything that is there)
 * and `to` (the end of the first namespace operation that isn't). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/error.h"
#include "tests/sim/run.h"

struct candidate {
    unsigned state;    /* index in the tree's states */
    uint64_t from, to;
};

struct found {
    struct sim_tree tree;
    char *text;
    struct candidate *candidates;
    unsigned n;
    char why[700];     /* the best that can be said when there is none */
};

/* What the old inode is called in the model; an inode of an unreturned call has no number there. */
static struct sim_inode *known(const struct sim_actor *a, uint64_t ino)
{
    struct sim_inode *i = sim_tree_find(&a->tree, ino);

    return i ? i : sim_tree_find(&a->tree, 0);
}

static uint64_t floor_of(const struct sim_actor *a, const struct sim_inode *i, unsigned state)
{
    uint64_t floor = 0;

    for (unsigned n = 0; n <= state; n++) {
        const struct sim_state *s = &a->tree.states[n];

        if (s->floor_inode == i && s->floor_version > floor)
            floor = s->floor_version;
    }
    return floor;
}

static void note_versions(struct sim_actor *a, uint64_t ino, const struct sim_content *c)
{
    for (unsigned n = 0; n < c->n; n++)
        sim_note(a->run, "  inode %llu version %llu: size %llu, begun at event %llu", (unsigned long long)ino,
                 (unsigned long long)c->versions[n].number, (unsigned long long)c->versions[n].size,
                 (unsigned long long)c->versions[n].start);
}

/* Are the contents of all files possible in that state? Then they are in f->tree. */
static bool contents_fit(struct sim_actor *a, struct found *f, unsigned state, bool exact, uint64_t *from_clock)
{
    struct sim_inode *i;

    TAILQ_FOREACH(i, &f->tree.inodes, all)
    {
        struct sim_version made = {0};
        struct sim_match m = {.exact = exact && !a->space->damaged, .eio_ok = a->space->damaged, .found = &made};
        const struct sim_inode *old;

        if (!S_ISREG(i->mode))
            continue;
        old = known(a, i->ino);
        if (!old || !S_ISREG(old->mode)) {
            snprintf(f->why, sizeof(f->why), "inode %llu is not known", (unsigned long long)i->ino);
            return false;
        }
        m.floor = floor_of(a, old, state);
        if (sim_match_file(a, i->ino, &old->content, sim_content_size(&i->content), &m) < 0) {
            snprintf(f->why, sizeof(f->why), "inode %llu in state %llu of %llu..%llu: %s", (unsigned long long)i->ino,
                     (unsigned long long)a->tree.states[state].number, (unsigned long long)a->tree.states[0].number,
                     (unsigned long long)a->tree.states[a->tree.nstates - 1].number, m.why);
            note_versions(a, i->ino, &old->content);
            sim_note_places(a, i->ino);
            free(made.segs);
            return false;
        }
        made.start = made.end = a->run->clock;
        made.at_ns = 0;
        sim_content_reset(&i->content, &made);
        i->lossy = m.lossy;
        if (m.from_clock > *from_clock)
            *from_clock = m.from_clock;
    }
    return true;
}

static void find_candidates(struct sim_actor *a, struct found *f, bool exact)
{
    unsigned last = a->tree.nstates - 1, first = exact ? last : 0;
    char diff_last[480], diff_first[480];
    bool named = false;

    f->candidates = calloc(a->tree.nstates, sizeof(*f->candidates));
    SFS_ASSERT(f->candidates);
    for (unsigned n = first; n <= last; n++) {
        uint64_t from = a->tree.states[n].start;

        if (!sim_text_equal(a->tree.states[n].text, f->text))
            continue;
        named = true;
        if (contents_fit(a, f, n, exact, &from)) {
            f->candidates[f->n++] =
                (struct candidate){.state = n, .from = from, .to = n < last ? a->tree.states[n + 1].end : UINT64_MAX};
        }
    }
    if (named)
        return;
    sim_text_diff(a->tree.states[last].text, f->text, diff_last, sizeof(diff_last));
    sim_text_diff(a->tree.states[first].text, f->text, diff_first, sizeof(diff_first));
    snprintf(f->why, sizeof(f->why), "names and attributes are in none of the states %llu..%llu; from the newest: %s",
             (unsigned long long)a->tree.states[first].number, (unsigned long long)a->tree.states[last].number, diff_last);
    sim_note(a->run, "from the oldest: %s", diff_first);
}

static const struct candidate *candidate_at(const struct found *f, uint64_t moment)
{
    for (unsigned n = 0; n < f->n; n++) {
        if (f->candidates[n].from <= moment && moment <= f->candidates[n].to)
            return &f->candidates[n];
    }
    return NULL;
}

/* The moment of commit that explains all trees. */
static uint64_t find_moment(struct sim_run *r, struct found *all)
{
    for (unsigned k = 0; k < r->nactors; k++) {
        for (unsigned n = 0; n < all[k].n; n++) {
            uint64_t moment = all[k].candidates[n].from;
            bool fits = true;

            for (unsigned other = 0; other < r->nactors && fits; other++)
                fits = candidate_at(&all[other], moment) != NULL;
            if (fits)
                return moment;
        }
    }
    for (unsigned k = 0; k < r->nactors; k++)
        sim_note(r, "%s/%s: %u states possible, the first from %llu to %llu", r->actors[k].space->name, r->actors[k].dir, all[k].n,
                 (unsigned long long)all[k].candidates[0].from, (unsigned long long)all[k].candidates[0].to);
    sim_fail(r, "no single moment of commit explains what is in all trees");
}

/* What is older than the commit interval is durable without being asked for. */
static void age(struct sim_run *r)
{
    uint64_t now = r->alive_ns, interval = 0;

    if (r->faulted)
        return;
    for (unsigned i = 0; i < r->nspaces; i++) {
        if (r->spaces[i].opts.commit_interval_ns > interval)
            interval = r->spaces[i].opts.commit_interval_ns;
    }
    interval = interval * 5 / 2 + 2 * SIM_NS_PER_S;
    for (unsigned i = 0; i < r->nactors && now > interval; i++)
        sim_tree_durable_ns(&r->actors[i].tree, now - interval);
}

/* Files of which something was lost go, as a user would have them go. */
static void delete_lossy(struct sim_actor *a, struct sim_inode *dir)
{
    for (unsigned n = dir->ndentries; n > 0; n--) {
        struct sim_inode *i = dir->dentries[n - 1].inode;
        int rc;

        if (S_ISDIR(i->mode))
            delete_lossy(a, i);
        if (!i->lossy)
            continue;
        sim_op_begin(a, "unlink of a damaged file");
        rc = sfs_vfs_unlink(a->space->vfs, dir->ino, dir->dentries[n - 1].name);
        if (!sim_op_done(a, rc, 0, 0))
            continue;
        sim_tree_unlink(&a->tree, dir, dir->dentries[n - 1].name);
        sim_op_state(a);
        if (i->nlink == 0)
            sim_forget(a, i);
    }
}

static void found_free(struct found *f)
{
    free(f->text);
    free(f->candidates);
    sim_tree_free(&f->tree);
}

/* False: it could not be walked, for the world has crashed. */
static bool walk_actor(struct sim_actor *a, struct found *f)
{
    char why[300];
    int rc = sim_walk(a, &f->tree, why, sizeof(why));

    if (rc < 0 && !sim_crashed(a->run))
        sim_fail(a->run, "walking %s/%s: %s", a->space->name, a->dir, why);
    f->text = sim_tree_text(&f->tree);
    return rc == 0;
}

void sim_check_recovered(struct sim_run *r, bool exact)
{
    struct found *all = calloc(r->nactors, sizeof(*all));
    uint64_t moment;

    SFS_ASSERT(all);
    if (!exact)
        age(r);
    for (unsigned k = 0; k < r->nactors; k++) {
        struct sim_actor *a = &r->actors[k];

        walk_actor(a, &all[k]);
        find_candidates(a, &all[k], exact);
        if (all[k].n == 0)
            sim_fail(r, "after %s, %s/%s: %s", exact ? "a clean end" : "recovery", a->space->name, a->dir, all[k].why);
    }
    moment = find_moment(r, all);
    r->clock++;
    for (unsigned k = 0; k < r->nactors; k++) {
        struct sim_actor *a = &r->actors[k];
        const struct candidate *c = candidate_at(&all[k], moment);
        uint64_t unused = 0;

        if (all[k].n > 1 && !contents_fit(a, &all[k], c->state, exact, &unused))
            sim_fail(r, "read again, %s/%s is not what it was: %s", a->space->name, a->dir, all[k].why);
        sim_note(r, "%s/%s is in state %llu of %llu..%llu", a->space->name, a->dir, (unsigned long long)a->tree.states[c->state].number,
                 (unsigned long long)a->tree.states[0].number, (unsigned long long)a->tree.states[a->tree.nstates - 1].number);
        all[k].tree.root->lookups = a->tree.root->lookups;
        sim_tree_adopt(&a->tree, &all[k].tree, r->clock, sfs_env_mono_ns(r->env));
        found_free(&all[k]);
    }
    for (unsigned k = 0; k < r->nactors; k++) /* all trees begin anew at one moment: only now */
        delete_lossy(&r->actors[k], r->actors[k].tree.root);
    free(all);
    r->stats.checks++;
}

static void check_live_file(struct sim_run *r, struct sim_actor *a, const struct sim_inode *i)
{
    const struct sim_inode *old = known(a, i->ino);
    struct sim_match m = {.exact = !a->space->damaged, .eio_ok = a->space->damaged};

    if ((old && sim_match_file(a, i->ino, &old->content, sim_content_size(&i->content), &m) == 0) || sim_crashed(r))
        return;
    sim_note_places(a, i->ino);
    sim_fail(r, "%s/%s, inode %llu: %s", a->space->name, a->dir, (unsigned long long)i->ino, m.why);
}

/* Ends early, and without a judgement, when the world crashes during it. */
void sim_check_live(struct sim_run *r, struct sim_actor *a)
{
    struct found f = {0};
    char *expected = sim_tree_text(&a->tree), diff[480];
    struct sim_inode *i;
    bool walked = walk_actor(a, &f);

    if (walked && !sim_text_equal(expected, f.text)) {
        sim_text_diff(expected, f.text, diff, sizeof(diff));
        sim_fail(r, "%s/%s: %s", a->space->name, a->dir, diff);
    }
    TAILQ_FOREACH(i, &f.tree.inodes, all)
    {
        if (walked && S_ISREG(i->mode) && !sim_crashed(r))
            check_live_file(r, a, i);
        if (i->lookups)
            sfs_vfs_forget(a->space->vfs, i->ino, i->lookups);
    }
    free(expected);
    found_free(&f);
    r->stats.checks++;
}
