#include "fs/job/heal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/data/diskset.h"
#include "fs/data/repair.h"
#include "fs/job/crew.h"
#include "fs/job/evacuate.h"

#define RETRIES 4u /* of one slab, when its target fails */

struct sfs_heal {
    struct sfs_data *d;
    struct sfs_env *env;
    struct sfs_heal_ops ops;
    struct sfs_mutex lock;     /* SFS_RANK_JOB: all below */
    struct sfs_cond changed;
    struct sfs_thread *thread;
    bool stop, woken;
    bool changed_disks;        /* a run under way makes its list anew: what is most endangered may be another group now */
    uint64_t asked, answered;  /* runs, by number */
    struct {
        int disk;
        bool again;            /* it was gone meanwhile: once more from the beginning */
    } suspects[64];            /* to be verified */
    unsigned nsuspects;
    struct sfs_heal_status status;
    uint64_t began_ns;
    struct sfs_throttle *throttle;
};

/* A group with something to build. */
struct patient {
    uint64_t id;
    unsigned spare;   /* losses it can still bear: fewest first */
    uint64_t cost;    /* bytes to write */
};

struct run {
    struct sfs_heal *h;
    struct patient *v;
    unsigned n;
    bool begun;
    struct sfs_mutex lock;  /* SFS_RANK_LEAF: all below */
    unsigned healed, left;
    unsigned hopeless;  /* slabs with nothing to build them from */
    uint64_t damaged;
    int result;         /* first failure */
    char why[160];
};

/* --- the list --------------------------------------------------------------------------------------------------------------------------- */

static unsigned due_slabs(struct sfs_heal *h, const struct sfs_group_info *g, unsigned *hopeless)
{
    unsigned n = 0;
    for (unsigned i = 0; i < g->nslabs; i++) {
        if (g->slab_online[i] || !h->ops.due(h->ops.ctx, g->slabs[i].disk))
            continue;
        if (sfs_slab_has_source(g, i))
            n++;
        else
            *hopeless += g->slabs[i].disk != 0; /* what was given up with its disk won't return: nobody waits for it */
    }
    return n;
}

static int by_danger(const void *a, const void *b)
{
    const struct patient *x = a, *y = b;
    if (x->spare != y->spare)
        return x->spare < y->spare ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int make_list(struct run *r)
{
    struct sfs_heal *h = r->h;
    uint64_t *ids;
    unsigned n;
    int rc = sfs_groups_count_used(h->d); /* costs are known, and empty groups */
    if (!rc)
        rc = sfs_group_ids(h->d, &ids, &n);
    if (rc)
        return rc;
    r->v = calloc(n + 1, sizeof(*r->v));
    for (unsigned i = 0; r->v && i < n; i++) {
        struct sfs_group_info g;
        if (sfs_group_info(h->d, ids[i], &g))
            continue;
        unsigned due = due_slabs(h, &g, &r->hopeless);
        if (!due)
            continue;
        r->v[r->n++] = (struct patient){g.id, g.spare, due * sfs_move_slab_cost(h->d, g.id)};
    }
    if (ids)
        free(ids);
    if (!r->v)
        return -ENOMEM;
    qsort(r->v, r->n, sizeof(*r->v), by_danger);
    return 0;
}

/* --- one group ---------------------------------------------------------------------------------------------------------------------------- */

/* Between two groups (no bytes) a run also stops for a new list. */
static int progress(void *ctx, uint64_t bytes)
{
    struct run *r = ctx;
    struct sfs_heal *h = r->h;
    sfs_mutex_lock(&h->lock);
    h->status.done += bytes;
    if (h->status.done > h->status.total)
        h->status.total = h->status.done;
    uint64_t ns = sfs_env_mono_ns(h->env) - h->began_ns;
    if (ns > 100000000ull) {
        h->status.rate_bytes_s = (uint64_t)((double)h->status.done * 1e9 / (double)ns);
        if (h->status.rate_bytes_s)
            h->status.eta_s = (h->status.total - h->status.done) / h->status.rate_bytes_s;
    }
    bool stop = h->stop || (!bytes && h->changed_disks);
    sfs_mutex_unlock(&h->lock);
    return stop;
}

static void set_failure(struct run *r, int rc, uint64_t group)
{
    r->left++;
    if (r->result && r->result != -ENOSPC)
        return;
    r->result = rc;
    if (rc == -ENOSPC)
        snprintf(r->why, sizeof(r->why), "no disk outside of slab group %llu has a free slab: add a disk or free space", (unsigned long long)group);
    else if (rc == -EUCLEAN)
        snprintf(r->why, sizeof(r->why), "slab group %llu has data whose only good copy is on the missing disk: connect it again", (unsigned long long)group);
    else
        snprintf(r->why, sizeof(r->why), "slab group %llu: %s", (unsigned long long)group, strerror(-rc));
}

static void note_failure(struct run *r, int rc, uint64_t group)
{
    sfs_mutex_lock(&r->lock);
    set_failure(r, rc, group);
    sfs_mutex_unlock(&r->lock);
}

static bool stopping(struct sfs_heal *h)
{
    sfs_mutex_lock(&h->lock);
    bool stop = h->stop;
    sfs_mutex_unlock(&h->lock);
    return stop;
}

/* Builds one due slab of the group; 1 when there was one, 0 when there is none (any more), -errno. */
static int heal_one(struct run *r, struct sfs_crew_worker *w, uint64_t id)
{
    struct sfs_heal *h = r->h;
    struct sfs_group_info g;
    if (sfs_group_info(h->d, id, &g))
        return 0;
    for (unsigned i = 0; i < g.nslabs; i++) {
        if (g.slab_online[i] || !h->ops.due(h->ops.ctx, g.slabs[i].disk) || !sfs_slab_has_source(&g, i))
            continue;
        struct sfs_move_result res;
        int rc = 0;
        w->pace.urgent = g.spare == 0;
        for (unsigned tries = 0; tries < RETRIES; tries++) {
            rc = sfs_move_slab(h->d, id, g.slabs[i].column, g.slabs[i].copy, 0, sfs_crew_progress, w, &res);
            if (rc == -EAGAIN)
                return 1; /* somebody else has moved a slab of it: look again */
            if (rc != -EIO)
                break;
        }
        if (rc == -ENOENT)
            return 0; /* the group has gone meanwhile */
        if (rc)
            return rc;
        sfs_mutex_lock(&r->lock);
        r->damaged += res.damaged_bytes;
        r->healed++;
        sfs_mutex_unlock(&r->lock);
        return 1;
    }
    return 0;
}

/* Are the disks that are here enough for a group of its kind? */
static bool disks_suffice(struct sfs_heal *h, const struct sfs_group_info *g)
{
    struct sfs_member_info m[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(h->d, m, SFS_LABEL_PEERS), here = 0;
    for (unsigned i = 0; i < n; i++)
        here += m[i].online && m[i].row.usage == SFS_USAGE_AUTO;
    return here >= sfs_resiliency_min_disks(g->resiliency);
}

/* A group with parity over all disks has none to build a lost slab on: what is in it goes to narrower groups. 0, -ENOSPC: that can't be, -errno. */
static int restripe(struct run *r, struct sfs_crew_worker *w, uint64_t id)
{
    struct sfs_group_info g;
    uint64_t damaged = 0;
    if (sfs_group_info(r->h->d, id, &g))
        return 0;
    if (!sfs_resiliency_parity(g.resiliency) || g.lost || !disks_suffice(r->h, &g))
        return -ENOSPC;
    int rc = sfs_restripe_group(w, id, &damaged);
    sfs_mutex_lock(&r->lock);
    r->damaged += damaged;
    r->healed += !rc ? g.missing : 0;
    sfs_mutex_unlock(&r->lock);
    return rc;
}

static void heal_group(struct sfs_crew_worker *w, unsigned item)
{
    struct run *r = w->crew->ctx;
    uint64_t id = r->v[item].id;
    int rc;
    bool any = false;
    while (!stopping(r->h) && (rc = heal_one(r, w, id)) != 0) {
        if (rc == -ENOSPC)
            rc = restripe(r, w, id);
        if (rc == 0)
            return;
        if (rc < 0) {
            if (rc != -ECANCELED)
                note_failure(r, rc, id);
            return;
        }
        any = true;
    }
    uint64_t bad = 0, lost = 0;
    if (!any || stopping(r->h))
        return;
    rc = sfs_verify_group(r->h->d, id, NULL, NULL, &bad, &lost);
    if (!rc && bad) /* repaired on the way: is it? */
        rc = sfs_verify_group(r->h->d, id, NULL, NULL, &bad, &lost);
    struct sfs_group_info g;
    unsigned hopeless = 0;
    if (rc || (bad && !lost))
        note_failure(r, rc ? rc : -EIO, id);
    else if (!sfs_group_info(r->h->d, id, &g) && due_slabs(r->h, &g, &hopeless))
        note_failure(r, -EIO, id); /* another disk has dropped out meanwhile */
}

/* --- a run ---------------------------------------------------------------------------------------------------------------------------------- */

static void begin(struct run *r)
{
    struct sfs_heal *h = r->h;
    uint64_t total = 0;
    for (unsigned i = 0; i < r->n; i++)
        total += r->v[i].cost;
    sfs_mutex_lock(&h->lock);
    if (!r->begun) {
        h->status.done = h->status.rate_bytes_s = h->status.eta_s = 0;
        h->began_ns = sfs_env_mono_ns(h->env);
    }
    h->status.running = true;
    h->status.total = h->status.done + total;
    sfs_mutex_unlock(&h->lock);
    if (r->begun)
        return;
    r->begun = true;
    char size[16], text[160];
    snprintf(text, sizeof(text), "healing %u slab group%s, about %s to write", r->n, r->n == 1 ? "" : "s", sfs_size_format(total, size));
    h->ops.event(h->ops.ctx, "info", "heal-started", text);
}

static const char *slabs_were(unsigned n)
{
    return n == 1 ? "slab was" : "slabs were";
}

static const char *groups_are(unsigned n)
{
    return n == 1 ? "slab group is" : "slab groups are";
}

static void finish(struct run *r, char *text, size_t cap)
{
    struct sfs_heal *h = r->h;
    if (r->hopeless && !r->result)
        snprintf(text, cap,
                 "%u %s built anew and verified; %u %s no copy on the disks that are here, and wait%s for %s disk "
                 "to return",
                 r->healed, slabs_were(r->healed), r->hopeless, r->hopeless == 1 ? "slab has" : "slabs have",
                 r->hopeless == 1 ? "s" : "", r->hopeless == 1 ? "its" : "their");
    else if (!r->begun && !r->result)
        snprintf(text, cap, "nothing to heal");
    else if (r->result)
        snprintf(text, cap, "%u %s built anew and verified, %u %s still degraded: %s", r->healed,
                 slabs_were(r->healed), r->left, groups_are(r->left), r->why);
    else if (r->damaged)
        snprintf(text, cap, "%u %s built anew; %llu bytes had no good copy left and stay damaged", r->healed,
                 slabs_were(r->healed), (unsigned long long)r->damaged);
    else
        snprintf(text, cap, "%u %s built anew and verified: everything has full redundancy again", r->healed,
                 slabs_were(r->healed));
    if (!r->result) { /* what was to be done was an estimate: this is what it came to */
        sfs_mutex_lock(&h->lock);
        h->status.total = h->status.done;
        sfs_mutex_unlock(&h->lock);
    }
    if (r->begun)
        h->ops.event(h->ops.ctx, r->result || r->damaged ? "error" : "info", r->result ? "heal-incomplete" : "heal-done", text);
}

static int next_suspect(struct sfs_heal *h)
{
    sfs_mutex_lock(&h->lock);
    int disk = h->nsuspects ? h->suspects[0].disk : 0;
    if (disk)
        h->suspects[0].again = false;
    sfs_mutex_unlock(&h->lock);
    return disk;
}

/* False: it has to be looked at again. */
static bool cleared(struct sfs_heal *h, int disk)
{
    bool done = true;
    sfs_mutex_lock(&h->lock);
    for (unsigned i = 0; i < h->nsuspects; i++)
        if (h->suspects[i].disk == disk) {
            done = !h->suspects[i].again;
            if (done)
                h->suspects[i] = h->suspects[--h->nsuspects];
            break;
        }
    sfs_mutex_unlock(&h->lock);
    return done;
}

/* Every group with a slab on a suspect disk, every copy. */
static void verify_suspect(struct sfs_heal *h, int disk)
{
    uint64_t *ids, bad_all = 0, lost_all = 0;
    unsigned n;
    if (sfs_group_ids(h->d, &ids, &n))
        return;
    for (unsigned i = 0; i < n && !stopping(h); i++) {
        uint64_t bad = 0, lost = 0;
        if (!sfs_group_has_slab_on(h->d, ids[i], disk) || sfs_verify_group(h->d, ids[i], NULL, NULL, &bad, &lost))
            continue;
        bad_all += bad;
        lost_all += lost;
    }
    if (n)
        free(ids);
    if (stopping(h) || !cleared(h, disk))
        return;
    h->ops.verified(h->ops.ctx, disk);
    char text[200];
    snprintf(text, sizeof(text), "a disk whose contents were in doubt was verified: %llu bad copies%s, %llu extents without a good copy", (unsigned long long)bad_all,
             bad_all ? " were made good" : "", (unsigned long long)lost_all);
    h->ops.event(h->ops.ctx, lost_all ? "error" : bad_all ? "warning" : "info", "disk-verified", text);
}

static void anew(struct sfs_heal *h)
{
    sfs_mutex_lock(&h->lock);
    h->changed_disks = false;
    sfs_mutex_unlock(&h->lock);
}

static bool disks_changed(struct sfs_heal *h)
{
    sfs_mutex_lock(&h->lock);
    bool changed = h->changed_disks;
    sfs_mutex_unlock(&h->lock);
    return changed;
}

static int heal_run(struct sfs_heal *h, char *text, size_t cap)
{
    int disk;
    while (!stopping(h) && (disk = next_suspect(h)))
        verify_suspect(h, disk);
    struct run r = {.h = h};
    struct sfs_crew crew = {.d = h->d, .throttle = h->throttle, .progress = progress, .work = heal_group, .ctx = &r};
    sfs_mutex_init(&r.lock, h->env, SFS_RANK_LEAF);
    do {
        anew(h);
        free(r.v);
        r.v = NULL;
        r.n = r.left = r.hopeless = 0;
        r.result = 0;
        int rc = make_list(&r);
        if (rc)
            note_failure(&r, rc, 0);
        if (r.n)
            begin(&r);
        sfs_crew_run(&crew, r.n);
    } while (!stopping(h) && disks_changed(h));
    if (!stopping(h))
        finish(&r, text, cap);
    else
        snprintf(text, cap, "stopped; it goes on when the pool is next opened");
    free(r.v);
    sfs_mutex_destroy(&r.lock);
    return stopping(h) ? -ECANCELED : r.result ? r.result : r.damaged ? -EUCLEAN : r.hopeless ? -ENODATA : 0;
}

static void heal_main(void *arg)
{
    struct sfs_heal *h = arg;
    sfs_mutex_lock(&h->lock);
    while (!h->stop) {
        if (!h->woken && h->asked == h->answered) {
            sfs_cond_wait(&h->changed, &h->lock);
            continue;
        }
        h->woken = false;
        uint64_t mine = h->asked;
        sfs_mutex_unlock(&h->lock);
        char text[sizeof(h->status.last_text)];
        int rc = heal_run(h, text, sizeof(text));
        sfs_mutex_lock(&h->lock);
        h->status.running = false;
        h->status.runs++;
        h->status.last_result = rc;
        memcpy(h->status.last_text, text, sizeof(text));
        h->answered = mine;
        sfs_cond_broadcast(&h->changed);
    }
    h->answered = h->asked = UINT64_MAX;
    sfs_cond_broadcast(&h->changed);
    sfs_mutex_unlock(&h->lock);
}

/* --- the outside ----------------------------------------------------------------------------------------------------------------------------- */

int sfs_heal_start(struct sfs_data *d, const struct sfs_heal_ops *ops, struct sfs_heal **out)
{
    struct sfs_heal *h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->d = d;
    h->env = sfs_data_env(d);
    h->ops = *ops;
    sfs_mutex_init(&h->lock, h->env, SFS_RANK_JOB);
    sfs_cond_init(&h->changed, h->env);
    h->throttle = sfs_throttle_new(d);
    int rc = h->throttle ? sfs_thread_start(h->env, "sfs-heal", heal_main, h, &h->thread) : -ENOMEM;
    if (rc) {
        h->thread = NULL;
        sfs_heal_stop(h);
        return rc;
    }
    *out = h;
    return 0;
}

void sfs_heal_stop(struct sfs_heal *h)
{
    if (!h)
        return;
    sfs_mutex_lock(&h->lock);
    h->stop = true;
    sfs_cond_broadcast(&h->changed);
    sfs_mutex_unlock(&h->lock);
    if (h->thread)
        sfs_thread_join(h->thread);
    sfs_throttle_free(h->throttle);
    sfs_cond_destroy(&h->changed);
    sfs_mutex_destroy(&h->lock);
    free(h);
}

void sfs_heal_suspect(struct sfs_heal *h, int disk)
{
    sfs_mutex_lock(&h->lock);
    bool known = false;
    for (unsigned i = 0; i < h->nsuspects; i++)
        if (h->suspects[i].disk == disk)
            known = h->suspects[i].again = true;
    if (!known && h->nsuspects < sizeof(h->suspects) / sizeof(h->suspects[0]))
        h->suspects[h->nsuspects++].disk = disk;
    h->woken = true;
    sfs_cond_broadcast(&h->changed);
    sfs_mutex_unlock(&h->lock);
}

void sfs_heal_wake(struct sfs_heal *h)
{
    sfs_mutex_lock(&h->lock);
    h->woken = true;
    sfs_cond_broadcast(&h->changed);
    sfs_mutex_unlock(&h->lock);
}

void sfs_heal_status(struct sfs_heal *h, struct sfs_heal_status *out)
{
    sfs_mutex_lock(&h->lock);
    *out = h->status;
    out->suspects = h->nsuspects;
    sfs_mutex_unlock(&h->lock);
}

int sfs_heal_wait(struct sfs_heal *h, char *text, size_t cap)
{
    sfs_mutex_lock(&h->lock);
    uint64_t mine = ++h->asked;
    sfs_cond_broadcast(&h->changed);
    while (h->answered < mine)
        sfs_cond_wait(&h->changed, &h->lock);
    int rc = h->stop ? -ECANCELED : h->status.last_result;
    snprintf(text, cap, "%s", h->status.last_text);
    sfs_mutex_unlock(&h->lock);
    return rc;
}

void sfs_heal_disks_changed(struct sfs_heal *h)
{
    if (!h)
        return;
    sfs_mutex_lock(&h->lock);
    h->changed_disks = true;
    sfs_mutex_unlock(&h->lock);
}

struct sfs_throttle *sfs_heal_throttle(struct sfs_heal *h)
{
    return h->throttle;
}
